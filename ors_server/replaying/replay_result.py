"""What a replay came to: data, and what follows from it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ors_server.replaying.step_comparison import ReplayDifference
from ors_server.trajectory import EpisodeOrigin
from ors_server.wire import JSONObject


class ReplayVerdict(StrEnum):
    """What a replay says of an episode."""

    IDENTICAL = "identical"
    """Everything that can be compared is the same."""
    DIFFERENT = "different"
    """Something is otherwise, and nothing but the environment can be why."""
    INCONCLUSIVE = "inconclusive"
    """What could be compared is the same, but something follows what nobody can repeat."""
    FAILED = "failed"
    """It could not be replayed here."""


class StepVerdict(StrEnum):
    """What a replay says of one step."""

    SAME = "same"
    DIFFERENT = "different"
    UNCERTAIN = "uncertain"
    """Otherwise, after a call whose effects nobody knows."""
    SKIPPED = "skipped"
    """Not comparable, so the call was not made."""
    UNPLAYED = "unplayed"
    """The replay was over before it."""


@dataclass(frozen=True, slots=True)
class StepReplay:
    """One recorded step, and what became of it."""

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
            "differences": [each.as_json() for each in self.differences],
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class EpisodeReplay:
    """One recorded episode, and what playing it again came to."""

    origin: EpisodeOrigin
    """The record's."""
    steps: tuple[StepReplay, ...] = ()
    """Every recorded step, in order."""
    differences: tuple[ReplayDifference, ...] = ()
    """In what no step has: the prompt, the setup."""
    notes: tuple[str, ...] = ()
    """What a reader should know, one sentence each."""
    failure: str | None = None
    """Why it could not be replayed, or not to the end."""

    @property
    def verdict(self) -> ReplayVerdict:
        """What it all comes to."""
        if self.differences or self.count(StepVerdict.DIFFERENT):
            return ReplayVerdict.DIFFERENT
        if self.failure is not None:
            return ReplayVerdict.FAILED
        compared = self.count(StepVerdict.SAME) or not self.steps
        if not compared or self.count(StepVerdict.UNCERTAIN) or self.count(StepVerdict.UNPLAYED):
            return ReplayVerdict.INCONCLUSIVE
        return ReplayVerdict.IDENTICAL

    def count(self, verdict: StepVerdict) -> int:
        """Count the steps of which the replay says something.

        Args:
            verdict: What it says.
        """
        return sum(1 for step in self.steps if step.verdict is verdict)

    def as_json(self) -> dict[str, Any]:
        """Render it with JSON types; of the steps, those that are not simply the same."""
        origin = self.origin
        return {
            "episode_id": origin.episode_id,
            "session_id": origin.session_id,
            "environment": origin.environment,
            "split": origin.split,
            "index": origin.index,
            "task_hash": origin.task_hash,
            "verdict": self.verdict.value,
            "failure": self.failure,
            "counts": {"steps": len(self.steps)} | {each.value: self.count(each) for each in StepVerdict},
            "notes": list(self.notes),
            "differences": [each.as_json() for each in self.differences],
            "steps": [step.as_json() for step in self.steps if step.verdict is not StepVerdict.SAME],
        }
