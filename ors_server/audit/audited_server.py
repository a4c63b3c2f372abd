"""Where an audit plays: an environment in a process that can be killed, or a server somewhere else.

A call to a process has a time limit that excludes its progress and its waits for a processor.

Invariants of an `AuditedProcess`:

- At most one process runs. `_starting` serialises restarts, and `restart(seen)` does nothing if another task
  has restarted the process since.
- A call that is cancelled kills the process (see `WorkerEnvResource`). `_was_cut` records that, and the next
  call starts the process again.
- However the context ends, the process and everything that it started are killed.
"""

import inspect
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.audit.audited_facts import Facts, read_facts
from ors_server.audit.plays import (
    CONCURRENT_SESSIONS,
    PLAY_SECONDS,
    CallPlan,
    Journal,
    PlayResult,
    play_all,
    read_played,
    to_json,
)
from ors_server.audit.side_by_side import run_both
from ors_server.client.client_options import ClientOptions
from ors_server.client.connection import HttpRequest, Patience
from ors_server.client.typed_answers import EnvironmentFields, read_answer
from ors_server.evaluation.targets import Target, open_server_target
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.model.wire import JSONObject, ToolListing
from ors_server.resources.resource_errors import ResourceCallError, ResourceError, ResourceTimeoutError
from ors_server.resources.spec import WorkerEnvResourceSpec
from ors_server.resources.worker_env_resource import WorkerEnvResource
from ors_server.rewards.batch.machine_delay import MachineDelay

POLL_SECONDS = 0.25
"""Seconds between two measurements of the machine's delay while a call runs."""
BACKSTOP = 20
"""How many times the limit a call may take on a machine that gives the process no processor."""
_Result = TypeVar("_Result")


class StalledError(ResourceTimeoutError):
    """A process did not answer, and made no progress, for longer than its limit."""


async def call_within(
    seconds: float,
    process_id: int,
    call: Callable[[], Awaitable[_Result]],
    progress: Callable[[], object] = lambda: None,
) -> _Result:
    """Return the result of a call to a process, or cancel it.

    Args:
        seconds: Maximum number of seconds without progress. Time in which the process, or a process that it
            started, was ready to run and had no processor does not count.
        process_id: The process that answers.
        call: The call; what it raises is raised.
        progress: Looks for progress, in a thread: its result changes with each bit of it.

    Raises:
        StalledError: If the limit is over.
    """
    is_answered = anyio.Event()

    async def make_call() -> _Result:
        try:
            return await call()
        finally:
            is_answered.set()

    result, _ = await run_both(make_call, partial(_watch, seconds, process_id, progress, is_answered))
    return result


async def _watch(
    seconds: float, process_id: int, progress: Callable[[], object], is_answered: anyio.Event
) -> None:
    """Return at the answer; `StalledError` at the limit."""
    delay = MachineDelay(process_id)
    began, seen = time.monotonic(), await anyio.to_thread.run_sync(progress)
    while True:
        with anyio.move_on_after(POLL_SECONDS):
            await is_answered.wait()
            return
        await anyio.to_thread.run_sync(delay.look_now)
        # In a thread, because it reads files: the journal, and the kernel's figures.
        state = await anyio.to_thread.run_sync(progress)
        now = time.monotonic()
        # Progress starts the limit again: only a process that does nothing new for that long has stalled.
        if state != seen:
            began, seen = now, state
        waited = now - began
        # The second limit excludes waits for a processor, so that a busy machine does not look like a hanging
        # grader. The first bounds a machine that never gives the process one.
        if waited > seconds * BACKSTOP or waited - delay.since(began) > seconds:
            raise StalledError(f"the environment did not answer within {seconds:g} seconds")


START_SECONDS = 120.0
"""Seconds that loading and starting an environment may take."""
COMPARE_SECONDS = 180.0
"""Seconds in which the tasks must be compared with each other; waits for a processor do not count."""
ASK_SECONDS = 60.0
"""Seconds that the process may take to answer a question; waits for a processor do not count."""
MAX_SILENCES = 2
"""Batches in a row of which a server elsewhere answers no play, before it is asked nothing more."""
_PATIENCE = Patience(closing_seconds=5.0)
"""For requests to a server elsewhere: an audit whose time is over waits so long for its sessions to end."""
_PROGRAM = "ors_server.audit.audited_program:AuditedProgram"
_MAX_BYTES = 64 << 20
_BACKSTOP_SECONDS = 24 * 3600.0
"""Of one call; `call_within` ends what stalls long before."""


class AuditError(EnvironmentDefinitionError):
    """An environment cannot be audited."""

    code = "audit"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task, and the calls that solve it, where they are known."""

    spec: JSONObject
    gold: tuple[tuple[str, JSONObject], ...] | None = None
    error: str | None = None
    """What `gold_actions` raised."""


class AuditedServer(ABC):
    """A server that is audited: a process of the audit's own, or a server elsewhere."""

    def __init__(self, reference: str, name: str | None) -> None:
        """Nothing is started yet.

        Args:
            reference: As for the command line.
            name: The environment's name, where the reference leads to several.
        """
        self.reference = reference
        self.name = name
        self.suspects: frozenset[int] = frozenset()
        """Positions of the plays during which the process was killed or ended."""
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """What is known of the environment."""
        assert self._facts is not None  # noqa: S101  (started by `open_audited`)
        return self._facts

    @property
    def process(self) -> "AuditedProcess | None":
        """The audit's own process, whose class, time and files can be examined; `None` for another server."""
        return None

    @property
    def has_seeds(self) -> bool:
        """Whether a session can be given a seed, which the standard does not know."""
        return True

    @abstractmethod
    async def play(
        self, plays: Sequence[CallPlan], seconds: float, at_once: int = CONCURRENT_SESSIONS
    ) -> dict[int, PlayResult]:
        """Play each in a separate session, and return the results by position.

        Plays without a result are missing; of these, `suspects` has the positions of the running ones.

        Args:
            seconds: Abort if no play of an own process finishes within this time; waits for a processor do
                not count.

        Raises:
            StalledError: If a server elsewhere answers no play of several batches.
        """

    @abstractmethod
    async def tasks(self, split: str, indices: list[int]) -> list[TaskRow]:
        """Return tasks of a split, with their gold actions where the class has them."""

    @abstractmethod
    async def splits(self) -> list[tuple[str, int]]:
        """Return the splits with their numbers of tasks."""

    @abstractmethod
    async def listing(self) -> ToolListing:
        """Return the tools that every session has."""

    async def compare_tasks(self) -> dict[str, str]:
        """Return how the tasks of an own process compare, by class id; empty if that takes too long."""
        return {}


class RemoteServer(AuditedServer):
    """A remote server; nothing is known of its code."""

    def __init__(self, reference: str, name: str | None, target: Target) -> None:
        super().__init__(reference, name)
        self._target = target
        self._knows_seeds = False
        self._silences = 0
        """Batches in a row without any answer."""

    @property
    @override
    def has_seeds(self) -> bool:
        return self._knows_seeds

    async def read_facts(self) -> None:
        """Ask the server for what it states of the environment; only an ors-server states its rewards."""
        target = self._target
        self._knows_seeds = await target.client.server.is_ours()
        bounds: tuple[float, float] | None = None
        if self._knows_seeds:
            path = f"/_ors/environments/{quote(target.environment, safe='')}"
            answer = await target.client.server.connection.ask(HttpRequest("GET", path))
            stated = read_answer(EnvironmentFields, answer, f"the answer of GET {path}")
            reward_range = stated["policy"].get("reward_range")
            bounds = None if reward_range is None else (reward_range[0], reward_range[1])
        self._facts = Facts(target.environment, step_limit=target.step_limit, reward_range=bounds)

    @override
    async def play(
        self, plays: Sequence[CallPlan], seconds: float, at_once: int = CONCURRENT_SESSIONS
    ) -> dict[int, PlayResult]:
        played = await play_all(self._target, plays, at_once, seconds=PLAY_SECONDS)
        # One slow play may be the play's fault; only a batch without any answer tells of the server.
        is_silent = bool(played) and all(result.blame == "slow" for result in played)
        self._silences = self._silences + 1 if is_silent else 0
        if self._silences >= MAX_SILENCES:
            raise StalledError(f"the server answered no play within {PLAY_SECONDS:g} seconds")
        return dict(enumerate(played))

    @override
    async def tasks(self, split: str, indices: list[int]) -> list[TaskRow]:
        client, name = self._target.client, self._target.environment
        return [TaskRow(await client.task(split, index, name)) for index in indices]

    @override
    async def splits(self) -> list[tuple[str, int]]:
        splits = await self._target.splits()
        return [(split.name, await self._target.num_tasks(split.name)) for split in splits]

    @override
    async def listing(self) -> ToolListing:
        return await self._target.client.tools(self._target.environment)


class AuditedProcess(AuditedServer):
    """A server in a process of the audit's own, which is started again after it was killed."""

    def __init__(
        self,
        reference: str,
        name: str | None,
        *,
        variables: Mapping[str, str],
        store: str | None,
        folder: Path,
    ) -> None:
        """Nothing is started yet.

        Args:
            reference: As for the command line.
            name: The environment's name, where the reference leads to several.
            variables: Environment variables of the process, besides those of a server.
            store: Where episodes are recorded; in memory by default.
            folder: The folder in which the process runs, which is empty when it starts.
        """
        super().__init__(reference, name)
        self.folder = folder
        self.starts = 0
        """How often the process was started."""
        self._variables = variables
        self._store = store
        self._worker: WorkerEnvResource | None = None
        self._was_cut = False
        """Whether a call was cancelled, with which its process ended."""
        self._starting = anyio.Lock()

    @property
    @override
    def process(self) -> "AuditedProcess":
        return self

    async def start(self) -> None:
        """Start the process and load the environment.

        Raises:
            AuditError: It does not load, or does not start.
            UnknownEnvironmentError: The reference leads nowhere.
        """
        spec = WorkerEnvResourceSpec(
            _PROGRAM,
            {"reference": self.reference, "name": self.name, "store": self._store},
            # The hash seed is fixed so that sets of texts have the same order in each run; the
            # variables may
            # change it.
            variables={**_own_variables(), "PYTHONHASHSEED": "0", **self._variables},
            start_timeout=START_SECONDS,
            call_timeout=_BACKSTOP_SECONDS,
            answer_limit=_MAX_BYTES,
            category="audit",
        )
        worker = WorkerEnvResource(spec, f"audit-{self.starts}")
        self.starts += 1
        self._worker = worker
        try:
            await worker.start()
            facts = await self._ask_worker(worker, "facts")
        except BaseException as error:  # on any exception, also a cancellation, the process must not stay
            with anyio.CancelScope(shield=True):
                await self.kill()
            if isinstance(error, ResourceCallError):
                problem = str(error).partition(" raised ")[2] or str(error)
                if error.kind == UnknownEnvironmentError.__name__:
                    raise UnknownEnvironmentError(problem.partition(": ")[2]) from error
                raise AuditError(f"{self.reference} cannot be audited: {problem}") from error
            if isinstance(error, ResourceError):
                raise AuditError(f"{self.reference} cannot be audited: {error}") from error
            raise
        self._facts = read_facts(facts)
        self._was_cut = False

    @override
    async def play(
        self, plays: Sequence[CallPlan], seconds: float, at_once: int = CONCURRENT_SESSIONS
    ) -> dict[int, PlayResult]:
        # A stalled process is killed and started again.
        self.suspects = frozenset()
        started = self.starts
        journal = self.folder / "plays.jsonl"
        try:
            bodies = await self._ask(
                "play",
                *([to_json(play) for play in plays], str(journal), at_once),
                seconds=seconds,
                progress=partial(_size, journal),
            )
        except ResourceError:
            # The journal outlives the process: it tells the plays that had ended from those that were
            # running.
            begun, ended = await anyio.to_thread.run_sync(Journal.read, journal)
            await self.restart(started)
            self.suspects = frozenset(begun - set(ended))
            return ended
        return {position: read_played(body) for position, body in enumerate(bodies)}

    async def play_broken(self, plays: Sequence[CallPlan], kind: str) -> list[tuple[PlayResult, int]]:
        """Play each in a session whose sandbox and resources break after setup.

        Args:
            kind: One of `broken_parts.FAULTS`.

        Returns:
            The result of each, and how many requests a broken part received.
        """
        pairs = await self._ask("play_broken", [to_json(play) for play in plays], kind)
        return [(read_played(body), requests) for body, requests in pairs]

    async def restart(self, seen: int) -> None:
        """Start the process again, unless it was already restarted after its start number `seen`."""
        async with self._starting:
            if self.starts == seen:
                self._was_cut = True  # until it runs again, also where this is cancelled
                await self.kill()
                await self.start()

    async def kill(self) -> None:
        """End the process with everything that it started."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()

    @override
    async def tasks(self, split: str, indices: list[int]) -> list[TaskRow]:
        rows = await self._ask("gold", split, indices)
        return [
            TaskRow(
                row["spec"],
                None if row["gold"] is None else tuple((tool, values) for tool, values in row["gold"]),
                row["error"],
            )
            for row in rows
        ]

    @override
    async def splits(self) -> list[tuple[str, int]]:
        return [(name, size) for name, size in await self._ask("splits")]

    @override
    async def compare_tasks(self) -> dict[str, str]:
        started = self.starts
        try:
            return dict(await self._ask("compare_tasks", seconds=COMPARE_SECONDS))
        except ResourceError:
            await self.restart(started)
            return {}

    @override
    async def listing(self) -> ToolListing:
        return ToolListing.model_validate(await self._ask("listing"))

    async def used(self) -> tuple[float, int]:
        """Return the processor time in seconds and the greatest memory in bytes that the process has used."""
        usage = await self._ask("used")
        return usage["cpu_seconds"], usage["peak_bytes"]

    async def _ask(
        self,
        method: str,
        *arguments: Any,
        seconds: float = ASK_SECONDS,
        progress: Callable[[], object] = lambda: None,
    ) -> Any:
        """Call a method of the process; `StalledError` if it stalls."""
        if self._was_cut:
            await self.restart(self.starts)
        assert self._worker is not None  # noqa: S101  (started by `open_audited`)
        return await self._ask_worker(self._worker, method, *arguments, seconds=seconds, progress=progress)

    async def _ask_worker(
        self,
        worker: WorkerEnvResource,
        method: str,
        *arguments: Any,
        seconds: float = ASK_SECONDS,
        progress: Callable[[], object] = lambda: None,
    ) -> Any:
        process_id = worker.process_id
        assert process_id is not None  # noqa: S101  (it was started)
        try:
            ask = partial(getattr(worker, method), *arguments)
            return await call_within(seconds, process_id, ask, progress)
        except anyio.get_cancelled_exc_class():
            self._was_cut = True  # with its call, a cancelled process has ended
            raise


@asynccontextmanager
async def open_audited(
    environment: str | type,
    name: str | None = None,
    *,
    api_key: str | None = None,
    hash_seed: int = 0,
    store: str | None = None,
    variables: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> AsyncGenerator[AuditedServer]:
    """Start what is audited; leaving the context ends it and leaves no process and no file.

    Args:
        environment: A reference as for the command line, a class of a module, or a server's URL.
        name: The environment's name, where there are several.
        api_key: For a URL: a trainer's.
        hash_seed: `PYTHONHASHSEED` of the process, which decides the order of sets of texts.
        store: Where the process records episodes; in memory by default.
        variables: More environment variables of the process.
        seconds: For a URL: seconds in which the server must say what it serves; `None` for no limit.

    Raises:
        AuditError: It does not load, or the time is over.
        OrsServerError: The server cannot be reached.
    """
    reference = reference_of(environment)
    if reference.startswith(("http://", "https://")):
        options = ClientOptions(patience=_PATIENCE)
        async with AsyncExitStack() as stack:
            try:
                with anyio.fail_after(seconds):
                    opening = open_server_target(reference, name, api_key=api_key, options=options)
                    server = RemoteServer(reference, name, await stack.enter_async_context(opening))
                    await server.read_facts()
            except TimeoutError as error:
                raise AuditError(f"{reference} did not answer within {seconds} seconds") from error
            yield server
        return
    with TemporaryDirectory(prefix="ors-audit-") as folder:
        process = AuditedProcess(
            reference,
            name,
            variables={"PYTHONHASHSEED": str(hash_seed), "ORS_AUDIT_FOLDER": folder, **(variables or {})},
            store=store,
            folder=Path(folder),
        )
        await process.start()
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()


def reference_of(environment: str | type) -> str:
    """Return the reference of a class, which must be at the top level of its module.

    Raises:
        AuditError: If it is not.
    """
    if isinstance(environment, str):
        return environment
    if "<locals>" in environment.__qualname__ or "." in environment.__qualname__:
        raise AuditError(
            f"{environment.__qualname__} cannot be audited: it is played in a separate process, which "
            "imports the class; define it at the top level of its module"
        )
    # A class of `__main__` is found by its file: in the process, `__main__` is another module.
    if environment.__module__ != "__main__" and environment.__module__ in sys.modules:
        return f"{environment.__module__}:{environment.__name__}"
    return f"{inspect.getfile(environment)}:{environment.__name__}"


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _own_variables() -> dict[str, str]:
    """Return the variables that a server of the environment would have: all but this program's settings."""
    return {
        name: value
        for name, value in os.environ.items()
        # Judges and the interpreters of adapters are configured for the environment, not for this program.
        if not name.startswith("ORS_") or name.startswith("ORS_JUDGE_") or name.endswith("_PYTHON")
    }
