"""Options of `score` and `regrade` that say how a reward judges."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_options import read_pairs

if TYPE_CHECKING:
    from ors_server.rewards.batch.batch_scorer import BatchScorer


@dataclass(frozen=True, kw_only=True)
class JudgingOptions:
    """A reward, and how much it judges at once and for how long."""

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
            help="A field for every row or episode, which wins over its own; the value is JSON; repeatable.",
        ),
    ] = None
    jobs: Annotated[
        int | None, typer.Option(help="Worker processes; as many as there are cores by default.", min=1)
    ] = None
    time_limit: Annotated[float, typer.Option(help="Seconds that one row or episode may take.")] = 30.0
    concurrency: Annotated[
        int,
        typer.Option(help="Rows or episodes that a worker judges at once, if the reward is async.", min=1),
    ] = 16


def make_scorer(options: JudgingOptions) -> "BatchScorer":
    """Return what judges by the options.

    Raises:
        typer.BadParameter: If an option of the reward is not KEY=VALUE with JSON.
    """
    from ors_server.rewards.batch.batch_scorer import BatchScorer

    return BatchScorer(
        options.reward,
        jobs=options.jobs,
        time_limit=options.time_limit,
        concurrency=options.concurrency,
        keywords=read_pairs("--option", options.option) or {},
    )
