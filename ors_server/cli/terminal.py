"""Consoles, tables and progress. What a console prints is escaped, as everything that a command prints."""

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import typer
from typing_extensions import override

from ors_server.cli.command_output import complain
from ors_server.cli.exit_status import ExitStatus
from ors_server.model.printable import clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text


MAX_LINES = 20
"""Lines of one text that are shown without `--full`."""
MAX_CHARACTERS = 2000
"""Characters of one text that are shown without `--full`."""

LINE_SECONDS = 20.0
"""Minimum seconds between two lines of progress in a log."""
PIPED_WIDTH = 200
"""Columns of a table in a pipe or file."""


def cut(text: str, *, whole: bool) -> tuple[list[str], str | None]:
    """Return a text's first lines, at least one, escaped, and a notice of what is missing, or `None`."""
    lines = clean(text).split("\n")
    if lines[1:] and not lines[-1]:
        lines.pop()
    if whole:
        return lines, None
    kept: list[str] = []
    left = MAX_CHARACTERS
    for line in lines[:MAX_LINES]:
        if left <= 0:
            break
        kept.append(line[:left])
        left -= len(line)
    characters = sum(map(len, lines)) - sum(map(len, kept))
    if not characters and len(kept) == len(lines):
        return kept, None
    missing = len(lines) - len(kept)
    more = f"{missing} more lines, " if missing else ""
    return kept, f"... {more}{characters} more characters; --full shows them"


def make_console(*, piped_width: int | None = None) -> "Console":
    """Return a console of standard output, which raises `BrokenPipeError` when its reader closes it.

    Control characters of the texts in it are escaped; its own sequences, for colours, are not.

    Args:
        piped_width: Columns in a pipe or file; by default `COLUMNS`, or 200.
    """
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # for terminals that do not have every character
    if sys.stdout.isatty():
        piped_width = None
    elif piped_width is None and "COLUMNS" not in os.environ:
        piped_width = PIPED_WIDTH
    return _console_class()(highlight=False, markup=False, emoji=False, width=piped_width)


def make_progress_console() -> "Console":
    """Return a console of standard error, whose texts are escaped as those of `make_console` are."""
    return _console_class()(stderr=True)


@cache
def _console_class() -> "type[Console]":
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        """Escapes strings before they are measured, and any other text where it is rendered."""

        @override
        def render_str(self, text: str, **options: Any) -> "Text":
            return super().render_str(clean(text), **options)

        @override
        def render(
            self, renderable: "RenderableType", options: "ConsoleOptions | None" = None
        ) -> "Iterable[Segment]":
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else clean(text), style, control)

        @override
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return SafeConsole


def make_table(*headings: str, left: int = 1, **column: Any) -> "Table":
    """Return a table without lines; columns after the first `left` ones are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        columns: dict[str, Any] = {"justify": "left" if position < left else "right", "overflow": "fold"}
        table.add_column(heading, **(columns | column))
    return table


def verdict_cell(verdict: str) -> "Text":
    """Return a cell with a verdict, in its colour where the terminal has colours."""
    from rich.text import Text

    styles = {"fail": "bold red", "warn": "yellow", "pass": "green"}
    return Text(verdict, style=styles.get(verdict.lower(), "dim"))


@contextmanager
def progress_bar(total: int | None) -> Generator[Callable[[int, str], None]]:
    """Show a bar on standard error, if that is a terminal; yields a function of its position and text."""
    if not sys.stderr.isatty():
        yield lambda _position, _text: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: Any = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    text = TextColumn("{task.description}")
    with Progress(*columns, text, console=make_progress_console(), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda position, text: bar.update(task, completed=position, description=text)


@contextmanager
def progress_lines(command: str, total: int) -> Generator[Callable[[int, str], None]]:
    """Show a bar like `progress_bar`; where standard error is not a terminal, a line every `LINE_SECONDS`.

    So a log of CI shows how far a long command is, and a short command writes nothing.
    """
    if sys.stderr.isatty():
        with progress_bar(total) as show:
            yield show
        return
    began = shown = time.monotonic()

    def write(position: int, text: str) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= LINE_SECONDS:
            shown = now
            complain(f"{command}: {position} of {total}, {now - began:.0f} s: {text}")

    yield write


@contextmanager
def exit_when_output_closes() -> Generator[None, None, None]:
    """End the command without a message when the reader of standard output closes it."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed
        raise typer.Exit(ExitStatus.CUT_OFF) from None
