"""Decides what an attempt came to, from what its agent, its session and its server say; pure."""

import math
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ors_server.evaluation.budgets import Limit
from ors_server.evaluation.runs import Attempt, AttemptStatus
from ors_server.evaluation.targets import EpisodeFigures

TOLERANCE = 1e-9
"""Relative and absolute: by which two sums of the same rewards in another order may differ."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the play ended, as far as the harness knows."""

    stop_reason: str
    limit: Limit | None = None
    """The budget that was spent."""
    error: str | None = None
    """What failed."""

    @classmethod
    def over_budget(cls, limit: Limit) -> "Ending":
        """Describe the end by a budget.

        Args:
            limit: Which one.
        """
        return cls(limit.value, limit=limit)

    @classmethod
    def failed(cls, error: str) -> "Ending":
        """Describe the end by a failure.

        Args:
            error: What failed, in words.
        """
        return cls("error", error=error)


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What is known of an attempt whatever came of it; the fields are those of `Attempt`."""

    run_id: str
    environment: str
    split: str
    index: int
    task_hash: str
    attempt: int
    seed: int
    started_at: datetime
    seconds: float
    episode_id: str | None
    session_id: str | None
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """What everybody says at the end of an attempt."""

    ending: Ending
    figures: EpisodeFigures | None
    """The server's; `None` where there was no episode, or it could not be asked."""
    own_sum: float | None = None
    """The rewards that came to the session; `None` where it did not see all of them."""
    own_last: float | None = None
    own_steps: int = 0
    is_over: bool = False
    """Whether a call that the session made ended the episode."""
    is_unjudged: bool = False
    """Whether that call had no reward."""
    own_step_limit: int | None = None
    """The step limit that the episode was given because of a budget."""


def judge(story: AttemptFacts, standing: AttemptEnd, success_at: float) -> Attempt:
    """Decide what an attempt came to.

    The server's return counts. Where only the client saw the rewards, its sum does; where both are there and
    differ, the attempt has errored.

    Args:
        story: What is known of it.
        standing: What everybody says.
        success_at: Least return that is a success.
    """
    figures = standing.figures or EpisodeFigures(None)
    paid = standing.own_sum if figures.episode_return is None else figures.episode_return
    error = _error(standing, figures, paid)
    limit = _limit(standing, figures)
    known: dict[str, Any] = {
        **asdict(story),
        "last_reward": standing.own_last if figures.last_reward is None else figures.last_reward,
        "finished": figures.is_finished or (figures.stop_reason is None and standing.is_over),
        "stop_reason": _stop_reason(standing, figures, limit),
        "steps": standing.own_steps if figures.steps is None else figures.steps,
        "penalties": figures.penalties,
        "metrics": dict(figures.metrics),
    }
    if error is not None:
        known["stop_reason"] = "error" if standing.ending.error is not None else known["stop_reason"]
        return Attempt(**known, status=AttemptStatus.ERRORED, error=error)
    status = AttemptStatus.DONE if limit is None else AttemptStatus.OVER_BUDGET
    return Attempt(
        **known, status=status, episode_return=paid, success=paid is not None and paid >= success_at
    )


def _limit(standing: AttemptEnd, figures: EpisodeFigures) -> Limit | None:
    is_own = standing.own_step_limit is not None and figures.stop_reason == "step_limit"
    if is_own and (figures.steps or 0) >= (standing.own_step_limit or 0):
        return Limit.STEPS
    return None if figures.is_finished else standing.ending.limit


def _stop_reason(standing: AttemptEnd, figures: EpisodeFigures, limit: Limit | None) -> str:
    if limit is not None:
        return limit.value
    if figures.stop_reason not in {None, "deleted"}:
        return str(figures.stop_reason)
    return "completed" if standing.is_over else standing.ending.stop_reason


def _error(standing: AttemptEnd, figures: EpisodeFigures, paid: float | None) -> str | None:
    if standing.ending.error is not None:
        return standing.ending.error
    if figures.stop_reason in {"failed", "expired"}:
        return f"the episode {figures.stop_reason} at the server"
    if figures.failed_steps:
        return f"the environment's own code failed in {figures.failed_steps} of {figures.steps} calls"
    return _doubt(standing, figures, paid)


def _doubt(standing: AttemptEnd, figures: EpisodeFigures, paid: float | None) -> str | None:
    """Say why the return is not to be believed."""
    if paid is None:
        return "nobody knows the return: the server tells no figures, and not every reward came here"
    if standing.own_sum is not None and not _agree(standing.own_sum, paid):
        return (
            f"the rewards that came here add up to {standing.own_sum!r}, but the server's return is {paid!r}"
        )
    has_ended = figures.stop_reason == "completed" or (figures.stop_reason is None and standing.is_over)
    last = standing.own_last if figures.last_reward is None else figures.last_reward
    if has_ended and (standing.is_unjudged or last is None):
        return "the environment ended the episode without a reward: it could not be graded"
    return None


def _agree(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
