"""The store in memory: steps in order, ended episodes forgotten oldest first."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ors_server.store.memory import MemoryStore
from ors_server.trajectory import EpisodeOrigin, EpisodeSummary, Step, StepStatus

pytestmark = pytest.mark.anyio
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
SUMMARY = EpisodeSummary(
    phase="playing",
    steps=0,
    episode_return=0.0,
    reward_sum=0.0,
    penalty_sum=0.0,
    penalties={},
    discounted_return=0.0,
    last_reward=None,
    best_reward=None,
    ungraded_steps=0,
    failed_steps=0,
    stop_reason=None,
    created_at=MOMENT,
    started_at=None,
    last_call_at=None,
    finished_at=None,
)


def origin(session_id):
    return EpisodeOrigin(session_id, "e", "1", "0", {}, "hash", None, None, MOMENT, {})


def step(number):
    return Step(
        number=number,
        call_id=f"c{number}",
        tool="t",
        arguments={},
        status=StepStatus.UNGRADED,
        blocks=(),
        reward=None,
        components={},
        finished=False,
        error=None,
        error_code=None,
        metadata=None,
        started_at=MOMENT,
        duration=0.0,
    )


async def test_an_unknown_episode_has_nothing():
    store = MemoryStore()
    assert await store.origin("nobody") is None
    assert await store.summary("nobody") is None
    assert await store.steps("nobody") == ()
    await store.close("nobody", SUMMARY)
    await store.aclose()


async def test_steps_and_figures_are_kept_in_order_and_sliced():
    store = MemoryStore()
    await store.open(origin("a"))
    assert await store.summary("a") is None
    for number in (1, 2, 3):
        await store.append("a", step(number), replace(SUMMARY, steps=number))
    assert (await store.summary("a")).steps == 3
    assert [s.number for s in await store.steps("a")] == [1, 2, 3]
    assert [s.number for s in await store.steps("a", 1, 2)] == [2]
    assert (await store.origin("a")).session_id == "a"


async def test_the_oldest_ended_episodes_are_forgotten_and_live_ones_never():
    store = MemoryStore(retain=2)
    await store.open(origin("live"))
    for name in ("a", "b", "c"):
        await store.open(origin(name))
        await store.close(name, SUMMARY)
    assert await store.origin("a") is None
    assert [await store.origin(name) is not None for name in ("b", "c", "live")] == [True] * 3


async def test_an_id_that_is_used_again_starts_a_new_record_that_lives():
    store = MemoryStore(retain=1)
    await store.open(origin("a"))
    await store.append("a", step(1), SUMMARY)
    await store.close("a", SUMMARY)
    await store.open(origin("a"))
    await store.open(origin("b"))
    await store.close("b", SUMMARY)
    assert await store.steps("a") == ()
    assert await store.origin("a") is not None


async def test_nothing_is_retained_where_nothing_should_be():
    store = MemoryStore(retain=0)
    await store.open(origin("a"))
    await store.close("a", SUMMARY)
    assert await store.origin("a") is None
