"""Recorded episodes judged by another reward: in order, in worker processes, and nothing is kept too long."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

import anyio
import pytest

from ors_server.model.errors import StoreError
from ors_server.model.trajectory import StepStatus
from ors_server.recovery.recorded_episode import RecordedEpisode
from ors_server.replaying.regrading import Regraded, RegradeRequest, paid_by_tools, regrade
from ors_server.rewards.batch.batch_scorer import BatchScorer
from ors_server.rewards.result import RewardStatus
from ors_server.rewards.reward_errors import BatchError

LIMIT = 60.0
"""Seconds that one regrading may take: workers start slowly on a busy machine."""
REWARDS = '''
def length(final_response, trajectory, weight=1.0):
    """Pays for every step before the last."""
    return {"reward": weight * len(trajectory.steps), "said": final_response}


def unjudged(trajectory):
    """Cannot judge what begins with 1."""
    if trajectory.steps[0].result == "1":
        raise ValueError("no ones")
    return 1.0


def place(rollouts, id):
    """Pays the place in the group."""
    return [{"reward": float(place), "of": len(rollouts), "task": id} for place, _ in enumerate(rollouts)]
'''

pytestmark = pytest.mark.timeout(LIMIT + 10)


@dataclass
class Listed:
    """Episodes that are at hand."""

    episodes: list[RecordedEpisode]
    fails: bool = False

    async def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        for episode in self.episodes:
            yield episode
        if self.fails:
            raise StoreError("the database is gone")

    async def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        for episode in sorted(self.episodes, key=lambda each: each.record.origin.index or 0):
            yield episode


@pytest.fixture
def judge(tmp_path):
    """Judges episodes with one of the rewards above."""
    (tmp_path / "mine.py").write_text(REWARDS)

    async def run(
        episodes: list[RecordedEpisode], name: str, *, fails: bool = False, keywords=None, **request
    ) -> list[Regraded]:
        found: list[Regraded] = []
        with anyio.fail_after(LIMIT):
            replaced = await regrade(
                BatchScorer(f"{tmp_path}/mine.py:{name}", jobs=1, keywords=keywords or {}),
                Listed(episodes, fails),
                RegradeRequest(**request),
                found.append,
            )
        assert replaced == 0
        return found

    return run


async def test_each_is_judged_in_order_and_beside_what_was_paid(judge, episodes):
    found = await judge(episodes, "length", keywords={"weight": 2.0})
    assert [each.origin.episode_id for each in found] == [each.record.origin.episode_id for each in episodes]
    assert [each.result.reward for each in found] == [2.0] * 6
    assert [each.paid for each in found] == [number / 10 for number in range(6)]
    assert found[5].difference == 1.5
    assert found[0].result.extras["said"] == "Bye."
    shown = found[5].as_json()
    assert (shown["paid"], shown["return"], shown["reward"], shown["difference"]) == (0.5, 0.5, 2.0, 1.5)


async def test_the_final_response_can_be_somewhere_else(judge, episodes):
    found = await judge(episodes, "length", final_response_from="say.text")
    assert [each.result.extras["said"] for each in found] == [str(number) for number in range(6)]


async def test_what_could_not_be_judged_has_no_number(judge, episodes):
    found = await judge(episodes, "unjudged")
    assert [each.result.status for each in found] == [
        RewardStatus.ERROR if number == 1 else RewardStatus.GRADED for number in range(6)
    ]
    assert found[1].difference is None
    assert "no ones" in found[1].result.reason


async def test_episodes_of_one_task_are_a_group(judge, episodes):
    found = await judge(episodes, "place", by_task=True)
    assert [(each.origin.index, each.result.reward) for each in found] == [
        (index, place) for index in range(3) for place in (0.0, 1.0)
    ]
    assert {each.result.extras["of"] for each in found} == {2}
    assert found[-1].result.extras["task"] == "table-2"


async def test_no_reward_no_option_and_no_episodes_end_it_at_once(judge, episodes):
    with pytest.raises(BatchError, match="nosuch"):
        await judge(episodes, "nosuch")
    with pytest.raises(BatchError, match="no option colour"):
        await judge(episodes, "length", keywords={"colour": 1})
    assert await judge([], "length") == []


async def test_a_record_that_cannot_be_read_to_its_end_ends_it(judge, episodes):
    with pytest.raises(StoreError, match="the database is gone"):
        await judge(episodes, "length", fails=True)


async def test_what_was_paid_leaves_penalties_out_and_is_none_where_nothing_was_judged(
    record, casino, altered
):
    fined = await record(casino, ["cheat", "leave"])
    assert fined.record.summary.episode_return == 0.75
    assert paid_by_tools(fined.record, fined.steps) == 1.0
    talked = await record(casino, ["cheat", ("say", {"text": "a"})])
    assert paid_by_tools(talked.record, talked.steps) is None
    assert altered(talked, 2, status=StepStatus.FAILED).steps[1].status is StepStatus.FAILED


async def test_an_episode_that_is_too_long_for_a_row_is_not_judged_and_the_others_are(judge, episodes):
    first = episodes[0]
    huge = replace(first.steps[0], arguments={"text": "x" * 2**24})
    found = await judge([replace(first, steps=(huge, *first.steps[1:])), episodes[2]], "length")
    assert [each.result.status for each in found] == [RewardStatus.ERROR, RewardStatus.GRADED]
