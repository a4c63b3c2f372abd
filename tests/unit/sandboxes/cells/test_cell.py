"""Cells and sandboxes at the border to the operating system, where things fail."""

import errno
import os
import re
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from ors_server.processes.host_processes import process_row
from ors_server.sandboxes import hosted
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells import cell, file_copies
from ors_server.sandboxes.cells.cgroups import Hierarchies
from ors_server.sandboxes.host.landlock import LandlockCell
from ors_server.sandboxes.host.none import NoneBackend
from ors_server.sandboxes.sandbox_errors import (
    SandboxClosedError,
    SandboxError,
    SandboxStartError,
    SandboxUnavailableError,
    SnapshotError,
)
from tests.fixtures import opened_backend

LIMITS = Limits()


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@asynccontextmanager
async def open_backend():
    """A backend that isolates nothing, since the faults are the same for all; nothing of it may be left."""
    async with opened_backend.open_backend(NoneBackend, allowed=True) as backend:
        before = open_descriptors()
        with anyio.fail_after(30):
            yield backend
        assert backend._alive == set()
        assert not [path for path in backend.state.folder.iterdir() if re.fullmatch(r"s\d+", path.name)]
        assert open_descriptors() == before


def refuse(*_arguments, **_keywords):
    raise OSError(errno.EMFILE, "Too many open files")


async def test_a_place_that_cannot_be_made_costs_nothing(monkeypatch):
    async with open_backend() as backend:
        monkeypatch.setattr(cell, "init_script", refuse)
        with pytest.raises(SandboxStartError, match=r"cannot create the files.*Too many open files"):
            await backend.start("one")


async def test_a_shell_that_gets_no_descriptors_costs_nothing(monkeypatch):
    async with open_backend() as backend:
        monkeypatch.setattr(hosted, "Shell", refuse)
        with pytest.raises(SandboxStartError, match="Too many open files"):
            await backend.start("one")


@pytest.mark.parametrize("name", ["openpty", "pidfd_open"])
async def test_a_launch_that_fails_costs_nothing(monkeypatch, name):
    async with open_backend() as backend:
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(SandboxStartError, match="Too many open files"):
                await backend.start("one")


async def test_a_program_that_cannot_be_started_costs_nothing(monkeypatch):
    async with open_backend() as backend:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", refuse)
            with pytest.raises(SandboxStartError, match="cannot start the launcher"):
                await backend.start("one")


async def test_a_shell_that_never_answers_costs_nothing(monkeypatch):
    async with open_backend() as backend:
        monkeypatch.setattr(cell, "rc_script", lambda _layout: "exec sleep 1000\n")
        monkeypatch.setattr(LandlockCell, "start_limit", 0.3)
        with pytest.raises(SandboxStartError, match="no shell answered"):
            await backend.start("one")


async def test_a_closed_cell_starts_nothing():
    async with open_backend() as backend:
        cell = LandlockCell(backend.state, LIMITS, confined=False)
        await cell.aclose()
        await cell.aclose()
        reading, writing = os.pipe()
        with pytest.raises(SandboxClosedError):
            cell.launch(writing)
        os.close(reading)


async def test_a_sandbox_that_closes_under_an_operation_says_so():
    async with open_backend() as backend:
        sandbox = await backend.start("one")

        async def hang():
            with pytest.raises(SandboxClosedError):
                await sandbox.exec("sleep 1000")

        async with anyio.create_task_group() as group:
            group.start_soon(hang)
            await anyio.wait_all_tasks_blocked()
            await sandbox.aclose()
        with pytest.raises(SandboxClosedError):
            await sandbox.thaw()


@pytest.mark.parametrize(("failures", "comes_up"), [(1, True), (3, True), (4, False)])
async def test_a_launch_over_the_same_files_is_tried_again(monkeypatch, failures, comes_up):
    async with open_backend() as backend:
        sandbox = await backend.start("one")
        await sandbox.exec("echo kept >file")
        launch, left = sandbox.cell.launch, [SandboxStartError("too many processes")] * failures

        def hindered(slave):
            if left:
                os.close(slave)
                raise left.pop()
            launch(slave)

        monkeypatch.setattr(sandbox.cell, "launch", hindered)
        if comes_up:
            await sandbox.restart()
            assert (await sandbox.exec("cat file")).stdout.text == "kept\n"
        else:
            with pytest.raises(SandboxStartError, match="too many processes"):
                await sandbox.restart()
        await sandbox.aclose()


async def test_a_small_tree_that_cannot_be_copied_is_told(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    async with open_backend() as backend:
        sandbox = await backend.start("one")
        monkeypatch.setattr(file_copies, "copy_tree", full)
        with pytest.raises(SnapshotError, match="No space left"):
            await sandbox.fork("two")
        await sandbox.aclose()


@pytest.mark.parametrize("error", [RecursionError, PermissionError])
async def test_what_the_server_cannot_copy_itself_the_copiers_do(monkeypatch, error):
    def refuse_to_copy(*_):
        raise error

    async with open_backend() as backend:
        sandbox = await backend.start("one")
        await sandbox.exec("echo kept >file")
        monkeypatch.setattr(file_copies, "copy_tree", refuse_to_copy)
        other = await sandbox.fork("two")
        assert (await other.exec("cat file")).stdout.text == "kept\n"
        await other.aclose()
        await sandbox.aclose()


async def test_a_fork_that_fails_leaves_only_its_parent(monkeypatch):
    async with open_backend() as backend:
        sandbox = await backend.start("one")
        await sandbox.exec("x=1")
        with monkeypatch.context() as patch:
            patch.setattr(file_copies, "is_small", lambda _source, _names: False)
            patch.setattr(file_copies, "_EXTRACT", ["/bin/sh", "-c", "echo no room >&2; exit 2"])
            with pytest.raises(SnapshotError, match="no room"):
                await sandbox.fork("two")
            patch.setattr(backend, "start", refuse)
            with pytest.raises(SandboxError, match="Too many"):
                await sandbox.fork("three")
        assert len(backend._alive) == 1
        other = await sandbox.fork("four")
        assert (await other.exec("echo $x")).stdout.text == "1\n"
        await other.aclose()
        await sandbox.aclose()


@pytest.mark.parametrize(
    ("copier", "limit", "said"),
    [
        (["/bin/sh", "-c", "echo broken >&2; exit 2"], 60, "broken"),
        (["/bin/sh", "-c", "exec sleep 1000"], 0.2, "longer than"),
    ],
)
async def test_a_snapshot_that_fails_leaves_no_file(monkeypatch, copier, limit, said):
    async with open_backend() as backend:
        sandbox = await backend.start("one")
        monkeypatch.setattr(file_copies, "_PACK", copier)
        monkeypatch.setattr(file_copies, "_COPY_LIMIT", limit)
        with pytest.raises(SnapshotError, match=said):
            await sandbox.snapshot()
        assert list(backend.state.snapshots.iterdir()) == []
        assert (await sandbox.exec("echo alive")).stdout.text == "alive\n"
        await sandbox.aclose()


async def test_a_shell_that_is_killed_does_not_come_back_as_it_was_at_the_last_snapshot():
    async with open_backend() as backend:
        sandbox = await backend.start("one")
        await sandbox.exec("x=old")
        snapshot = await sandbox.snapshot()
        await sandbox.exec("kill -9 $$")
        assert (await sandbox.exec("echo ${x-none}")).stdout.text == "none\n"
        await sandbox.restore(snapshot)
        assert (await sandbox.exec("echo ${x-none}")).stdout.text == "old\n"
        await snapshot.aclose()
        await sandbox.aclose()


async def test_a_snapshot_of_a_frozen_sandbox_has_its_files_and_no_state():
    async with open_backend() as backend:
        sandbox = await backend.start("one")
        await sandbox.exec("x=old; echo f >file")
        await (await sandbox.snapshot()).aclose()
        await sandbox.freeze()
        other = await sandbox.fork("two")
        assert (await other.exec("echo ${x-none}; cat file")).stdout.text == "none\nf\n"
        await sandbox.thaw()
        await other.aclose()
        await sandbox.aclose()


async def test_without_groups_everything_stops_by_signal():
    async with open_backend() as backend:
        backend.state.hierarchies = Hierarchies(0)
        sandbox = await backend.start("one")
        await sandbox.exec("sleep 1000 & sleep 1000 &")
        await sandbox.freeze()
        with anyio.fail_after(20):  # a process that was stopped is so when it is next scheduled
            while {process_row(pid).state for pid in sandbox.cell.processes()} != {"T"}:
                await anyio.lowlevel.checkpoint()
        assert sandbox.cell.denials() == 0
        assert sandbox.cell.alive() == len(sandbox.cell.processes()) == 4
        await sandbox.thaw()
        assert (await sandbox.exec("jobs -p | wc -l")).stdout.text.strip() == "2"
        await sandbox.aclose()


async def test_a_backend_that_cannot_start_is_not_available(monkeypatch):
    async with open_backend() as backend:
        monkeypatch.setattr(hosted, "Shell", refuse)
        with pytest.raises(SandboxUnavailableError, match="none does not work here"):
            await backend.probe()


async def test_a_fresh_program_that_cannot_be_started_costs_nothing(monkeypatch):
    async with open_backend() as backend:
        sandbox = await backend.start("one")
        with pytest.raises(SandboxStartError, match="cannot be written"):
            await sandbox.start_fresh(["true"], files={"a": b"", "a/b": b""})
        assert not list(sandbox.cell._folder.path.glob("fresh-*"))
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", refuse)
            with pytest.raises(SandboxStartError, match="cannot start"):
                await sandbox.start_fresh(["true"], files={"a": b""})
        process = await sandbox.start_fresh(["x" * 3_000_000])
        with pytest.raises(SandboxStartError, match=r"could not be started.*too long"):
            await process.wait()
        await process.aclose()
        assert not list(sandbox.cell._folder.path.glob("fresh-*"))
        assert (
            await sandbox.run_fresh(["cat", f"{sandbox.fresh_dir}/a"], files={"a": b"1"}, time_limit=20)
        ).stdout.text == "1"
        await sandbox.aclose()
