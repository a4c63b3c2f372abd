from contextlib import asynccontextmanager

import pytest

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError, SnapshotError
from ors_server.sandboxes.scripted import ScriptedBackend, ScriptedSnapshot, answers, result


@asynccontextmanager
async def opened(script):
    backend = ScriptedBackend(script)
    yield backend, await backend.start("one", Limits(keep_head_bytes=2, keep_tail_bytes=1))


async def test_a_script_answers_and_is_asked_in_order():
    async with opened(answers({"a": b"hi all"})) as (backend, sandbox):
        one, two = await sandbox.exec("a"), await sandbox.exec("b")
        assert one.stdout.kept == b"hil"
        assert one.stdout.omitted == 3
        assert (two.exit_code, two.stderr.text) == (127, "b: not in the script\n")
        assert backend.sandboxes[0].commands == ["a", "b"]


async def test_a_script_may_change_files_and_fail():
    def script(command, files):
        files[command] = b"made"
        return result(exit_code=3)

    async with opened(script) as (_backend, sandbox):
        assert (await sandbox.exec("f")).exit_code == 3
        assert await sandbox.read_file("f") == b"made"


async def test_a_discarded_snapshot_cannot_be_restored():
    async with opened(lambda _command, _files: b"") as (_backend, sandbox):
        snapshot = ScriptedSnapshot({"x": b"1"})
        assert snapshot.size_bytes == 1
        await snapshot.aclose()
        with pytest.raises(SnapshotError):
            await sandbox.restore(snapshot)


async def test_a_closed_backend_starts_nothing():
    async with opened(lambda _command, _files: b"") as (backend, sandbox):
        await backend.aclose()
        assert sandbox.is_closed
        with pytest.raises(SandboxUnavailableError):
            await backend.start("two")


@pytest.mark.parametrize("name", ["memory_bytes", "pids", "cpus", "time_limit"])
def test_a_limit_of_nothing_is_refused(name):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 0})
