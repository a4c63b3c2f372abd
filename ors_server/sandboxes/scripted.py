"""A sandbox in memory that follows a script and runs nothing, for tests of code that uses sandboxes."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Self, TypeAlias

import anyio.lowlevel
from typing_extensions import override

from ors_server.sandboxes.base import (
    Backend,
    Entry,
    EntryKind,
    ExecResult,
    Limits,
    Sandbox,
    SandboxRoot,
    Snapshot,
)
from ors_server.sandboxes.captured_output import Output, OutputCapture
from ors_server.sandboxes.egress import LOOPBACK, SandboxNetwork
from ors_server.sandboxes.fresh import FreshProcess, FreshProgram
from ors_server.sandboxes.isolation_report import IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import (
    SandboxClosedError,
    SandboxCommandError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxFrozenError,
    SandboxPathError,
    SandboxUnavailableError,
    SnapshotError,
)
from ors_server.sandboxes.scripted_programs import FreshCall, Program, ScriptedProcess, missing

Files: TypeAlias = dict[str, bytes]
Script: TypeAlias = Callable[[str, Files], ExecResult | bytes]
"""Takes a command and the files, which it may change; returns the result, or only its output."""

WORK_DIR = "/work"
FRESH_DIR = "/grader"
_REPORT = IsolationReport(
    "scripted", Strength.NONE, MappingProxyType({}), ("Nothing runs; nothing is isolated.",)
)


def silent(_command: str, _files: Files) -> bytes:
    """Print nothing for any command."""
    return b""


def answers(table: Mapping[str, bytes]) -> Script:
    """Return a script that prints what a table has for a command, and fails with 127 for any other."""

    def script(command: str, _files: Files) -> ExecResult | bytes:
        if command in table:
            return table[command]
        printed = f"{command}: not in the script\n".encode()
        return result(exit_code=127, stderr=printed)

    return script


def result(*, exit_code: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> ExecResult:
    """Return an ordinary result."""
    return ExecResult(
        exit_code=exit_code,
        stdout=Output(stdout, b"", len(stdout)),
        stderr=Output(stderr, b"", len(stderr)),
        cwd=WORK_DIR,
        duration_s=0.0,
    )


class ScriptedSnapshot(Snapshot):
    """A copy of the files."""

    def __init__(self, files: Files) -> None:
        self.files: Files | None = dict(files)
        self.size_bytes = sum(map(len, files.values()))

    @override
    async def aclose(self) -> None:
        self.files = None


class ScriptedSandbox(Sandbox):
    """Files in a dict, commands answered by a function; every command is kept in `commands`.

    Fresh programs are generators (`scripted_programs`) and are kept in `processes`.
    """

    def __init__(self, session_id: str, limits: Limits, backend: "ScriptedBackend") -> None:
        self.session_id = session_id
        self.limits = limits
        self.report = _REPORT
        self.work_dir = WORK_DIR
        self.fresh_dir = FRESH_DIR
        self.files: Files = {}
        self.commands: list[str] = []
        self.processes: list[ScriptedProcess] = []
        self.restarts = 0
        self.is_frozen = False
        self.is_closed = False
        self._backend = backend

    @override
    async def exec(self, command: str, *, time_limit: float | None = None) -> ExecResult:
        await self._step()
        if time_limit is not None and not time_limit > 0:
            raise ValueError(f"a time limit must be above 0 seconds, got {time_limit!r}")
        if self.is_frozen:
            raise SandboxFrozenError(f"sandbox {self.session_id!r} is frozen; thaw it first")
        if "\0" in command or len(command.encode(errors="surrogatepass")) > self.limits.command_bytes:
            raise SandboxCommandError("a command must be text without NUL, within the limit")
        self.commands.append(command)
        printed = self._backend.script(command, self.files)
        if isinstance(printed, ExecResult):
            return printed
        capture = OutputCapture(self.limits.keep_head_bytes, self.limits.keep_tail_bytes)
        capture.feed(printed)
        return ExecResult(0, capture.output(), Output(), WORK_DIR, 0.0)

    @override
    async def restart(self) -> None:
        await self._step()
        self.restarts += 1
        self.is_frozen = False

    @override
    async def read_file(self, path: str, *, most: int | None = None) -> bytes:
        await self._step()
        name = self._plain_name(path)
        if name not in self.files:
            raise SandboxFileMissingError(path, "no such file or folder")
        cap = min(most if most is not None else self.limits.read_bytes, self.limits.read_bytes)
        if len(self.files[name]) > cap:
            raise SandboxFileTooLargeError(path, f"larger than {cap} bytes")
        return self.files[name]

    @override
    async def write_file(self, path: str, content: bytes) -> None:
        await self._step()
        name = self._plain_name(path)
        if len(content) > self.limits.read_bytes:
            raise SandboxFileTooLargeError(path, f"content is larger than {self.limits.read_bytes} bytes")
        self.files[name] = content

    @override
    async def remove_file(self, path: str) -> None:
        await self._step()
        if self.files.pop(self._plain_name(path), None) is None:
            raise SandboxFileMissingError(path, "no such file or folder")

    @override
    async def list_files(self, path: str = ".", *, depth: int = 1) -> list[Entry]:
        await self._step()
        if depth < 1:
            raise ValueError(f"a depth must be at least 1, got {depth}")
        folder = _inside(path)
        if folder in self.files:
            raise SandboxPathError(path, "not a folder")
        if not self._is_folder(folder):
            raise SandboxFileMissingError(path, "no such file or folder")
        entries: set[Entry] = set()
        for name, content in self.files.items():
            below = name if folder == "." else name.removeprefix(folder + "/")
            if folder != "." and below == name:
                continue
            parts = below.split("/")
            for level in range(1, min(depth, len(parts)) + 1):
                at = posixpath.normpath(posixpath.join(folder, *parts[:level]))
                whole = level == len(parts)
                kind = EntryKind.FILE if whole else EntryKind.FOLDER
                entries.add(Entry(at, kind, len(content) if whole else 0))
        return sorted(entries)[: self.limits.entries]

    @override
    async def snapshot(self) -> Snapshot:
        await self._step()
        return ScriptedSnapshot(self.files)

    @override
    async def restore(self, snapshot: Snapshot) -> None:
        await self._step()
        if not isinstance(snapshot, ScriptedSnapshot) or snapshot.files is None:
            raise SnapshotError("a living snapshot of the scripted backend is needed")
        self.files = dict(snapshot.files)
        self.is_frozen = False

    @override
    async def fork(self, session_id: str) -> Self:
        await self._step()
        other = type(self)(session_id, self.limits, self._backend)
        other.files = dict(self.files)
        self._backend.sandboxes.append(other)
        return other

    @override
    async def freeze(self) -> None:
        await self._step()
        self.is_frozen = True

    @override
    async def thaw(self) -> None:
        await self._step()
        self.is_frozen = False

    @override
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
        variables = dict(environment or {})
        request = FreshProgram(tuple(argv), dict(files or {}), variables, writable, user, network)
        await self._step()
        program = self._backend.programs.get(request.argv[0], missing)
        process = ScriptedProcess(program, FreshCall(request, dict(self.files)))
        self.processes.append(process)
        return process

    @override
    async def aclose(self) -> None:
        self.is_closed = True
        for process in self.processes:
            await process.end_with_sandbox()

    async def _step(self) -> None:
        # As in a real sandbox, every operation is a point at which a task may be cancelled.
        await anyio.lowlevel.checkpoint()
        if self.is_closed:
            raise SandboxClosedError(f"sandbox {self.session_id!r} is closed")

    def _plain_name(self, path: str) -> str:
        name = _inside(path)
        if self._is_folder(name):
            raise SandboxPathError(path, "not a plain file")
        return name

    def _is_folder(self, name: str) -> bool:
        return name == "." or any(other.startswith(name + "/") for other in self.files)


class ScriptedBackend(Backend):
    """Starts sandboxes that follow one script; they are kept in `sandboxes`, oldest first."""

    name = "scripted"

    def __init__(self, script: Script = silent, programs: Mapping[str, Program] | None = None) -> None:
        """Keep the scripts, and fresh programs by their first argument; others are missing (status 127)."""
        self.script = script
        self.programs: Mapping[str, Program] = programs or {}
        self.sandboxes: list[ScriptedSandbox] = []
        self.is_closed = False

    @override
    async def probe(self) -> IsolationReport:
        return _REPORT

    @override
    async def start(
        self, session_id: str, limits: Limits | None = None, root: SandboxRoot | None = None
    ) -> Sandbox:
        self.refuse_root(root)
        if self.is_closed:
            raise SandboxUnavailableError("the scripted backend is closed")
        sandbox = ScriptedSandbox(session_id, limits or Limits(), self)
        self.sandboxes.append(sandbox)
        return sandbox

    @override
    async def aclose(self) -> None:
        self.is_closed = True
        for sandbox in self.sandboxes:
            await sandbox.aclose()


def _inside(path: str) -> str:
    if not path or "\0" in path:
        raise SandboxPathError(path, "not a path")
    if path == WORK_DIR or path.startswith(WORK_DIR + "/"):
        path = path[len(WORK_DIR) :].lstrip("/") or "."
    name = posixpath.normpath(path)
    if name.startswith(("/", "../")) or name == "..":
        raise SandboxPathError(path, "leads out of the work dir")
    return name
