"""The record: what happened in an episode, step by step, as the server saw it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from secrets import token_hex
from typing import Any

from ors_server.policy import WITHHELD
from ors_server.wire import ImageBlock, JSONObject, TextBlock


class StepStatus(StrEnum):
    """What became of one call."""

    GRADED = "graded"
    """The tool ran and what the step came to is a number."""
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
    """What was paid with the step, penalties included; `None` when nothing was judged and nothing charged,
    and while a policy holds rewards back until the end."""
    components: Mapping[str, float]
    """What the step came to, by name: `tool` and one entry per penalty cause. With `withheld`, what earlier
    steps came to and this one paid, they add up to the reward, where there is one."""
    finished: bool
    error: str | None
    """Why the call was refused or failed, in words."""
    error_code: str | None
    metadata: JSONObject | None
    started_at: datetime
    """When the call began to run, UTC."""
    duration: float
    """Seconds from the call's start to its answer."""

    @property
    def earned(self) -> float | None:
        """What the step itself came to, whether it was paid with it or held back; `None` if nothing."""
        if self.reward is not None and WITHHELD not in self.components:
            return self.reward
        own = [amount for name, amount in self.components.items() if name != WITHHELD]
        return sum(own) if own else None


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a forked episode left another one."""

    session_id: str
    """Session of the episode that it began as."""
    steps: int
    """Steps that both share: the record of the fork begins with copies of them, its sums with theirs."""


def make_episode_id() -> str:
    """Return an id that no other episode ever has: 32 hexadecimal digits."""
    return token_hex(16)


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
    episode_id: str = field(default_factory=make_episode_id)
    """The record's own id. A session id may be used again once its session is gone; this one never is."""
    seed: int = 0
    """What the environment draws its chances from, in [0, 2**53)."""
    visibility: str = "meta"
    """What the agent sees of rewards."""
    toolset: str | None = None
    """The toolset that whoever created the session asked for."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """What whoever created the session calls it: its run, attempt, group."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Versions by name: `python`, and the distribution that the environment comes from, where it has one."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One move of an episode from one phase to another."""

    event: str
    """What happened, in the words of the episode's table."""
    phase: str
    """The phase after it."""
    stop_reason: str | None
    """Why the episode is over; `None` while it goes on."""
    at: datetime
    """UTC."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """The authoritative figures of an episode."""

    phase: str
    steps: int
    episode_return: float
    """Sum of the rewards of all steps, in step order."""
    reward_sum: float
    """What tools gave; with the penalties, the return and what was withheld."""
    penalty_sum: float
    """What the policy charged; zero or negative."""
    penalties: Mapping[str, float]
    """The penalty sum by cause."""
    discounted_return: float
    """Sum of `discount ** (number - 1) * reward` over the steps."""
    last_reward: float | None
    """The last one that was paid."""
    best_reward: float | None
    """The best that one step came to."""
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
    withheld: float = 0.0
    """What was earned and charged and not paid: under a policy that pays at the end, until the step that ends
    the episode; for ever, if it ends without one."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """What is known of an episode beside its steps."""

    origin: EpisodeOrigin
    summary: EpisodeSummary
    """The latest figures; final once the record is closed."""
    prompt: tuple[TextBlock | ImageBlock, ...] | None = None
    """What the agent was told; `None` if nobody asked for it."""
    transitions: tuple[Transition, ...] = ()
    """Every move of the episode, in order."""
    is_closed: bool = False
    """Whether the session is gone and nothing will be added."""


def first_summary(origin: EpisodeOrigin) -> EpisodeSummary:
    """Return the figures of an episode in which nothing has happened yet.

    Args:
        origin: Where it comes from.
    """
    return EpisodeSummary(
        phase="created",
        steps=0,
        episode_return=0.0,
        reward_sum=0.0,
        penalty_sum=0.0,
        penalties={},
        discounted_return=0.0,
        last_reward=None,
        best_reward=None,
        ungraded_steps=0,
        failed_steps=0,
        stop_reason=None,
        created_at=origin.created_at,
        started_at=None,
        last_call_at=None,
        finished_at=None,
    )


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
        "withheld": summary.withheld,
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
