"""Sandboxes in Docker containers: an operator's own image, with the same shell, files and promises.

The engine must be on this host. A session's shell does not speak through it: its container is given the
shell's end of a pseudo-terminal and the folder of pipes, and the server sees its processes as the host's. So
a command costs what it costs under bubblewrap, and only starts, freezes and copies wait for the engine.
"""

import os
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.model.clock import Clock
from ors_server.sandboxes.base import Limits, Sandbox, SandboxRoot
from ors_server.sandboxes.cells.cell import Cell
from ors_server.sandboxes.cells.server_state import FOLDER_PREFIX, LOCK_FILE, ServerState
from ors_server.sandboxes.cells.uids import try_lock
from ors_server.sandboxes.docker import containers
from ors_server.sandboxes.docker.cell import DockerCell, place_of
from ors_server.sandboxes.docker.engine import Engine, EngineFacts
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import SandboxError, SandboxUnavailableError


class DockerBackend(HostedBackend):
    """Sandboxes in containers."""

    name = "docker"

    def __init__(
        self,
        state: ServerState,
        clock: Clock | None = None,
        *,
        image: str | None = None,
        host: str | None = None,
    ) -> None:
        """Keep the options; `start` and `probe` connect to the engine.

        Args:
            image: The image of sessions' containers; it must hold bash and the usual tools, tar among them.
        """
        super().__init__(state, clock)
        self._image = image
        self._host = host
        self._engine: Engine | None = None
        self._facts: EngineFacts | None = None
        self._connecting = anyio.Lock()

    @override
    async def probe(self) -> IsolationReport:
        await self._connect()
        return await super().probe()

    @override
    async def start(
        self, session_id: str, limits: Limits | None = None, root: SandboxRoot | None = None
    ) -> Sandbox:
        if not self._is_closed:
            await self._connect()
        return await super().start(session_id, limits, root)

    @override
    async def aclose(self) -> None:
        await super().aclose()
        if self._engine is not None:
            await anyio.to_thread.run_sync(self._engine.close)
            self._engine = None

    async def _connect(self) -> None:
        """Connect to the engine, and clean up after dead servers; once."""
        async with self._connecting:
            if self._engine is not None:
                return
            image = self._image
            if not image:
                raise SandboxUnavailableError("no image is named for the containers: set docker_image")

            def connect() -> tuple[Engine, EngineFacts]:
                engine = Engine(self._host)
                facts = engine.facts(image)
                sweep_containers(engine, self.state.base)
                return engine, facts

            self._engine, self._facts = await anyio.to_thread.run_sync(connect)

    @override
    def make_cell(self, limits: Limits) -> Cell:
        if self._engine is None or self._facts is None:
            raise SandboxUnavailableError(
                "the backend is not connected to the engine yet; start the sandbox through `start`"
            )
        return DockerCell(self.state, limits, self._engine, self._facts)

    @override
    def check_host(self) -> None:
        """Nothing is needed beyond the engine."""

    @override
    def describe(self) -> IsolationReport:
        if self._facts is None:
            raise SandboxUnavailableError("the backend is not connected to the engine yet")
        return describe(self._facts, has_uids=self.state.uids is not None)


def describe(facts: EngineFacts, *, has_uids: bool) -> IsolationReport:
    """Report what containers isolate; `has_uids` if each session has its own uid."""
    own_uid = ", own uid" if has_uids else ""
    mechanisms = {
        IsolatedResource.FILES: f"mount namespace of a container (image {facts.image})",
        IsolatedResource.SESSIONS: "mount namespace" + own_uid,
        IsolatedResource.PROCESSES: "pid namespace" + own_uid,
        IsolatedResource.NETWORK: "network namespace, seccomp",
        IsolatedResource.DISK: "tmpfs quota",
    }
    gaps = ["Access to the engine's socket is as good as root on this host, and the server has it."]
    limited = {
        IsolatedResource.MEMORY: facts.can_limit_memory,
        IsolatedResource.PIDS: facts.can_limit_pids,
        IsolatedResource.CPU: facts.can_limit_cpu,
    }
    for resource, is_limited in limited.items():
        if is_limited:
            mechanisms[resource] = "cgroup of the container"
        elif resource is IsolatedResource.PIDS:
            mechanisms[resource] = "process limit of the uid"
        else:
            gaps.append(f"The engine cannot limit {resource.value} here.")
    if not has_uids:
        gaps.append("Sessions share the server's uid: its quotas of inotify instances and processes.")
    gaps += [
        "The kernel's figures about the host under /sys, in /proc/meminfo and similar files can be read.",
        "The kernel is shared: a hole in it is a way out.",
    ]
    return IsolationReport(
        "docker", Strength.NAMESPACES, MappingProxyType(mechanisms), tuple(gaps), loopback=True
    )


def sweep_containers(engine: Engine, base: Path) -> list[str]:
    """Remove the containers of dead servers; leaves those of live servers and of other programs alone."""
    removed: list[str] = []
    for container, labels in engine.labelled(containers.PLACE_LABEL, place_of(base)).items():
        if _is_dead(base / f"{FOLDER_PREFIX}{labels.get(containers.SERVER_LABEL, '')}"):
            with suppress(SandboxError):
                engine.remove(container)
                removed.append(container)
    return removed


def _is_dead(folder: Path) -> bool:
    if not folder.is_dir():
        return True
    try:
        lock = try_lock(folder / LOCK_FILE)
    except OSError:
        return False
    if lock is None:
        return False
    os.close(lock)
    return True
