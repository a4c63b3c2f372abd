"""The words that mark a step or an episode: ordinary ones have none.

The status alone would mislead: eight of ten ordinary steps are `ungraded`, and a tool's own error is too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ors_server.model.trajectory import EpisodeRecord, Step, StepStatus

REFUSED_NOTE = "The server refused the call; nothing ran."
FAILED_NOTE = "The environment's own code raised. This is not the agent's fault and is never scored."


@dataclass(frozen=True, slots=True)
class Mark:
    """A word, and how strongly it is shown."""

    word: str
    tone: str = ""
    """`warn`: the agent can continue; `bad`: it cost reward; `solid`: the environment failed. Also `good` and
    `info`."""


@dataclass(frozen=True, slots=True)
class StepMarks:
    """The marks of a step, and the colour of its edge."""

    marks: tuple[Mark, ...]
    edge: str
    """Class of the edge: `w`, `b`, `g`, or empty."""

    @property
    def is_marked(self) -> bool:
        """Whether the step is not an ordinary one."""
        return any(mark.tone != "info" for mark in self.marks)

    @property
    def words(self) -> str:
        """The marks in words, for a title."""
        return ", ".join(mark.word for mark in self.marks)


def marks_of(step: Step) -> StepMarks:
    """Return the marks of a step: by its status, its error's code, and its tool's report of a command."""
    cost = step.earned is not None and step.earned < 0
    word = _word_of(step)
    marks: list[Mark] = []
    if step.status is StepStatus.FAILED:
        marks.append(Mark("Failed", "solid"))
    elif word is not None:
        marks.append(Mark(word, "bad" if cost else "warn"))
    if step.is_unjudged:
        marks.append(Mark("Not judged", "solid"))
    edge = "b" if cost or any(mark.tone == "solid" for mark in marks) else "w" if marks else ""
    if not edge and step.earned is not None and step.earned > 0:
        edge = "g"
    if step.finished:
        marks.append(Mark("Ends the episode", "info"))
    return StepMarks(tuple(marks), edge)


def _word_of(step: Step) -> str | None:
    # A tool that runs programs notes of its run an object with an exit code, under its own name.
    values = (step.metadata or {}).values()
    objects = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
    nothing: dict[str, Any] = {}
    run = next((value for value in objects if "exit_code" in value), nothing)
    if step.status is StepStatus.REFUSED:
        return "Refused"
    if step.status is StepStatus.CANCELLED:
        return "Cancelled"
    if run.get("timed_out") is True or step.error_code in {"timeout", "tool_timeout"}:
        return "Timed out"
    if step.error_code is not None:
        return "Tool error"
    exit_code = run.get("exit_code")
    return f"Exit {exit_code}" if isinstance(exit_code, int) and exit_code else None


_ENDS: Mapping[str, Mark] = {
    "step_limit": Mark("Step limit", "warn"),
    "time_limit": Mark("Time limit", "warn"),
    "blocked": Mark("Blocked", "bad"),
    "deleted": Mark("Ended early"),
    "expired": Mark("Expired"),
    "shutdown": Mark("Server stopped"),
    "interrupted": Mark("Interrupted", "warn"),
    "failed": Mark("Environment failed", "solid"),
}


def word_of(record: EpisodeRecord) -> Mark:
    """Return the word of an episode: what failed, else why it ended, else what it earned."""
    summary = record.summary
    if summary.failed_steps or summary.stop_reason == "failed":
        return _ENDS["failed"]
    if summary.unjudged_steps:
        return Mark("Not judged", "solid")
    if summary.stop_reason is None:
        return Mark("Live", "info")
    if summary.last_reward is not None and summary.episode_return >= solved_at(record):
        return Mark("Solved", "good")
    if summary.stop_reason in _ENDS:
        return _ENDS[summary.stop_reason]
    return Mark("Ungraded") if summary.last_reward is None else Mark("Not solved", "warn")


def highest_of(record: EpisodeRecord) -> float | None:
    """Return the highest reward that the policy of an episode lets a tool pay; `None` if it has no range."""
    allowed = record.origin.policy.get("reward_range")
    if isinstance(allowed, (list, tuple)) and len(cast("list[Any]", allowed)) == 2:  # noqa: PLR2004  (least, greatest)
        return float(cast("list[Any]", allowed)[1])
    return None


def solved_at(record: EpisodeRecord) -> float:
    """Return the return that counts as solved: the highest reward, or 1 without a range."""
    highest = highest_of(record)
    return 1.0 if highest is None else highest
