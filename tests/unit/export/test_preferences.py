"""Pairs of episodes of one task."""

from dataclasses import replace
from datetime import timedelta

from ors_server.export.chat import ConversationOptions
from ors_server.export.episodes import UNFINISHED, ExportCounts
from ors_server.export.preferences import (
    EPISODES_AT_ONCE,
    TIED,
    WITHOUT_JUDGEMENT,
    Pairing,
    export_preferences,
)
from ors_server.store.episode_filter import ALL, EpisodeFilter
from ors_server.store.memory import MemoryStore
from tests.fixtures.recorded_episodes import BEGINNING, Played, of_every_kind, step_of, write


def play(name, reward, minute=0, **more):
    return Played(name, [step_of(1, reward=reward)], created_at=BEGINNING + timedelta(minutes=minute), **more)


async def pairs(episodes, pairing=Pairing(), wanted=ALL, counts=None):  # noqa: B008  (frozen)
    store = MemoryStore()
    await write(store, episodes)
    rows = export_preferences(store, wanted, pairing, ConversationOptions({}), counts or ExportCounts())
    return [
        tuple(row[side]["episode_id"].lstrip("0") for side in ("chosen_episode", "rejected_episode"))
        async for row in rows
    ]


async def test_the_best_of_a_group_is_paired_with_the_worst():
    assert await pairs([play("b", 0.5), play("c", 0.0), play("a", 1.0)]) == [("a", "c")]


async def test_the_earlier_of_equals_ranks_first():
    episodes = [play("late", 1.0, 5), play("early", 1.0, 1), play("low", 0.0, 9), play("x", 0.0, 3)]
    assert await pairs(episodes) == [("early", "low")]


async def test_a_tie_makes_no_pair():
    counts = ExportCounts()
    assert await pairs([play("a", 1.0), play("b", 1.0), play("c", 1.0)], counts=counts) == []
    assert counts.left_out == {TIED: 1}


async def test_more_pairs_use_no_episode_twice():
    episodes = [
        play(name, reward) for name, reward in (("a", 1.0), ("b", 0.8), ("c", 0.3), ("d", 0.1), ("e", 0.0))
    ]
    assert await pairs(episodes, Pairing(max_pairs=5)) == [("a", "e"), ("b", "d")]


async def test_a_margin_asks_for_a_greater_difference():
    episodes = [play("a", 1.0), play("b", 0.5), play("c", 0.3), play("d", 0.0)]
    assert await pairs(episodes, Pairing(max_pairs=2, margin=0.2)) == [("a", "d")]
    assert await pairs(episodes, Pairing(margin=1.0)) == []


async def test_tasks_and_environments_are_groups_of_their_own():
    other = {"question": "1 + 1"}
    episodes = [play("a", 1.0), play("b", 0.0, task=other), play("c", 0.0, environment="others")]
    assert await pairs(episodes) == []


async def test_a_label_divides_the_episodes_of_a_task():
    episodes = [
        play(f"{run}{reward:.0f}", reward, labels={"run": run}) for run in ("x", "y") for reward in (1.0, 0.0)
    ]
    assert await pairs(episodes, Pairing("run", max_pairs=9)) == [("x1", "x0"), ("y1", "y0")]
    assert len(await pairs(episodes, Pairing(max_pairs=9))) == 2


async def test_what_was_not_judged_or_not_played_out_is_in_no_pair():
    counts = ExportCounts()
    episodes = [play("a", 1.0), play("b", None), play("c", 0.0, stop_reason="expired")]
    assert await pairs(episodes, counts=counts) == []
    assert counts.left_out == {WITHOUT_JUDGEMENT: 1, UNFINISHED: 1, TIED: 1}
    assert counts.episodes == 3


async def test_a_filter_says_who_takes_part():
    episodes = [play("a", 1.0), play("b", 0.5), play("c", 0.0)]
    assert await pairs(episodes, wanted=EpisodeFilter(min_return=0.2)) == [("a", "b")]


async def test_pairs_that_were_told_different_things_are_counted():
    counts = ExportCounts()
    other = replace(play("b", 0.0), prompt=(step_of(1).blocks))
    assert await pairs([play("a", 1.0), other], counts=counts) == []
    assert counts.left_out == {"pairs with different prompts": 1}


async def test_episodes_of_every_kind_give_the_pairs_that_they_hold():
    counts = ExportCounts()
    assert await pairs(of_every_kind(), counts=counts) == [("good", "poor")]
    assert (counts.rows, counts.steps) == (1, 4)


async def test_groups_may_be_spread_over_many_pages():
    episodes = [play(f"e{n}", float(n), n, task={"n": n % 7}) for n in range(EPISODES_AT_ONCE + 20)]
    found = await pairs(episodes)
    assert len(found) == 7
    assert all(int(low[1:]) < 7 for _, low in found)


class Forgetful(MemoryStore):
    """A store that has lost its records by the time that they are asked for."""

    async def whole(self, name):
        return None


async def test_an_episode_that_was_forgotten_meanwhile_makes_no_pair():
    store, counts = Forgetful(), ExportCounts()
    await write(store, [play("a", 1.0), play("b", 0.0)])
    rows = export_preferences(store, ALL, Pairing(), ConversationOptions({}), counts)
    assert [row async for row in rows] == []
    assert counts.left_out == {"episodes that were forgotten meanwhile": 1}
