"""A pool over a scripted backend, and numbered holders of what it hands out."""

import pytest

from ors_server.resources import ResourcePool, WorkerEnvResource
from tests.fixtures.scripted_resources import FakeBackend, FakeSpec, Holders


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
async def pool(backend):
    async with ResourcePool(backends={"fake": backend}) as made:
        yield made
    assert made.monitor()["total"] == 0
    assert backend.ended_once()


@pytest.fixture
def holders(pool):
    return Holders(pool, FakeSpec(max_global_num=2))


@pytest.fixture
async def running():
    """Starts workers on demand, and ends them."""
    started: list[WorkerEnvResource] = []

    async def start(spec):
        resource = WorkerEnvResource(spec, f"r-{len(started)}")
        started.append(resource)
        await resource.start()
        return resource

    yield start
    for resource in started:
        await resource.end()
