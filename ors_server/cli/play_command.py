"""`ors-server play`: plays a task by hand in the terminal, or by a script through standard input.

Reads lines: with editing, history and completion at a terminal, as they are from a pipe.
"""

import difflib
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from ors_server.cli.command_options import TaskPlaceOptions
from ors_server.cli.command_output import CommandError, say, say_json
from ors_server.cli.data_options import DataOptions, resolve_references
from ors_server.cli.episodes_show import describe_reward, is_unjudged
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.shell_completion import installed_names
from ors_server.model.errors import SettingsError
from ors_server.model.printable import clean, clean_line
from ors_server.model.user_folders import user_folder

if TYPE_CHECKING:
    from ors_server.testing.local_episode import LocalEpisode


Read: TypeAlias = Callable[[str], str | None]
"""Reads a line after a prompt; `None` at the end of the input."""
MAX_LINES = 1000
"""Maximum number of lines of the history."""


def read_line(prompt: str) -> str | None:
    """Read a line, with a prompt at a terminal; `None` at the end of the input."""
    if sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


@contextmanager
def editing(words: Callable[[], Sequence[str]]) -> Generator[None]:
    """Edit lines at a terminal: arrow keys, a lasting history, completion of the first word by Tab."""
    readline: Any = None
    if sys.stdin.isatty():
        with suppress(ImportError):  # Python was built without it
            readline = import_module("readline")
    if readline is None:
        yield
        return
    with suppress(OSError, SettingsError):  # without a home folder, the history ends with the command
        readline.read_history_file(history_file())
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_completer_delims(" ")
    readline.set_completer(partial(_offer, words))
    try:
        yield
    finally:
        readline.set_completer(None)
        readline.set_history_length(MAX_LINES)
        with suppress(OSError, SettingsError):
            history = history_file()
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def history_file() -> Path:
    """Return the file of the history, in the user's state folder (XDG Base Directory)."""
    return user_folder("XDG_STATE_HOME", ".local", "state") / "ors-server" / "play_history"


def _offer(words: Callable[[], Sequence[str]], typed: str, number: int) -> str | None:
    matches = [word for word in words() if word.startswith(typed)]
    return f"{matches[number]} " if number < len(matches) else None


COMMANDS = {
    ":tools": "show the tools",
    ":prompt": "show the task again",
    ":standing": "show steps and return so far",
    ":quit": "end the episode",
}
HELP = (
    "Type a tool's name, optionally followed by its arguments as JSON or by its only text, or "
    f"{', '.join(list(COMMANDS)[:-1])} or {list(COMMANDS)[-1]}. "
    "Typing mistakes are caught here and cost nothing."
)
DROPPED = "(line dropped; Ctrl-C again, Ctrl-D or :quit ends the episode)"


@dataclass(frozen=True, kw_only=True)
class PlayOptions(DataOptions, TaskPlaceOptions):
    """Options of `play`."""

    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="An environment: name, module:Class, or path.",
            autocompletion=installed_names,
        ),
    ]
    json: Annotated[bool, typer.Option("--json", help="Print the episode's figures as JSON at the end.")] = (
        False
    )


def play(options: PlayOptions) -> None:
    """Play a task by hand.

    Lines are read from standard input, so that a script can play too: each is a tool's name and its arguments
    as JSON; a tool with one text takes it as it is (`bash ls -la`). An unknown tool, or arguments that do not
    fit its schema, never reach the environment. The episode's figures are shown at the end. The status is 1
    if a reward could not be computed.
    """
    from ors_server.testing.local_episode import play as play_episode

    (environment,) = resolve_references([options.reference], options)
    with play_episode(environment, split=options.split, index=options.index) as episode:
        player = Player(episode, read_line)
        with editing(player.words):
            player.run()
        figures = episode.summary.as_json()
    if options.json:
        say_json(figures)
    if figures["unjudged_steps"]:
        raise typer.Exit(ExitStatus.FAILED)


class Player:
    """Plays an episode by lines of input."""

    def __init__(self, episode: "LocalEpisode", read: Read) -> None:
        self._episode = episode
        self._read = read
        self._schemas: dict[str, dict[str, Any] | None] = {}
        self._about: dict[str, str] = {}
        self._read_tools()

    def words(self) -> list[str]:
        """Return the words that a line may begin with."""
        return [*self._schemas, *COMMANDS]

    def run(self) -> None:
        """Play until the episode or the input ends.

        Raises:
            KeyboardInterrupt: After a second Ctrl-C in a row, or one during a call.
        """
        say_wrapped(self._episode.prompt)
        self._show_tools()
        say_wrapped(HELP)
        while True:
            try:
                line = self._read_again()
                if line is None or not self._execute(line.strip()):
                    break
            except _LineDroppedError:
                continue
        self._show_standing()

    def _read_again(self) -> str | None:
        """Read a line; a first Ctrl-C at a terminal only drops the line."""
        if not sys.stdin.isatty():
            return self._read("> ")
        try:
            return self._read("> ")
        except KeyboardInterrupt:
            say(f"\n{DROPPED}")
        try:
            return self._read("> ")
        except KeyboardInterrupt:
            say()
            self._show_standing()
            raise

    def _read_tools(self) -> None:
        """Read the tools, which may change while an episode is played."""
        listing = self._episode.tools
        self._schemas = {tool.name: tool.input_schema for tool in listing.tools}
        self._about = {tool.name: tool.description for tool in listing.tools}
        if listing.terminal_tool is not None:
            last = listing.terminal_tool
            self._about[last.name] = f"{last.description} (takes your final message)"
            part = {} if last.arg is None else {last.arg: {"type": "string"}}
            self._schemas[last.name] = {"type": "object", "properties": part, "required": list(part)}

    def _execute(self, line: str) -> bool:
        """Execute a line and return whether the episode continues."""
        match line:
            case ":quit":
                return False
            case ":tools":
                self._read_tools()
                self._show_tools()
            case ":prompt":
                say_wrapped(self._episode.prompt)
            case ":standing":
                self._show_standing()
            case _ if line.startswith(":"):
                say_wrapped(HELP)
            case _ if line and not line.startswith("#"):
                return self._call(line)
            case _:
                pass
        return True

    def _call(self, line: str) -> bool:
        from ors_server.model.errors import OrsServerError

        name, _, rest = line.partition(" ")
        try:
            arguments = self._arguments(name, rest.strip())
            output = self._episode.call(name, **arguments)
        except OrsServerError as error:
            say_wrapped(f"! {error}")
            return True
        for block in output.blocks:
            say_wrapped(getattr(block, "text", None) or "[image]")
        shown = output.model_dump()
        is_failed = is_unjudged(shown)
        if output.reward is not None or output.finished or is_failed:
            say(describe_reward(shown), style="bad" if is_failed else "good")
        return not output.finished

    def _arguments(self, name: str, text: str) -> dict[str, Any]:
        """Return a call's arguments.

        Raises:
            CommandError: If the tool or the arguments would be refused; nothing was called.
        """
        if name not in self._schemas:
            self._read_tools()
        if name not in self._schemas:
            raise CommandError(self._unknown(name))
        schema = self._schemas[name] or {}
        # The argument that a bare text can only be: the one that is required, or else the first one.
        properties: dict[str, Any] = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        only = required[0] if len(required) == 1 else None if required else next(iter(properties), None)
        if only is not None and "string" not in _types(properties.get(only, {})):
            only = None
        if text and only and not text.startswith(("{", "[")):
            arguments = {only: text}
        elif text:
            arguments = _read_object(text)
        else:
            arguments = self._ask_for_arguments(schema) if sys.stdin.isatty() else {}
        _check(arguments, schema)
        return arguments

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._schemas, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(self._schemas)}."
        return f"unknown tool {clean_line(name)!r}; {hint} Nothing was called."

    def _ask_for_arguments(self, schema: dict[str, Any]) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        for name, part in schema.get("properties", {}).items():
            needed = name in schema.get("required", ())
            note = part.get("description") or part.get("type", "JSON")
            try:
                answer = self._read(f"  {name} ({clean_line(note)}{'' if needed else ', optional'}): ")
            except KeyboardInterrupt:
                say(f"\n{DROPPED}")
                raise _LineDroppedError from None
            if answer or needed:
                arguments[name] = read_value(answer or "", part)
        return arguments

    def _show_tools(self) -> None:
        say("")
        for name, about in self._about.items():
            parts = (self._schemas[name] or {}).get("properties", {})
            say_wrapped(f"  {name}({', '.join(parts)})  {about.splitlines()[0] if about else ''}", indent=6)
        say("")

    def _show_standing(self) -> None:
        summary = self._episode.summary
        penalties = f", penalties {summary.penalty_sum:g}" if summary.penalty_sum else ""
        end = f", {summary.stop_reason}" if summary.stop_reason else ""
        paid = "unjudged" if summary.unjudged_steps else f"{summary.episode_return:g}"
        say(f"{summary.phase}{end}: {summary.steps} steps, return {paid}{penalties}")


class _LineDroppedError(Exception):
    """Ctrl-C was pressed at the prompt of an argument."""


def say_wrapped(text: str, *, indent: int = 0) -> None:
    """Print a text for a person: no line is longer than the terminal, and no word is broken.

    In a pipe or file, lines stay as they are.

    Args:
        indent: Columns before the second and further lines of a line that is wrapped.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in clean(text).split("\n"):
        say("\n".join(_wrapped(line, width, indent)) if width and len(line) > width else line)


def _wrapped(line: str, width: int, indent: int) -> list[str]:
    margin = " " * (indent or len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=margin,
        break_on_hyphens=False,
        break_long_words=False,  # a path is copied whole
        drop_whitespace=True,
        replace_whitespace=False,
    )


def _types(schema: dict[str, Any]) -> list[Any]:
    """Return the types of a value: of the schema itself, or of what it may be."""
    kinds = [schema, *schema.get("anyOf", [])]
    return [kind["type"] for kind in kinds if "type" in kind]


def _read_object(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise CommandError(f"the arguments are not JSON: {error}. Nothing was called.") from error
    if isinstance(arguments, dict):
        return cast("dict[str, Any]", arguments)
    raise CommandError(f"the arguments must be a JSON object, got {text}. Nothing was called.")


def _check(arguments: dict[str, Any], schema: dict[str, Any]) -> None:
    from ors_server.json_schemas import BadSchemaError, SchemaChecker, TooMuchWorkError

    try:
        violations = SchemaChecker(schema).violations(arguments)
    except BadSchemaError as error:
        raise CommandError(f"the tool's schema cannot be checked: {error}. Nothing was called.") from error
    except TooMuchWorkError as error:
        raise CommandError(f"checking the arguments {error}. Nothing was called.") from error
    if violations:
        where = violations[0].place.removeprefix("$").removeprefix(".")
        raise CommandError(f"{where}{': ' if where else ''}{violations[0].message}. Nothing was called.")


def read_value(text: str, schema: dict[str, Any]) -> Any:
    """Read an argument by its schema: a string stays as it is, everything else is JSON if it can be."""
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
