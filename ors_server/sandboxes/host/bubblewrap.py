"""The backend of bubblewrap: which cells it makes, what it needs, and what it isolates."""

import os
import platform
import shutil
import signal
from functools import partial
from pathlib import Path
from types import MappingProxyType

from typing_extensions import override

from ors_server.processes.host_processes import processes_of_uids, send_signal
from ors_server.sandboxes.base import ImageTree, Limits, SandboxRoot
from ors_server.sandboxes.cells.cell import Cell
from ors_server.sandboxes.cells.seccomp import program
from ors_server.sandboxes.host.bubblewrap_cell import BubblewrapCell
from ors_server.sandboxes.host.image_cell import ImageCell
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import SandboxError, SandboxUnavailableError
from ors_server.sandboxes.self_check import check_isolation, image_checks

_TRY_SECONDS = 20.0
_PROGRAMS = ("bwrap", "unshare", "nsenter", "setpriv", "mount", "install", "sh")


class BubblewrapBackend(HostedBackend):
    """Sandboxes in namespaces."""

    name = "bubblewrap"
    has_networks = True

    @override
    def make_cell(self, limits: Limits) -> Cell:
        return BubblewrapCell(self.state, limits)

    @override
    def make_rooted_cell(self, limits: Limits, root: SandboxRoot) -> Cell:
        if root.image is not None:
            return ImageCell(self.state, limits, root, root.image)
        return BubblewrapCell(self.state, limits, root)

    @override
    async def try_image(self, image: ImageTree) -> str:
        has_range = self.state.uids is not None
        try:
            sandbox = await self.start("probe-image", None, SandboxRoot.of_image(image, user="root"))
        except SandboxError as error:
            raise SandboxUnavailableError(f"no image can be a root here: {error}") from error
        try:
            broken = await check_isolation(sandbox, partial(image_checks, has_range=has_range))
            run = await sandbox.run_fresh(["/bin/sh", "-c", "echo ready"], time_limit=_TRY_SECONDS)
            if run.stdout.text != "ready\n":
                broken.append(f"a fresh program runs (printed {run.stderr.text.strip()[:100]!r})")
        except SandboxError as error:
            raise SandboxUnavailableError(f"no image can be graded here: {error}") from error
        finally:
            await sandbox.aclose()
        if broken:
            raise SandboxUnavailableError(f"a root of an image does not isolate here: {'; '.join(broken)}")
        if has_range:
            return "kernel overlay over an idmapped lower layer, a range of ids"
        return "overlay in a user namespace, one id"

    @override
    def check_host(self) -> None:
        """Check for the programs and the tables that everything else needs."""
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            raise SandboxUnavailableError(
                f"not installed: {', '.join(missing)}; on Debian: apt-get install -y bubblewrap util-linux"
            )
        program(machine=platform.machine())

    @override
    def describe(self) -> IsolationReport:
        has = self.state.hierarchies.has
        cgroup = f"cgroup v{self.state.hierarchies.version}"
        mechanisms = {
            IsolatedResource.FILES: "mount namespace",
            IsolatedResource.SESSIONS: "mount namespace" + (", own uid" if self.state.uids else ""),
            IsolatedResource.PROCESSES: "pid namespace",
            IsolatedResource.NETWORK: "network namespace, seccomp",
            IsolatedResource.PIDS: cgroup if has("pids") else "process limit of the user namespace",
            IsolatedResource.DISK: "tmpfs quota",
        }
        gaps: list[str] = []
        if has("memory"):
            mechanisms[IsolatedResource.MEMORY] = cgroup
        else:
            gaps.append("Memory is limited per process, not per session.")
        if has("cpu"):
            mechanisms[IsolatedResource.CPU] = cgroup
        else:
            gaps.append("Processor time is not limited.")
        if not self.state.uids:
            gaps.append("Sessions share the server's uid, and together its quota of inotify instances.")
        gaps.append("The kernel is shared: a hole in it is a way out.")
        return IsolationReport(
            self.name, Strength.NAMESPACES, MappingProxyType(mechanisms), tuple(gaps), loopback=True
        )


def kill_leftovers(folder: Path) -> None:
    """Kill this user's bubblewraps of a dead server, whose static files are in the folder.

    A bubblewrap whose parent died before it sent the signal to continue waits forever.
    """
    shown = str(folder / "static" / "etc").encode()

    def is_stranded(pid: int) -> bool:
        try:
            program, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return program == b"bwrap" and shown in arguments

    for pid in processes_of_uids(os.geteuid()):
        if is_stranded(pid):
            send_signal(pid, signal.SIGKILL, is_stranded)
