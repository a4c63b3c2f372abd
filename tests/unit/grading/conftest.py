"""A work dir as an agent left it, in a real sandbox; and coverage of the processes of hidden tests.

For mirrors the worker works in a thread, over pipes, so that both ends can be seen.
"""

import itertools
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from textwrap import dedent
from typing import Any

import pytest

from ors_server.grading import pytest_cases
from ors_server.grading.agent_program import Worker
from ors_server.grading.channel import NO_TAG, AgentChannel, frame
from ors_server.grading.encoding import from_text, to_text
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.grading.remote_agent import RemoteAgent
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend

LookAt = Callable[..., AbstractAsyncContextManager[Evidence]]


@pytest.fixture(autouse=True)
def _coverage(monkeypatch):
    for name, value in os.environ.items():
        if name.startswith("COVERAGE_"):
            monkeypatch.setitem(pytest_cases.ENVIRONMENT, name, value)


@pytest.fixture
def look_at() -> LookAt:
    """Opens evidence of files, given by name and text, in a sandbox where a command may have run."""

    @asynccontextmanager
    async def opened(files: dict[str, str], command: str = "") -> AsyncGenerator[Evidence]:
        state = ServerState()
        backend = BubblewrapBackend(state)
        try:
            sandbox = await backend.start("graded")
            for name, text in files.items():
                await sandbox.write_file(name, text.encode())
            if command:
                assert (await sandbox.exec(command)).exit_code == 0
            async with gather_evidence(sandbox) as evidence:
                yield evidence
        finally:
            await backend.aclose()
            state.close()

    return opened


NUMBERS = itertools.count()


class TestedAgent(RemoteAgent):
    __test__ = False
    solution: Any


class Loop:
    """Stands for the server between a test and a worker; every start is a new worker in a thread."""

    def __init__(self, name, path):
        self.load = to_text({"command": "load", "objects": True, "modules": [[name, str(path)]]})
        self.name = name
        self.reply = b""
        self.starts = 0
        self.ends = []
        self.start()

    def start(self):
        self.starts += 1
        sys.modules.pop(self.name, None)
        (read_there, write_here), (read_here, write_there) = os.pipe(), os.pipe()
        thread = threading.Thread(target=lambda: Worker(AgentChannel(read_there, write_there)).work())
        thread.start()
        self.channel = AgentChannel(read_here, write_here)
        self.ends.append((thread, (write_here, read_there, read_here, write_there)))
        return self.ask(self.load)

    def ask(self, question):
        os.write(self.ends[-1][1][0], frame(NO_TAG, question))
        return self.channel.receive()

    def send(self, payload):
        if payload[:1] == b"S":
            assert "value" in from_text(self.start())
            self.reply = b"G"
        elif payload == b"lost":
            self.reply = b"X"
        else:
            answer = self.ask(payload[1:])
            self.reply = b"Xthe agent's code ended" if b"LOSE" in answer else b"R" + answer

    def receive(self):
        return self.reply

    def close(self):
        for thread, descriptors in self.ends:
            os.close(descriptors[0])
            thread.join(10)
            assert not thread.is_alive()
            for descriptor in descriptors[1:]:
                os.close(descriptor)
        sys.modules.pop(self.name, None)


@pytest.fixture
def mirror(tmp_path):
    """Makes an agent of a module's text; its module is `.solution`."""
    loops = []

    def make(code, classes=()):
        name = f"agent_{next(NUMBERS)}"
        path = tmp_path / f"{name}.py"
        path.write_text(dedent(code))
        loops.append(Loop(name, path))
        agent = TestedAgent(loops[-1], [name], [f"{name}.{kind}" for kind in classes])
        agent.solution = agent.modules[name]
        return agent

    yield make
    for loop in loops:
        loop.close()
