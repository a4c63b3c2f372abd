"""Copies of a sandbox's files: into an archive on the server's disk, out of it, or straight into another one.

The copiers run beside the session's processes in an isolation of their own: an agent's files are never read
by a program of the host's. Only a fork of a small tree is copied by the server, file by file (`trees`).
"""

import contextlib
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.sandboxes.base import Snapshot
from ors_server.sandboxes.cell import Cell
from ors_server.sandboxes.errors import SandboxError, SnapshotError
from ors_server.sandboxes.processes import ended
from ors_server.sandboxes.trees import copy_tree, is_small

_COPY_LIMIT = 120.0
_FOLDERS = ["work", "home", "tmp", "state"]
_POSIX = ["--format=posix", "--pax-option=delete=atime,delete=ctime"]
"""Headers that hold fractions of a second, and times of change alone."""
_PACK = ["/bin/tar", "--create", *_POSIX, "--sparse", "--file=-", *_FOLDERS]
_EXTRACT = ["/bin/tar", "--extract", "--preserve-permissions", "--file=-"]
_REPLACE = f"""\
chmod -R u+rwX {" ".join(_FOLDERS)}
find {" ".join(_FOLDERS)} -mindepth 1 -delete && exec {" ".join(_EXTRACT)}
"""


class HostedSnapshot(Snapshot):
    """An archive on the server's disk."""

    def __init__(self, path: Path, backend: str) -> None:
        self.path = path
        self.backend = backend
        self.size_bytes = path.stat().st_size

    @override
    async def aclose(self) -> None:
        self.path.unlink(missing_ok=True)


async def pack(cell: Cell, path: Path, backend: str) -> HostedSnapshot:
    """Copy a cell's files into a new archive; its processes stand still.

    Args:
        cell: Whose files.
        path: Where; nothing is there yet, or afterwards if this fails.
        backend: The backend's name.

    Raises:
        SnapshotError: A file could not be copied.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        await _run(cell, _PACK, stdin=subprocess.DEVNULL, stdout=descriptor)
    except BaseException:
        os.unlink(path)  # noqa: PTH108 # at once
        raise
    finally:
        os.close(descriptor)
    return HostedSnapshot(path, backend)


async def unpack(cell: Cell, snapshot: HostedSnapshot) -> None:
    """Put an archive's files in place of all others; no process of the cell is alive.

    Args:
        cell: Whose files.
        snapshot: A living one of the same backend.

    Raises:
        SnapshotError: The files do not fit, or the archive is gone.
    """
    try:
        descriptor = os.open(snapshot.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SnapshotError(f"the snapshot is gone: {error}") from error
    try:
        await _run(cell, ["/bin/sh", "-c", _REPLACE], stdin=descriptor, stdout=subprocess.DEVNULL)
    finally:
        os.close(descriptor)


async def pour(source: Cell, target: Cell) -> None:
    """Copy one cell's files into another that has none yet, both copiers at once and no disk between them.

    Args:
        source: Its processes stand still.
        target: Just started.

    A small tree is copied by the server itself, which is faster than starting two programs.

    Raises:
        SnapshotError: A file could not be copied.
    """
    if await anyio.to_thread.run_sync(_pour_small, source, target):
        return
    reading, writing = os.pipe()
    ends = [reading, writing]
    problems: list[str] = []

    async def copy(cell: Cell, argv: list[str], stdin: int, stdout: int, end: int) -> None:
        try:
            await _run(cell, argv, stdin=stdin, stdout=stdout, close=lambda: _close(ends, end))
        except SnapshotError as error:
            problems.append(str(error))  # the other one ends too, and may have more to say

    try:
        await together(
            lambda: copy(target, _EXTRACT, reading, subprocess.DEVNULL, reading),
            lambda: copy(source, _PACK, subprocess.DEVNULL, writing, writing),
        )
    finally:
        for end in (reading, writing):
            _close(ends, end)
    if problems:
        raise SnapshotError("; ".join(problems))


def _pour_small(source: Cell, target: Cell) -> bool:
    """Copy here what is small, and tell whether it was."""
    try:
        above = _open_again(source.files_folder())
        try:
            if not is_small(above, _FOLDERS):
                return False
            below = _open_again(target.files_folder())
            try:
                copy_tree(above, below, _FOLDERS, target.owner)
            finally:
                os.close(below)
        finally:
            os.close(above)
    except RecursionError:
        return False  # a tree as deep as this: the programs begin again, over what is there
    except PermissionError:
        return False  # a folder that its owner may not read, where the server is no more than that
    except OSError as error:
        raise SnapshotError(f"copying the files failed: {error}") from error
    return True


def _open_again(folder: int) -> int:
    """Open a folder that is held by a descriptor that cannot be read."""
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)


async def together(*jobs: Callable[[], Awaitable[object]]) -> None:
    """Do several things at once; the first that fails ends the others, and its own error is raised.

    Args:
        jobs: What to do.

    Raises:
        SandboxError: One of them failed so.
        OSError: One of them failed so.
    """
    failures: list[SandboxError | OSError] = []

    async def one(job: Callable[[], Awaitable[object]]) -> None:
        try:
            await job()
        except (SandboxError, OSError) as error:
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(one, job)
    if failures:
        raise failures[0]


def _close(ends: list[int], end: int) -> None:
    if end in ends:
        ends.remove(end)
        os.close(end)


def _nothing() -> None:
    pass


async def _run(
    cell: Cell, argv: list[str], *, stdin: int, stdout: int, close: Callable[[], None] = _nothing
) -> None:
    """Run a copier and wait; one that says more than a pipe holds is killed for waiting.

    Args:
        cell: Over whose files.
        argv: The copier.
        stdin: Descriptor, or `subprocess.DEVNULL`.
        stdout: Descriptor, or `subprocess.DEVNULL`.
        close: Called once the copier has its ends of the pipes.
    """
    process = cell.start_beside(argv, stdin=stdin, stdout=stdout)
    close()
    held = os.pidfd_open(process.pid)
    try:
        if not await ended(held, _COPY_LIMIT):
            raise SnapshotError(f"copying the files took longer than {_COPY_LIMIT:g} s")
    finally:
        os.close(held)
        if process.poll() is None:
            process.kill()
            process.wait()
        said = b""
        if process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)
            with contextlib.suppress(OSError):
                said = process.stderr.read() or b""
            process.stderr.close()
    if process.returncode:
        raise SnapshotError(f"copying the files failed: {said.decode(errors='replace').strip()[-500:]}")
