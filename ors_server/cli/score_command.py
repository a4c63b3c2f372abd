"""`ors-server score`: judges the rows of a file with one reward."""

import json
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import complain, say
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.score_summary import ScoreSummary

if TYPE_CHECKING:
    from ors_server.rewards.result import RewardResult


@dataclass(frozen=True)
class ScoreOptions:
    """What `score` can be told."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON lines; each is an object with the fields of one judgement. - is standard input.",
        ),
    ]
    reward: Annotated[
        str,
        typer.Option(
            "--reward",
            metavar="NAME",
            help="The reward: a name that `ors-server rewards` lists, module:name, or file.py:name.",
        ),
    ]
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A field for every row, which wins over the row's own; the value is JSON; repeatable.",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="For a reward of groups: the field on which the rows of one group agree, which follow one "
            "another.",
        ),
    ] = None
    jobs: Annotated[
        int | None, typer.Option(help="Worker processes; as many as there are cores by default.", min=1)
    ] = None
    time_limit: Annotated[float, typer.Option(help="Seconds that one row may take.")] = 30.0
    concurrency: Annotated[
        int, typer.Option(help="Rows that a worker judges at once, if the reward is async.", min=1)
    ] = 16
    json: Annotated[
        bool, typer.Option("--json", help="Print one object per row, in order, as soon as it is judged.")
    ] = False


def score(options: ScoreOptions) -> None:
    """Judge every row of a file with one reward.

    Prints a summary or, with --json, one object per row: reward (a number or null), status, extras, and the
    reason where there is one. A reward that could not judge is never a number. The status is 0 if every row
    was judged, 1 if some could not be, 2 if the command makes no sense.
    """
    from ors_server.rewards.batch.batch_scorer import BatchScorer
    from ors_server.rewards.reward_errors import BatchError

    keywords = dict(read_option(text) for text in options.option or ())
    summary = ScoreSummary()
    try:
        with (
            _opened(options.file) as descriptor,
            BatchScorer(
                options.reward,
                jobs=options.jobs,
                time_limit=options.time_limit,
                concurrency=options.concurrency,
                keywords=keywords,
            ) as scorer,
        ):
            results = scorer.score_lines(descriptor, group_by=options.group_by)
            _judge(results, descriptor, summary, as_json=options.json)
            if scorer.replaced:
                complain(f"{scorer.replaced} workers were replaced: they died, or a row took them too long")
    except BatchError as error:
        raise typer.BadParameter(str(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed
        raise typer.Exit(ExitStatus.CUT_OFF) from None
    _conclude(summary, as_json=options.json)


def read_option(text: str) -> tuple[str, Any]:
    """Read `key=value`.

    Args:
        text: The value is JSON.

    Raises:
        typer.BadParameter: If it is not.
    """
    key, _, value = text.partition("=")
    try:
        return key, json.loads(value)
    except ValueError as error:
        example = """--option match='"exact"'"""
        raise typer.BadParameter(
            f"--option takes KEY=VALUE with a JSON value, such as {example}, not {text}"
        ) from error


@contextmanager
def _opened(file: str) -> Generator[int, None, None]:
    if file == "-":
        yield 0
        return
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise typer.BadParameter(f"{file} is a folder")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _judge(
    results: Iterable["RewardResult"], descriptor: int, summary: ScoreSummary, *, as_json: bool
) -> None:
    with _progress(descriptor) as progress:
        for result in results:
            summary.add(result)
            if as_json:
                say(json.dumps(result.as_json(), allow_nan=False))
            progress(summary)


@contextmanager
def _progress(descriptor: int) -> Generator[Callable[[ScoreSummary], None], None, None]:
    if not sys.stderr.isatty():
        yield _show_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: Sequence[Any] = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = TextColumn("{task.description}")
    with Progress(*columns, shown, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=count_lines(descriptor))

        def show(summary: ScoreSummary) -> None:
            bar.update(task, completed=summary.rows, description=summary.headline)

        yield show


def _show_nothing(summary: ScoreSummary) -> None:
    del summary


def count_lines(descriptor: int) -> int | None:
    """Count a file's lines; `None` for what is no file.

    Args:
        descriptor: Open for reading; where it stands does not change.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    count, at, last = 0, os.lseek(descriptor, 0, os.SEEK_CUR), b"\n"
    while piece := os.pread(descriptor, 2**20, at):
        count += piece.count(b"\n")
        at += len(piece)
        last = piece[-1:]
    return count + (last != b"\n")


def _conclude(summary: ScoreSummary, *, as_json: bool) -> None:
    if not as_json:
        from rich.console import Console

        Console(highlight=False).print(summary.as_table())
    if summary.unjudged:
        complain(f"{summary.unjudged} of {summary.rows} rows could not be judged")
        for reason in summary.reasons:
            complain(reason)
        raise typer.Exit(ExitStatus.FAILED)
