"""The reward core: injection by name, statuses, ranges, composition, shaping, the record, the catalogue."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from ors_server.model.trajectory import EpisodeOrigin, Step, StepStatus
from ors_server.model.wire import TextBlock
from ors_server.rewards import CompositeReward
from ors_server.rewards.catalogue import find_reward, list_rewards
from ors_server.rewards.composite import ClippedReward, GatedReward, MinReward, ProductReward
from ors_server.rewards.define import BaseReward, as_reward, reward
from ors_server.rewards.recorded_trajectory import trajectory_of
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import (
    RewardDefinitionError,
    RewardFieldError,
    RewardValueError,
    UnknownRewardError,
)
from ors_server.rewards.reward_trajectory import Trajectory, read_trajectory
from ors_server.rewards.scoring import evaluate, score
from ors_server.rewards.shaping import PotentialShaping


@reward(name="summary_reward", range=(0.0, 1.0))
def short(final_response, max_length, penalty=None, **rest):
    """Pays for short responses.

    Args:
        final_response: The response.
        max_length: Characters.
        penalty: 0 leaves long ones unpunished.
        **rest: Everything else.
    """
    good = penalty == 0 or len(final_response) <= max_length
    return {"reward": good, "length": len(final_response), "rest": sorted(rest)}


def test_fields_are_filled_by_name_and_the_rest_goes_to_the_rest():
    result = score(short, final_response="abc", max_length=3, task="t")
    assert (result.reward, result.status) == (1.0, RewardStatus.GRADED)
    assert dict(result.extras) == {"length": 3, "rest": ["task"]}
    assert score(short, final_response="abc", max_length=2, penalty=0).reward == 1.0
    assert score(short, outcome_is="x", final_response="abc", max_length=2).reward == 0.0


def test_a_missing_field_is_named():
    result = score(short, final_response="abc")
    assert (result.reward, result.status) == (None, RewardStatus.ERROR)
    assert "summary_reward needs max_length" in str(result.reason)
    with pytest.raises(RewardFieldError, match="max_length"):
        short(final_response="abc")


def test_a_direct_call_gives_a_mapping():
    assert short("abc", 3)["reward"] == 1.0
    assert short(final_response="abc", max_length=3, ignored=1)["length"] == 3


class APIReward(BaseReward):
    """Holds a key, and does not call the base's constructor."""

    name = "api_reward"

    def __init__(self, key):
        self.key = key

    async def call(self, query):
        await anyio.lowlevel.checkpoint()
        return {"reward": 0.5, "used": self.key, "query": query}


def test_a_class_with_state_judges_too():
    result = score(APIReward("k"), query="q")
    assert (result.reward, dict(result.extras)) == (0.5, {"used": "k", "query": "q"})

    async def direct():
        return await APIReward("k")(query="q")

    assert anyio.run(direct)["reward"] == 0.5


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "1.0", None, [1.0], {"score": 1}, {"reward": None}, 1.5]
)
def test_what_is_no_reward_is_an_error_and_no_number(value):
    result = score(reward(range=(0.0, 1.0))(lambda: value))
    assert (result.reward, result.status) == (None, RewardStatus.ERROR)
    assert result.reason


def test_what_a_reward_raises_is_an_error_and_no_number():
    def broken(answer):
        raise KeyError(answer)

    result = score(broken, answer="a")
    assert (result.reward, result.reason) == (None, "KeyError: 'a'")


def test_a_reward_that_takes_too_long_is_a_limit():
    async def body():
        async def slow():
            await anyio.sleep_forever()

        return await evaluate(slow, {}, time_limit=0.01)

    result = anyio.run(body)
    assert (result.reward, result.status) == (None, RewardStatus.LIMIT)


def test_what_cannot_be_a_reward_is_refused_when_it_is_made():
    for wrong in (5, None, "reward"):
        with pytest.raises(RewardDefinitionError):
            as_reward(wrong)
    with pytest.raises(RewardDefinitionError, match="by position only"):
        reward(eval("lambda x, /: 1.0"))  # noqa: S307  (a signature)
    with pytest.raises(RewardDefinitionError, match="two finite numbers"):
        reward(range=(1.0, 0.0))(lambda: 1.0)


def test_a_result_cannot_be_illegal():
    for status, number in (
        (RewardStatus.GRADED, None),
        (RewardStatus.ERROR, 0.0),
        (RewardStatus.GRADED, float("nan")),
    ):
        with pytest.raises(RewardValueError):
            RewardResult(number, status)
    assert RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason="no").as_json() == {
        "reward": 0.0,
        "status": "unparsed_answer",
        "extras": {},
        "reason": "no",
    }


def number(value):
    return reward(name=f"of_{value}")(lambda: value)


def test_rewards_are_made_of_rewards():
    assert score(ProductReward(number(0.5), number(0.5))).reward == 0.25
    assert score(MinReward(number(0.5), number(0.2))).reward == 0.2
    assert score(GatedReward(number(1.0), number(0.7))).reward == 0.7
    assert score(GatedReward(number(0.9), number(0.7), otherwise=0.1)).reward == 0.1
    assert score(ClippedReward(number(3.0), 0.0, 1.0)).reward == 1.0
    with pytest.raises(RewardDefinitionError):
        MinReward()


def test_a_part_that_could_not_judge_leaves_the_whole_without_a_number():
    bad = reward(name="bad")(lambda: RewardResult.without(RewardStatus.BAD_GOLD, "odd"))
    result = score(ProductReward(number(0.5), bad))
    assert (result.reward, result.status, result.reason) == (None, RewardStatus.BAD_GOLD, "bad: odd")
    assert result.extras["of_0.5"] == 0.5


def test_async_parts_make_an_async_whole():
    async def later():
        await anyio.lowlevel.checkpoint()
        return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason="no answer")

    result = score(MinReward(number(1.0), later))
    assert (result.reward, result.status) == (0.0, RewardStatus.UNPARSED_ANSWER)


def test_shaping_cannot_be_farmed():
    draw = random.Random(7)  # noqa: S311  (a walk)
    for _ in range(50):
        shaping = PotentialShaping()
        total = sum(shaping.move(draw.random()) for _ in range(draw.randrange(1, 40))) + shaping.finish()
        assert total == pytest.approx(0.0, abs=1e-9)
        with pytest.raises(RewardValueError):
            shaping.move(1.0)
    for wrong in ({"discount": 0.0}, {"discount": 1.5}, {"potential": float("nan")}):
        with pytest.raises(RewardDefinitionError):
            PotentialShaping(**wrong)
    with pytest.raises(RewardValueError):
        PotentialShaping().move(float("inf"))


def test_the_record_is_read_without_loss():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    origin = EpisodeOrigin("s", "e", "1", "0", {"answer": "42"}, "h", "train", 0, now, {})
    long = "x" * 3000
    step = Step(
        number=1,
        call_id="c",
        tool="bash",
        arguments={"command": "ls"},
        status=StepStatus.GRADED,
        blocks=(TextBlock(text=long),),
        reward=0.5,
        components={"tool": 0.5},
        finished=False,
        error=None,
        error_code=None,
        metadata=None,
        started_at=now,
        duration=0.25,
    )
    read = trajectory_of(origin, [step], prompt="Do.", final_response=long, metadata={"success": True})
    assert (len(read.outcome), len(read.final_response)) == (1000, 3000)
    assert (len(read.steps[0].result), len(read.steps[0].whole_result)) == (500, 3000)
    assert read.metadata == {"answer": "42", "success": True}
    assert read.steps[0].action_input == {"command": "ls"}
    assert read.steps[0].latency_ms == 250.0
    assert [message["role"] for message in read] == ["user", "assistant", "tool", "assistant"]
    assert score(find_reward("task_success"), read).reward == 1.0


def test_trajectories_are_read_from_what_others_write():
    told = read_trajectory(
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"text": "a"}]}]
    )
    assert (told.task, told.final_response, len(told), told[0]["content"]) == ("q", "a", 2, "q")
    made = read_trajectory(
        {"outcome": "o", "steps": [{"action": "x", "error": "e"}], "timestamp": "2026-01-01"}
    )
    assert made.steps[0].error == "e"
    assert read_trajectory(made) is made
    for wrong in (5, "text", {"metadata": 3}, {"steps": [3]}, ["text"]):
        with pytest.raises(RewardFieldError):
            read_trajectory(wrong)
    assert bool(Trajectory())


def test_the_catalogue_lists_what_can_be_found():
    entries = list(list_rewards())
    assert {"task_success", "qa_f1_reward", "math_equal_reward"} <= {entry.name for entry in entries}
    for entry in entries:
        assert entry.summary
        assert find_reward(entry.place).name == find_reward(entry.name).name
    for wrong in ("nonesuch", "nowhere:x", "json:nothing"):
        with pytest.raises(UnknownRewardError):
            find_reward(wrong)


BROKEN = RewardResult.without(RewardStatus.ERROR, "the judge is away")


def part(value: object, asked: list[object], *, is_async: bool = False) -> Any:
    """Makes a reward in [0, 1] that notes that it was asked."""

    @reward(name=f"part_{len(asked)}", range=(0.0, 1.0))
    async def later() -> Any:
        asked.append(value)
        return value

    @reward(name=f"part_{len(asked)}", range=(0.0, 1.0))
    def now() -> Any:
        asked.append(value)
        return value

    return later if is_async else now


CASES: dict[str, tuple[Callable[..., Any], float, float | None, int]] = {
    "what a closed gate guards is not asked": (GatedReward, 0.0, 0.0, 1),
    "what an open gate guards is asked": (GatedReward, 1.0, None, 2),
    "a part of weight 0 is not asked": (lambda one, two: CompositeReward([(one, 1), (two, 0)]), 0.5, 0.5, 1),
    "weights that add up to 0 ask nobody": (
        lambda one, two: CompositeReward([(one, 1), (two, -1)]),
        0.5,
        0.0,
        0,
    ),
    "weights that add up to 0 but for their rounding ask nobody": (
        lambda one, two: CompositeReward([(one, 0.1), (two, 0.2), (two, -0.3)]),
        0.5,
        0.0,
        0,
    ),
    "a factor of 0 decides": (ProductReward, 0.0, 0.0, 1),
    "a later factor of 0 decides over a failure": (lambda one, two: ProductReward(two, one), 0.0, 0.0, 2),
    "the least that is possible decides": (MinReward, 0.0, 0.0, 1),
    "another least asks everybody": (MinReward, 0.5, None, 2),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_part_that_cannot_matter_neither_costs_nor_breaks(case, is_async):
    compose, first, expected, count = CASES[case]
    asked: list[object] = []
    whole = compose(part(first, asked), part(BROKEN, asked, is_async=is_async))
    result = score(whole)
    assert result.reward == expected
    assert len(asked) == count
    assert result.status is (RewardStatus.ERROR if expected is None else RewardStatus.GRADED)
    assert anyio.run(evaluate, whole, {}).reward == expected


def test_only_parts_that_were_asked_stand_in_the_extras():
    result = score(GatedReward(part(0.25, []), part(1.0, [None])))
    assert dict(result.extras) == {"part_0": 0.25}
