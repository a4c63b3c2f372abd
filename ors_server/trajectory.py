"""The record: what happened in an episode, step by step, as the server saw it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ors_server.wire import ImageBlock, JSONObject, TextBlock


class StepStatus(StrEnum):
    """What became of one call."""

    GRADED = "graded"
    """The tool ran and its reward is a number."""
    UNGRADED = "ungraded"
    """The tool ran and made no judgement."""
    REFUSED = "refused"
    """The agent's call was not run: unknown tool or invalid arguments."""
    FAILED = "failed"
    """The tool raised, hung or returned nonsense; nothing was judged."""
    CANCELLED = "cancelled"
    """The caller withdrew the call while it ran."""


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call of an episode and its output."""

    number: int
    """Position in the episode, from 1."""
    call_id: str
    tool: str
    arguments: JSONObject
    """As the agent sent them."""
    status: StepStatus
    blocks: tuple[TextBlock | ImageBlock, ...]
    reward: float | None
    """What was paid for the step, penalties included; `None` when nothing was judged and nothing charged."""
    components: Mapping[str, float]
    """The reward's parts by name: `tool` and one entry per penalty cause; they add up to the reward."""
    finished: bool
    error: str | None
    """Why the call was refused or failed, in words."""
    error_code: str | None
    metadata: JSONObject | None
    started_at: datetime
    """When the call began to run, UTC."""
    duration: float
    """Seconds from the call's start to its answer."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a forked episode left another one."""

    session_id: str
    """The episode that it began as."""
    steps: int
    """Steps that both share: the record of the fork begins with copies of them, its sums with theirs."""


@dataclass(frozen=True, slots=True)
class EpisodeOrigin:
    """Where an episode came from: enough to play the same task again."""

    session_id: str
    environment: str
    environment_version: str
    server_version: str
    task_spec: JSONObject = field(repr=False)
    task_hash: str
    """SHA-256 of the task's canonical JSON, hexadecimal."""
    split: str | None
    index: int | None
    created_at: datetime
    policy: JSONObject
    credential_id: str | None = None
    """Id of the credential that created the session; never the credential."""
    forked_from: Fork | None = None
    sandbox: JSONObject | None = None
    """What isolated the agent's commands, and what did not; `None` where nothing of the agent's ran."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """The authoritative figures of an episode."""

    phase: str
    steps: int
    episode_return: float
    """Sum of the rewards of all steps, in step order."""
    reward_sum: float
    """The part of the return that tools paid."""
    penalty_sum: float
    """The part of the return that the policy charged; zero or negative."""
    penalties: Mapping[str, float]
    """The penalty sum by cause."""
    discounted_return: float
    """Sum of `discount ** (number - 1) * reward` over the steps."""
    last_reward: float | None
    best_reward: float | None
    ungraded_steps: int
    """Steps without a judgement."""
    failed_steps: int
    """Steps in which the environment's own code failed."""
    stop_reason: str | None
    created_at: datetime
    started_at: datetime | None
    last_call_at: datetime | None
    finished_at: datetime | None
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """What rewards reported beside their numbers, over the steps: `reward_extra/KEY/mean`, `max`, `min`."""


def summary_as_json(summary: EpisodeSummary) -> dict[str, Any]:
    """Render a summary with JSON types; times become ISO 8601 strings.

    Args:
        summary: The figures.
    """
    stamps = {
        name: None if value is None else value.isoformat()
        for name in ("created_at", "started_at", "last_call_at", "finished_at")
        for value in [getattr(summary, name)]
    }
    return {
        "phase": summary.phase,
        "steps": summary.steps,
        "return": summary.episode_return,
        "reward_sum": summary.reward_sum,
        "penalty_sum": summary.penalty_sum,
        "penalties": dict(summary.penalties),
        "discounted_return": summary.discounted_return,
        "last_reward": summary.last_reward,
        "best_reward": summary.best_reward,
        "ungraded_steps": summary.ungraded_steps,
        "failed_steps": summary.failed_steps,
        "stop_reason": summary.stop_reason,
        "metrics": dict(summary.metrics),
        **stamps,
    }
