r"""Forbidden commands: patterns that are matched on the parsed command and never on quoted text.

This is a rule for penalties, not isolation: it cannot see a command in a variable, in a program that is
written to a file first, or in another language's `system(...)`.

The meaning of a pattern:

- It is a list of shell words, such as `rm -rf` or `git push --force*`. Quotes in it work as in a shell.
- Its first word is matched with the command's name, which is the last component of its path. Every other
  word must match some argument, in any order. `*`, `?` and `[...]` match as in file names.
- A word of one dash and up to three letters or digits is a set of short flags: every one of them must be
  given, in any grouping. `rm -rf` matches `rm -r -f x`, `rm -fr x` and `rm -rvf x`; long options are other
  words (`rm --recursive --force` is a separate pattern). Nothing after `--` is a flag.
- Commands count wherever they are: in pipes, lists, subshells, substitutions, functions and loops, behind
  `sudo`, `env`, `xargs`, `timeout`, `find -exec` and their like, in the text given to `eval`, `trap`, `alias`
  and `bash -c`, in what a here-document, a here-string or an `echo` feeds to a shell, and in what an `echo`
  in `<(...)` gives to `source`. A wrapper itself is a command too. `{rm,-rf,x}` is `rm -rf x`.
- Quotes and backslashes do not hide a name: `r\m` and `'r''m'` are `rm`. Text in quotes is an argument like
  any other and never a command: `echo 'rm -rf /'` matches `echo` only.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ors_server.environments.toolsets.shell_text import Found, find_commands
from ors_server.environments.toolsets.wrappers import (
    Words,
    base_name,
    look_inside,
    reads_script_from_file,
    reads_script_from_stdin,
    written_by,
)
from ors_server.model.errors import EnvironmentFailedError
from ors_server.processes import offload
from ors_server.processes.offload import CrashedError, OffloadLimits, OverLimitError

MAX_DEPTH = 16
"""Scripts within scripts, and wrappers around wrappers, that are looked into."""
MAX_SCRIPTS = 200
"""Different scripts within one that are looked into."""
TIME_LIMIT = 10.0
"""Seconds of the processor that checking one script may take, in a worker process, for random texts crash
tree-sitter-bash 0.25.1 now and then. The grammar's time can grow with the square of the length: 85 s
for the worst 64 KiB that were found."""
_MAX_FLAGS = 3
_SYNTAX = str.maketrans("", "", "'\"\\$\n")


class UncheckableError(Exception):
    """A script is nested too deeply, takes too long, or breaks the parser."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A command that a rule forbids."""

    rule: str
    """The pattern as it was written."""
    command: str
    """The command that matched, at most 200 characters of it."""


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """One forbidden command, parsed."""

    text: str
    name: str
    arguments: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "CommandPattern":
        """Read a pattern.

        Args:
            text: Shell words; the first is the command's name.

        Raises:
            ValueError: It has no words, an open quote, or a path for a name.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"a forbidden command is shell words; {text!r} is not: {error}") from None
        if not words or not words[0]:
            raise ValueError(f"a forbidden command has at least a name; {text!r} is without one")
        if "/" in words[0]:
            raise ValueError(
                f"expected {base_name(words[0])!r}, a forbidden command without its folder, got {words[0]!r}"
            )
        sets = [word for word in words[1:] if _is_flag_set(word)]
        rest = tuple(word for word in words[1:] if not _is_flag_set(word))
        return cls(text, words[0], rest, frozenset("".join(sets).replace("-", "")))

    def may_occur(self, script: str) -> bool:
        """Return False only if a script cannot contain the command's name; cheap."""
        has_braces = "{" in script and ("," in script or ".." in script)
        # Wildcards, `$'...'` and braces can produce the name without its letters standing together.
        if set(self.name) & set("*?[") or "$'" in script or has_braces:
            return True
        return self.name.translate(_SYNTAX) in script.translate(_SYNTAX)

    def matches(self, words: Words) -> bool:
        """Return whether the pattern forbids a command."""
        if not fnmatchcase(words[0], self.name):
            return False
        end = words.index("--") if "--" in words else len(words)
        clusters = (word[1:] for word in words[1:end] if word.startswith("-") and not word.startswith("--"))
        if not self.flags <= set("".join(clusters)):
            return False
        return all(any(fnmatchcase(word, pattern) for word in words[1:]) for pattern in self.arguments)


def _is_flag_set(word: str) -> bool:
    return word.startswith("-") and word[1:].isalnum() and word.isascii() and len(word) - 1 <= _MAX_FLAGS


def parse_patterns(texts: Sequence[str]) -> tuple[CommandPattern, ...]:
    """Read the patterns of a policy; raises ValueError if one is not valid."""
    return tuple(CommandPattern.parse(text) for text in texts)


async def find_violation(patterns: Sequence[CommandPattern], script: str) -> Violation | None:
    """Return a forbidden command in a script, if there is one; in bounded time, in a worker process.

    Raises:
        UncheckableError: It is nested too deeply, or takes too long.
    """
    texts = [pattern.text for pattern in patterns if pattern.may_occur(script)]
    if not texts:
        return None
    # In a worker process, because the parser may crash or take minutes for some texts.
    limits = OffloadLimits(cpu_seconds=TIME_LIMIT)
    try:
        rule, command = await offload.run(search_texts, texts, script, limits=limits)
    except CrashedError:
        raise UncheckableError("it breaks the parser") from None
    except ImportError as error:
        raise EnvironmentFailedError(
            f"forbidden commands cannot be checked on this server: {error}"
        ) from None
    except OverLimitError as error:
        raise UncheckableError(f"reading it takes too much: {error}") from None
    return None if rule is None else Violation(rule, command)


def search(patterns: Sequence[CommandPattern], script: str) -> Violation | None:
    """Return a forbidden command in a script; not for the server's own process, since it may crash."""
    for words in every_command(script):
        for pattern in patterns:
            if pattern.matches(words):
                return Violation(pattern.text, shlex.join(words)[:200])
    return None


def every_command(script: str) -> Iterator[Words]:
    """Yield the commands that a script would run, as far as its text shows, including those of wrappers."""
    pending: list[tuple[int, str | Found]] = [(0, script)]
    seen: set[str] = set()
    while pending:
        depth, item = pending.pop()
        if depth > MAX_DEPTH or len(seen) > MAX_SCRIPTS:
            raise UncheckableError(f"it has scripts within scripts, more than {MAX_DEPTH} deep or too many")
        if isinstance(item, str):
            # A script that appears twice has the same commands; without this, nested copies grow
            # exponentially.
            if item not in seen:
                seen.add(item)
                pending += [(depth, inner_command) for inner_command in find_commands(item)]
            continue
        words = (base_name(item.words[0]), *item.words[1:])
        yield words
        inner = look_inside(words)
        pending += [(depth + 1, script) for script in (*inner.scripts, *_fed(words, item))]
        pending += [(depth + 1, Found(command, item.statement)) for command in inner.commands]


def _fed(words: Words, command: Found) -> Iterator[str]:
    if reads_script_from_stdin(words):
        yield from command.statement.input_texts
        for other in command.statement.commands:
            yield from written_by((base_name(other[0]), *other[1:]))
    if reads_script_from_file(words) or reads_script_from_stdin(words):
        for other in command.statement.substituted:
            yield from written_by((base_name(other[0]), *other[1:]))


def search_texts(patterns: list[str], script: str) -> tuple[str | None, str]:
    """Return the rule and the forbidden command, or (None, ""); runs in a worker process."""
    violation = search(parse_patterns(patterns), script)
    return (None, "") if violation is None else (violation.rule, violation.command)
