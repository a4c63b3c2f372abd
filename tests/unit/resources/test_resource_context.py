"""The context: tools and rewards of one rollout share what they acquire, and closing gives all of it back."""

import itertools

import anyio
import pytest

from ors_server.resources import (
    Context,
    LocalEnvResourceSpec,
    NamedResourceSpec,
    ResourceClosedError,
    ResourcePool,
    ResourceTimeoutError,
    ResourceUseError,
    UnboundResourceError,
)
from tests.fixtures.scripted_resources import FakeBackend, FakeSpec

SPEC = FakeSpec(max_global_num=4)
SCOPES = ("rollout", "group", "global")


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
async def pool(backend):
    async with ResourcePool(backends={"fake": backend}) as made:
        yield made
    assert backend.ended_once()


@pytest.fixture
def begin(pool):
    def begin(rollout, group=None, **metadata):
        return Context(rollout, group, {"resource_backend": "fake", **metadata}, pool=pool)

    return begin


async def test_tools_and_reward_of_a_rollout_get_the_same_whatever_scope_they_name(begin):
    context = begin("r")
    first = await context.acquire_resource(spec=SPEC)
    assert context.last_acquire_was_first
    assert await context.acquire_resource(spec=SPEC, scope="global") is first
    assert await context.acquire_resource(id="r", spec=SPEC) is first
    assert not context.last_acquire_was_first
    assert await begin("r").acquire_resource(spec=SPEC) is first


async def test_two_specs_of_a_rollout_are_two_resources(begin):
    context = begin("r")
    other = FakeSpec(word="other")
    first = await context.acquire_resource(spec=SPEC)
    assert not context.is_spec_acquired(other)
    second = await context.acquire_resource(spec=other)
    assert second is not first
    assert second.spec == other
    assert context.is_spec_acquired(other)
    assert context.is_spec_acquired(SPEC)


async def test_another_rollout_never_gets_what_a_rollout_holds(begin):
    held = [
        await begin(name).acquire_resource(spec=SPEC, scope=scope)
        for name, scope in (("1", "rollout"), ("2", "rollout"), ("3", "global"), ("4", "global"))
    ]
    assert len(set(held)) == 4


async def test_a_group_shares_and_another_group_does_not(begin):
    one, two, other = begin("1", "g"), begin("2", "g"), begin("3", "h")
    shared = await one.acquire_resource(spec=SPEC, scope="group")
    assert await two.acquire_resource(spec=SPEC, scope="group") is shared
    assert await two.acquire_resource(id="g", spec=SPEC, scope="group") is shared
    assert await other.acquire_resource(spec=SPEC, scope="group") is not shared
    assert await one.acquire_resource(spec=SPEC) is not shared
    await one.aclose()
    assert shared.done["end"] == shared.done["reset"] == 0
    await two.aclose()
    assert await begin("4", "i").acquire_resource(spec=SPEC, scope="group") is shared
    assert shared.done["reset"] == 1


async def test_a_group_s_name_that_is_also_a_rollout_s_is_another_thing(begin):
    alone, together = begin("same"), begin("r", "same")
    first = await alone.acquire_resource(spec=SPEC, scope="global")
    assert await together.acquire_resource(spec=SPEC, scope="group") is not first


async def test_ids_tell_several_apart(begin):
    context, other = begin("1", "g"), begin("2", "g")
    own = [await context.acquire_resource(id=name, spec=SPEC) for name in (None, "a")]
    assert len(set(own)) == 2
    everybody_s = await context.acquire_resource(id="a", spec=SPEC, scope="global")
    assert everybody_s not in own
    assert await other.acquire_resource(id="a", spec=SPEC, scope="global") is everybody_s
    for each in (context, other):
        await each.aclose()
    member = begin("3", "g")
    shared = [await member.acquire_resource(id=name, spec=SPEC, scope="group") for name in ("a", None)]
    assert len(set(shared)) == 2


@pytest.mark.parametrize(
    ("scope", "wanted"), [("rollout", {"end": 1}), ("group", {"end": 0}), ("global", {"end": 0})]
)
async def test_closing_ends_what_is_the_rollout_s_and_frees_the_rest(begin, pool, scope, wanted):
    context = begin("r", "g")
    got = await context.acquire_resource(spec=SPEC, scope=scope)
    await context.aclose()
    await context.aclose()
    assert {"end": got.done["end"]} == wanted
    assert context.monitor_resources()["held"] == 0
    assert pool.monitor()["idle"] == 1 - wanted["end"]
    assert not context.is_spec_acquired(SPEC)
    with pytest.raises(ResourceClosedError, match="the rollout 'r' is closed"):
        await context.acquire_resource(spec=SPEC)


@pytest.mark.parametrize("order", list(itertools.permutations(["rollout", "global"])))
async def test_what_was_asked_for_in_both_ways_ends(begin, order):
    context = begin("r")
    for scope in order:
        got = await context.acquire_resource(spec=SPEC, scope=scope)
    await context.release_resource("global")
    assert context.is_spec_acquired(SPEC)
    await context.aclose()
    assert got.done["end"] == 1


async def test_agentfly_s_own_end_of_a_rollout_frees_and_ends(begin, pool):
    context = begin("r")
    kept = await context.acquire_resource(spec=SPEC, scope="global")
    ended = await context.acquire_resource(spec=FakeSpec(word="own"))
    await context.release_resource("global")
    await context.end_resource("rollout")
    assert (kept.done["end"], ended.done["end"]) == (0, 1)
    assert pool.monitor()["held"] == 0
    await context.release_resource("global")
    await context.end_resource("rollout")


async def test_one_spec_of_a_scope_is_let_go_of_or_reset_alone(begin):
    context = begin("r")
    other = FakeSpec(word="other")
    first, second = [await context.acquire_resource(spec=spec) for spec in (SPEC, other)]
    await context.reset_resource("rollout", SPEC)
    assert (first.done["reset"], second.done["reset"]) == (1, 0)
    await context.reset_resource()
    assert (first.done["reset"], second.done["reset"]) == (2, 1)
    await context.end_resource("rollout", other)
    assert (first.done["end"], second.done["end"]) == (0, 1)
    for act in (context.end_resource, context.release_resource, context.reset_resource):
        with pytest.raises(ResourceUseError, match="no resource is held in the scope 'rollout'"):
            await act("rollout", other)
        with pytest.raises(ResourceUseError, match="needs its spec"):
            await act("rollout", id="x")


async def test_an_unknown_scope_is_an_error_everywhere(begin):
    context = begin("r", "g")
    for scope in ("Global", "", "session"):
        with pytest.raises(ResourceUseError, match="scope must be one of rollout, group, global"):
            await context.acquire_resource(spec=SPEC, scope=scope)
        for act in (context.end_resource, context.release_resource, context.reset_resource):
            with pytest.raises(ValueError, match="scope must be one of"):
                await act(scope)


async def test_a_rollout_without_a_group_has_nothing_in_that_scope(begin):
    with pytest.raises(ResourceUseError, match="is in no group"):
        await begin("r").acquire_resource(spec=SPEC, scope="group")


@pytest.mark.parametrize("other", ["ray", "k8s", "aws"])
async def test_another_backend_is_an_error_that_says_what_there_is(begin, other):
    known = f"unknown resource backend '{other}'; expected one of fake, local"
    with pytest.raises(ResourceUseError, match=known):
        await begin("r").acquire_resource(spec=SPEC, backend=other)
    with pytest.raises(ResourceUseError, match=f"unknown resource backend '{other}'"):
        await begin("r", resource_backend=other).acquire_resource(spec=SPEC)


async def test_what_is_no_spec_is_an_error(begin):
    for wrong in (None, "webshop", FakeSpec):
        with pytest.raises(ResourceUseError, match="acquire_resource needs spec="):
            await begin("r").acquire_resource(spec=wrong)


async def test_a_name_is_acquired_once_it_is_bound_and_is_the_same_as_what_it_is_bound_to(begin):
    name = NamedResourceSpec(category="shop")
    context = begin("r")
    assert not context.is_spec_acquired(name)
    with pytest.raises(UnboundResourceError):
        await context.acquire_resource(spec=name)
    context.bind_resource(name, SPEC)
    first = await context.acquire_resource(spec=name)
    assert context.is_spec_acquired(name)
    assert context.is_spec_acquired(SPEC)
    assert await context.acquire_resource(spec=SPEC) is first
    await context.end_resource("rollout", name)
    assert first.done["end"] == 1


async def test_a_name_that_is_bound_to_nothing_is_not_held(begin):
    context = begin("r")
    await context.acquire_resource(spec=SPEC)
    assert not context.is_spec_acquired(NamedResourceSpec(category="shop"))


async def test_messages_that_nobody_told_are_not_none():
    context = Context("r")
    with pytest.raises(ResourceUseError, match="does not know the messages so far"):
        _ = context.trajectory
    context.trajectory = []
    assert len(context.trajectory) == 0


async def test_waiting_ends_with_the_time_that_was_given(begin):
    tight = FakeSpec(max_global_num=1)
    held = begin("1")
    await held.acquire_resource(spec=tight)
    with pytest.raises(ResourceTimeoutError):
        await begin("2").acquire_resource(spec=tight, timeout=0.02)


async def test_what_arrives_after_the_context_has_closed_is_given_back(begin, backend, pool):
    context = begin("r")
    backend.gates["start"] = anyio.Event()

    async def late():
        with pytest.raises(ResourceClosedError):
            await context.acquire_resource(spec=SPEC)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(late)
        await anyio.wait_all_tasks_blocked()
        await context.aclose()
        backend.gates["start"].set()
    assert pool.monitor()["held"] == 0


async def test_closing_is_finished_though_whoever_closes_is_cancelled(begin, backend, pool):
    context = begin("r")
    await context.acquire_resource(spec=SPEC)
    backend.gates["end"] = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.aclose)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        backend.gates["end"].set()
    assert pool.monitor()["total"] == 0


async def test_a_context_without_a_pool_has_its_own_and_closes_it():
    class Env:
        alive = 0

        def __init__(self):
            type(self).alive += 1

        def reset(self):
            pass

        def close(self):
            type(self).alive -= 1

    async with Context("r", trajectory=[{"role": "user"}]) as context:
        await context.acquire_resource(spec=LocalEnvResourceSpec(Env), scope="global")
        assert Env.alive == 1
        assert len(context.trajectory) == 1
    assert Env.alive == 0
    assert context.pool.is_closed


async def test_its_own_pool_is_closed_though_whoever_closes_is_cancelled():
    may_close = anyio.Event()
    closed = []

    class Env:
        def reset(self):
            pass

        async def close(self):
            await may_close.wait()
            closed.append(self)

    context = Context("r")
    await context.acquire_resource(spec=LocalEnvResourceSpec(Env))
    await context.acquire_resource(spec=LocalEnvResourceSpec(Env, max_uses=9), scope="global")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.aclose)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        may_close.set()
    assert len(closed) == 2
    assert context.pool.is_closed
