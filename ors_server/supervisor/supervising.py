"""Starts the hosts and the front, starts each again in its place when it ends, and ends them in order.

The supervisor is the parent of all of them, so it has reaped a host before it starts the next one in its
place: a slot never has two hosts, and no lease is needed. It serves no request and imports no environment.

Invariants:

- All listening sockets are the supervisor's: of the server's address, and of each host. A process that is
  started again inherits its socket, and connections that arrived meanwhile wait in the queue of that.
- A host that ends before it was ever ready ends the server: its mistake is printed once, not in a loop. One
  that was ready is started again, at most `MAX_STARTS` times in `START_SECONDS`.
- Hosts and the front end with the supervisor, even if it is killed (Linux; elsewhere a killed supervisor
  leaves them).
"""

import asyncio
import ctypes
import json
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from ors_server.model.errors import OrsServerError
from ors_server.model.host_slot import (
    DRAINED_STATUS,
    RESTART_SIGNAL,
    SHUTDOWN_STATUS,
    SUSPEND_SIGNAL,
    host_name,
    socket_path,
)
from ors_server.model.logs import get_logger
from ors_server.supervisor.front_control import FrontControl, FrontControlError
from ors_server.supervisor.haproxy import HOLD_SECONDS, STARTING

MAX_STARTS = 5
"""Starts of one process within `START_SECONDS`; one more ends the server."""
START_SECONDS = 60.0
STOP_SECONDS = 120.0
"""Seconds that a host may take to end its sessions, after which it is killed."""
BACKLOG = 4096
"""Connections that wait for a host that is being started, and for one that is busy."""
RESTART_SECONDS = 0.2
"""Seconds before an ended process is started again."""
_SET_PDEATHSIG = 1  # linux/prctl.h
_LINE = 16 * 1024 * 1024
"""Bytes of the longest line that a host announces itself with."""

log = get_logger("ors_server.supervisor")


class HostsFailedError(OrsServerError):
    """The hosts or their front could not be started, or not be kept up; the log has the reason."""

    code = "hosts_failed"


@dataclass(frozen=True, slots=True)
class Program:
    """The command, variables and descriptors with which a process is started, each time."""

    name: str
    command: Sequence[str]
    variables: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    listener: socket.socket | None = None
    """The listening socket of a host, which prints a line of JSON once it is ready; other programs have none,
    and are ready when they run."""


@dataclass(slots=True)
class Running:
    """A process that is kept up."""

    program: Program
    process: asyncio.subprocess.Process | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    announcement: dict[str, object] = field(default_factory=dict[str, object])
    """What it announced."""
    was_ready: bool = False
    is_restarting: bool = False
    """Whether it ends because it is to be started again."""
    is_gone: bool = False
    """Whether it has given its slots to others, and is not started again."""
    starts: deque[float] = field(default_factory=deque[float])
    """When it was started, within the last `START_SECONDS`."""

    def is_ready(self) -> None:
        """Note that it is ready."""
        self.was_ready = True
        self.ready.set()


@asynccontextmanager
async def _answering_for(running: Running) -> AsyncGenerator[None]:
    """Answer the requests of a host that takes longer to start than clients should wait.

    Connections wait in the queue of the host's socket, which is the supervisor's, so a host that is started
    again finds them there, and no client notices. After `HOLD_SECONDS` each gets an answer that asks for a
    repeat, until the host is ready.
    """

    async def answer() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(running.ready.wait(), HOLD_SECONDS)
        if not running.ready.is_set():
            async with _refusing(running):
                await running.ready.wait()

    answering = asyncio.create_task(answer())
    try:
        yield
    finally:
        answering.cancel()
        with suppress(asyncio.CancelledError):
            await answering


@asynccontextmanager
async def _refusing(running: Running) -> AsyncGenerator[None]:
    """Answer each request to a host that is down with 503, so that its client repeats it."""
    if running.program.listener is None:
        yield
        return
    async with await asyncio.start_server(_refuse, sock=running.program.listener.dup()):
        yield


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask a client to repeat its request, of any kind."""
    with suppress(ConnectionError):
        await reader.read(1)  # HTTP clients discard an answer that arrives before their request
        writer.write(STARTING.encode())
        await writer.drain()
    writer.close()


class Supervisor:
    """Keeps hosts and their front up until a signal."""

    def __init__(
        self,
        hosts: Sequence[Program],
        front: Program,
        control: FrontControl,
        renew: Callable[[], Path | None],
    ) -> None:
        """Nothing is started yet.

        Args:
            control: Changes the front while it runs.
            renew: Reads the certificate's files again and returns the front's copy of them, or `None` if the
                server has no certificate; raises `OSError` if they cannot be read.
        """
        self.hosts = [Running(program) for program in hosts]
        self.front = Running(front)
        self._control = control
        self._renew = renew
        self._tasks = set[asyncio.Task[None]]()
        self._restarts = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._failure: str | None = None

    async def run(self, on_ready: Callable[[dict[str, object]], None]) -> None:
        """Run everything until SIGINT or SIGTERM, or until a host asks for the end.

        Args:
            on_ready: Called with the announcement of the first host, once all hosts and the front are ready.

        Raises:
            HostsFailedError: If a process could not be started or kept up.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        loop.add_signal_handler(RESTART_SIGNAL, lambda: self.start(self._restart_hosts()))
        first, later_hosts = self.hosts[:1], self.hosts[1:]
        async with asyncio.TaskGroup() as tasks:
            # The first host alone, so that a wrong setting is reported once and one host creates the record.
            keeping = [tasks.create_task(self._keep_up(host)) for host in first]
            if all([await self._is_ready(host) for host in first]):
                keeping += [tasks.create_task(self._keep_up(host)) for host in later_hosts]
                if all([await self._is_ready(host) for host in later_hosts]):
                    front = tasks.create_task(self._keep_up(self.front))
                    if await self._is_ready(self.front):
                        on_ready(first[0].announcement if first else {})
                    self.start(self._control.follow())
                    await self._stopping.wait()
                    await self._end(self.hosts)
                    await self._end([self.front])
                    await asyncio.gather(front, *keeping)
            self._stopping.set()
            await self._end(self.hosts)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._control.aclose()
        if self._failure is not None:
            raise HostsFailedError(self._failure)

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Run work while everything else runs; it is cancelled when the server has stopped."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restart_hosts(self) -> None:
        """Start each host again, one after another; its requests get 503 meanwhile, which ask for a repeat.

        The front must send nothing to a host that ends: a request on a connection that the host closes at the
        same moment would be lost.
        """
        async with self._restarts:
            for number, running in enumerate(self.hosts):
                if running.process is None or running.is_gone:
                    continue
                try:
                    await self._control.set_traffic(number, is_open=False)
                except FrontControlError as error:
                    log.warning("front_not_changed", error=str(error))
                log.info("host_restarts", host=running.program.name)
                running.is_restarting = True
                running.ready.clear()
                with suppress(ProcessLookupError):
                    running.process.send_signal(SUSPEND_SIGNAL)
                is_ready = await self._is_ready(running)
                try:
                    await self._control.set_traffic(number, is_open=True)
                except FrontControlError as error:
                    log.warning("front_not_changed", error=str(error))
                if not is_ready:
                    return
            log.info("hosts_restarted", hosts=len(self.hosts))

    async def _is_ready(self, running: Running) -> bool:
        """Wait until a process is ready; return false if the server stops instead."""
        ready = asyncio.create_task(running.ready.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([ready, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (ready, stopping):
            task.cancel()
        return running.ready.is_set() and not self._stopping.is_set()

    async def _keep_up(self, running: Running) -> None:
        """Start a process, and restart it whenever it ends, until the server stops."""
        name = running.program.name
        while not self._stopping.is_set():
            now = time.monotonic()
            while running.starts and now - running.starts[0] > START_SECONDS:
                running.starts.popleft()
            if len(running.starts) >= MAX_STARTS:
                self.fail(f"{name} ended {MAX_STARTS} times within {START_SECONDS:.0f} s; see the log above")
                return
            running.starts.append(now)
            status = await self._run_once(running)
            if self._stopping.is_set():
                return
            if status == SHUTDOWN_STATUS:
                self._stopping.set()
                return
            if status == DRAINED_STATUS:
                running.is_gone = True
                log.info("host_drained", host=name)
                async with _refusing(running):
                    await self._stopping.wait()
                return
            if running.is_restarting:
                running.is_restarting = False
                running.starts.clear()
                continue
            if not running.was_ready:
                self.fail(f"{name} did not start (exit status {status}); its message is above")
                return
            log.warning("process_ended", process=name, status=status, action="started again")
            running.ready.clear()
            await anyio.sleep(RESTART_SECONDS)

    async def _run_once(self, running: Running) -> int:
        program = running.program
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if program.listener is not None else None,
                env=dict(program.variables),
                pass_fds=program.descriptors,
                process_group=0,  # Ctrl-C in a terminal is for the supervisor, which then ends them in order
                preexec_fn=partial(signal_with_parent, signal.SIGTERM) if sys.platform == "linux" else None,
                limit=_LINE,
            )
        except OSError as error:
            self.fail(f"{program.name} cannot be started: {error}")
            return 1
        running.process = process
        if self._stopping.is_set():
            process.terminate()
        if process.stdout is None:
            running.is_ready()
        else:
            async with _answering_for(running):
                await self._read(running, process.stdout)
        status = await process.wait()
        running.process = None
        return status

    async def _read(self, running: Running, output: asyncio.StreamReader) -> None:
        """Read the announcement, and then copy what the code of environments prints to standard error."""
        while line := await output.readline():
            if not running.ready.is_set():
                try:
                    running.announcement = json.loads(line)
                except ValueError:
                    pass
                else:
                    running.is_ready()
                    continue
            sys.stderr.buffer.write(line)
            sys.stderr.flush()

    async def _end(self, group: Sequence[Running]) -> None:
        """End processes together, and kill those that take too long."""
        ending = [running.process for running in group if running.process is not None]
        for process in ending:
            with suppress(ProcessLookupError):
                process.terminate()
        waiting = [asyncio.create_task(process.wait()) for process in ending]
        if waiting:
            await asyncio.wait(waiting, timeout=STOP_SECONDS)
        for process in ending:
            if process.returncode is None:
                log.error("process_killed", pid=process.pid, seconds=STOP_SECONDS)
                process.kill()

    def fail(self, reason: str) -> None:
        """End everything, and let `run` raise this reason."""
        self._failure = self._failure or reason
        self._stopping.set()

    def stop(self) -> None:
        """End everything in order, as after a signal."""
        self._stopping.set()

    def _hang_up(self) -> None:
        """Read the certificate again, and let every host read its keys again."""
        self.start(self._renew_certificate())
        for running in self.hosts:
            if running.process is not None:
                with suppress(ProcessLookupError):
                    running.process.send_signal(signal.SIGHUP)

    async def _renew_certificate(self) -> None:
        try:
            path = self._renew()
            if path is not None:
                await self._control.renew_certificate(path)
                log.info("certificate_reloaded")
        except (OSError, FrontControlError) as error:
            log.error("certificate_not_reloaded", error=str(error))  # noqa: TRY400  (a mistake in a file)


def signal_with_parent(number: int) -> None:
    """Ask the kernel to send this process a signal when its parent ends, even if that is killed."""
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, number)


def inheritable(listener: socket.socket) -> int:
    """Return the descriptor of a listening socket that children may inherit."""
    os.set_inheritable(listener.fileno(), True)  # noqa: FBT003  (of the standard library)
    return listener.fileno()


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What all hosts have in common."""

    count: int
    arguments: Sequence[str]
    """The command line of the server."""
    folder: Path
    """Folder of the hosts' sockets."""


def host_program(number: int, options: HostOptions) -> Program:
    """Return the program of a host: the command line of the server, with its slot in the environment.

    Raises:
        OSError: If its socket cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(socket_path(options.folder, number)))
    listener.listen(BACKLOG)
    descriptor = inheritable(listener)
    variables = {
        **os.environ,
        "ORS_HOST_SLOT": f"{number}/{options.count}/{descriptor}",
        "ORS_HOST_FOLDER": str(options.folder),
    }
    return Program(
        name=host_name(number),
        command=[sys.executable, "-m", "ors_server", *options.arguments],
        variables=variables,
        descriptors=(descriptor,),
        listener=listener,
    )
