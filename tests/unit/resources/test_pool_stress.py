"""Many holders at once, some cancelled, on resources that fail: nothing is lost, doubled or shared."""

import random

import anyio
import anyio.lowlevel
import pytest

from ors_server.resources import ResourceClosedError, ResourceError, ResourcePool
from tests.fixtures.scripted_resources import FakeBackend, FakeSpec

TASKS = 300
CAP = 5


class Moody(FakeBackend):
    """Yields at random, fails at random."""

    def __init__(self, seed):
        super().__init__()
        self.chance = random.Random(seed)  # noqa: S311  (drawn again from a seed)
        self.most_alive = 0

    async def pass_gate(self, name):
        for _ in range(self.chance.randrange(3)):
            await anyio.lowlevel.checkpoint()
        self.most_alive = max(self.most_alive, self.alive)
        if self.chance.random() < 0.1:
            raise RuntimeError(name)


class Crowd:
    """Pairs of holders with one claim each, who take, use and let go as chance has it."""

    def __init__(self, seed, pool, tasks):
        self.chance = random.Random(seed)  # noqa: S311  (drawn again from a seed)
        self.pool = pool
        self.tasks = tasks
        self.specs = [FakeSpec(word=word, max_global_num=CAP, max_uses=4) for word in "ab"]
        self.in_use = {}
        self.served = 0
        self.failed = 0

    async def live(self, who):
        claim, spec = ("rollout", str(who // 2)), self.chance.choice(self.specs)
        with anyio.CancelScope() as scope:
            if self.chance.random() < 0.2:
                self.tasks.start_soon(self.cancel_later, scope)
            try:
                got = await self.pool.acquire(claim, spec, holder=who, backend="fake", time_limit=30.0)
            except ResourceError:
                self.failed += 1
                return
            await self.use(who, claim, spec, got)

    async def use(self, who, claim, spec, got):
        self.served += 1
        holders = self.in_use.setdefault(got, {})
        holders[who] = claim
        try:
            assert set(holders.values()) == {claim}, "two claims on one resource at once"
            assert not got.done["end"]
            await self.dawdle(4)
        finally:
            del holders[who]
            end = self.chance.random() < 0.2
            await self.pool.release(claim, spec, holder=who, backend="fake", end=end)

    async def cancel_later(self, scope):
        await self.dawdle(12)
        scope.cancel()

    async def dawdle(self, most):
        for _ in range(self.chance.randrange(most)):
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("seed", range(6))
async def test_a_crowd_leaves_nothing_behind(seed):
    backend = Moody(seed)
    async with ResourcePool(backends={"fake": backend}) as pool:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                crowd = Crowd(seed, pool, tasks)
                for who in range(TASKS):
                    tasks.start_soon(crowd.live, who)
        figures = pool.monitor()
        assert figures["held"] == figures["changing"] == figures["waiting"] == 0
        assert figures["total"] == figures["idle"] == backend.alive
    assert backend.ended_once()
    assert backend.most_alive <= CAP * len(crowd.specs)
    assert crowd.served > TASKS / 2
    assert crowd.failed > 0


@pytest.mark.parametrize("seed", range(4))
async def test_a_crowd_that_the_pool_closes_upon_leaves_nothing_behind(seed):
    chance = random.Random(seed)  # noqa: S311  (drawn again from a seed)
    backend = Moody(seed)
    pool = ResourcePool(backends={"fake": backend})
    spec = FakeSpec(max_global_num=CAP)
    ends: list[str] = []

    async def live(who):
        try:
            await pool.acquire(("rollout", str(who)), spec, holder=who, backend="fake", time_limit=30.0)
            for _ in range(chance.randrange(9)):
                await anyio.lowlevel.checkpoint()
            await pool.release(("rollout", str(who)), spec, holder=who, backend="fake")
            ends.append("served")
        except ResourceClosedError:
            ends.append("closed")
        except ResourceError:
            ends.append("failed")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for who in range(TASKS):
                tasks.start_soon(live, who)
            for _ in range(40 + 10 * seed):
                await anyio.lowlevel.checkpoint()
            await pool.aclose()
    assert len(ends) == TASKS
    assert {"served", "closed"} <= set(ends)
    assert backend.ended_once()
    assert pool.monitor()["total"] == 0
