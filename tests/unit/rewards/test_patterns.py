"""The patterns of rewards as docs/rewards-patterns.md writes them: what they pay; what nobody can farm."""

import dataclasses
import importlib.util
import itertools
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.rewards import RewardStatus, score
from ors_server.rewards.reward_errors import RewardDefinitionError, RewardValueError
from ors_server.rewards.shaping import PotentialShaping
from ors_server.testing import play

PAGE = Path(__file__).parents[3] / "docs" / "rewards-patterns.md"
FILE = re.compile(r"^```python file=(\w+)\.py\n(.*?)^```", re.MULTILINE | re.DOTALL)

potentials = st.floats(0, 1)
walks = st.lists(potentials, min_size=1, max_size=40)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Iterator[dict[str, ModuleType]]:
    """The page's files as modules, by name."""
    folder = tmp_path_factory.mktemp("patterns")
    modules: dict[str, ModuleType] = {}
    for name, text in FILE.findall(PAGE.read_text()):
        path = folder / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    yield modules
    for name in modules:
        del sys.modules[name]


def play_calls(environment: type, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], Any]:
    """Plays the task whose number is 42: the rewards of the steps, and the episode's summary."""
    with play(environment, index=1) as episode:
        rewards = [episode.call(name, **arguments).reward for name, arguments in calls]
        return rewards, episode.summary


RIGHT = ("submit", {"number": 42})
WRONG = ("submit", {"number": 41})


def test_the_page_has_a_file_for_every_pattern(page):
    assert list(page) == ["sparse", "dense", "shaped", "penalty", "continuous", "figures", "together"]


# The six patterns.


def test_sparse_pays_at_the_end_and_says_that_nothing_was_judged_before(page):
    rewards, summary = play_calls(page["sparse"].Sparse, ("compare", {"number": 50}), RIGHT)
    assert rewards == [None, 1.0]
    assert (summary.episode_return, summary.ungraded_steps) == (1.0, 1)
    assert play_calls(page["sparse"].Sparse, WRONG)[0] == [0.0]


@pytest.mark.parametrize("times", [1, 3, 15])
def test_dense_pays_each_find_once_and_less_together_than_the_end(page, times):
    looks = [("look", {"digit": digit}) for digit in (0, 1, 2, 3)] * times
    _, collected = play_calls(page["dense"].Dense, *looks[:19])
    _, solved = play_calls(page["dense"].Dense, *looks[:19], RIGHT)
    assert collected.episode_return == pytest.approx(0.3)
    assert solved.episode_return == pytest.approx(1.0)
    assert collected.episode_return < page["dense"].SOLVE


def paid_for_every_output(output: str) -> float:
    """The standard's own dense example."""
    paid = 0.2 if "answer.txt" in output else 0.0
    return paid + 0.1 if output else paid


def paid_for_the_level(error: float) -> float:
    """The standard's own shaped example, once a calculation was tried."""
    return 0.9 if error < 1 else 0.7 if error < 5 else 0.3


def test_the_standards_own_examples_can_be_farmed_as_the_page_says():
    assert sum(paid_for_every_output("answer.txt") for _ in range(10)) == pytest.approx(3.0)
    assert sum(paid_for_the_level(0.5) for _ in range(10)) == pytest.approx(9.0)
    blocked, honest = -1.0, -0.1 * 11
    assert blocked > honest


@settings(max_examples=20)
@given(walk=st.lists(st.integers(0, 100), max_size=15))
def test_shaped_pays_the_end_alone_whatever_was_guessed(page, walk):
    guesses = [("guess", {"number": number}) for number in walk]
    for last, worth in ((RIGHT, 1.0), (WRONG, 0.0)):
        assert play_calls(page["shaped"].Shaped, *guesses, last)[1].episode_return == pytest.approx(worth)


def test_an_episode_that_is_cut_off_keeps_what_its_last_state_is_worth_once(page):
    guesses = [("guess", {"number": number}) for number in itertools.islice(itertools.cycle((0, 42)), 20)]
    _, summary = play_calls(page["shaped"].Shaped, *guesses)
    assert (summary.stop_reason, summary.episode_return) == ("step_limit", pytest.approx(0.5))


def test_penalties_are_charged_by_cause_and_leave_a_solution_worth_its_while(page):
    mistake = ("compare", {"number": 1000})
    _, summary = play_calls(page["penalty"].Penalty, mistake, ("nonesuch", {}), mistake, RIGHT)
    assert summary.penalties == {"tool_error": pytest.approx(-0.1), "invalid_call": pytest.approx(-0.05)}
    assert summary.episode_return == pytest.approx(0.85)


def test_the_longest_honest_episode_is_worth_more_than_a_blocked_one(page):
    compare = ("compare", {"number": 50})
    _, slow = play_calls(page["penalty"].Penalty, *[compare] * 19, WRONG)
    _, blocked = play_calls(page["penalty"].Penalty, ("peek", {}))
    assert (blocked.stop_reason, blocked.episode_return) == ("blocked", -1.0)
    assert slow.episode_return == pytest.approx(-0.2)
    assert slow.episode_return > blocked.episode_return


@given(number=st.floats(allow_nan=True, allow_infinity=True) | st.text(max_size=50))
def test_continuous_pays_in_its_range_and_reads_anything(page, number):
    result = score(page["continuous"].closeness, final_response=str(number), answer=42.0, spread=2.0)
    assert result.reward is not None
    assert 0 <= result.reward <= 1
    assert result.status in {RewardStatus.GRADED, RewardStatus.UNPARSED_ANSWER}


@pytest.mark.parametrize("constant", [0, 25, 50, 75, 100])
def test_continuous_pays_a_constant_guess_next_to_nothing(page, constant):
    def paid(answer: int) -> float:
        result = score(page["continuous"].closeness, final_response=str(constant), answer=answer, spread=2.5)
        return result.reward or 0.0

    assert sum(map(paid, range(101))) / 101 < 0.03
    assert paid(constant) == 1.0
    assert sum(max(0, 1 - abs(50 - answer) / 100) for answer in range(101)) / 101 > 0.74  # the standard's


@pytest.mark.parametrize("fields", [{"answer": math.nan}, {"spread": 0.0}, {"spread": math.inf}])
def test_continuous_gives_no_number_for_a_task_that_makes_no_sense(page, fields):
    given_ = {"final_response": "1", "answer": 1.0, "spread": 1.0, **fields}
    assert score(page["continuous"].closeness, **given_).status is RewardStatus.BAD_GOLD


def test_figures_keep_apart_what_was_not_judged(page):
    figures = page["figures"].figures
    assert figures([{"return": None, "best_step": None}]) == {"episodes": 1, "not_judged": 1}
    assert figures([]) == {"episodes": 0, "not_judged": 0}
    all_right = figures([{"return": 0.85, "best_step": 1.0}] * 10 + [{"return": None, "best_step": None}])
    assert (all_right["success_rate"], all_right["not_judged"]) == (1.0, 1)
    assert all_right["interval"] == (pytest.approx(0.7225, abs=1e-3), 1.0)  # Wilson, 10 of 10
    none_right = figures([{"return": 0.0, "best_step": 0.0}] * 10)
    assert none_right["interval"] == (0.0, pytest.approx(0.2775, abs=1e-3))


# Putting together.


def test_only_the_ungated_sum_pays_for_what_is_not_about_the_answer(page):
    together = page["together"]
    wrong = {"final_response": "no idea", "answer": "Paris"}
    paid = {
        name: score(getattr(together, name), **wrong).reward
        for name in ("weighted", "gated", "product", "least", "clipped")
    }
    assert paid == {"weighted": 0.25, "gated": 0.0, "product": 0.0, "least": 0.0, "clipped": 0.0}


@given(response=st.text(max_size=60))
def test_compositions_of_rewards_in_a_range_stay_in_it(page, response):
    together = page["together"]
    fields = {"final_response": response, "answer": "Paris, France"}
    f1 = score(together.qa_f1_reward, **fields).reward or 0.0
    brevity = score(together.brevity, **fields).reward or 0.0
    assert score(together.weighted, **fields).reward == pytest.approx((3 * f1 + brevity) / 4)
    assert score(together.product, **fields).reward == pytest.approx(f1 * brevity)
    assert score(together.least, **fields).reward == min(f1, brevity)
    assert score(together.gated, **fields).reward == (brevity if f1 == 1.0 else 0.0)
    assert score(together.clipped, **fields).reward == pytest.approx(min(max(2 * f1 - brevity, 0.0), 1.0))


# Potential-based shaping.


def rewards_of(shaping: PotentialShaping, walk: list[float]) -> list[float]:
    return [shaping.move(potential) for potential in walk]


@given(walk=walks, first=potentials, discount=st.floats(0.01, 1), scale=st.floats(0, 10))
def test_the_discounted_sum_depends_on_the_first_state_alone(walk, first, discount, scale):
    shaping = PotentialShaping(first, discount, scale)
    rewards = [*rewards_of(shaping, walk), shaping.finish()]
    total = math.fsum(reward * discount**number for number, reward in enumerate(rewards))
    assert total == pytest.approx(-scale * first, abs=1e-9)


@given(cycle=walks, rounds=st.integers(1, 5), discount=st.floats(0.01, 1), scale=st.floats(0, 10))
def test_no_circle_pays(cycle, rounds, discount, scale):
    shaping = PotentialShaping(cycle[-1], discount, scale)
    earned = math.fsum(rewards_of(shaping, cycle * rounds))
    assert earned <= 1e-9
    if discount == 1:
        assert earned == pytest.approx(0.0, abs=1e-9)


@given(cycle=st.lists(st.floats(-1, 1), min_size=1, max_size=20), scale=st.floats(-5, 5))
def test_without_a_discount_potentials_of_any_sign_telescope(cycle, scale):
    shaping = PotentialShaping(cycle[-1], 1.0, scale)
    assert math.fsum(rewards_of(shaping, cycle)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("potential", "scale"), [(-0.5, 1.0), (0.5, -1.0)])
def test_potentials_with_which_a_discounted_shaping_could_be_farmed_are_refused(potential, scale):
    # Staying there would pay (1 - discount) * 0.5 at every step, without end.
    with pytest.raises(RewardDefinitionError, match="without end"):
        PotentialShaping(potential, 0.9, scale)
    with pytest.raises(RewardValueError, match="without end"):
        PotentialShaping(0.0, 0.9, scale).move(potential)
    assert PotentialShaping(potential, 1.0, scale).move(potential) == 0.0


def test_a_step_that_earns_no_finite_number_is_refused_and_changes_nothing():
    shaping = PotentialShaping(-1e308)
    with pytest.raises(RewardValueError, match="expected a finite reward, got"):
        shaping.move(1e308)
    assert shaping.potential == -1e308


@given(walk=walks, place=st.integers(0, 40))
def test_a_shaping_that_is_kept_and_taken_up_again_goes_on_alike(walk, place):
    whole, parted = PotentialShaping(), PotentialShaping()
    expected = rewards_of(whole, walk)
    before = rewards_of(parted, walk[:place])
    after = rewards_of(PotentialShaping(**dataclasses.asdict(parted)), walk[place:])
    assert before + after == expected
