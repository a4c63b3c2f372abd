"""Options of `report` and `compare`, and how they read runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ors_server.evaluation.attempt_transcripts import Transcript
    from ors_server.evaluation.run_results import RunResults
    from ors_server.evaluation.summary import FigureOptions


@dataclass(frozen=True, kw_only=True)
class StatisticsOptions:
    """Options of the statistics over runs."""

    html: Annotated[
        Path | None,
        typer.Option(
            "--html", "--report", metavar="FILE", help="Write a page for browsers, which needs nothing else."
        ),
    ] = None
    success_at: Annotated[
        float | None,
        typer.Option(
            help="Least return that counts as a success; each run's own by default.", show_default=False
        ),
    ] = None
    without_over_budget: Annotated[
        bool,
        typer.Option(
            "--without-over-budget", help="Leave attempts that used up their budget out of the means."
        ),
    ] = False
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals, between 0 and 1.")] = 0.95
    resamples: Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=100)] = 10_000
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0
    json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False


def reading_of(options: StatisticsOptions) -> "FigureOptions":
    """Return the settings of the statistics.

    Raises:
        typer.BadParameter: If the confidence is not between 0 and 1.
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


def read_runs(folders: list[Path], success_at: float | None = None) -> "RunResults":
    """Read the folders of runs; without a threshold, they must have the same.

    Raises:
        typer.BadParameter: If one is not a run, or they cannot be combined.
    """
    from ors_server.evaluation.run_results import read_results
    from ors_server.model.errors import RecordError

    try:
        return read_results(folders, success_at)
    except RecordError as error:
        raise typer.BadParameter(str(error)) from error


def read_run_groups(folders: list[Path], success_at: float | None = None) -> "list[RunResults]":
    """Read the folders of runs and suites, those of one agent in one environment together.

    Raises:
        typer.BadParameter: If one is not a run, or those of one agent cannot be combined.
    """
    from ors_server.evaluation.suite import read_groups
    from ors_server.model.errors import RecordError

    try:
        return read_groups(folders, success_at)
    except RecordError as error:
        raise typer.BadParameter(str(error)) from error


def transcripts_of(outcome: "RunResults", store: str | None) -> "list[Transcript]":
    """Read the transcripts of attempts; returns none, with a message, if no readable record has them."""
    import anyio

    from ors_server.cli.command_output import complain
    from ors_server.evaluation.attempt_transcripts import read_transcripts
    from ors_server.model.errors import OrsServerError
    from ors_server.model.settings import load_settings
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
