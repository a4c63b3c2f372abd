"""Toolsets on a stage of their own: an environment object, a call, and real or scripted sandboxes."""

import contextlib

import anyio
import pytest

from ors_server import EpisodePolicy
from ors_server.environments.call_context import CallContext
from ors_server.sandboxes.scripted import ScriptedBackend, silent
from tests.fixtures.opened_backend import open_backend

LIMIT = 60.0
"""Seconds that one test's play in a sandbox may take."""


class Place:
    """An environment object with as much as a toolset looks at."""

    milestones = ()

    def __init__(self, sandbox, **attributes):
        self.sandbox = sandbox
        self.policy = EpisodePolicy()
        vars(self).update(attributes)


@pytest.fixture
def call():
    return lambda **values: CallContext("session", "call", 1, {}, [], **values)


@pytest.fixture
def scripted():
    async def make(script=silent, limits=None, **attributes):
        return Place(await ScriptedBackend(script).start("session", limits), **attributes)

    return make


@pytest.fixture
def real():
    """Opens environment objects with a sandbox of the strongest kind."""

    @contextlib.asynccontextmanager
    async def open_it(limits=None, **attributes):
        async with open_backend() as backend:
            with anyio.fail_after(LIMIT):
                yield Place(await backend.start("session", limits), **attributes)

    return open_it


@pytest.fixture
def texts():
    """Reads an output's blocks by stream; a standard output that is not there is empty."""
    return lambda output: {"stdout": "", **{block.detail["stream"]: block.text for block in output.blocks}}
