"""Sessions and their sandboxes: who gets one, when it is there, and that it goes with its session."""

from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import ClassVar

import anyio
import pytest

from ors_server import CallContext, EpisodePolicy, ToolOutput, Toolset, tool
from ors_server.environments.loading import define
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.policy import PenaltyCause
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.sandboxes.sandbox_errors import (
    SandboxClosedError,
    SandboxStartError,
    SandboxUnavailableError,
    UnsandboxedRefusedError,
)
from ors_server.sandboxes.scripted import ScriptedBackend
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_call import Completed
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import NO_SANDBOXES, Sandboxes, open_sandboxes
from tests.fixtures.single_task import SingleTask


class Notes(Toolset):
    """Keeps a note in the sandbox."""

    needs_sandbox = True

    @tool
    async def note(self) -> str:
        """Reads the note."""
        return (await self.environment.sandbox.read_file("note")).decode()


class Plain(SingleTask):
    """Needs no sandbox of its own."""

    session_toolsets = MappingProxyType({"notes": Notes})

    @tool
    async def go(self) -> str:
        """Goes."""
        return "gone"


class Sandboxed(Plain):
    """Prepares a file, and reads it once more at the end."""

    toolsets = (Notes,)
    session_toolsets = MappingProxyType({})
    sandbox_limits = Limits(pids=7)
    left: ClassVar[list[bytes]] = []

    async def setup(self):
        await self.sandbox.write_file("note", b"prepared")

    async def teardown(self):
        self.left.append(await self.sandbox.read_file("note"))


class NoSetup(Plain):
    """Gets a sandbox without asking for anything else."""

    session_toolsets = MappingProxyType({})
    sandbox_limits = Limits()


class RefusingBackend(ScriptedBackend):
    """Starts nothing."""

    async def start(self, session_id, limits=None, root=None):
        raise SandboxStartError("no room")


async def offer(backend):
    return Sandboxes(backend, await backend.probe())


@asynccontextmanager
async def opened(cls, sandboxes):
    async with open_manager([define(cls)], sandboxes=sandboxes) as engine:
        yield engine


async def play(engine, session_id, name="note"):
    with anyio.fail_after(10):
        return await (await engine.find(session_id).call(name, {})).wait()


async def test_a_sandbox_is_ready_before_setup_and_outlives_teardown():
    backend = ScriptedBackend()
    Sandboxed.left.clear()
    async with opened(Sandboxed, await offer(backend)) as engine:
        status = await engine.create(SessionRequest(split="train", index=0))
        result = await play(engine, status.origin.session_id)
        assert isinstance(result, Completed)
        assert result.output.blocks[0].text == "prepared"
        (sandbox,) = backend.sandboxes
        assert sandbox.session_id == status.origin.session_id
        assert sandbox.limits == Limits(pids=7)
        assert sandbox.gate.key == (status.origin.environment, status.origin.credential_id)
        await engine.delete(status.origin.session_id)
        assert Sandboxed.left == [b"prepared"]
        with pytest.raises(SandboxClosedError):
            await sandbox.read_file("note")


async def test_what_isolates_a_session_is_on_its_record():
    sandboxes = await offer(ScriptedBackend())
    async with opened(Sandboxed, sandboxes) as engine:
        assert engine.services.sandboxes.tier == sandboxes.tier
        status = await engine.create(SessionRequest(split="train", index=0))
        assert status.origin.sandbox == sandboxes.tier
        assert status.as_json()["sandbox"]["backend"] == "scripted"


async def test_only_who_needs_a_sandbox_gets_one_with_or_without_setup():
    backend = ScriptedBackend()
    async with opened(Plain, await offer(backend)) as engine:
        without = await engine.create(SessionRequest(split="train", index=0))
        assert without.origin.sandbox is None
        assert backend.sandboxes == []
        with_notes = await engine.create(SessionRequest(split="train", index=0, toolset="notes"))
        assert with_notes.origin.sandbox is not None
        await engine.find(with_notes.origin.session_id).prompt()
        assert len(backend.sandboxes) == 1
    backend = ScriptedBackend()
    async with opened(NoSetup, await offer(backend)) as engine:
        status = await engine.create(SessionRequest(split="train", index=0))
        await engine.find(status.origin.session_id).prompt()
        assert len(backend.sandboxes) == 1


async def test_without_a_backend_such_sessions_are_refused_and_others_are_played():
    async with opened(Sandboxed, Sandboxes(refusal="no kernel for it")) as engine:
        with pytest.raises(SandboxUnavailableError, match="no kernel for it"):
            await engine.create(SessionRequest(split="train", index=0))
        assert await engine.sessions() == []
    async with opened(Plain, NO_SANDBOXES) as engine:
        status = await engine.create(SessionRequest(split="train", index=0))
        assert isinstance(await play(engine, status.origin.session_id, "go"), Completed)


async def test_a_sandbox_that_does_not_start_is_the_machinerys_failure():
    async with opened(Sandboxed, await offer(RefusingBackend())) as engine:
        status = await engine.create(SessionRequest(split="train", index=0))
        for _ in range(2):
            with pytest.raises(SandboxStartError, match="no room"):
                await engine.find(status.origin.session_id).prompt()
        assert (await engine.status(status.origin.session_id)).summary.phase == "failed"


async def test_the_end_of_the_server_closes_every_sandbox():
    backend = ScriptedBackend()
    async with opened(Sandboxed, await offer(backend)) as engine:
        for _ in range(3):
            status = await engine.create(SessionRequest(split="train", index=0))
            await engine.find(status.origin.session_id).prompt()
    assert len(backend.sandboxes) == 3
    for sandbox in backend.sandboxes:
        with pytest.raises(SandboxClosedError):
            await sandbox.list_files()


async def test_an_environment_tells_whoever_asks_too_early():
    with pytest.raises(RuntimeError, match="not in the constructor"):
        _ = Sandboxed({}).sandbox


async def test_a_backend_is_prepared_only_where_it_may_be_needed_and_one_that_was_named_must_work():
    async with open_sandboxes([define(NoPlain)]) as found:
        assert found is NO_SANDBOXES
    with pytest.raises(UnsandboxedRefusedError):
        async with open_sandboxes([define(Sandboxed)], BackendRequest(BackendChoice.NONE)):
            pass


class NoPlain(Plain):
    """Needs nothing at all."""

    session_toolsets = MappingProxyType({})


def test_an_unknown_toolset_is_named():
    class Wrong(Plain):
        toolsets = ("hammer",)

    with pytest.raises(EnvironmentDefinitionError, match=r"'hammer'.*bash, python, files, patch, submit"):
        define(Wrong)


class Charging(Plain):
    """Says itself what is to be charged."""

    session_toolsets = MappingProxyType({})
    policy = EpisodePolicy(command_error_penalty=0.25, overlong_penalty=0.5)

    @tool
    async def fail(self, context: CallContext) -> ToolOutput:
        """Fails as a command does."""
        context.charge(PenaltyCause.COMMAND_ERROR)
        context.charge(PenaltyCause.COMMAND_ERROR)
        context.charge(PenaltyCause.TIMEOUT)
        return ToolOutput(blocks=[], reward=1.0)


async def test_what_a_tool_charges_is_itemised_once():
    async with opened(Charging, NO_SANDBOXES) as engine:
        status = await engine.create(SessionRequest(split="train", index=0))
        result = await play(engine, status.origin.session_id, "fail")
        assert result.output.reward == pytest.approx(0.25)
        summary = (await engine.status(status.origin.session_id)).summary
        assert summary.penalties == {"command_error": -0.25, "overlong": -0.5}
