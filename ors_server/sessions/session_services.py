"""What every session of a server shares."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ors_server.admission import Admission
from ors_server.clock import Clock, SystemClock
from ors_server.errors import StoreError
from ors_server.logs import get_logger
from ors_server.loop_watch import LoopWatch
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sessions.quotas import CallRates, LimitsOf, SessionLimits, no_key_limits
from ors_server.sessions.sandboxing import NO_SANDBOXES, Sandboxes
from ors_server.sessions.task_places import TaskPlaces
from ors_server.store.base import EpisodeStore
from ors_server.visibility import Visibility
from ors_server.wire import JSONObject
from ors_server.workers import DEFAULT_THREADS, Workers

log = get_logger("ors_server.sessions")

GRADINGS_PER_CORE = 2

REMEMBERED_SECONDS = 15.0
"""Seconds after a write that failed, and that none has followed, after which the next one is given a try."""


def default_gradings() -> int:
    """Return how many gradings are at work at once unless a number is set: two per processor."""
    return GRADINGS_PER_CORE * len(os.sched_getaffinity(0))


class RecordHealth:
    """Remembers the latest write of the record that failed, in any session, until one succeeds."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._failure: StoreError | None = None
        self._failed_at = 0.0

    def succeed(self) -> None:
        """Note that a write succeeded."""
        self._failure = None

    def fail(self, error: StoreError) -> None:
        """Note that a write failed."""
        self._failure, self._failed_at = error, self._clock.monotonic()

    def check(self) -> None:
        """Check that the record could be written lately."""
        failure = self._failure
        if failure is not None and self._clock.monotonic() - self._failed_at < REMEMBERED_SECONDS:
            raise StoreError(f"the record cannot be written: {failure}")


class Spawn(Protocol):
    """Starts a background task that ends with the server at the latest."""

    def __call__(self, function: Callable[..., Awaitable[Any]], *args: object) -> object:
        """Start it."""
        ...


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How the sessions of a server work."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    visibility: Visibility = Visibility.NEGOTIATED
    """What agents see of rewards where neither environment nor session request sets it."""
    max_output_bytes: int = 8 * 1024 * 1024
    """Most bytes of one tool output."""
    teardown_time_limit: float = 60.0
    """Seconds that a teardown may take."""
    lingering_time_limit: float = 30.0
    """Seconds for which an ended session's environment waits for author code that ignores its cancellation
    (threads do) before it is torn down."""
    ending_time_limit: float = 2.0
    """Seconds of that for which the request that ends the session waits."""
    turn_time_limit: float = 5.0
    """Seconds that a call waits for a turn which the thread of a call that was stopped still keeps."""
    gradings_at_once: int | None = None
    """Gradings that run programs at once; two per processor by default."""
    server_version: str = "0"
    """Written into each record."""
    worker_threads: int = DEFAULT_THREADS
    """Threads for authors' blocking code."""
    limits_of: LimitsOf = no_key_limits
    """Returns the limits of an API key; called each time, because keys may change while the server runs."""


@dataclass(frozen=True, slots=True)
class Services:
    """What every session of a server shares."""

    clock: Clock
    store: EpisodeStore
    spawn: Spawn
    options: SessionOptions = field(default_factory=SessionOptions)
    sandboxes: Sandboxes = NO_SANDBOXES
    """Where sessions get their sandboxes."""
    health: RecordHealth = field(default_factory=RecordHealth)
    """Knows whether the record can be written."""
    gradings: Admission = field(default_factory=lambda: Admission(default_gradings()))
    """How many gradings are at work at once."""
    watch: LoopWatch = field(default_factory=LoopWatch)
    """Knows how late the event loop is."""
    workers: Workers = field(default_factory=Workers)
    """Threads of authors' blocking code."""
    resources: ResourcePool = field(default_factory=ResourcePool)
    """Where sessions get what their tools and rewards share."""
    call_rates: CallRates = field(default_factory=CallRates)
    """Admits calls at the rate of the API key whose session it is."""
    task_places: TaskPlaces = field(default_factory=TaskPlaces)
    """Knows the split and index of tasks that clients send by value."""

    def queues(self) -> JSONObject:
        """Return what waits for its turn: name of a limiter to its figures."""
        limiters = {"gradings": self.gradings, "threads": self.workers.admission}
        return {name: limiter.figures().summary() for name, limiter in limiters.items()}

    def log_queues(self) -> None:
        """Log each limiter in which something waits."""
        for name, figures in self.queues().items():
            if figures["waiting"]:
                log.info("queue", queue=name, **figures)
