"""The record: what happened in an episode, step by step, as the server saw it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from secrets import token_hex
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import ConfigDict, Field

from ors_server.model.enumerations import quick_members
from ors_server.model.episode import EpisodeState, Metric
from ors_server.model.errors import BLAME_BY_CODE, Blame
from ors_server.model.model_turn import MODEL_TURN
from ors_server.model.policy import TOOL_COMPONENT, WITHHELD
from ors_server.model.wire import Block, JSONObject

Blocks: TypeAlias = tuple[Block, ...]
"""Content for the agent, in order."""

SEEDS = 2**53
"""Number of seeds: integers that a 64-bit float, and so JSON everywhere, keeps exactly."""

RECORD_CONFIG = ConfigDict(
    json_schema_serialization_defaults_required=True,
    validate_by_alias=True,
    validate_by_name=True,
)
"""Pydantic's configuration for the dataclasses of the record; constructors check nothing."""


REWARD_STATUS = "reward_status"
"""Key of a step's metadata: the status of its reward, where that is not `graded`."""
REWARD_REASON = "reward_reason"
"""Key with the reason of that status, where there is one."""
UNJUDGED_STATUSES = frozenset({"bad_gold", "error", "limit"})
"""Statuses of rewards without a number: the judgement failed."""

USER_TURNS = "user_turns"
"""Key of a step's metadata: the messages that its call sent to the simulated user, with the answers."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One message to the simulated user of an episode, and the answer."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    message: str
    """What the agent wrote."""
    reply: str
    """What the user answered."""
    user: str = "scripted"
    """Who answered: `scripted`, or the name of a function or model."""
    tokens: int = 0
    """What the user's model used, prompt and answer."""
    seconds: float = 0.0
    """Until the answer arrived."""


@quick_members
class StepStatus(StrEnum):
    """The status of one recorded call."""

    GRADED = "graded"
    """The tool ran, and the step was rewarded or charged."""
    UNGRADED = "ungraded"
    """The tool ran, and the step was neither rewarded nor charged."""
    REFUSED = "refused"
    """The call did not run: unknown tool or invalid arguments."""
    FAILED = "failed"
    """The environment's code failed; nothing was judged."""
    CANCELLED = "cancelled"
    """The caller withdrew the call while it ran."""


RAN = frozenset({StepStatus.GRADED, StepStatus.UNGRADED})
"""Statuses of steps whose tool returned, or refused what was asked."""


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call of an episode and its output."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    number: int
    """Position in the episode, from 1."""
    call_id: str
    tool: str
    arguments: JSONObject
    """As the agent sent them."""
    status: StepStatus
    blocks: Blocks
    reward: float | None
    """Paid with the step, penalties included; `None` if nothing was judged or charged, and while a policy
    holds rewards back until the end."""
    components: Mapping[str, float]
    """The parts of the reward by name: `tool`, one entry per penalty cause, and `withheld` for rewards of
    earlier steps that this one paid. They add up to the reward, where there is one."""
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
    def is_unjudged(self) -> bool:
        """Whether the step's judgement failed: its metadata states a status that has no number."""
        return self.metadata is not None and is_unjudged(self.metadata)

    @property
    def answer_metadata(self) -> JSONObject | None:
        """The metadata without what the caller attached to the call, which its answer does not repeat."""
        metadata = self.metadata
        if metadata is None or MODEL_TURN not in metadata:
            return metadata
        return {key: value for key, value in metadata.items() if key != MODEL_TURN} or None

    @property
    def is_penalised(self) -> bool:
        """Whether the policy charged a penalty for the step."""
        return any(name not in {TOOL_COMPONENT, WITHHELD} for name in self.components)

    @property
    def blame(self) -> str | None:
        """Who has to act for its error to go away: `agent`, or a value of `Blame`; `None` without one."""
        if self.error_code is None:
            return None
        if self.status is StepStatus.CANCELLED:
            return Blame.CLIENT.value
        if self.status is not StepStatus.FAILED:
            return "agent"
        return BLAME_BY_CODE.get(self.error_code, Blame.MACHINERY).value

    @property
    def earned(self) -> float | None:
        """The step's own reward and penalties, paid with it or held back; `None` if it had none."""
        if self.reward is not None and WITHHELD not in self.components:
            return self.reward
        own = [amount for name, amount in self.components.items() if name != WITHHELD]
        return sum(own) if own else None


@dataclass(frozen=True, slots=True)
class Fork:
    """The episode that a fork began as, and where it left it."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    session_id: str
    """Session of the episode that it began as."""
    steps: int
    """Steps that both share: the fork's record begins with copies of them, its sums with theirs."""


NOTHING: Mapping[str, Any] = {}
"""Of the many episodes without labels, penalties or metrics: each dictionary would take 64 bytes."""


def is_unjudged(metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata of a step states that its judgement failed."""
    status = metadata.get(REWARD_STATUS)
    return isinstance(status, str) and status in UNJUDGED_STATUSES


def make_episode_id() -> str:
    """Return a new episode's id, which no other ever has: 32 hexadecimal digits."""
    return token_hex(16)


@dataclass(frozen=True, slots=True)
class EpisodeOrigin:
    """What an episode was created from: enough to play the same task again."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

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
    """What isolated the agent's commands, and the gaps; `None` where the environment runs none."""
    episode_id: str = field(default_factory=make_episode_id)
    """Id of the record. A session id may be used again once its session is gone; this one never is."""
    seed: int = 0
    """Seed of the environment's random generator, in [0, 2**53)."""
    visibility: str = "meta"
    """What the agent sees of rewards."""
    toolset: str | None = None
    """The toolset that the session was created with."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that the session's creator gave it: its run, attempt, group."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Versions by name: `python`, and the distribution that the environment comes from, where it has one."""
    creation: str | None = None
    """Digest of the request that created the session, by which a repeat of it is recognised; `None` where the
    server made the session's id, where secrets were given, and for a fork."""
    has_secrets: bool = False
    """Whether the session was given secrets that its environment may need, which no record has."""

    @property
    def image(self) -> str | None:
        """Id of the image that was the root of the session's sandbox; `None` without one, or unknown."""
        return None if self.sandbox is None else self.sandbox.get("image")


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition of an episode from one phase to another."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    event: str
    """The event's name in the episode's table."""
    phase: str
    """The phase after it."""
    stop_reason: str | None
    """Why the episode is over; `None` while it is not."""
    at: datetime
    """UTC."""


class IncidentKind(StrEnum):
    """The kind of an incident."""

    RESTORED = "restored"
    """The session was restored to a snapshot."""
    REBUILT = "rebuilt"
    """A later server took the session up."""
    INTERRUPTED = "interrupted"
    """No later server could take the session up."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened to an episode and is neither a step nor a transition."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    kind: IncidentKind
    at: datetime
    """UTC."""
    text: str
    """What happened, in one sentence."""
    steps: tuple[int, ...] = ()
    """Numbers of the steps that it concerns: the last one before a restore; those whose texts differed when
    the session was rebuilt."""


@dataclass(frozen=True, slots=True)
class EpisodeNote:
    """A remark about an episode, apart from the record: no figure, export or replay reads it."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    note_id: str
    author: str
    """Id of the credential that wrote it; `local` on a server without keys."""
    at: datetime
    """UTC."""
    text: str
    verdict: str | None = None
    """A short word for what its author decided, such as `cheated`."""
    step: int | None = None
    """Number of the step that it is about; `None` if it is about the episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """The authoritative figures of an episode."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    phase: str
    """created, ready, playing, finished, failed, expired or deleted."""
    steps: int
    """Number of steps, from 0."""
    episode_return: Annotated[float, Field(alias="return")]
    """Sum of the rewards of all steps, in step order."""
    withheld: float = 0.0
    """Rewards and penalties that are not paid yet, under a policy that pays with the last step; they stay
    unpaid if the episode ends without one."""
    reward_sum: float = 0.0
    """Rewards of tools; with the penalties, they are the return and what is withheld."""
    penalty_sum: float = 0.0
    """Penalties of the policy; zero or negative."""
    penalties: Mapping[str, float] = field(default_factory=dict[str, float])
    """The penalty sum by cause."""
    discounted_return: float = 0.0
    """Sum of `discount ** (number - 1) * reward` over the steps."""
    last_reward: float | None = None
    """The last reward that was paid."""
    best_reward: float | None = None
    """The highest reward of one step, penalties included."""
    ungraded_steps: int = 0
    """Steps without a judgement."""
    failed_steps: int = 0
    """Steps in which the environment's own code failed."""
    refused_steps: int = 0
    """Calls that did not run: of an unknown tool, or with invalid arguments."""
    penalised_steps: int = 0
    """Steps that the policy charged a penalty for."""
    unjudged_steps: int = 0
    """Steps whose judgement failed: the reward had no number, or it was interrupted. If there are any, the
    return lacks a part, so nothing should train on it or count it."""
    stop_reason: str | None = None
    """Why the episode is over; `None` while it is not."""
    created_at: datetime
    started_at: datetime | None = None
    """UTC; when the setup was done."""
    last_call_at: datetime | None = None
    """UTC; when the last step was taken."""
    finished_at: datetime | None = None
    """UTC; when the episode ended."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figures that rewards reported in addition to their numbers: `reward_extra/KEY/mean`, `max`, `min`."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures with JSON types and the names of the wire; times become ISO 8601 strings."""
        return {stated: _as_json(getattr(self, name)) for name, stated in _STATED_NAMES}


@dataclass(frozen=True, slots=True)
class Figure:
    """How one field of `EpisodeSummary` is checked, exported and shown."""

    words: str
    """Its name in findings and in the terminal."""
    counts: Callable[[Step], bool] | None = None
    """For a number of certain steps: whether a step is one of them."""
    greatest: Callable[[Step], float | None] | None = None
    """For the greatest of certain numbers of the steps: that of a step, `None` where it has none."""
    is_column: bool = False
    """Whether the exported table `episodes` has a column of it; numbers of steps always do."""
    not_verified: str | None = None
    """Why `store verify` does not compute it from the record again; `None` where it does."""


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "phase": Figure("phase", is_column=True),
        "steps": Figure("steps", is_column=True),
        "episode_return": Figure("return", is_column=True),
        "withheld": Figure("withheld sum", is_column=True),
        "reward_sum": Figure("reward sum"),
        "penalty_sum": Figure("penalty sum", is_column=True),
        "penalties": Figure("penalties"),
        "discounted_return": Figure("discounted return"),
        "last_reward": Figure("last reward"),
        "best_reward": Figure("best reward", greatest=lambda step: step.earned),
        "ungraded_steps": Figure("ungraded", lambda step: step.earned is None),
        "failed_steps": Figure("failed", lambda step: step.status is StepStatus.FAILED),
        "refused_steps": Figure("refused", lambda step: step.status is StepStatus.REFUSED),
        "penalised_steps": Figure("penalised", lambda step: step.is_penalised),
        "unjudged_steps": Figure("unjudged", lambda step: step.is_unjudged),
        "stop_reason": Figure("stop reason", is_column=True),
        "created_at": Figure("time of creation", is_column=True),
        "started_at": Figure("start of play"),
        "last_call_at": Figure("time of the last call"),
        "finished_at": Figure("end", is_column=True),
        "metrics": Figure(
            "metrics",
            not_verified="steps keep what a metric was made of as free metadata, and `regrade` computes it "
            "again",
        ),
    }
)
"""Every field of `EpisodeSummary` by name.

A new number of certain steps, or the greatest of a number that steps have, is computed in `EpisodeState`, is
a field above, a row here and a line of `summarise`; verification, exports, episodes after a restart and the
terminal follow from the row. A number of steps is a column of the store, too. The unit is part of `words`.
"""

STEP_COUNTS: Mapping[str, Callable[[Step], bool]] = MappingProxyType(
    {name: figure.counts for name, figure in FIGURES.items() if figure.counts is not None}
)
"""The figures that count certain steps, each with the test of a step."""
STEP_MAXIMA: Mapping[str, Callable[[Step], float | None]] = MappingProxyType(
    {name: figure.greatest for name, figure in FIGURES.items() if figure.greatest is not None}
)
"""The figures that are the greatest of a number of the steps, each with the number of a step."""


def greatest_of(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the figures of `STEP_MAXIMA`; `None` where no step has the number."""
    return {
        name: max((number for step in steps if (number := number_of(step)) is not None), default=None)
        for name, number_of in STEP_MAXIMA.items()
    }


def summarise(origin: EpisodeOrigin, state: EpisodeState) -> EpisodeSummary:
    """Return the figures of a state."""
    penalties, metrics = state.penalties, state.metrics
    return EpisodeSummary(
        phase=str(state.phase),
        steps=state.steps,
        episode_return=state.episode_return,
        withheld=state.withheld or 0.0,
        reward_sum=state.reward_sum,
        penalty_sum=state.penalty_sum if penalties else 0.0,
        penalties={cause.value: amount for cause, amount in penalties.items()} if penalties else NOTHING,
        discounted_return=state.discounted_return,
        last_reward=state.last_reward,
        best_reward=state.best_reward,
        ungraded_steps=state.ungraded_steps,
        failed_steps=state.failed_steps,
        refused_steps=state.refused_steps,
        penalised_steps=state.penalised_steps,
        unjudged_steps=state.unjudged_steps,
        stop_reason=None if state.stop_reason is None else state.stop_reason.value,
        created_at=origin.created_at,
        started_at=None if state.started_at is None else wall_time(origin, state, state.started_at),
        last_call_at=None if state.last_call_at is None else wall_time(origin, state, state.last_call_at),
        finished_at=None if state.finished_at is None else wall_time(origin, state, state.finished_at),
        metrics=describe_metrics(metrics) if metrics else NOTHING,
    )


def wall_time(origin: EpisodeOrigin, state: EpisodeState, moment: float) -> datetime:
    """Turn a moment of the clock (seconds from its origin) into a time of day."""
    return origin.created_at + timedelta(0, moment - state.created_at)


def describe_metrics(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Write metrics out under the names that AgentFly logs them by: `reward_extra/KEY/mean`, `max`, `min`."""
    return {
        f"reward_extra/{key}/{figure}": value
        for key, metric in metrics.items()
        for figure, value in (("mean", metric.mean), ("max", metric.greatest), ("min", metric.least))
    }


ENDINGS = frozenset({"completed", "step_limit", "time_limit", "blocked"})
"""Stop reasons of episodes that ended by their own rules."""


class EpisodeResult(StrEnum):
    """What an episode contributes to figures over many; every episode has exactly one."""

    GRADED = "graded"
    """It ended by its own rules, and a step was paid or charged: its return is part of means."""
    UNGRADED = "ungraded"
    """It ended by its own rules without a reward or a penalty."""
    UNJUDGED = "unjudged"
    """The judgement of a step failed, so that the return lacks a part; whether it ended or not."""
    LIVE = "live"
    """It has not ended; or its server was killed before it could write the end."""
    ABANDONED = "abandoned"
    """Its session was deleted, expired, or ended with the server, before the episode did."""
    FAILED = "failed"
    """The environment failed."""


def result_of(summary: EpisodeSummary) -> EpisodeResult:
    """Return which figures an episode is part of: the one rule for means of returns everywhere."""
    if summary.unjudged_steps:
        return EpisodeResult.UNJUDGED
    if summary.stop_reason is None:
        return EpisodeResult.LIVE
    if summary.stop_reason == "failed":
        return EpisodeResult.FAILED
    if summary.stop_reason not in ENDINGS:
        return EpisodeResult.ABANDONED
    return EpisodeResult.UNGRADED if summary.last_reward is None else EpisodeResult.GRADED


_STATED_NAMES = [
    (figure.name, "return" if figure.name == "episode_return" else figure.name)
    for figure in fields(EpisodeSummary)
]
"""The figures' names here, and on the wire."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """Everything on record of an episode besides its steps."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    origin: EpisodeOrigin
    summary: EpisodeSummary
    """The latest figures; final once the record is closed."""
    prompt: Blocks | None = None
    """The prompt; `None` if it was never requested."""
    transitions: tuple[Transition, ...] = ()
    """Every transition, in order."""
    is_closed: bool = False
    """Whether the session is gone and nothing will be added."""
    incidents: tuple[Incident, ...] = ()
    """What else happened to the session, in order."""


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


def complete_summary(summary: EpisodeSummary, steps: Sequence[Step]) -> EpisodeSummary:
    """Return a summary that counts all kinds of steps, some of which summaries of older servers do not."""
    return with_counts(summary, {name: sum(map(counts, steps)) for name, counts in STEP_COUNTS.items()})


def with_counts(summary: EpisodeSummary, counts: Mapping[str, int]) -> EpisodeSummary:
    """Return a summary with numbers of steps that an older server did not write, and that it states as 0."""
    missing: dict[str, Any] = {
        name: count for name, count in counts.items() if count and not getattr(summary, name)
    }
    return replace(summary, **missing) if missing else summary


def seconds_of(summary: EpisodeSummary) -> float | None:
    """Return the seconds from the end of the setup to the end of the episode; `None` before it."""
    started, finished = summary.started_at, summary.finished_at
    return None if started is None or finished is None else (finished - started).total_seconds()


def first_summary(origin: EpisodeOrigin) -> EpisodeSummary:
    """Return the figures of an episode in which nothing has happened yet."""
    return EpisodeSummary(phase="created", steps=0, episode_return=0.0, created_at=origin.created_at)
