"""The pool: the same claim gets the same resource, within caps and deadlines, and nothing is ever lost."""

import anyio
import pytest

from ors_server.resources import ResourceStartError, ResourceStatus, ResourceTimeoutError, ResourceUseError
from tests.fixtures.scripted_resources import FakeSpec, Holders

SOON = 0.02
"""Seconds after which a test's own deadline strikes."""


async def test_one_claim_gets_one_resource_and_another_spec_another_one(holders):
    first = await holders.take(1)
    assert await holders.take(1) is first
    assert await holders.take(1, spec=FakeSpec(word="other")) is not first
    assert await holders.take(2) is not first
    assert first.done == {"start": 1}


async def test_what_comes_back_is_reset_before_it_goes_out_again_and_not_sooner(holders):
    first = await holders.take(1)
    await holders.drop(1)
    assert first.done["reset"] == 0
    assert await holders.take(2) is first
    assert first.done["reset"] == 1


@pytest.mark.parametrize("fault", ["dead", "reset raises", "reset hangs", "look raises"])
async def test_what_is_unfit_is_ended_and_replaced_in_its_place(pool, backend, fault):
    holders = Holders(pool, FakeSpec(max_global_num=1, start_timeout=SOON if "hangs" in fault else 10.0))
    first = await holders.take(1)
    await holders.drop(1)
    if fault == "dead":
        first.status = ResourceStatus.FAILED
    elif fault == "reset hangs":
        backend.gates["reset"] = anyio.Event()
    else:
        backend.failures["reset" if "reset" in fault else "is_healthy"] = [RuntimeError("no")]
    second = await holders.take(2)
    assert second is not first
    assert first.done["end"] == 1
    assert pool.monitor()["total"] == backend.alive == 1


async def test_what_failed_in_somebody_s_hands_never_comes_back(pool, holders):
    first = await holders.take(1)
    first.status = ResourceStatus.FAILED
    await holders.drop(1)
    assert first.done["end"] == 1
    assert pool.monitor()["total"] == 0


async def test_a_resource_ends_when_its_uses_are_used_up(pool, backend):
    holders = Holders(pool, FakeSpec(max_uses=2))
    for who in (1, 2, 3):
        await holders.take(who)
        await holders.drop(who)
    assert [one.done["end"] for one in backend.made] == [1, 0]
    backend.made[1].status = ResourceStatus.FAILED
    await holders.take(4)  # a third one, whose uses begin anew
    await holders.drop(4)
    assert [one.done["end"] for one in backend.made] == [1, 1, 0]
    await holders.take(5)
    await holders.drop(5)
    assert backend.alive == 0


@pytest.mark.parametrize(("memory", "ends"), [(None, 0), (99, 0), (100, 0), (101, 1)])
async def test_a_resource_ends_when_it_comes_back_above_its_memory_limit(pool, memory, ends):
    holders = Holders(pool, FakeSpec(memory_limit=100))
    got = await holders.take(1)
    got.memory = memory
    await holders.drop(1)
    assert got.done["end"] == ends


async def test_nobody_waits_past_a_deadline_and_who_gave_up_is_in_nobody_s_way(pool, holders):
    await holders.take(1)
    await holders.take(2)
    with pytest.raises(ResourceTimeoutError, match="there are 2 of at most 2"):
        await holders.take(3, time_limit=SOON)
    assert pool.monitor()["waiting"] == 0
    await holders.drop(1)
    await holders.take(4, time_limit=SOON)


async def test_nobody_waits_past_a_deadline_for_a_start(pool, backend, holders):
    backend.gates["start"] = anyio.Event()
    with pytest.raises(ResourceTimeoutError, match="was available within"):
        await holders.take(1, time_limit=SOON)
    slow = Holders(pool, FakeSpec(start_timeout=SOON))
    with pytest.raises(ResourceTimeoutError, match=r"did not start within 0\.02 seconds"):
        await slow.take(1)
    assert pool.monitor()["total"] == 0
    assert backend.ended_once()


@pytest.mark.parametrize("time_limit", [float("nan"), float("inf"), -1.0])
async def test_a_time_limit_that_is_none_is_refused(holders, time_limit):
    with pytest.raises(ResourceUseError, match="time limit"):
        await holders.take(1, time_limit=time_limit)


async def test_who_waits_longest_is_served_first_and_a_newcomer_never_overtakes(holders):
    await holders.take(1)
    await holders.take(2)
    async with anyio.create_task_group() as tasks:
        for who in (3, 4, 5, 6):
            tasks.start_soon(holders.take, who)
            await anyio.wait_all_tasks_blocked()
        await holders.drop(1)  # 3 is granted this, though it has not run yet
        tasks.start_soon(holders.take, 7)
        await anyio.wait_all_tasks_blocked()
        assert holders.served == [1, 2, 3]
        for who in (2, 3, 4, 5):
            await holders.drop(who)
            await anyio.wait_all_tasks_blocked()
    assert holders.served == [1, 2, 3, 4, 5, 6, 7]


async def test_ending_one_lets_the_next_one_in(holders):
    await holders.take(1)
    await holders.take(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holders.take, 3)
        await anyio.wait_all_tasks_blocked()
        await holders.drop(2, end=True)
    assert holders.served == [1, 2, 3]


async def test_a_start_that_fails_is_said_and_gives_its_place_to_who_waits(pool, backend):
    holders = Holders(pool, FakeSpec(max_global_num=1))
    backend.gates["start"] = anyio.Event()
    backend.failures["start"] = [RuntimeError("no screen"), None]
    said = []

    async def fails():
        try:
            await holders.take(1)
        except ResourceStartError as error:
            said.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fails)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(holders.take, 2)
        await anyio.wait_all_tasks_blocked()
        assert pool.monitor()["waiting"] == 1
        backend.gates["start"].set()
    assert said == ["resource did not start: RuntimeError: no screen"]
    assert holders.served == [2]
    assert [one.done["end"] for one in backend.made] == [1, 0]


async def test_two_of_one_claim_share_one_start_and_the_second_tries_again_if_it_fails(
    pool, backend, holders
):
    backend.gates["start"] = anyio.Event()
    backend.failures["start"] = [RuntimeError("no"), None]
    got = []

    async def take(who):
        try:
            got.append(await holders.take(who, claim="same"))
        except ResourceStartError as error:
            got.append(error)

    async with anyio.create_task_group() as tasks:
        for who in (1, 2, 3):
            tasks.start_soon(take, who)
            await anyio.wait_all_tasks_blocked()
        assert len(backend.made) == 1
        backend.gates["start"].set()
    assert isinstance(got[0], ResourceStartError)
    assert got[1] is got[2] is backend.made[1]
    assert len(backend.made) == 2


async def test_a_shared_resource_goes_back_with_its_last_holder_and_ends_if_one_wanted_that(pool, holders):
    shared = await holders.take(1, claim="group")
    assert await holders.take(2, claim="group") is shared
    await holders.drop(1, claim="group", end=True)
    await holders.drop(1, claim="group", end=True)  # again: nothing
    assert shared.done["end"] == 0
    assert pool.monitor()["held"] == 1
    await holders.drop(2, claim="group")
    assert shared.done["end"] == 1


@pytest.mark.parametrize("where", ["waiting", "starting", "resetting", "granted"])
async def test_who_is_cancelled_leaves_nothing_behind(pool, backend, where):
    holders = Holders(pool, FakeSpec(max_global_num=1))
    if where != "starting":
        await holders.take(1)
    if where == "resetting":
        await holders.drop(1)
    if where != "granted":
        backend.gates = {"start": anyio.Event(), "reset": anyio.Event()}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holders.take, 2)
        await anyio.wait_all_tasks_blocked()
        if where == "granted":
            await holders.drop(1)  # and cancelled before it runs
        tasks.cancel_scope.cancel()
    backend.gates = {}
    if where == "waiting":
        await holders.drop(1)
    assert 2 not in holders.served
    figures = pool.monitor()
    del figures["specs"]
    assert figures == dict.fromkeys(figures, 0) | {"total": backend.alive, "idle": backend.alive}
    await holders.take(3, time_limit=1.0)


@pytest.mark.parametrize(("gate", "idle"), [("end", 0), ("get_status", 1)])
async def test_letting_go_is_done_though_whoever_does_it_is_cancelled(pool, backend, holders, gate, idle):
    await holders.take(1)
    backend.gates[gate] = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: holders.drop(1, end=gate == "end"))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        assert pool.monitor()["changing"] == 1  # the cap counts it until it is gone
        backend.gates[gate].set()
    assert pool.monitor()["total"] == pool.monitor()["idle"] == idle
