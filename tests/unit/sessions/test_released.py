"""What an ended session leaves in memory: nothing that would have to wait for the garbage collector."""

import gc
import logging
import weakref
from typing import ClassVar

import anyio
import pytest

from ors_server import ToolError, ToolOutput, tool
from ors_server.environments.loading import define
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_call import Failure
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from ors_server.testing import FakeClock
from tests.fixtures.single_task import SingleTask


class Remembered(SingleTask):
    """Is noted in a list when it is made."""

    made: ClassVar[list["weakref.ref[Remembered]"]] = []

    def __init__(self, task_spec, secrets=None):
        super().__init__(task_spec, secrets)
        self.made.append(weakref.ref(self))

    def save_state(self):
        return {}

    def load_state(self, state):
        pass

    @tool
    async def step(self) -> ToolOutput:
        """Goes on."""
        return ToolOutput.ongoing("on", reward=0.5)

    @tool
    def step_in_thread(self) -> ToolOutput:
        """Goes on."""
        return ToolOutput.ongoing("on", reward=0.5)

    @tool
    async def refuse(self) -> str:
        """Refuses."""
        raise ToolError("no")

    @tool
    async def fail(self) -> str:
        """Fails."""
        raise RuntimeError("broken")

    @tool
    async def finish(self) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput.final("over", reward=1.0)


class FailsToSetUp(Remembered):
    """Has a setup that fails."""

    async def setup(self):
        raise RuntimeError("broken")


WAYS = [
    [],
    ["step"],
    ["step_in_thread"],
    ["nonesuch"],
    ["refuse"],
    ["fail"],
    ["step", "finish"],
    ["finish", "step"],
    ["snapshot", "step"],
    ["fork", "step"],
]


@pytest.fixture
def no_collection(quick_collections):
    logging.disable()  # pytest keeps what is logged, tracebacks included
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("expires", [False, True], ids=["deleted", "expired"])
async def test_an_ended_session_is_freed_at_once(way, expires, no_collection):
    Remembered.made.clear()
    clock = FakeClock()
    async with open_manager([define(Remembered)], clock=clock) as engine:
        status = await engine.create(SessionRequest(split="train", index=0))
        session = status.origin.session_id
        for name in way:
            if name == "snapshot":
                await engine.find(session).snapshots.keep()
            elif name == "fork":
                for forked in await engine.fork(session, ForkRequest(1, None)):
                    await engine.delete(forked.origin.session_id)
            else:
                await (await engine.find(session).call(name, {})).wait()
        del status
        if expires:
            await clock.advance(3_000.0)
        else:
            await engine.delete(session)
        with anyio.fail_after(20):
            while any(made() is not None for made in Remembered.made):
                await anyio.lowlevel.checkpoint()
    assert Remembered.made


async def test_a_session_whose_setup_failed_is_freed_at_once(no_collection):
    Remembered.made.clear()
    async with open_manager([define(FailsToSetUp)], clock=FakeClock()) as engine:
        status = await engine.create(SessionRequest(split="train", index=0))
        session = status.origin.session_id
        del status
        result = await (await engine.find(session).call("step", {})).wait()
        assert isinstance(result, Failure)
        del result
        await engine.delete(session)
        with anyio.fail_after(20):
            while any(made() is not None for made in Remembered.made):
                await anyio.lowlevel.checkpoint()
    assert Remembered.made
