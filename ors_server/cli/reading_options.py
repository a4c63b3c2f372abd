"""How commands are told to read the attempts of runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ors_server.evaluation.attempt_transcripts import Transcript
    from ors_server.evaluation.run_results import RunResults
    from ors_server.evaluation.summary import FigureOptions

_WIDE = 200
"""Columns where nobody watches."""

SuccessAt = Annotated[
    float | None,
    typer.Option(
        help="Least return that counts as a success; each run's own by default.", show_default=False
    ),
]
WithoutOverBudget = Annotated[
    bool,
    typer.Option("--without-over-budget", help="Leave attempts that used up their budget out of the means."),
]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals, between 0 and 1.")]
Resamples = Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=100)]
Seed = Annotated[int, typer.Option(help="Seed of the resampling.")]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a page for browsers, which needs nothing else.")
]


class ReadingOptions(Protocol):
    """The options that say how attempts are read."""

    @property
    def success_at(self) -> float | None:
        """Least return that counts as a success."""
        ...

    @property
    def without_over_budget(self) -> bool:
        """Whether attempts that used up their budget are left out."""
        ...

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        ...

    @property
    def resamples(self) -> int:
        """Of the bootstrap."""
        ...

    @property
    def seed(self) -> int:
        """Of the resampling."""
        ...


def console_of_tables() -> "Console":
    """Return where tables are printed: where nobody watches, lines are as wide as they need to be."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


def reading_of(options: ReadingOptions) -> "FigureOptions":
    """Return how attempts are to be read.

    Args:
        options: As given.

    Raises:
        typer.BadParameter: If the confidence is none.
    """
    from ors_server.evaluation.resampling import Resampling
    from ors_server.evaluation.summary import FigureOptions

    if not 0 < options.confidence < 1:
        raise typer.BadParameter(
            f"--confidence lies between 0 and 1, such as 0.95; it is {options.confidence:g}"
        )
    return FigureOptions(
        success_at=options.success_at,
        over_budget=not options.without_over_budget,
        resampling=Resampling(resamples=options.resamples, confidence=options.confidence, seed=options.seed),
    )


def gathered(folders: list[Path]) -> "RunResults":
    """Read the folders of runs.

    Args:
        folders: At least one.

    Raises:
        typer.BadParameter: If they are none, or cannot be read together.
    """
    from ors_server.errors import RecordError
    from ors_server.evaluation.run_results import read_results

    try:
        return read_results(folders)
    except RecordError as error:
        raise typer.BadParameter(str(error)) from error


def transcripts_of(outcome: "RunResults", store: str | None) -> "list[Transcript]":
    """Read the transcripts of attempts; none where their episodes are in no record that can be read here.

    Args:
        outcome: The attempts.
        store: The record, instead of the one of the settings.
    """
    import anyio

    from ors_server.cli.command_output import complain
    from ors_server.errors import OrsServerError
    from ors_server.evaluation.attempt_transcripts import read_transcripts
    from ors_server.settings import load_settings
    from ors_server.store.open import open_reader

    async def read() -> "list[Transcript]":
        reader = await open_reader(store or load_settings().record)
        try:
            return await read_transcripts(reader, outcome.attempts)
        finally:
            await reader.aclose()

    try:
        return anyio.run(read)
    except OrsServerError as error:
        complain(f"the report has no transcripts: {error}")
        return []
