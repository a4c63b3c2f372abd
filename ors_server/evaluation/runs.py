"""What came of a run: one frozen record per attempt, one for the run, and their JSON.

Nothing here plays or computes figures: this is where the running half and the reporting half meet.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ors_server.recording import JsonCodec
from ors_server.wire import JSONObject

FORM = 1
"""Version of what is written; it grows when a reader of older ones would misread it."""


class AttemptStatus(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    """The episode ended, or the agent did; the return stands."""
    ERRORED = "errored"
    """Agent, endpoint, environment or machinery failed; there is no return."""
    OVER_BUDGET = "over_budget"
    """The attempt used up what it was given; the return is what was paid until then, and stands."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one attempt at one task."""

    run_id: str
    environment: str
    split: str
    index: int
    """Where the task stands in its split, from 0."""
    task_hash: str
    """SHA-256 of the task's canonical JSON, hexadecimal; empty where nobody could know it."""
    attempt: int
    """Number of the attempt at this task, from 1."""
    seed: int
    """In [0, 2**53): derived from the run's seed, the task's place and the attempt's number."""
    status: AttemptStatus
    started_at: datetime
    """UTC."""
    seconds: float
    """From the order for a session to the end of its teardown."""
    episode_id: str | None = None
    """The record's id at the server; `None` where no session was made or the server tells none."""
    session_id: str | None = None
    episode_return: float | None = None
    """Sum of the rewards, as the server counts it; a number unless the attempt errored, and then `None`."""
    last_reward: float | None = None
    """The last reward that was paid; `None` where nothing was judged."""
    finished: bool = False
    """Whether the environment ended the episode; otherwise the agent, a budget or a failure did."""
    stop_reason: str | None = None
    """Why it is over: the episode's own reason where it has one, else the agent's, a budget's, or `error`."""
    steps: int = 0
    """Tool calls that the server counted."""
    penalties: float = 0.0
    """Sum of the penalties: zero or negative, and part of the return."""
    success: bool | None = None
    """Whether the return reached the run's threshold; `None` where there is no return."""
    tokens_in: int | None = None
    """Tokens that the model read, over all requests; `None` where nobody counted."""
    tokens_out: int | None = None
    """Tokens that the model wrote, reasoning included."""
    cost: float | None = None
    """In the currency of the prices that were given; `None` without prices."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """What rewards reported beside their numbers: `reward_extra/KEY/mean`, `max`, `min`."""
    error: str | None = None
    """What failed, in words; set exactly where the attempt errored."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            ValueError: If an errored attempt has a return or another one has none, or a number is not finite.
        """
        errored = self.status is AttemptStatus.ERRORED
        if errored != (self.episode_return is None) or errored != (self.error is not None):
            raise ValueError(
                "an errored attempt has an error and no return, every other one a return and no error; "
                f"this one is {self.status.value} with return {self.episode_return} and error {self.error!r}"
            )
        if (self.success is None) != errored:
            raise ValueError("an attempt has a verdict on its success exactly where it has a return")
        for number in (self.episode_return, self.last_reward, self.penalties, self.cost, self.seconds):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"figures of an attempt are finite, not {number}")

    @property
    def place(self) -> tuple[str, int, int]:
        """Return what no other attempt of the run has: split, index, number."""
        return self.split, self.index, self.attempt


@dataclass(frozen=True, slots=True)
class Run:
    """What a run set out to do, and how it ended."""

    run_id: str
    agent: JSONObject
    """Which agent: `kind`, `name` and what it was told; no secrets."""
    target: str
    """What was evaluated: a reference to an environment, or the URL of a server."""
    environment: str
    split: str
    indices: tuple[int, ...]
    """The tasks, by their places in the split."""
    attempts: int
    """Attempts at each task, from 1."""
    seed: int
    """What every attempt's seed is derived from."""
    success_at: float
    """Least return that counts as a success."""
    started_at: datetime
    """UTC."""
    ended_at: datetime | None = None
    """`None` until every attempt has ended or the run's budget is spent; also after an interrupt."""
    stop_reason: str | None = None
    """Why attempts are missing though the run ended: the budget that was spent."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name: `ors-server`, `environment`, `python`, `agent`, as far as they are known."""
    config: JSONObject = field(default_factory=dict[str, object])
    """Every further setting: concurrency, budgets, policy."""
    form: int = FORM

    @property
    def planned(self) -> int:
        """Return how many attempts the run wants."""
        return len(self.indices) * self.attempts


ATTEMPT: JsonCodec[Attempt] = JsonCodec(Attempt, "attempt of a run")
RUN: JsonCodec[Run] = JsonCodec(Run, "run")
