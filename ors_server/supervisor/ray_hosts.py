"""Starts the hosts of a server on the machines of a Ray cluster, and knows where each of them is.

Ray places one named actor per host and starts it again elsewhere when its machine is lost; the actor starts
the host as a child. No request passes through Ray: clients reach the hosts through the front, and the front
learns their addresses from here.

Invariants:

- A host's child ends when its actor's process does, and leaves its sessions to the next one in its place
  (`SUSPEND_SIGNAL`): Ray ends actors when their machine, their raylet or the launcher is gone.
- An actor whose child ended after it was ready ends, too, so that Ray starts both again. One whose child
  never became ready stays, and says why: a mistake is reported once, not repeated.
- Ray may take a machine for lost whose host still runs; the record's epochs keep that host from writing.
"""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, cast
from uuid import uuid4

import anyio
import ray as ray_package
from ray.actor import ActorHandle
from ray.exceptions import RayError

from ors_server.model.host_slot import DRAINED_STATUS, SHUTDOWN_STATUS, SUSPEND_SIGNAL, host_name
from ors_server.model.logs import get_logger
from ors_server.supervisor.supervising import (
    BACKLOG,
    MAX_STARTS,
    START_SECONDS,
    STOP_SECONDS,
    HostsFailedError,
    signal_with_parent,
)

PLACE_SECONDS = 30.0
"""Seconds in which Ray must find a machine for a host."""
POLL_SECONDS = 1.0
"""Seconds between two requests to the actors for their reports."""
CONNECT_SECONDS = 5.0
"""Seconds in which a cluster whose address is named must answer; Ray itself tries for minutes."""
NAMESPACE = "ors-server"
"""Ray's namespace of the actors."""
ray: Any = ray_package
"""Ray's own types are partial."""

log = get_logger("ors_server.supervisor")


@dataclass(frozen=True, slots=True)
class RayOptions:
    """How Ray places the hosts."""

    count: int
    arguments: Sequence[str]
    """The command line of the server."""
    address: str | None = None
    """Address of the cluster; `None` for the one of this machine, or of the variable `RAY_ADDRESS`."""
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    """What a host needs: `CPU`, `memory` in bytes, and resources of the cluster's own names."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels that the machine of a host must have."""


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The command line, variables and folder with which an actor starts its host."""

    number: int
    count: int
    arguments: Sequence[str]
    variables: Mapping[str, str]
    folder: str
    """Working folder of the launcher, which is the host's where it exists."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """An actor's report on its host."""

    address: str
    """HOST:PORT at which it listens."""
    start: str
    """Name of this start: another one after the host has been started again."""
    announcement: dict[str, Any] | None
    """What it announced; `None` until it is ready."""
    status: int | None
    """Its exit status; `None` while it runs."""
    text: str
    """The last line of its standard error, which says why it ended."""


class HostActor:
    """The actor of a host: starts it as a child on the machine where Ray has placed the actor."""

    def __init__(self, plan: HostPlan) -> None:
        """Start the host; `report` says when it is ready."""
        self._start = uuid4().hex
        self._announcement: dict[str, Any] | None = None
        self._last_line = ""
        machine: str = ray.util.get_node_ip_address()
        family = socket.AF_INET6 if ":" in machine else socket.AF_INET
        # The actor has the socket: the address is known before the host is ready, and stays with the actor.
        self._listener = socket.create_server((machine, 0), family=family, backlog=BACKLOG)
        self._address = f"[{machine}]" if family == socket.AF_INET6 else machine
        self._address += f":{self._listener.getsockname()[1]}"
        descriptor = self._listener.fileno()
        variables = {
            **os.environ,
            **plan.variables,
            "ORS_HOST_SLOT": f"{plan.number}/{plan.count}/{descriptor}",
            "ORS_HOST_ADDRESS": self._address,
        }
        self._process = subprocess.Popen(  # noqa: S603  (the operator's own command line)
            [sys.executable, "-m", "ors_server", *plan.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables,
            cwd=plan.folder if Path(plan.folder).is_dir() else None,
            pass_fds=(descriptor,),
            process_group=0,
            # No thread of this actor has a lock yet that the child could wait for.
            preexec_fn=partial(signal_with_parent, SUSPEND_SIGNAL) if sys.platform == "linux" else None,  # noqa: PLW1509  (as above)
        )
        output, errors = self._process.stdout, self._process.stderr
        if output is not None and errors is not None:
            copying = threading.Thread(target=self._copy, args=(errors,), daemon=True)
            copying.start()
            threading.Thread(target=self._follow, args=(output, copying), daemon=True).start()

    def report(self) -> HostReport:
        """Return the host's current state, without waiting for the host."""
        return HostReport(
            self._address, self._start, self._announcement, self._process.poll(), self._last_line
        )

    def stop(self) -> None:
        """Let the host end as `on_stop` says, and wait for it."""
        self._announcement = None  # so that `_follow` takes the end for a requested one
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _follow(self, output: IO[bytes], errors: threading.Thread) -> None:
        """Read the announcement, copy what the code of environments prints, and notice the end."""
        for line in output:
            if self._announcement is None:
                with suppress(ValueError):
                    self._announcement = json.loads(line)
                    continue
            sys.stderr.buffer.write(line)
            sys.stderr.flush()
        status = self._process.wait()
        errors.join()
        if self._announcement is not None and status not in {DRAINED_STATUS, SHUTDOWN_STATUS}:
            os._exit(1)  # Ray restarts the actor, which starts the host again

    def _copy(self, errors: IO[bytes]) -> None:
        for line in errors:
            self._last_line = line.decode(errors="replace").strip() or self._last_line
            sys.stderr.buffer.write(line)
            sys.stderr.flush()


@dataclass(slots=True)
class _PlacedHost:
    """A host as the launcher knows it."""

    actor: ActorHandle[HostActor]
    report: HostReport | None = None
    starts: deque[float] = field(default_factory=deque[float])
    """Times at which a new start was noticed, within the last `START_SECONDS`, in seconds."""


class RayHosts:
    """The hosts of a server, as actors of a Ray cluster that end with this process."""

    def __init__(self, options: RayOptions) -> None:
        """Nothing is started yet."""
        self._options = options
        self._hosts: list[_PlacedHost] = []

    @property
    def addresses(self) -> list[str]:
        """Where the hosts listen, in order, once they are ready."""
        return [host.report.address for host in self._hosts if host.report is not None]

    async def start(self) -> dict[str, Any]:
        """Start all hosts, and return the announcement of the first one once all are ready.

        Raises:
            HostsFailedError: If there is no such cluster, or a host cannot be placed or does not start.
        """
        options = self._options
        try:
            if options.address is not None:
                await _reach(options.address)
            await asyncio.to_thread(
                ray.init, address=options.address or "auto", namespace=NAMESPACE, logging_level=logging.ERROR
            )
        except (OSError, RuntimeError, ValueError, RayError) as error:
            raise HostsFailedError(f"cannot reach a Ray cluster: {_first_line(error)}") from error
        # The first host alone, so that a wrong setting is reported once and one host creates the record.
        for numbers in (range(1), range(1, options.count)):
            self._hosts += [_PlacedHost(self._place(number)) for number in numbers]
            await asyncio.gather(*(self._until_ready(number) for number in numbers))
        first = self._hosts[0].report
        return {} if first is None or first.announcement is None else first.announcement

    def _place(self, number: int) -> ActorHandle[HostActor]:
        options = self._options
        own = {name: amount for name, amount in options.resources.items() if name not in {"CPU", "memory"}}
        variables = {name: value for name, value in os.environ.items() if name.startswith("ORS_")}
        plan = HostPlan(number, options.count, options.arguments, variables, str(Path.cwd()))
        chosen: dict[str, Any] = {"label_selector": dict(options.labels)} if options.labels else {}
        if "memory" in options.resources:
            chosen["memory"] = options.resources["memory"]
        actor = ray.remote(HostActor).options(
            name=f"{os.getpid()}-{host_name(number)}",
            num_cpus=options.resources.get("CPU", 1.0),
            resources=own,
            max_restarts=-1,
            scheduling_strategy="SPREAD",
            **chosen,
        )
        return cast("ActorHandle[HostActor]", actor.remote(plan))

    async def _until_ready(self, number: int) -> None:
        host, name = self._hosts[number], host_name(number)
        try:
            host.report = await asyncio.wait_for(_ask_for_report(host), PLACE_SECONDS)
        except TimeoutError:
            needs = dict(self._options.resources) or {"CPU": 1.0}
            labels = f" and labels {dict(self._options.labels)}" if self._options.labels else ""
            # Ray also lists a resource per machine, which says nothing about free capacity.
            left = {key: amount for key, amount in ray.available_resources().items() if "node:" not in key}
            raise HostsFailedError(
                f"Ray found no machine for host {name} within {PLACE_SECONDS:.0f} s: it needs "
                f"{needs}{labels}, and the cluster has {dict(sorted(left.items()))} left"
            ) from None
        except RayError as error:
            raise HostsFailedError(f"host {name} did not start: {_first_line(error)}") from error
        while host.report.announcement is None:
            if host.report.status is not None:
                raise HostsFailedError(
                    f"host {name} did not start (exit status {host.report.status}): {host.report.text}"
                )
            await anyio.sleep(POLL_SECONDS / 5)
            host.report = await _ask_for_report(host)

    async def follow(self, on_move: Callable[[int, str], Awaitable[None]]) -> bool:
        """Watch the hosts, and return true when a client has asked one of them to shut the server down.

        Args:
            on_move: Called with a host's number and its new address.

        Raises:
            HostsFailedError: If a host did not start again, or is started too often.
        """
        while True:
            await anyio.sleep(POLL_SECONDS)
            for number, host in enumerate(self._hosts):
                try:
                    report = await asyncio.wait_for(_ask_for_report(host), POLL_SECONDS)
                except (TimeoutError, RayError):
                    continue  # Ray is starting it again, or has no machine for it now
                before, host.report = host.report, report
                if report.status == SHUTDOWN_STATUS:
                    return True
                if report.announcement is None and report.status is not None:
                    name = host_name(number)
                    raise HostsFailedError(
                        f"host {name} did not start again (exit status {report.status}): {report.text}"
                    )
                if before is not None and before.start != report.start:
                    self._count_start(number, host)
                    log.warning("host_started_again", host=host_name(number), address=report.address)
                    await on_move(number, report.address)

    def _count_start(self, number: int, host: _PlacedHost) -> None:
        now = time.monotonic()
        host.starts.append(now)
        while now - host.starts[0] > START_SECONDS:
            host.starts.popleft()
        if len(host.starts) >= MAX_STARTS:
            raise HostsFailedError(
                f"host {host_name(number)} ended {MAX_STARTS} times within {START_SECONDS:.0f} s"
            )

    async def aclose(self) -> None:
        """End all hosts in order; the actors end with the connection to Ray."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.gather(*(_stop(host) for host in self._hosts if host.report is not None))
        ray.shutdown()


async def _reach(address: str) -> None:
    """Check that something listens where the cluster should be.

    Raises:
        OSError: If nothing does.
        ValueError: If the address has no port number.
    """
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(CONNECT_SECONDS):
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.close()


async def _ask_for_report(host: _PlacedHost) -> HostReport:
    """Ask an actor; Ray's types do not say that its answers can be awaited."""
    actor: Any = host.actor
    return cast("HostReport", await actor.report.remote())


async def _stop(host: _PlacedHost) -> None:
    """Let a host end; one that Ray is just starting again suspends what it has, as after any other loss."""
    actor: Any = host.actor
    with suppress(RayError):
        await actor.stop.remote()


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
