"""Decides the result of an attempt from what its agent, its session and its server report; pure."""

import math
from dataclasses import dataclass
from typing import Any

from ors_server.client.session_summary import Summary
from ors_server.evaluation.budgets import Limit
from ors_server.evaluation.runs import AttemptStatus
from ors_server.export.episodes import is_played_out

TOLERANCE = 1e-9
"""Relative and absolute: by which two sums of the same rewards in another order may differ."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the agent stopped."""

    stop_reason: str
    limit: Limit | None = None
    """The budget that was spent."""
    error: str | None = None
    """What failed."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """What agent, session and server report at the end of an attempt."""

    ending: Ending
    summary: Summary | None
    """The server's figures; `None` without an episode, or from a server that keeps none."""
    own_sum: float | None = None
    """The sum of the rewards that the session received; `None` if there may be others."""
    own_last: float | None = None
    own_steps: int = 0
    is_over: bool = False
    """Whether a call of the session ended the episode."""
    is_unjudged: bool = False
    """Whether that call had no reward."""
    own_step_limit: int | None = None
    """The step limit that the episode was given because of a budget."""

    @property
    def server_reason(self) -> str | None:
        """The server's stop reason."""
        return None if self.summary is None else self.summary.stop_reason

    @property
    def is_played_out(self) -> bool:
        """Whether the environment or its policy ended the episode."""
        return self.summary is not None and is_played_out(self.summary)

    @property
    def last_reward(self) -> float | None:
        """The last reward, as the server has it, else as the session received it; `None` if unjudged."""
        if self.summary is not None and self.summary.unjudged_steps:
            return None
        known = None if self.summary is None else self.summary.last_reward
        return self.own_last if known is None else known


def judge(end: AttemptEnd, success_at: float) -> dict[str, Any]:
    """Return the fields of an `Attempt` that follow from its end.

    The server's return counts. Without one, the session's sum does. If both exist and differ, the attempt has
    errored.
    """
    summary = end.summary
    paid = end.own_sum if summary is None else summary.episode_return
    error, limit = _error(end, paid), _limit(end)
    known: dict[str, Any] = {
        "last_reward": end.last_reward,
        "finished": end.is_played_out or (end.server_reason is None and end.is_over),
        "stop_reason": "error" if end.ending.error is not None else _stop_reason(end, limit),
        "steps": end.own_steps if summary is None else summary.steps,
        "penalties": 0.0 if summary is None else summary.penalty_sum,
        "metrics": {} if summary is None else dict(summary.metrics),
    }
    if error is not None:
        return {**known, "status": AttemptStatus.ERRORED, "error": error}
    status = AttemptStatus.DONE if limit is None else AttemptStatus.OVER_BUDGET
    success = paid is not None and paid >= success_at
    return {**known, "status": status, "episode_return": paid, "success": success}


def _limit(end: AttemptEnd) -> Limit | None:
    is_own = end.own_step_limit is not None and end.server_reason == "step_limit"
    if is_own and end.summary is not None and end.summary.steps >= (end.own_step_limit or 0):
        return Limit.STEPS
    return None if end.is_played_out else end.ending.limit


def _stop_reason(end: AttemptEnd, limit: Limit | None) -> str:
    if limit is not None:
        return limit.value
    if end.server_reason not in {None, "deleted", "shutdown"}:
        return str(end.server_reason)
    return "completed" if end.is_over else end.ending.stop_reason


def _error(end: AttemptEnd, paid: float | None) -> str | None:
    if end.ending.error is not None:
        return end.ending.error
    if end.server_reason in {"failed", "expired"}:
        return f"the episode {end.server_reason} at the server"
    if end.server_reason == "shutdown":
        return "the server stopped before the episode ended"
    if end.summary is not None and end.summary.failed_steps:
        return f"the environment's own code failed in {end.summary.failed_steps} of {end.summary.steps} calls"
    if end.summary is not None and end.summary.unjudged_steps:
        return end.summary.why_unjudged
    return _doubt(end, paid)


def _doubt(end: AttemptEnd, paid: float | None) -> str | None:
    """Return why the return cannot be trusted."""
    if paid is None:
        return "the return is not known: the server keeps no figures, and not every reward came here"
    if end.own_sum is not None and not math.isclose(end.own_sum, paid, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return f"the rewards that came here add up to {end.own_sum!r}, but the server's return is {paid!r}"
    has_ended = end.server_reason == "completed" or (end.server_reason is None and end.is_over)
    if has_ended and (end.is_unjudged or end.last_reward is None):
        return "the environment ended the episode without a reward: it could not be graded"
    return None
