"""The result of a replay, its verdicts and its JSON."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ors_server.model.trajectory import EpisodeOrigin
from ors_server.model.wire import JSONObject
from ors_server.recovery.step_comparison import ReplayDifference


class ReplayVerdict(StrEnum):
    """The verdict on an episode."""

    IDENTICAL = "identical"
    """Everything that can be compared is the same."""
    DIFFERENT = "different"
    """There is a difference that only the environment can explain."""
    INCONCLUSIVE = "inconclusive"
    """There is a difference after something that cannot be repeated, or nothing could be compared."""
    FAILED = "failed"
    """It could not be replayed here."""


class StepVerdict(StrEnum):
    """The verdict on one step."""

    SAME = "same"
    DIFFERENT = "different"
    UNCERTAIN = "uncertain"
    """Different, after a call whose effects are unknown."""
    SKIPPED = "skipped"
    """Not comparable, so the call was not made."""
    UNPLAYED = "unplayed"
    """The replay had ended before it."""


@dataclass(frozen=True, slots=True)
class StepReplay:
    """One recorded step and its verdict."""

    number: int
    tool: str
    arguments: JSONObject
    verdict: StepVerdict
    differences: tuple[ReplayDifference, ...] = ()
    why: str | None = None
    """Why it was not compared."""

    def as_json(self) -> dict[str, Any]:
        """Render it with JSON types."""
        return {
            "step": self.number,
            "tool": self.tool,
            "arguments": self.arguments,
            "verdict": self.verdict.value,
            "differences": [difference.as_json() for difference in self.differences],
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class EpisodeReplay:
    """One recorded episode and the result of its replay."""

    origin: EpisodeOrigin
    """The record's."""
    steps: tuple[StepReplay, ...] = ()
    """Every recorded step, in order."""
    differences: tuple[ReplayDifference, ...] = ()
    """Of the prompt and the setup."""
    notes: tuple[str, ...] = ()
    """One sentence each."""
    failure: str | None = None
    """Why it could not be replayed, or not to the end."""

    @property
    def verdict(self) -> ReplayVerdict:
        """The verdict on the episode."""
        if self.differences or self.count(StepVerdict.DIFFERENT):
            return ReplayVerdict.DIFFERENT
        if self.failure is not None:
            return ReplayVerdict.FAILED
        compared = self.count(StepVerdict.SAME) or not self.steps
        if not compared or self.count(StepVerdict.UNCERTAIN) or self.count(StepVerdict.UNPLAYED):
            return ReplayVerdict.INCONCLUSIVE
        return ReplayVerdict.IDENTICAL

    def count(self, verdict: StepVerdict) -> int:
        """Return the number of steps with a verdict."""
        return sum(1 for step in self.steps if step.verdict is verdict)

    def as_json(self) -> dict[str, Any]:
        """Render it with JSON types, without the steps that are the same."""
        return {
            **episode_json(self.origin),
            "verdict": self.verdict.value,
            "failure": self.failure,
            "counts": {"steps": len(self.steps)}
            | {verdict.value: self.count(verdict) for verdict in StepVerdict},
            "notes": list(self.notes),
            "differences": [difference.as_json() for difference in self.differences],
            "steps": [step.as_json() for step in self.steps if step.verdict is not StepVerdict.SAME],
        }


def episode_json(origin: EpisodeOrigin) -> dict[str, Any]:
    """Return what identifies a recorded episode."""
    names = ("episode_id", "session_id", "environment", "split", "index", "task_hash")
    return {name: getattr(origin, name) for name in names}
