"""Copies of a sandbox's files: to an archive on the server's disk, from it, or into another sandbox.

The copying programs run in their own isolation, apart from the session's processes: no program of the host
reads an agent's files. Only a fork of a small tree is copied by the server, file by file (`tree_copy`).
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.processes.host_processes import ended
from ors_server.sandboxes.base import Snapshot
from ors_server.sandboxes.cells.cell import Cell
from ors_server.sandboxes.cells.descriptors import opened
from ors_server.sandboxes.cells.tree_copy import copy_tree, is_small
from ors_server.sandboxes.sandbox_errors import SandboxError, SnapshotError

_COPY_LIMIT = 120.0
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_POSIX = ["--format=posix", "--pax-option=delete=atime,delete=ctime"]
"""Headers with fractions of a second, and modification times only."""
_PACK = ["/bin/tar", "--create", *_POSIX, "--sparse", "--file=-"]
_EXTRACT = ["/bin/tar", "--extract", "--preserve-permissions", "--file=-"]
_REPLACE = f"""\
chmod -R u+rwX "$@"
find "$@" -mindepth 1 -delete && exec {" ".join(_EXTRACT)}
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
    """Copy a cell's files into a new archive; its processes are stopped.

    Args:
        path: Where nothing exists yet; nothing is left there on failure.

    Raises:
        SnapshotError: A file could not be copied.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if not await _copied_by_cell(cell.save_files, descriptor):
            await _run(cell, [*_PACK, *cell.folders], stdin=subprocess.DEVNULL, stdout=descriptor)
    except BaseException:
        os.unlink(path)  # noqa: PTH108 # at once
        raise
    finally:
        os.close(descriptor)
    return HostedSnapshot(path, backend)


async def unpack(cell: Cell, snapshot: HostedSnapshot) -> None:
    """Replace all files of a cell by an archive's; no process of the cell is alive, or its files are new.

    Raises:
        SnapshotError: The files do not fit, or the archive is gone.
    """
    try:
        descriptor = os.open(snapshot.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SnapshotError(f"the snapshot is gone: {error}") from error
    try:
        if await _copied_by_cell(cell.load_files, descriptor):
            return
        await _run(
            cell,
            ["/bin/sh", "-c", _REPLACE, "sh", *cell.folders],
            stdin=descriptor,
            stdout=subprocess.DEVNULL,
        )
    finally:
        os.close(descriptor)


async def copy_between(source: Cell, target: Cell) -> None:
    """Copy one cell's files into another, which is still empty, without a disk between them.

    A small tree is copied by the server itself, which is faster than starting two programs.

    Raises:
        SnapshotError: A file could not be copied.
    """
    with tempfile.TemporaryFile() as archive:
        if await _copied_by_cell(source.save_files, archive.fileno()):
            archive.seek(0)
            await _copied_by_cell(target.load_files, archive.fileno())
            return
    if await anyio.to_thread.run_sync(_copy_small, source, target):
        return
    reading, writing = os.pipe()
    ends = [reading, writing]
    problems: list[str] = []

    async def copy(cell: Cell, argv: list[str], stdin: int, stdout: int, end: int) -> None:
        try:
            await _run(cell, argv, stdin=stdin, stdout=stdout, close=lambda: _close(ends, end))
        except SnapshotError as error:
            problems.append(str(error))  # the other one ends too, and may have a better message

    try:
        await run_together(
            lambda: copy(target, _EXTRACT, reading, subprocess.DEVNULL, reading),
            lambda: copy(source, [*_PACK, *source.folders], subprocess.DEVNULL, writing, writing),
        )
    finally:
        for end in (reading, writing):
            _close(ends, end)
    if problems:
        raise SnapshotError("; ".join(problems))


async def _copied_by_cell(copy: Callable[[int], bool], descriptor: int) -> bool:
    """Let a cell copy its files itself, if it does; returns whether it did."""
    try:
        return await anyio.to_thread.run_sync(copy, descriptor)
    except OSError as error:
        raise SnapshotError(f"copying the files failed: {error}") from error


def _copy_small(source: Cell, target: Cell) -> bool:
    """Copy a small tree here; returns whether it was small."""
    try:
        # Opened again, because the cells hold them without read access.
        with opened(".", _FOLDER_FLAGS, dir_fd=source.files_folder()) as above:
            if not is_small(above, list(source.folders)):
                return False
            with opened(".", _FOLDER_FLAGS, dir_fd=target.files_folder()) as below:
                copy_tree(above, below, list(source.folders), target.uid)
    except RecursionError:
        return False  # too deep a tree: the programs start over
    except PermissionError:
        return False  # a folder that its owner may not read, and the server is not root
    except OSError as error:
        raise SnapshotError(f"copying the files failed: {error}") from error
    return True


async def run_together(*jobs: Callable[[], Awaitable[object]]) -> None:
    """Run jobs at once; the first that fails cancels the others, and its own error is raised.

    Raises:
        SandboxError: As a job.
        OSError: As a job.
    """
    failures: list[SandboxError | OSError] = []

    async def run_job(job: Callable[[], Awaitable[object]]) -> None:
        try:
            await job()
        except (SandboxError, OSError) as error:
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(run_job, job)
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
    """Run a copying program and wait; one that prints more than a pipe holds is killed at the time limit."""
    process = cell.start_beside(argv, stdin=stdin, stdout=stdout)
    # The server's copy of a pipe's end is closed once the program has its own: otherwise the extracting
    # program would never see the end of the archive.
    close()
    pidfd = os.pidfd_open(process.pid)
    try:
        if not await ended(pidfd, _COPY_LIMIT):
            raise SnapshotError(f"copying the files took longer than {_COPY_LIMIT:g} s")
    finally:
        os.close(pidfd)
        if process.poll() is None:
            process.kill()
            process.wait()
        printed = b""
        if process.stderr is not None:
            # A process that outlived the program may hold the pipe; only what is there already is read.
            os.set_blocking(process.stderr.fileno(), False)
            with contextlib.suppress(OSError):
                printed = process.stderr.read() or b""
            process.stderr.close()
    if process.returncode:
        raise SnapshotError(f"copying the files failed: {printed.decode(errors='replace').strip()[-500:]}")
