"""Which episodes go into an export, what is said of each beside its conversation, and what was left out."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ors_server.trajectory import EpisodeRecord, EpisodeSummary, Step
from ors_server.wire import JSONObject

Episode: TypeAlias = tuple[EpisodeRecord, Sequence[Step]]
"""A record and all its steps, as `RecordReader.stream` gives them."""
Episodes: TypeAlias = AsyncIterator[Episode]

ENDINGS = frozenset({"completed", "step_limit", "time_limit", "blocked"})
"""Reasons after which an episode has been played to its end; one that was deleted or expired has not."""

UNFINISHED = "unfinished"
NO_PROMPT = "without a prompt on record"
NO_CALLS = "without a call"


class LeftOutError(Exception):
    """An episode has no place in a format; the message is the reason, in few words that can be counted."""


@dataclass(slots=True)
class Tally:
    """What became of the episodes that an export saw."""

    episodes: int = 0
    """Seen."""
    steps: int = 0
    """Of the episodes that were written."""
    rows: int = 0
    """Written."""
    left_out: Counter[str] = field(default_factory=Counter[str])
    """Episodes (for preferences: groups too) that were not written, by reason."""

    def __str__(self) -> str:
        """Say it in one line."""
        line = f"{self.rows} rows from {self.episodes} episodes, {self.steps} steps"
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.most_common())
        return f"{line}; left out: {reasons}" if reasons else line


def is_played_out(summary: EpisodeSummary) -> bool:
    """Say whether an episode ended by its own rules."""
    return summary.stop_reason in ENDINGS


def judged_return(summary: EpisodeSummary) -> float | None:
    """Return an episode's return; `None`, never 0, if no step of it was paid or charged."""
    return None if summary.last_reward is None else summary.episode_return


def describe(record: EpisodeRecord, steps: Sequence[Step]) -> JSONObject:
    """Return what a row says of its episode beside the conversation.

    Args:
        steps: Its steps, in order.

    Returns:
        Names and figures. `return` and each entry of `rewards` are null where nothing was paid;
        `components` has what each step came to by name, penalties among them, and `withheld` what was never
        paid because the policy pays at the end and the episode had none.
    """
    origin, summary = record.origin, record.summary
    about: dict[str, Any] = {
        "episode_id": origin.episode_id,
        "environment": origin.environment,
        "split": origin.split,
        "index": origin.index,
        "task_hash": origin.task_hash,
        "seed": origin.seed,
        "labels": dict(origin.labels),
        "stop_reason": summary.stop_reason,
        "is_played_out": is_played_out(summary),
        "return": judged_return(summary),
        "rewards": [step.reward for step in steps],
        "components": [dict(step.components) for step in steps],
        "statuses": [step.status.value for step in steps],
        "withheld": summary.withheld,
        "ungraded_steps": summary.ungraded_steps,
        "failed_steps": summary.failed_steps,
    }
    return about
