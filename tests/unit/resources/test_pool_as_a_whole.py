"""A pool as a whole: started ahead, told in figures, closed once; what ends badly frees its place."""

import anyio
import pytest

from ors_server.resources import (
    NamedResourceSpec,
    ResourceClosedError,
    ResourcePool,
    ResourceStartError,
    ResourceTimeoutError,
    ResourceUseError,
    UnboundResourceError,
)
from tests.fixtures.scripted_resources import FakeSpec, Holders

SOON = 0.02
"""Seconds after which a test's own deadline strikes."""


async def test_resources_are_started_ahead_all_of_them(pool, backend):
    spec = FakeSpec(max_global_num=4)
    await pool.start(spec, 3, backend="fake")
    assert (pool.monitor()["idle"], backend.alive) == (3, 3)
    with pytest.raises(ResourceUseError, match="3 of at most 4"):
        await pool.start(spec, 2, backend="fake")
    holders = Holders(pool, spec)
    got = await holders.take(1)
    assert got in backend.made
    assert len(backend.made) == 3


@pytest.mark.parametrize("fault", ["raises", "hangs", "cancelled"])
async def test_or_none_of_them_and_no_place_is_lost(pool, backend, fault):
    spec = FakeSpec(max_global_num=4, start_timeout=SOON if fault == "hangs" else 10.0)
    if fault == "raises":
        backend.failures["start"] = [None, RuntimeError("no"), None, None]
    else:
        backend.gates["start"] = anyio.Event()
    if fault == "cancelled":
        with anyio.move_on_after(SOON):
            await pool.start(spec, 4, backend="fake")
    else:
        with pytest.raises(ResourceStartError if fault == "raises" else ResourceTimeoutError):
            await pool.start(spec, 4, backend="fake")
    assert len(backend.made) == 4
    assert backend.ended_once()
    backend.gates = {}
    await pool.start(spec, 4, backend="fake")
    assert pool.monitor()["idle"] == 4


async def test_pools_of_one_machine_divide_the_maxima_and_each_has_one_at_least(backend):
    caps = {7: 2, 3: 1, 1: 1}
    async with ResourcePool(backends={"fake": backend}, pools_per_machine=3) as pool:
        for most, cap in caps.items():
            await pool.start(FakeSpec(category=f"of {most}", max_global_num=most), cap, backend="fake")
            with pytest.raises(ResourceUseError, match=f"there are {cap} of at most {cap}"):
                await pool.start(FakeSpec(category=f"of {most}", max_global_num=most), 1, backend="fake")
        assert [spec["cap"] for spec in pool.monitor()["specs"]] == list(caps.values())
    assert backend.ended_once()


async def test_figures_are_told_for_each_spec_and_together(pool, holders):
    await holders.take(1)
    await holders.take(2)
    await holders.drop(2)
    await pool.start(FakeSpec(category="other", max_global_num=3), 3, backend="fake")
    figures = pool.monitor()
    none = {"changing": 0, "waiting": 0}
    assert figures.pop("specs") == [
        {"name": "resource", "backend": "fake", "cap": 2, "total": 2, "idle": 1, "held": 1} | none,
        {"name": "other", "backend": "fake", "cap": 3, "total": 3, "idle": 3, "held": 0} | none,
    ]
    assert figures == {"total": 5, "idle": 4, "held": 1, "changing": 0, "waiting": 0}


async def test_closing_ends_everything_once_and_sends_away_who_waits_or_starts(pool, backend, holders):
    await holders.take(1)
    await holders.take(2)
    await holders.drop(2)
    starting = Holders(pool, FakeSpec(word="starting"))
    full = Holders(pool, FakeSpec(word="full", max_global_num=1))
    await full.take(1)
    backend.gates["start"] = anyio.Event()
    refused = []

    async def refuse(who, at):
        with pytest.raises(ResourceClosedError):
            await at.take(who)
        refused.append(who)

    async def refuse_ahead():
        with pytest.raises(ResourceClosedError):
            await pool.start(FakeSpec(word="ahead"), 2, backend="fake")
        refused.append(0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refuse, 3, starting)
        tasks.start_soon(refuse, 4, full)
        tasks.start_soon(refuse_ahead)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(pool.aclose)
        tasks.start_soon(pool.aclose)
    assert sorted(refused) == [0, 3, 4]
    assert backend.ended_once()
    assert pool.monitor()["total"] == 0
    await holders.drop(1)  # too late, and nothing comes of it
    assert backend.ended_once()
    with pytest.raises(ResourceClosedError):
        await holders.take(5)


async def test_who_is_granted_a_place_while_the_pool_closes_does_not_keep_it(pool, backend):
    holders = Holders(pool, FakeSpec(max_global_num=1))
    await holders.take(1)

    async def refuse():
        with pytest.raises(ResourceClosedError):
            await holders.take(2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refuse)
        await anyio.wait_all_tasks_blocked()
        await holders.drop(1)
        await pool.aclose()
    assert backend.ended_once()
    assert [dict(one.done) for one in backend.made] == [{"start": 1, "end": 1}]


async def test_what_comes_back_while_the_pool_closes_ends(pool, backend, holders):
    await holders.take(1)
    backend.gates["get_status"] = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holders.drop, 1)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(pool.aclose)
        await anyio.wait_all_tasks_blocked()
        assert not backend.ended_once()
        backend.gates["get_status"].set()
    assert backend.ended_once()


async def test_what_an_end_raises_frees_the_place_all_the_same(pool, backend, holders):
    await holders.take(1)
    backend.failures["end"] = [OSError("stuck")]
    await holders.drop(1, end=True)
    assert pool.monitor()["total"] == 0


async def test_what_does_not_end_is_left_behind_and_its_place_is_free_again(
    pool, backend, holders, monkeypatch
):
    monkeypatch.setattr("ors_server.resources.resource_pool.END_LIMIT", SOON)
    backend.gates["end"] = anyio.Event()
    await holders.take(1)
    await holders.drop(1, end=True)
    assert pool.monitor()["total"] == 0
    await holders.take(2)
    await pool.aclose()
    assert pool.monitor()["total"] == 0


async def test_a_name_leads_to_what_it_is_bound_to_and_to_that_only(pool):
    name = NamedResourceSpec(category="shop", max_global_num=3, start_timeout=7.0)
    with pytest.raises(UnboundResourceError, match="the resource 'shop' is not bound"):
        await pool.acquire(("rollout", "r"), name, holder=1)
    bound = FakeSpec(word="shop")
    pool.bind(name, bound)
    pool.bind(name, FakeSpec(word="shop"))
    with pytest.raises(ResourceUseError, match="bound already"):
        pool.bind(name, FakeSpec(word="else"))
    with pytest.raises(ResourceUseError, match="is a name itself"):
        pool.bind(NamedResourceSpec(category="mall"), name)
    got = await pool.acquire(("rollout", "r"), name, holder=1, backend="fake")
    assert await pool.acquire(("rollout", "r"), bound, holder=1, backend="fake") is got


async def test_a_backend_that_is_not_there_or_cannot_do_it_is_an_error(pool):
    with pytest.raises(ResourceUseError, match="unknown resource backend 'ray'; expected one of fake, local"):
        await pool.acquire(("rollout", "r"), FakeSpec(), holder=1, backend="ray")
    with pytest.raises(
        ResourceUseError, match="starts a LocalEnvResourceSpec or a WorkerEnvResourceSpec, got a FakeSpec"
    ):
        await pool.acquire(("rollout", "r"), FakeSpec(), holder=1)
    assert pool.monitor()["total"] == 0


async def test_specs_that_nobody_uses_any_more_are_forgotten(pool):
    for number in range(20):
        holders = Holders(pool, FakeSpec(word=str(number)))
        await holders.take(1)
        await holders.drop(1, end=True)
    assert pool.monitor()["specs"] == []
