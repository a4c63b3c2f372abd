"""`ors-server play`: lets a person play a task in the terminal, or a script through standard input."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ors_server.cli.completion import installed_names
from ors_server.cli.output import CommandError, say, say_json

if TYPE_CHECKING:
    from ors_server.testing.playing import Episode

HELP = (
    "Type a tool's name, optionally followed by its arguments as JSON; :tools, :prompt, :standing or :quit."
)


@dataclass(frozen=True)
class PlayOptions:
    """What `play` can be told."""

    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="An environment: name, module:Class, or path.",
            autocompletion=installed_names,
        ),
    ]
    split: Annotated[str | None, typer.Option(help="Split of the task.", show_default="the first one")] = None
    index: Annotated[int, typer.Option(help="Index of the task.")] = 0
    json: Annotated[bool, typer.Option("--json", help="Print the episode's figures as JSON at the end.")] = (
        False
    )


def play(options: PlayOptions) -> None:
    """Play a task by hand.

    Lines are read from standard input, so that a script can play too: each is a tool's name and its arguments
    as JSON. The episode's figures are shown at the end.
    """
    from ors_server.testing.playing import play as play_episode
    from ors_server.trajectory import summary_as_json

    with play_episode(options.reference, split=options.split, index=options.index) as episode:
        Player(episode, read_line).run()
        figures = summary_as_json(episode.summary)
    if options.json:
        say_json(figures)


def read_line(question: str) -> str | None:
    """Read a line, asking for it where a person sits; `None` at the end of the input.

    Args:
        question: What to ask.
    """
    if sys.stdin.isatty():
        try:
            return input(question)
        except EOFError:
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


class Player:
    """Plays an episode by the lines that somebody types."""

    def __init__(self, episode: "Episode", read: Callable[[str], str | None]) -> None:
        """Sit down at an episode.

        Args:
            episode: The episode.
            read: Reads a line, given a question; `None` at the end of the input.
        """
        self._episode = episode
        self._read = read
        listing = episode.tools
        self._schemas = {tool.name: tool.input_schema for tool in listing.tools}
        self._about = {tool.name: tool.description for tool in listing.tools}
        if listing.terminal_tool is not None:
            last = listing.terminal_tool
            self._about[last.name] = f"{last.description} (takes your final message)"
            part = {} if last.arg is None else {last.arg: {"type": "string"}}
            self._schemas[last.name] = {"type": "object", "properties": part, "required": list(part)}

    def run(self) -> None:
        """Play until the episode or the input ends."""
        say(self._episode.prompt)
        self._show_tools()
        say(HELP)
        while (line := self._read("> ")) is not None:
            line = line.strip()
            if line == ":quit":
                break
            if line and not line.startswith("#") and not self._obey(line):
                break
        self._show_standing()

    def _obey(self, line: str) -> bool:
        match line:
            case ":tools":
                self._show_tools()
            case ":prompt":
                say(self._episode.prompt)
            case ":standing":
                self._show_standing()
            case _ if line.startswith(":"):
                say(HELP)
            case _:
                return self._call(line)
        return True

    def _call(self, line: str) -> bool:
        from ors_server.errors import OrsServerError

        name, _, rest = line.partition(" ")
        try:
            arguments = self._arguments(name, rest.strip())
            output = self._episode.call(name, **arguments)
        except OrsServerError as error:
            say(f"! {error}")
            return True
        for block in output.blocks:
            say(getattr(block, "text", None) or "[image]")
        if output.reward is not None:
            say(f"reward {output.reward:g}")
        return not output.finished

    def _arguments(self, name: str, text: str) -> dict[str, Any]:
        if text:
            try:
                arguments = json.loads(text)
            except ValueError as error:
                raise CommandError(f"the arguments are not JSON: {error}") from error
            if isinstance(arguments, dict):
                return cast("dict[str, Any]", arguments)
            raise CommandError(f"the arguments are a JSON object, not {text}")
        if not sys.stdin.isatty():
            return {}
        return self._ask_for_arguments(self._schemas.get(name))

    def _ask_for_arguments(self, schema: dict[str, Any] | None) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        schema = schema or {}
        for name, part in schema.get("properties", {}).items():
            needed = name in schema.get("required", ())
            note = part.get("description") or part.get("type", "JSON")
            answer = self._read(f"  {name} ({note}{'' if needed else ', optional'}): ")
            if answer or needed:
                arguments[name] = read_value(answer or "", part)
        return arguments

    def _show_tools(self) -> None:
        say("")
        for name, about in self._about.items():
            parts = (self._schemas[name] or {}).get("properties", {})
            say(f"  {name}({', '.join(parts)})  {about.splitlines()[0] if about else ''}")
        say("")

    def _show_standing(self) -> None:
        summary = self._episode.summary
        penalties = f", penalties {summary.penalty_sum:g}" if summary.penalty_sum else ""
        end = f", {summary.stop_reason}" if summary.stop_reason else ""
        say(f"{summary.phase}{end}: {summary.steps} steps, return {summary.episode_return:g}{penalties}")


def read_value(text: str, schema: dict[str, Any]) -> Any:
    """Read a typed answer as the schema wants it: text stays text, everything else is JSON.

    Args:
        text: What was typed.
        schema: The parameter's schema.
    """
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
