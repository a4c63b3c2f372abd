"""Finds the commands and scripts in the arguments of programs that run other programs. Pure.

The options are those of the programs' manual pages (util-linux, coreutils, findutils, sudo, bash).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

Words: TypeAlias = tuple[str, ...]
"""A command: its name and its arguments, with quotes and backslashes resolved."""


@dataclass(frozen=True, slots=True)
class Inner:
    """Commands and scripts in the arguments of a command."""

    commands: tuple[Words, ...] = ()
    scripts: tuple[str, ...] = ()
    """Texts that a shell would run."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The form of a wrapper's arguments, to find the command in them."""

    letters: str = ""
    """Short options that take a value."""
    names: frozenset[str] = field(default_factory=frozenset[str])
    """Long options whose value is the next word."""
    operands: int = 0
    """Words between the options and the command."""
    assignments: bool = False
    """Whether `NAME=value` may precede the command."""


def _wrapper(letters: str = "", names: str = "", operands: int = 0, *, assignments: bool = False) -> Wrapper:
    return Wrapper(letters, frozenset(names.split()), operands, assignments)


WRAPPERS: Mapping[str, Wrapper] = MappingProxyType(
    {
        "!": _wrapper(),  # the grammar mistakes a reserved word for a name
        "{": _wrapper(),
        "builtin": _wrapper(),
        "busybox": _wrapper(),
        "chroot": _wrapper(operands=1),
        "chrt": _wrapper("TPD", operands=1),
        "doas": _wrapper("uC"),
        "env": _wrapper("uC", "unset chdir", assignments=True),
        "exec": _wrapper("a"),
        "ionice": _wrapper("cnpPu", "class classdata"),
        "nice": _wrapper("n", "adjustment"),
        "nohup": _wrapper(),
        "setsid": _wrapper(),
        "stdbuf": _wrapper("ioe", "input output error"),
        "strace": _wrapper("abeEIoOpPsSuUX"),
        "sudo": _wrapper("ughpCrtTUDR", "user group host prompt chdir", assignments=True),
        "time": _wrapper("fo", "format output"),
        "timeout": _wrapper("ks", "kill-after signal", operands=1),
        "toybox": _wrapper(),
        "unbuffer": _wrapper(),
        "unshare": _wrapper(
            "RwSGl", "root wd setuid setgid propagation setgroups map-user map-group map-users map-groups"
        ),
        "xargs": _wrapper(
            "adEILnPs", "arg-file delimiter max-lines max-args max-procs max-chars process-slot-var"
        ),
    }
)

SHELLS = frozenset({"ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"})
_SHELL_VALUES = Wrapper("oO", frozenset({"rcfile", "init-file"}))
_PARALLEL_VALUES = frozenset(
    {
        *("arg-file", "basefile", "colsep", "delay", "delimiter", "halt", "jobs", "joblog", "max-args"),
        *("max-chars", "max-lines", "memfree", "nice", "results", "retries", "return", "sshlogin"),
        *("tagstring", "timeout", "tmpdir", "trc", "workdir"),
    }
)
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_ENDS = frozenset({";", "+"})


def look_inside(words: Words) -> Inner:
    """Return the commands and scripts that a command would run; its name is without a folder."""
    name = words[0]
    if name in SHELLS:
        script = _shell_operand(words)
        return Inner(scripts=(script,)) if script is not None and _has_c(words) else Inner()
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    wrapper = WRAPPERS.get(name)
    return Inner() if wrapper is None else _wrapped(words, wrapper)


def reads_script_from_stdin(words: Words) -> bool:
    """Return whether a command is a shell that reads commands from standard input."""
    if words[0] == "parallel":
        # Without a command, it runs the lines of its input.
        return look_inside(words) == Inner()
    if words[0] not in SHELLS or _has_c(words):
        return False
    # With `-s`, a shell reads standard input although it has operands.
    return _shell_operand(words) is None or any(_is_cluster(word) and "s" in word for word in words[1:])


def reads_script_from_file(words: Words) -> bool:
    """Return whether a command reads commands from a file, such as another command's output."""
    return words[0] in {"source", "."} or (words[0] in SHELLS and not _has_c(words))


def base_name(name: str) -> str:
    """Return the last component of a path."""
    return name.rstrip("/").rpartition("/")[2] or name


def _wrapped(words: Words, wrapper: Wrapper) -> Inner:
    at = _after_options(words, wrapper)
    while wrapper.assignments and at < len(words):
        name, equals, _ = words[at].partition("=")
        if not (equals and name.isidentifier()):
            break
        at += 1
    rest = words[at + wrapper.operands :]
    return Inner(commands=(rest,)) if rest else Inner()


def _after_options(words: Words, wrapper: Wrapper) -> int:
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1
        # Options of shells may begin with a plus.
        if not word.startswith(("-", "+")) or word == "+":
            break
        at += 2 if _wants_value(word, wrapper) else 1
    return at


def _wants_value(word: str, wrapper: Wrapper) -> bool:
    if word.startswith("--"):
        return word[2:] in wrapper.names
    return (
        # The next word is the value only if the letter is the last one: `-n10` has its value already.
        next((index for index, letter in enumerate(word) if letter in wrapper.letters), -1) == len(word) - 1
    )


def _is_cluster(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and len(word) > 1


def _has_c(words: Words) -> bool:
    return any(_is_cluster(word) and "c" in word for word in words[1 : _after_options(words, _SHELL_VALUES)])


def _shell_operand(words: Words) -> str | None:
    at = _after_options(words, _SHELL_VALUES)
    return words[at] if at < len(words) else None


def _find(words: Words) -> Inner:
    commands: list[Words] = []
    at = 1
    while at < len(words):
        at += 1
        if words[at - 1] in _FIND_RUNS:
            end = next((index for index in range(at, len(words)) if words[index] in _FIND_ENDS), len(words))
            commands.append(words[at:end])
            at = end
    return Inner(commands=tuple(command for command in commands if command))


def _command(words: Words) -> Inner:
    # `command -v` prints where a command is, and does not run it.
    shows = any(
        _is_cluster(word) and {"v", "V"} & set(word) for word in words[1 : _after_options(words, Wrapper())]
    )
    return Inner() if shows else _wrapped(words, Wrapper())


def _env(words: Words) -> Inner:
    for index, word in enumerate(words[1:], 1):
        # `-S` splits its text nearly as a shell does, so it is read as a script.
        if word.startswith("--split-string="):
            return Inner(scripts=(" ".join((word.partition("=")[2], *words[index + 1 :])),))
        if word == "--split-string" or (_is_cluster(word) and word.endswith("S")):
            return Inner(scripts=(" ".join(words[index + 1 :]),))
        if _is_cluster(word) and "S" in word:
            return Inner(scripts=(" ".join((word.partition("S")[2], *words[index + 1 :])),))
        if not word.startswith("-"):
            break
    return _wrapped(words, WRAPPERS["env"])


def _joined(words: Words) -> Inner:
    return Inner(scripts=(" ".join(words[_after_options(words, Wrapper("n", frozenset({"interval"}))) :]),))


def _parallel(words: Words) -> Inner:
    """GNU parallel: a command with its arguments after `:::`, or, without a command, commands there."""
    wrapper = Wrapper("jJIaEdCnNLPSs", _PARALLEL_VALUES)
    rest = words[_after_options(words, wrapper) :]
    at = next((index for index, word in enumerate(rest) if word.startswith(":::")), len(rest))
    command, arguments = rest[:at], rest[at + 1 :]
    if not command:
        return Inner(scripts=arguments)
    whole = (*command, *arguments)
    return Inner(commands=(whole,), scripts=(" ".join(command), " ".join(whole)))


def _option_c(letters: str, operands: int) -> Callable[[Words], Inner]:
    wrapper = Wrapper(letters, frozenset({"command"}), operands)

    def look(words: Words) -> Inner:
        scripts: list[str] = []
        for index, word in enumerate(words[1:], 1):
            if word == "--command" or (_is_cluster(word) and word.endswith("c")):
                scripts += words[index + 1 : index + 2]
            elif word.startswith("--command="):
                scripts.append(word.partition("=")[2])
        commands = _wrapped(words, wrapper).commands if operands else ()
        return Inner(commands, tuple(scripts))

    return look


_SPECIAL: Mapping[str, Callable[[Words], Inner]] = MappingProxyType(
    {
        "alias": lambda words: Inner(
            scripts=tuple(word.partition("=")[2] for word in words[1:] if "=" in word)
        ),
        "command": _command,
        "coproc": lambda words: Inner(
            commands=(words[2:] if words[2:3] == ("{",) else words[1:],) if len(words) > 1 else ()
        ),
        "env": _env,
        "eval": lambda words: Inner(scripts=(" ".join(words[2:] if words[1:2] == ("--",) else words[1:]),)),
        "find": _find,
        "flock": _option_c("Ew", 1),
        "script": _option_c("", 0),
        "su": _option_c("", 0),
        "trap": lambda words: Inner(scripts=words[_after_options(words, Wrapper()) :][:1]),
        "parallel": _parallel,
        "watch": _joined,
    }
)


def written_by(words: Words) -> Sequence[str]:
    """Return roughly what an `echo` or `printf` would write; nothing for other commands."""
    if words[0] not in {"echo", "printf"}:
        return ()
    texts = [
        word.replace("\\n", "\n")
        for word in words[1:]
        if not (words[0] == "echo" and _is_cluster(word) and set(word) <= set("-neE"))  # echo's options
    ]
    return (" ".join(texts), *texts) if words[0] == "printf" else (" ".join(texts),)
