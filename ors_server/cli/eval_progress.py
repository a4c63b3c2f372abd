"""The progress of a run on the terminal: a bar with the running mean, on standard error, for people only."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ors_server.evaluation.runner import Tally
    from ors_server.evaluation.runs import Attempt, Run

    OnAttempt: TypeAlias = Callable[[Attempt, Tally], None]


@contextmanager
def progress(run: "Run") -> "Generator[OnAttempt]":
    """Show how a run gets on, where somebody sits at a terminal.

    Args:
        run: The run.
    """
    if not sys.stderr.isatty():
        yield _show_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: Any = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    standing = TextColumn("{task.description}")
    with Progress(*columns, standing, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=run.planned)

        def show(attempt: "Attempt", tally: "Tally") -> None:
            del attempt
            bar.update(task, completed=tally.ended, description=headline(tally))

        yield show


def headline(tally: "Tally") -> str:
    """Return how a run stands in a few words.

    Args:
        tally: Its numbers.
    """
    parts = ["no return yet" if tally.mean is None else f"mean {tally.mean:.3f}"]
    parts.append(f"{tally.succeeded} succeeded")
    if tally.errored:
        parts.append(f"{tally.errored} errored")
    if tally.over_budget:
        parts.append(f"{tally.over_budget} over budget")
    return ", ".join(parts)


def _show_nothing(attempt: "Attempt", tally: "Tally") -> None:
    del attempt, tally
