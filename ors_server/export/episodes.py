"""The selection of episodes for an export, the figures of each row, and the counts of omissions."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ors_server.model.trajectory import ENDINGS, STEP_COUNTS, EpisodeRecord, EpisodeSummary, Step
from ors_server.model.wire import JSONObject

Episode: TypeAlias = tuple[EpisodeRecord, Sequence[Step]]
"""A record and all its steps, as `RecordReader.stream` yields them."""
Episodes: TypeAlias = AsyncIterator[Episode]

UNFINISHED = "unfinished"
UNJUDGED = "in which a judgement failed"
NO_PROMPT = "without a prompt on record"
NO_CALLS = "without a call"


class LeftOutError(Exception):
    """A format cannot hold an episode; the message is the reason, one of a few fixed texts, for counting."""


@dataclass(slots=True)
class ExportCounts:
    """How many episodes an export read, wrote and left out."""

    episodes: int = 0
    """Episodes read."""
    steps: int = 0
    """Steps of the episodes that were written."""
    rows: int = 0
    """Rows written."""
    left_out: Counter[str] = field(default_factory=Counter[str])
    """Episodes (for preferences: groups too) that were not written, by reason."""

    def __str__(self) -> str:
        line = f"{self.rows} rows from {self.episodes} episodes, {self.steps} steps"
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.most_common())
        return f"{line}; left out: {reasons}" if reasons else line


def is_played_out(summary: EpisodeSummary) -> bool:
    """Return whether an episode ended by its own rules."""
    return summary.stop_reason in ENDINGS


def judged_return(summary: EpisodeSummary) -> float | None:
    """Return an episode's return; `None`, never 0, if no step was paid or charged, or a judgement failed."""
    return None if summary.last_reward is None or summary.unjudged_steps else summary.episode_return


def describe(record: EpisodeRecord, steps: Sequence[Step]) -> JSONObject:
    """Return the ids and figures of an episode, for rows that have a conversation too.

    `return` and entries of `rewards` are null where nothing was paid; `return` also if a judgement failed,
    which `unjudged_steps` counts. `components` has each step's parts by
    name, penalties included. `withheld` is what a policy that pays at the end never paid.
    """
    origin, summary = record.origin, record.summary
    about: dict[str, Any] = {
        "episode_id": origin.episode_id,
        "environment": origin.environment,
        "split": origin.split,
        "index": origin.index,
        "task_hash": origin.task_hash,
        "image": origin.image,
        "seed": origin.seed,
        "labels": dict(origin.labels),
        "stop_reason": summary.stop_reason,
        "is_played_out": is_played_out(summary),
        "return": judged_return(summary),
        "rewards": [step.reward for step in steps],
        "components": [dict(step.components) for step in steps],
        "statuses": [step.status.value for step in steps],
        "withheld": summary.withheld,
        **{name: getattr(summary, name) for name in STEP_COUNTS},
    }
    return about
