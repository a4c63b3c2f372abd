"""While evidence is looked at nothing of the agent's runs; afterwards it is no evidence any more."""

from typing import Any

import anyio
import pytest

from ors_server.grading.evidence import gather_evidence
from ors_server.grading.grading_errors import GradingError
from ors_server.sandboxes.sandbox_errors import SandboxFrozenError
from ors_server.sandboxes.scripted import ScriptedBackend
from tests.fixtures.opened_backend import open_backend


@pytest.fixture
async def scripted() -> Any:
    sandbox: Any = await ScriptedBackend().start("one")
    await sandbox.write_file("folder/file", b"content")
    return sandbox


async def test_the_agent_stands_still_and_goes_on_afterwards(scripted):
    async with gather_evidence(scripted) as evidence:
        is_the_session_s = evidence.sandbox is scripted
        assert is_the_session_s
        with pytest.raises(SandboxFrozenError):
            await scripted.exec("true")
    assert (scripted.is_frozen, scripted.restarts) == (False, 0)
    await scripted.exec("true")


async def test_for_good_means_that_the_shell_is_a_new_one(scripted):
    async with gather_evidence(scripted, final=True):
        assert (scripted.is_frozen, scripted.restarts) == (True, 1)
    assert not scripted.is_frozen


async def test_files_are_read_listed_and_looked_for(scripted):
    async with gather_evidence(scripted) as evidence:
        assert await evidence.read_file("folder/file") == b"content"
        assert [row.path for row in await evidence.list_files(depth=2)] == ["folder", "folder/file"]
        found = {
            path: await evidence.exists(path) for path in ("folder/file", "folder", "nothing", "../x", ".")
        }
        assert found == {"folder/file": True, "folder": True, "nothing": False, "../x": False, ".": True}


async def test_it_ends_with_its_block_even_if_that_fails_or_is_cancelled(scripted):
    with pytest.raises(RuntimeError):
        async with gather_evidence(scripted) as evidence:
            raise RuntimeError("the grader failed")
    for look in (
        evidence.read_file("folder/file"),
        evidence.exists("x"),
        evidence.list_files(),
        evidence.run(["true"]),
        evidence.start(["true"]),
    ):
        with pytest.raises(GradingError, match="gather_evidence"):
            await look
    with anyio.CancelScope() as scope:
        async with gather_evidence(scripted):
            scope.cancel()
            await anyio.sleep_forever()
    assert not scripted.is_frozen


async def test_a_sandbox_that_was_closed_meanwhile_needs_no_thawing(scripted):
    async with gather_evidence(scripted):
        await scripted.aclose()


async def test_a_daemon_cannot_change_what_is_looked_at_nor_outlive_the_end():
    async with open_backend() as backend:
        sandbox = await backend.start("daemon")
        loop = "while :; do echo x >>grows; done"
        await sandbox.exec(f"setsid bash -c '{loop}' >/dev/null 2>&1 & until test -s grows; do :; done")
        async with gather_evidence(sandbox) as evidence:
            seen = [await evidence.read_file("grows") for _ in range(3)]
            run = await evidence.run(
                ["sh", "-c", "cat grows; echo more >>grows; ls /proc | grep -c '^[0-9]'"]
            )
            assert run.stdout.kept.startswith(seen[0])
            assert len(set(seen)) == 1
        async with gather_evidence(sandbox, final=True):
            pass
        last = await sandbox.read_file("grows")
        assert (await sandbox.exec("pgrep -f grows; jobs; wc -c <grows")).stdout.text.split() == [
            str(len(last))
        ]
