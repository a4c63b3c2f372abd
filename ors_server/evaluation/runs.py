"""The records of runs and attempts, and their JSON: what running writes and reporting reads."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from typing_extensions import override

from ors_server.model.recording import JsonCodec
from ors_server.model.wire import JSONObject

OPTIONS_KEY = "options"
"""Key of a run's options in its `config`."""
OLD_OPTIONS_KEY = "wish"
"""The same key in runs of versions before 0.3."""
FORM = 1
"""Version of the JSON; a form that older readers would misread gets a higher one."""


class AttemptStatus(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    """The episode ended, or the agent stopped; the return counts."""
    ERRORED = "errored"
    """Agent, endpoint, environment or server failed; there is no return."""
    OVER_BUDGET = "over_budget"
    """The attempt used up its budget; the return is what was paid until then, and counts."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptKey:
    """What identifies an attempt in its run."""

    split: str
    index: int
    """The task's index in its split, from 0."""
    attempt: int
    """Number of the attempt at this task, from 1."""

    @override
    def __str__(self) -> str:
        return f"{self.split}/{self.index}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one attempt at one task."""

    run_id: str
    environment: str
    split: str
    index: int
    task_hash: str
    """SHA-256 of the task's canonical JSON, hexadecimal; empty where it is not known."""
    attempt: int
    seed: int
    """In [0, 2**53): derived from the run's seed and the key."""
    status: AttemptStatus
    started_at: datetime
    """UTC."""
    seconds: float
    """From the request for a session to the end of its teardown."""
    episode_id: str | None = None
    """Id of the record; `None` where no session was made, or the server does not send it."""
    session_id: str | None = None
    episode_return: float | None = None
    """Sum of the rewards, as the server counts it; `None` exactly where the attempt errored."""
    last_reward: float | None = None
    """The last reward that was paid; `None` where nothing was judged."""
    finished: bool = False
    """Whether the environment or its policy ended the episode."""
    stop_reason: str | None = None
    """The episode's own reason where it has one, else the agent's, a budget's, or `error`."""
    steps: int = 0
    """Tool calls that the server counted."""
    penalties: float = 0.0
    """Sum of the penalties: zero or negative, and part of the return."""
    success: bool | None = None
    """Whether the return reached the run's threshold; `None` where there is no return."""
    tokens_in: int | None = None
    """Tokens that the model read, over all requests; `None` where they were not counted."""
    tokens_out: int | None = None
    """Tokens that the model wrote, reasoning included."""
    cost: float | None = None
    """In the currency of the agent's prices; `None` without prices."""
    retries: int = 0
    """Requests to the model that were sent again, because the endpoint failed or was busy."""
    retry_seconds: float = 0.0
    """Seconds of the pauses before them."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Further figures that rewards reported: `reward_extra/KEY/mean`, `max`, `min`."""
    error: str | None = None
    """What failed; set exactly where the attempt errored."""

    def __post_init__(self) -> None:
        """Check that the fields agree.

        Raises:
            ValueError: If an errored attempt has a return, another attempt lacks one, or a number is not
                finite.
        """
        errored = self.status is AttemptStatus.ERRORED
        if errored != (self.episode_return is None) or errored != (self.error is not None):
            raise ValueError(
                "an errored attempt has an error and no return, every other one a return and no error; "
                f"this one is {self.status.value} with return {self.episode_return} and error {self.error!r}"
            )
        if (self.success is None) != errored:
            raise ValueError("an attempt has a value for `success` exactly where it has a return")
        figures = (
            *(self.episode_return, self.last_reward, self.penalties),
            *(self.cost, self.seconds, self.retry_seconds),
        )
        for number in figures:
            if number is not None and not math.isfinite(number):
                raise ValueError(f"figures of an attempt must be finite, got {number}")

    @property
    def key(self) -> AttemptKey:
        """What identifies the attempt in its run."""
        return AttemptKey(self.split, self.index, self.attempt)


@dataclass(frozen=True, slots=True)
class Run:
    """The plan of a run, and how it ended."""

    run_id: str
    agent: JSONObject
    """The agent's description of itself: `kind`, `name`, options; no secrets."""
    target: str
    """A reference to an environment, or the URL of a server."""
    environment: str
    split: str
    indices: tuple[int, ...]
    """The tasks, by their index in the split."""
    attempts: int
    """Attempts at each task, at least 1."""
    seed: int
    """Every attempt's seed is derived from it."""
    success_at: float
    """Minimum return of a success."""
    started_at: datetime
    """UTC."""
    ended_at: datetime | None = None
    """`None` until every attempt has ended or the run's budget is spent; also after an interrupt."""
    stop_reason: str | None = None
    """The budget that was spent, where attempts are missing though the run ended."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name: `ors-server`, `environment`, `python`, `agent`, as far as they are known."""
    config: JSONObject = field(default_factory=dict[str, object])
    """Every further setting."""
    form: int = FORM

    @property
    def agent_name(self) -> str:
        """The agent's kind and name, as a person reads them."""
        names = dict.fromkeys(str(self.agent[key]) for key in ("kind", "name") if self.agent.get(key))
        return " · ".join(names) or "an agent"

    @property
    def planned(self) -> int:
        """Return the number of attempts."""
        return len(self.indices) * self.attempts


def version_differences(versions: Sequence[Mapping[str, str]]) -> str:
    """Return the versions that differ, as `ors-server 0.2, 0.3; python 3.11.7, 3.12.1`, or an empty text.

    A version that is not known differs from no other one.
    """
    names = sorted({name for version in versions for name in version})
    values_by_name = {
        name: list(dict.fromkeys(version[name] for version in versions if name in version)) for name in names
    }
    return "; ".join(
        f"{name} {', '.join(values)}" for name, values in values_by_name.items() if len(values) > 1
    )


ATTEMPT: JsonCodec[Attempt] = JsonCodec(Attempt, "attempt of a run")
RUN: JsonCodec[Run] = JsonCodec(Run, "run")
