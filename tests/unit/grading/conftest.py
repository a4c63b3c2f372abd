"""A work dir as an agent left it, in a real sandbox; and coverage of the processes of hidden tests."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from ors_server.grading import pytest_cases
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.sandboxes.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.state import ServerState

LookAt = Callable[..., AbstractAsyncContextManager[Evidence]]


@pytest.fixture(autouse=True)
def _coverage(monkeypatch):
    for name, value in os.environ.items():
        if name.startswith("COVERAGE_"):
            monkeypatch.setitem(pytest_cases.ENVIRONMENT, name, value)


@pytest.fixture
def look_at() -> LookAt:
    """Opens evidence of files, given by name and text, in a sandbox of its own."""

    @asynccontextmanager
    async def opened(files: dict[str, str]) -> AsyncGenerator[Evidence]:
        state = ServerState()
        backend = BubblewrapBackend(state)
        try:
            sandbox = await backend.start("graded")
            for name, text in files.items():
                await sandbox.write_file(name, text.encode())
            async with gather_evidence(sandbox) as evidence:
                yield evidence
        finally:
            await backend.aclose()
            state.close()

    return opened
