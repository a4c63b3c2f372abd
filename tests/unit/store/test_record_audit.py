"""The audit of the crash tests: it passes a record that is right, and finds what they look for."""

from dataclasses import replace

import anyio
import pytest

from ors_server.app import App
from ors_server.environments.loading import define
from ors_server.model.settings import Settings
from ors_server.store.memory import MemoryStore
from tests.conftest import LiveServer
from tests.fixtures.paying_environment import Free, Paying
from tests.fixtures.record_audit import AuditError, audit, audit_whole
from tests.fixtures.record_load import Load

LIMIT = 60.0
CALLS = 300
"""Enough for a call of every kind."""


async def play(load: Load, port: int) -> None:
    """Plays until enough calls were answered."""
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(load.play, port)
            await load.until(lambda load: load.acknowledged >= CALLS, LIMIT)
            load.stop()


@pytest.fixture(scope="module")
async def played():
    """A store and what clients know of it."""
    store, load = MemoryStore(), Load(1, 8, bulk=5_000)
    app = App([define(Paying), define(Free)], Settings(port=0), store=store)
    server = LiveServer(app)
    with server.serving():
        await play(load, server.port)
        found = await audit(store, load.ledgers)
    return store, load, found


class Changed(MemoryStore):
    """Reads what another store holds, changed."""

    def __init__(self, store, change):
        self._episodes, self._newest_of_session = store._episodes, store._newest_of_session
        self._change = change

    async def steps(self, episode_id, start=0, stop=None):
        return self._change(list(await super().steps(episode_id, start, stop)))


async def test_a_record_that_is_right_passes_and_is_counted(played):
    _, load, found = played
    assert found.acknowledged == found.steps == load.acknowledged >= CALLS
    assert found.beside == 0
    tools = {receipt.tool for ledger in load.ledgers for receipt in ledger.receipts}
    assert {"pay", "look", "refuse", "fail", "show", "finish", "no_such_tool"} <= tools


def paid_otherwise(steps):
    return [replace(step, reward=None if step.reward is None else step.reward + 1e-12) for step in steps]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(lambda steps: steps[:-1], "were acknowledged", id="the last step is missing"),
        pytest.param(lambda steps: steps[1:], "are numbered", id="the first step is missing"),
        pytest.param(lambda steps: [*steps, steps[-1]], "are numbered", id="a step is there twice"),
        pytest.param(
            lambda steps: [*steps, replace(steps[-1], number=len(steps) + 1)],
            "on record twice",
            id="a call is there twice",
        ),
        pytest.param(
            lambda steps: [*steps, replace(steps[-1], number=len(steps) + 1, call_id="else")],
            "nobody asked",
            id="a call of nobody is there",
        ),
        pytest.param(paid_otherwise, "is recorded as", id="a reward is a little greater"),
        pytest.param(
            lambda steps: [replace(step, blocks=()) for step in steps], "is recorded as", id="blocks are lost"
        ),
    ],
)
async def test_a_record_that_is_wrong_is_found_out(played, change, complaint):
    store, load, _ = played
    with pytest.raises(AuditError, match=complaint):
        await audit(Changed(store, change), load.ledgers)


async def test_the_whole_record_is_what_was_played_and_nothing_else(played):
    store, load, found = played
    whole = await audit_whole(store, load.ledgers)
    assert whole == replace(found, closed=len(load.ledgers)), "a server that stops closes its sessions"
    with pytest.raises(AuditError, match="nobody played"):
        await audit_whole(store, load.ledgers[1:])
    with pytest.raises(AuditError, match="creation was acknowledged"):
        await audit_whole(MemoryStore(), load.ledgers)


async def test_a_creation_that_left_no_record_is_found_out(played):
    _, load, _ = played
    with pytest.raises(AuditError, match="creation was acknowledged"):
        await audit(MemoryStore(), load.ledgers)
