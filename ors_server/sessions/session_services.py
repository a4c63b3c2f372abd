"""What every session of a server shares: background tasks, the sandboxes' backend, the record's health."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.errors import StoreError
from ors_server.model.host_slot import SINGLE_HOST, HostSlot
from ors_server.model.logs import get_logger
from ors_server.model.visibility import Visibility
from ors_server.model.wire import JSONObject
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sandboxes.base import Backend
from ors_server.sandboxes.cells.hidden_paths import HiddenPaths, source_paths
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.isolation_report import IsolationReport
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError
from ors_server.sessions.activity import ActivityFeed
from ors_server.sessions.call_meters import CallMeters
from ors_server.sessions.key_limits import CallRates, LimitsOf, no_key_limits
from ors_server.sessions.session_request import SessionLimits
from ors_server.sessions.task_places import TaskPlaces
from ors_server.store.base import EpisodeStore
from ors_server.timing.admission import Admission
from ors_server.timing.loop_watch import LoopWatch
from ors_server.timing.workers import DEFAULT_THREADS, Workers

log = get_logger("ors_server.sessions")
_sandbox_log = get_logger("ors_server.sandboxes")


Result = TypeVar("Result")


async def run_whole(
    spawn: Callable[..., object], function: Callable[..., Awaitable[Result]], *args: object
) -> Result:
    """Run a function in the background and return its result; it keeps running if the caller is cancelled.

    Args:
        spawn: Starts a background task.
    """
    ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            result = await function(*args)
        except BaseException as error:
            if not ended.done():
                ended.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            if not isinstance(error, Exception):
                raise
        else:
            if not ended.done():
                ended.set_result(result)

    spawn(run)
    return await ended


@dataclass(slots=True)
class LastUse:
    """When something was last used; a separate object, so that its parts need not hold the whole."""

    at: float
    """Seconds from the clock's origin."""


class BackgroundTasks:
    """Runs functions side by side, each in its own task.

    These are deliberately no task group's children: they run authors' code, and a task group ends all of its
    tasks when one of them raises, cancels itself, or leaves a cancel scope open.
    """

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        """Those that run; another part may add its own, and takes them out at their end."""

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Run a function in the background."""
        self.tasks.add(asyncio.get_running_loop().create_task(self._run(function, args)))

    async def _run(self, function: Callable[..., Awaitable[Any]], args: tuple[object, ...]) -> None:
        try:
            await function(*args)
        except Exception:  # the border between a defect of ours and all other sessions
            log.exception("task_defect", task=getattr(function, "__qualname__", repr(function)))
        finally:  # each call passes here: a callback of the task would cost more than the task itself
            self.tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def aclose(self, time_limit: float) -> None:
        """Cancel what still runs and wait for it.

        Args:
            time_limit: Seconds after which tasks that ignore their cancellation are left behind.
        """
        running = set(self.tasks)
        for task in running:
            task.cancel()
        if not running:
            return
        _, stuck = await asyncio.wait(running, timeout=time_limit)
        if stuck:
            log.warning("tasks_left_behind", count=len(stuck), hint="an async tool swallows its cancellation")


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """What a server has to offer."""

    backend: Backend | None = None
    report: IsolationReport | None = None
    """What the backend isolates, and what it does not."""
    refusal: str = "no environment of this server needs a sandbox, so none was prepared"
    """Why there is no backend."""

    @property
    def tier(self) -> JSONObject | None:
        """The report as JSON, as it is recorded with every episode."""
        return None if self.report is None else self.report.as_dict()

    def require(self) -> Backend:
        """Return the backend; raises `SandboxUnavailableError` without one."""
        if self.backend is None:
            raise SandboxUnavailableError(self.refusal)
        return self.backend


NO_SANDBOXES = Sandboxes()


def _sources_of(definitions: Iterable[EnvironmentDefinition]) -> HiddenPaths:
    """Return the files of the environments' own source, with the packages that it belongs to."""
    places: list[Path] = []
    names: list[str] = []
    for definition in definitions:
        name = definition.source.__module__
        package = sys.modules.get(name.partition(".")[0])
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is not None:
            places += source_paths(file, list(getattr(package, "__path__", ())))
            names.append(name.partition(".")[0])
        places += getattr(definition.source, "hidden_files", ())
    own_folders: list[Path] = []  # of this server and of the bundled environments, served or not
    for name in ("ors_server", "ors_server_tasks"):
        spec = find_spec(name)
        locations = (spec and spec.submodule_search_locations) or ()
        own_folders += [Path(location).resolve() for location in locations]
    return HiddenPaths(tuple(dict.fromkeys(places)), tuple(dict.fromkeys(names)), tuple(own_folders))


@asynccontextmanager
async def open_sandboxes(
    definitions: Iterable[EnvironmentDefinition],
    request: BackendRequest | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Sandboxes]:
    """Choose and prepare a backend if an environment may need one; leaving the context closes every sandbox.

    A backend that is named in the settings must work. Where the server may choose and nothing works here, it
    starts nevertheless: the environments that need no sandbox can be played, the others say why not.

    Raises:
        SandboxUnavailableError: If the named backend does not work here.
        UnsandboxedRefusedError: If it is `none` and that was not allowed.
    """
    played = [definition for definition in definitions if definition.may_need_sandbox]
    needing = [definition.name for definition in played]
    request = replace(request or BackendRequest(), hidden=_sources_of(played))
    if not needing:
        yield NO_SANDBOXES
        return
    # Only servers with sandboxes load the cache of images.
    from ors_server.images.image_cache import image_to_try  # noqa: PLC0415  (as above)

    request = replace(request, image=image_to_try())
    try:
        chosen = await choose(request, clock)
    except SandboxUnavailableError as error:
        if request.choice is not BackendChoice.AUTO:
            raise
        _sandbox_log.warning("no_sandbox", environments=needing, reason=str(error))
        yield Sandboxes(refusal=str(error))
        return
    report = chosen.report
    _sandbox_log.info("sandbox", backend=report.backend, isolation=int(report.strength))
    _sandbox_log.debug("sandbox_report", **report.as_dict(), refused=dict(chosen.refused))
    try:
        yield Sandboxes(chosen.backend, chosen.report)
    finally:
        await chosen.aclose()


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
        self.failure: StoreError | None = None
        """The latest write that failed; `None` once one has succeeded since."""
        self._failed_at = 0.0

    def fail(self, error: StoreError) -> None:
        """Note that a write failed."""
        self.failure, self._failed_at = error, self._clock.monotonic()

    @property
    def is_well(self) -> bool:
        """Whether no write failed lately that none has followed."""
        return self.failure is None or self._clock.monotonic() - self._failed_at >= REMEMBERED_SECONDS

    def check(self) -> None:
        """Check that the record could be written lately."""
        failure = self.failure
        if failure is not None and not self.is_well:
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
    """Maximum number of bytes of one tool output."""
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
    suspends: bool = False
    """Whether the sessions' records stay open when the server stops, so that the next one continues them."""
    suspend_time_limit: float = 60.0
    """Seconds that running calls have to end then."""
    limits_of: LimitsOf = no_key_limits
    """Returns the limits of an API key; called each time, because keys may change while the server runs."""
    slot: HostSlot = SINGLE_HOST
    """Which host of several this server is: its sessions are those whose ids are in its slot."""


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
    tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    """The background tasks that run; they end with the server at the latest."""
    call_rates: CallRates = field(default_factory=CallRates)
    """Admits calls at the rate of the API key whose session it is."""
    meters: CallMeters = field(default_factory=CallMeters)
    """Counts what sessions do."""
    feed: ActivityFeed = field(default_factory=ActivityFeed)
    """Passes what happens in sessions to those who follow it."""
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
