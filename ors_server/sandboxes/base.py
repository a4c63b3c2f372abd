"""The interface of a sandbox: what every backend provides, with units, limits and errors.

It knows no backend, no HTTP and no episode. Each backend is one file of this folder.
"""

import contextlib
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Self

from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.egress import LOOPBACK, EgressEvent, SandboxNetwork
from ors_server.sandboxes.fresh import FreshProcess, FreshRun, run_patiently, run_to_end
from ors_server.sandboxes.isolation_report import IsolationReport
from ors_server.sandboxes.sandbox_errors import SandboxStartError, SandboxUnavailableError
from ors_server.timing.admission import Gate

KIB = 1024
MIB, GIB = 1024 * KIB, 1024 * 1024 * KIB


@dataclass(frozen=True)
class Limits:
    """Resources that one sandbox may use, all its processes together unless a field says otherwise."""

    memory_bytes: int = 512 * MIB
    """Memory, including files on the session's own tmpfs; per process if no cgroup is writable."""
    pids: int = 128
    """Processes and threads alive at once."""
    cpus: float = 1.0
    """Processors' worth of time; not enforced if no cgroup is writable."""
    disk_bytes: int = 256 * MIB
    """Work dir, home and /tmp together."""
    inodes: int = 32_768
    """Files and folders in work dir, home and /tmp together."""
    open_files: int = 1024
    """Descriptors, per process."""
    file_bytes: int = GIB
    """Length of one file, per file."""
    shared_memory_bytes: int = 64 * MIB
    """`/dev/shm`."""
    time_limit: float = 120.0
    """Seconds that a command gets by default."""
    longest_time_limit: float = 600.0
    """Maximum seconds that a caller may request; a larger value is lowered to this."""
    keep_head_bytes: int = 16 * KIB
    """First bytes kept of each stream of a command."""
    keep_tail_bytes: int = 16 * KIB
    """Last bytes kept of each stream of a command."""
    output_bytes: int = 64 * MIB
    """Bytes that one stream of one command may print before its job is killed."""
    background_bytes: int = 16 * KIB
    """Last bytes kept of what background jobs print between commands."""
    command_bytes: int = MIB
    """Length of one command, UTF-8."""
    read_bytes: int = 16 * MIB
    """Maximum number of bytes of one file read or write."""
    entries: int = 10_000
    """Maximum number of entries that one listing returns."""

    def __post_init__(self) -> None:
        """Reject limits that are not above zero."""
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be above 0, got {value!r}")


@dataclass(frozen=True)
class ImageTree:
    """An unpacked image as sandboxes use it; nothing changes its files."""

    image_id: str
    """SHA-256 of its configuration, hexadecimal."""
    layers: tuple[Path, ...]
    """Folders that are laid over each other, the highest first; they belong to the server's user."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its `ENV`."""
    work_dir: str = "/"
    """Its `WORKDIR`."""
    user: str = ""
    """Its `USER`: a name or a number, perhaps with a group after a colon; empty for root."""


@dataclass(frozen=True)
class SandboxRoot:
    """A whole root folder that the session's processes may change, as a container has one.

    Without an image the host's programs are in it read-only: `/usr`, `/bin`, `/sbin`, `/lib*` and a small
    `/etc`. Everything else is empty and writable at the start. With an image, its files are there, and all of
    them can be changed: the session alone sees its changes.

    Commands run as `root` of the sandbox, or the image's user, without any right on the host. The files of
    all operations are those of this root: absolute paths begin at it.
    """

    work_dir: str = "/"
    """Where commands start: an absolute path in normal form; it is made if it does not exist."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the shell that are added to the usual ones, or replace them."""
    image: ImageTree | None = None
    """The image whose files are in the root."""
    user: str = ""
    """Who runs the session's commands: a name or number of the image's; empty for root."""
    keeps_system: bool = False
    """Whether fresh programs see the image's system files as the session has changed them."""

    @classmethod
    def of_image(
        cls,
        image: ImageTree,
        *,
        work_dir: str | None = None,
        variables: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Self:
        """Return a root with an image's files, `WORKDIR`, `ENV` and `USER`, unless the arguments differ."""
        return cls(
            work_dir=image.work_dir if work_dir is None else work_dir,
            variables={**image.variables, **(variables or {})},
            image=image,
            user=image.user if user is None else user,
        )

    def __post_init__(self) -> None:
        """Reject a work dir that is not an absolute path in normal form."""
        if "\0" in self.work_dir or self.work_dir != posixpath.normpath("/" + self.work_dir.lstrip("/")):
            raise ValueError(f"a work dir must be an absolute path in normal form, got {self.work_dir!r}")


@dataclass(frozen=True)
class SandboxRequest:
    """The sandbox that one session needs."""

    limits: Limits = field(default_factory=Limits)
    """What its commands may use."""
    root: SandboxRoot | None = None
    """A whole writable root; `None` for a work dir, and the host's programs read-only."""
    network: SandboxNetwork = LOOPBACK
    """What its commands can connect to."""


class Killed(StrEnum):
    """Why a command was killed."""

    TIME_LIMIT = "time limit"
    OUTPUT_LIMIT = "output limit"
    PROCESS_LIMIT = "process limit"
    SHELL_DIED = "shell died"
    """Not killed by the server: the shell ended, and the command's status is lost with it."""


@dataclass(frozen=True)
class ExecResult:
    """The result of one command."""

    exit_code: int | None
    """Status in [0, 255]; 128 + n for a death by signal n; None if the shell could not report it."""
    stdout: Output
    """What the command printed on standard output."""
    stderr: Output
    """What the command printed on standard error."""
    cwd: str
    """The shell's working directory afterwards."""
    duration_s: float
    """Seconds from the command's arrival to its result."""
    killed: Killed | None = None
    """Why the command was killed; `None` if it ended by itself."""
    shell_restarted: bool = False
    """Whether a new shell answers from now on: jobs may be gone, files are not."""
    background: Output = field(default_factory=Output)
    """Output of earlier commands' background jobs since the last result, both streams together."""
    notes: tuple[str, ...] = ()
    """Events beyond the command itself, one sentence each."""
    state_lost: bool = False
    """Whether the new shell lacks the variables, functions, aliases, options and umask of the old one."""

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended the command."""
        return self.killed is Killed.TIME_LIMIT

    @property
    def output_limit(self) -> bool:
        """Whether the output limit ended the command."""
        return self.killed is Killed.OUTPUT_LIMIT


class EntryKind(StrEnum):
    """The kind of thing at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, order=True)
class Entry:
    """One row of a listing."""

    path: str
    """Relative to the work dir; bytes that are not UTF-8 appear as surrogate escapes."""
    kind: EntryKind
    """A file, a folder, or something else."""
    size: int
    """Bytes; 0 for anything but a file."""


class Snapshot(ABC):
    """A copy of a sandbox's files and of its shell's saved state."""

    size_bytes: int
    """Bytes of the copy on the server's disk."""

    @abstractmethod
    async def aclose(self) -> None:
        """Discard the copy; a second call does nothing."""


class Sandbox(ABC):
    """One session's persistent shell and work dir, with nothing else within reach.

    Operations on one sandbox take turns. Sandboxes do not wait for each other.
    """

    session_id: str
    """The session that it belongs to."""
    report: IsolationReport
    """How it is isolated, as checked at the start."""
    limits: Limits
    """What its commands may use."""
    work_dir: str
    """The path of the work dir for the agent's commands; commands start there."""
    fresh_dir: str
    """The path of a fresh program's files, as the program sees it."""
    gate: Gate | None = None
    """Limits how many gradings run at once; `None` without a limit."""

    @abstractmethod
    async def exec(self, command: str, *, time_limit: float | None = None) -> ExecResult:
        """Run a command in the session's shell and return what it printed and how it ended.

        The shell is one bash that lives as long as the sandbox: working directory, variables, functions,
        aliases, options and background jobs are there for the next command. Standard input is empty, there is
        no terminal, and the environment holds nothing of the server's.

        A failing command is a result, not an error: so are a syntax error (status 1 or 2), a missing program
        (127), a death by signal n (128 + n), the time limit, the output limit and the death of the shell.

        Output: stdout and stderr are separate bytes. Of each the first `keep_head_bytes` and the last
        `keep_tail_bytes` are kept, everything is counted. Once a stream exceeds `output_bytes` the job is
        killed and `killed` is set. The command is over when the shell is ready again; what a background job
        prints later is returned as `background` of the next result (last `background_bytes`).

        Time: after `time_limit` seconds the foreground job is interrupted, then killed; then the shell is
        hung up, then killed; then the sandbox is restarted over the same files. Each stage takes at most one
        second, the last one ten; background jobs survive the first two. `killed` is set, and
        `shell_restarted` if the shell is new. A shell that ends by itself (`exit`, `exec`,
        a signal) is replaced likewise, and gets its directory, variables, functions, aliases, options, umask
        and traps back if it could still save them. If no shell starts because of what the session's programs
        have left, such as a loop in `/etc/bash.bashrc`, that is a result too, after at most the time limit
        and some seconds: `killed` is `SHELL_DIED`, and the command did not run.

        Processes: a session that stays at its limit of `pids` has its processes killed; files stay.

        Cancellation kills the foreground job, waits for the shell as above, and is then delivered.

        Args:
            command: Any number of lines, at most `command_bytes` of UTF-8.
            time_limit: Seconds, above 0; lowered to `longest_time_limit`. Default: the limits' `time_limit`.

        Raises:
            SandboxCommandError: The command holds a NUL or a lone surrogate, or is too long.
            SandboxClosedError: The sandbox is closed.
            SandboxError: The sandbox could not be restarted; close it.
            ValueError: The time limit is not above 0.
        """

    @abstractmethod
    async def restart(self) -> None:
        """Kill every process and start a new shell over the same files, without the old one's state.

        Raises:
            SandboxClosedError: The sandbox is closed.
            SandboxShellError: No shell starts over the files as the session's programs have left them.
            SandboxStartError: The new shell did not start.
        """

    async def end_processes(self) -> None:
        """Kill every process; the next command starts a new shell over the same files.

        Raises:
            SandboxClosedError: The sandbox is closed.
        """
        with contextlib.suppress(SandboxStartError):  # every process is dead: the shell alone did not start
            await self.restart()

    async def start_other(self, request: SandboxRequest) -> "Sandbox":
        """Start a second sandbox of the same backend, with nothing of this one; the caller closes it.

        Raises:
            SandboxClosedError: This sandbox is closed.
            SandboxStartError: It did not start.
            SandboxUnavailableError: The backend has no such sandboxes.
        """
        del request
        raise SandboxUnavailableError("sandboxes of this backend cannot start a second one")

    @abstractmethod
    async def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """Read a file of the work dir.

        Symbolic links are followed only within the work dir. Only plain files are read, so a pipe or a device
        cannot make the server wait.

        Args:
            path: Relative to the work dir, or absolute below it.
            most: Bytes above which the file is refused, at most `read_bytes`, which is the default.

        Raises:
            SandboxFileMissingError: Nothing is there.
            SandboxPathError: The path leaves the work dir, or is not a plain file.
            SandboxFileTooLargeError: The file is larger than `most`.
            SandboxFileError: The file system refused for another reason.
            SandboxClosedError: The sandbox is closed.
        """

    @abstractmethod
    async def write_file(self, path: str, content: bytes) -> None:
        """Create or replace a file of the work dir, with the folders above it; an old file keeps its mode.

        Args:
            content: The whole new content, at most `read_bytes`.

        Raises:
            SandboxPathError: The path leaves the work dir, or something other than a plain file is there.
            SandboxFileTooLargeError: The content is larger than `read_bytes`.
            SandboxFileError: The file system refused for another reason (full, a folder in the way).
            SandboxClosedError: The sandbox is closed.
        """

    @abstractmethod
    async def remove_file(self, path: str) -> None:
        """Remove a plain file of the work dir; links and folders are refused, and folders above it stay.

        Raises:
            SandboxFileMissingError: Nothing is there.
            SandboxError: As for `read_file`.
        """

    @abstractmethod
    async def list_files(self, path: str = ".", *, depth: int = 1) -> list[Entry]:
        """List a folder of the work dir, sorted by path; at most `entries` rows.

        Args:
            depth: How many levels below the folder, from 1.

        Raises:
            SandboxFileMissingError: Nothing is there.
            SandboxPathError: The path leaves the work dir, or is not a folder.
            SandboxFileError: The file system refused for another reason.
            SandboxClosedError: The sandbox is closed.
            ValueError: The depth is below 1.
        """

    @abstractmethod
    async def snapshot(self) -> Snapshot:
        """Copy work dir, home, /tmp and the shell's state; processes are stopped meanwhile.

        The shell of a frozen sandbox cannot save its state, so that copy begins without it.

        Raises:
            SnapshotError: A file could not be copied.
            SandboxClosedError: The sandbox is closed.
        """

    @abstractmethod
    async def restore(self, snapshot: Snapshot) -> None:
        """Kill every process, replace all files by a snapshot's, and start a shell with its state.

        Args:
            snapshot: Taken from any sandbox of the same backend.

        Raises:
            SnapshotError: The files do not fit, or the snapshot is another backend's or discarded.
            SandboxClosedError: The sandbox is closed.
        """

    @abstractmethod
    async def fork(self, session_id: str) -> Self:
        """Start another sandbox with a copy of the files and of the shell's state, without the processes.

        Raises:
            SnapshotError: A file could not be copied.
            SandboxStartError: The new sandbox did not start.
            SandboxClosedError: This sandbox is closed.
        """

    @abstractmethod
    async def freeze(self) -> None:
        """Stop every process until `thaw`; files can still be read and written.

        Raises:
            SandboxClosedError: The sandbox is closed.
        """

    @abstractmethod
    async def thaw(self) -> None:
        """Let frozen processes continue; does nothing if none are frozen. Raises as `freeze` does."""

    @abstractmethod
    async def start_fresh(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        writable: bool = False,
        user: str = "",
        network: SandboxNetwork = LOOPBACK,
    ) -> FreshProcess:
        """Start a program in its own isolation, separate from the agent's; the caller closes it.

        It begins in the work dir, which it can read and not change; it does not see the agent's home, /tmp,
        shell and processes, nor they it. It has its own empty writable /tmp of at most `disk_bytes`
        (`HOME` and `TMPDIR` name it), a clean environment (`PATH`, `LANG`, `HOME`, `TMPDIR`), its own
        network, the same seccomp filter, and the sandbox's limits once more, all fresh programs of the
        sandbox together.
        It runs while the sandbox is frozen, and is killed with it. If it shares the agent's uid, freeze or
        kill the agent's processes first.

        Over an image it sees what the image had below `/usr`, `/bin`, `/sbin` and `/lib*` as it was, with the
        files that the session has added, and the image's configuration of the loader: what the agent has put
        in the place of a program is not run. What it writes there is gone with it.

        Args:
            argv: The program and its arguments; a name without a slash is looked up in `PATH`.
            files: Relative name, which may have folders, to content; read-only at `fresh_dir`.
            environment: Variables that are added to the clean ones, or replace them.
            writable: Whether it may change the work dir, or the whole root. Only some backends can do that.
            user: Who runs it: a name or number of the image's, if the server has root; empty for root.
            network: What it can connect to; the session's network does not matter. An allow-list has its own
                proxy, which is there before the program begins.

        Raises:
            ValueError: There is no argument, or a name or text that no program can be given.
            SandboxClosedError: The sandbox is closed.
            SandboxStartError: Nothing could be started, or there is no such user.
            SandboxUnavailableError: The backend, or the operator, has no such network.
        """

    async def run_fresh(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        time_limit: float,
        output_bytes: int = MIB,
        writable: bool = False,
    ) -> FreshRun:
        """Run a program as `start_fresh` does, feed it, and return what it printed and how it ended.

        A program that fails, dies, runs out of time or prints too much is a result, not an error.

        Args:
            time_limit: Seconds that it may spend (docs/policy.md), above 0.
            output_bytes: Bytes of standard output above which it is killed; all below are kept.
            writable: As for `start_fresh`. Such a program is not run a second time on a busy machine.

        Raises:
            ValueError: As `start_fresh`, or the time limit is not above 0.
            SandboxError: It could not be started, the machine was too busy for it, or the sandbox was closed.
        """
        start = partial(self.start_fresh, argv, files=files, environment=environment)
        if writable:
            process = await start(writable=True)
            return await run_to_end(process, stdin, time_limit=time_limit, output_bytes=output_bytes)
        return await run_patiently(start, stdin, time_limit=time_limit, output_bytes=output_bytes)

    @property
    def connections(self) -> Sequence[EgressEvent]:
        """The latest connections to the hosts of an allow-list, made and refused."""
        return ()

    async def list_restored(self) -> list[str]:
        """Return the image's system files that the session has changed, and fresh programs see unchanged.

        Returns:
            Absolute paths, sorted, at most `entries`; empty without an image.
        """
        return []

    @abstractmethod
    async def aclose(self) -> None:
        """Kill every process and remove every file; a second call does nothing."""


class Backend(ABC):
    """One way to make sandboxes on this machine."""

    name: str

    @abstractmethod
    async def probe(self) -> IsolationReport:
        """Start a sandbox exactly as for a session, let it check itself, and report its isolation.

        Raises:
            SandboxUnavailableError: It does not work here; the message says what refused.
        """

    async def start_requested(self, session_id: str, request: SandboxRequest) -> Sandbox:
        """Start the sandbox that a session needs, as `start` does.

        A backend that knows no roots or networks need not take them.

        Raises:
            SandboxStartError: As `start`.
            SandboxUnavailableError: As `start`, or the backend has no such network.
        """
        self.refuse_network(request.network)
        rooted = () if request.root is None else (request.root,)
        return await self.start(session_id, request.limits, *rooted)

    @abstractmethod
    async def start(
        self, session_id: str, limits: Limits | None = None, root: SandboxRoot | None = None
    ) -> Sandbox:
        """Start a sandbox with an empty work dir and a shell that is ready.

        Args:
            session_id: Names the sandbox in messages and on the host; unique among live sandboxes.
            root: A whole writable root, for backends that have one.

        Raises:
            SandboxStartError: It did not start.
            SandboxUnavailableError: The backend is closed, cannot isolate here, or has no such roots.
        """

    async def try_image(self, image: ImageTree) -> str:
        """Start a sandbox over an image, let it check itself, and return how the image becomes its root.

        Raises:
            SandboxUnavailableError: It does not work here; the message says what refused.
        """
        self.refuse_root(SandboxRoot.of_image(image))
        raise SandboxUnavailableError(f"the {self.name} backend has no images")

    def refuse_network(self, network: SandboxNetwork) -> None:
        """Raise `SandboxUnavailableError` for a network that sandboxes of this backend cannot have."""
        if network != LOOPBACK:
            raise SandboxUnavailableError(
                f"this session's network is {network.mode.value!r}, which the {self.name} backend "
                "has not; --sandbox bubblewrap has"
            )

    def refuse_root(self, root: SandboxRoot | None) -> None:
        """Raise `SandboxUnavailableError` for a whole root, in a backend without such roots."""
        if root is not None:
            raise SandboxUnavailableError(
                f"this session needs a whole root, which the {self.name} backend has not; "
                "--isolation bubblewrap has"
            )

    @abstractmethod
    async def aclose(self) -> None:
        """Close every remaining sandbox and remove everything that this backend keeps on the host."""
