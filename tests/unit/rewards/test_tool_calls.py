"""Tool calls: which of the wanted ones were made, and a bonus that repetition does not farm."""

import json

import pytest

from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Step, Trajectory
from ors_server.rewards.scoring import score
from ors_server.rewards.structures.episode_calls import ToolCall, read_calls
from ors_server.rewards.structures.tool_calls import distinct_tool_use_reward, tool_call_match_reward

WEATHER = {"name": "weather", "arguments": {"city": "Oslo", "days": 3}}
TIME = {"name": "time", "arguments": {}}


def made(*calls):
    return Trajectory(steps=[Step(action=name, action_input=arguments) for name, arguments in calls])


def judged(answer, *calls, **options):
    return score(tool_call_match_reward, made(*calls), answer=answer, **options)


@pytest.mark.parametrize(
    ("answer", "calls", "options", "reward"),
    [
        (WEATHER, [("weather", {"days": 3, "city": "Oslo"})], {}, 1.0),
        (json.dumps([WEATHER]), [("weather", {"days": 3.0, "city": "Oslo"})], {}, 1.0),
        (WEATHER, [("weather", {"days": "3", "city": "Oslo"})], {}, 0.0),
        (WEATHER, [("weather", {"days": 3, "city": "oslo"})], {}, 0.0),
        (WEATHER, [("weather", {"city": "Oslo"})], {}, 0.0),
        (WEATHER, [("weather", {"days": 3, "city": "Oslo", "unit": "C"})], {}, 0.0),
        (WEATHER, [("Weather", {"days": 3, "city": "Oslo"})], {}, 0.0),
        ({"name": "f", "arguments": {"x": 1}}, [("f", {"x": True})], {}, 0.0),
        ({"name": "f", "arguments": {"x": None}}, [("f", {})], {}, 0.0),
        ({"name": "f"}, [("f", {})], {}, 1.0),
        ({"name": "f"}, [("f", "not an object")], {}, 0.0),
        ([WEATHER, TIME], [("time", {}), ("weather", {"days": 3, "city": "Oslo"})], {}, 1.0),
        ([WEATHER, TIME], [("time", {}), ("weather", {"days": 3, "city": "Oslo"})], {"ordered": True}, 0.0),
        ([TIME, TIME], [("time", {})], {}, 0.0),
        ([TIME], [("time", {}), ("time", {})], {}, 0.0),
        ([TIME], [("time", {}), ("time", {})], {"extra": "allowed"}, 1.0),
        ([TIME, WEATHER], [("time", {})], {"pays": "fraction"}, 0.5),
        ([TIME], [("time", {})] * 4, {"pays": "fraction"}, 0.25),
        ([TIME], [("time", {})] * 4, {"pays": "fraction", "extra": "allowed"}, 1.0),
        ([], [], {}, 1.0),
        ([], [("time", {})], {}, 0.0),
        ([], [("time", {})], {"pays": "fraction"}, 0.0),
        ([TIME], [], {"pays": "fraction"}, 0.0),
        ([TIME], [("time", {})] * 501, {"extra": "allowed"}, 0.0),
    ],
)
def test_calls_match_by_name_and_arguments(answer, calls, options, reward):
    result = judged(answer, *calls, **options)
    assert (result.status, result.reward) == ("graded", pytest.approx(reward))


def test_arguments_that_are_too_long_or_no_json_match_nothing():
    long = [("weather", {"city": "x" * 3_000, "days": 3})] * 400
    result = judged(WEATHER, *long, extra="allowed")
    assert (result.status, result.reward) == ("graded", 0.0)
    assert "characters" in str(result.reason)
    odd = judged(WEATHER, ("weather", {"city": float("nan"), "days": 3}))
    assert (odd.reward, odd.extras["wrong_arguments"]) == (0.0, [])


@pytest.mark.parametrize(
    ("tolerance", "given", "reward"),
    [
        (0.0, {"x": 1.0, "y": [2, 3]}, 1.0),
        (0.0, {"x": 1.0000001, "y": [2, 3]}, 0.0),
        (0.1, {"x": 1.1, "y": [2.05, 3]}, 1.0),
        ({"x": 0.1}, {"x": 0.9, "y": [2, 3]}, 1.0),
        ({"x": 0.1}, {"x": 0.9, "y": [2.05, 3]}, 0.0),
        (0.1, {"x": "1", "y": [2, 3]}, 0.0),
        (0.1, {"x": 1, "y": [2, 3, 4]}, 0.0),
        (0.1, {"x": True, "y": [2, 3]}, 0.0),
        (0.1, {"x": 1, "y": [2, True]}, 0.0),
    ],
)
def test_numbers_may_be_off_by_argument(tolerance, given, reward):
    answer = {"name": "f", "arguments": {"x": 1, "y": [2, 3]}}
    assert judged(answer, ("f", given), tolerance=tolerance).reward == reward


def test_alternatives_will_do_and_optional_arguments_may_be_left_out():
    answer = {
        "name": "f",
        "arguments": {"unit": "C"},
        "alternatives": {"unit": ["celsius"], "lang": ["en"]},
        "optional": ["lang"],
    }
    right = [{"unit": "C"}, {"unit": "celsius"}, {"unit": "C", "lang": "en"}]
    wrong = [{"unit": "F"}, {"unit": "C", "lang": "de"}, {"lang": "en"}]
    assert [judged(answer, ("f", one)).reward for one in (*right, *wrong)] == [1, 1, 1, 0, 0, 0]


def test_no_choice_of_one_call_costs_another_its_partner():
    either = {"name": "f", "arguments": {"x": 1}, "alternatives": {"x": [2]}}
    first = {"name": "f", "arguments": {"x": 1}}
    for calls in ([1, 2], [2, 1]):
        assert judged([either, first], *[("f", {"x": x}) for x in calls]).reward == 1.0
    in_order = judged([first, either], ("f", {"x": 2}), ("f", {"x": 1}), ordered=True, extra="allowed")
    assert in_order.extras["matched"] == 1


def test_calls_between_do_not_break_an_order():
    calls: list = [("a", {}), ("x", {}), ("b", {}), ("x", {}), ("c", {})]
    wanted = [{"name": name} for name in "abc"]
    assert judged(wanted, *calls, ordered=True, extra="allowed").reward == 1.0
    assert judged(
        wanted[::-1], *calls, ordered=True, extra="allowed", pays="fraction"
    ).reward == pytest.approx(1 / 3)


def test_the_report_says_what_is_missing_extra_and_wrong_and_no_expected_value():
    result = judged([WEATHER, TIME], ("weather", {"city": "Bergen", "days": 3}), ("stop", {}))
    assert dict(result.extras) == {
        "matched": 0,
        "wanted": 2,
        "made": 2,
        "missing": ["weather", "time"],
        "extra": ["weather", "stop"],
        "wrong_arguments": [{"name": "weather", "arguments": ["city"]}],
    }
    assert "Oslo" not in str(result.as_json())


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ([], {"extra": "allowed"}),
        ("nonsense", {}),
        ("1", {}),
        ([1], {}),
        ({}, {}),
        ({"name": ""}, {}),
        ({"name": "f", "args": {}}, {}),
        ({"name": "f", "arguments": [1]}, {}),
        ({"name": "f", "alternatives": {"x": 1}}, {}),
        ({"name": "f", "alternatives": {"x": []}}, {}),
        ({"name": "f", "optional": ["x"]}, {}),
        ({"name": "f", "arguments": {"x": float("nan")}}, {}),
        ([TIME] * 101, {}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_gold_that_is_no_list_of_calls_is_a_bad_gold(answer, options):
    assert (result := judged(answer, ("time", {}), **options)).status == "bad_gold"
    assert result.reward is None


@pytest.mark.parametrize(
    "option", [{"extra": "some"}, {"pays": 1}, {"tolerance": -1.0}, {"tolerance": {"x": float("nan")}}]
)
def test_an_option_that_makes_no_sense_is_an_error(option):
    assert judged(TIME, ("time", {}), **option).status == "error"


def assistant(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def test_calls_are_read_off_messages_as_openai_writes_them():
    messages = [
        {"role": "user", "content": "weather?"},
        assistant(
            {
                "id": "1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city":"Oslo","days":3}'},
            },
            {"id": "2", "function": {"name": "time", "arguments": ""}},
        ),
        {"role": "tool", "tool_call_id": "2", "content": "noon"},
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
        assistant({"id": "3", "function": {"name": "time", "arguments": '{"a":1,"a":2}'}}),
    ]
    result = score(tool_call_match_reward, messages, answer=[WEATHER, TIME], extra="allowed")
    assert (result.reward, result.extras["made"]) == (1.0, 3)
    assert score(distinct_tool_use_reward, messages).extras["useful"] == 2


@pytest.mark.parametrize(
    "odd",
    [
        assistant({"function": 1}),
        {"role": "assistant", "tool_calls": "x"},
        {"role": "user", "tool_calls": [{"name": "f"}]},
    ],
)
def test_calls_that_are_not_understood_are_refused(odd):
    with pytest.raises(RewardFieldError):
        read_calls(Trajectory(messages=[odd]))
    assert score(tool_call_match_reward, [odd], answer=[]).status == "error"


def test_a_server_s_record_says_in_its_steps_which_calls_failed():
    trajectory = Trajectory(
        steps=[Step(action="f", action_input={"x": 1}, result="no", error="no")],
        messages=[assistant({"id": "1", "name": "f", "arguments": {"x": 1}})],
    )
    assert read_calls(trajectory) == [ToolCall("f", {"x": 1}, "no", failed=True)]


def used(*steps, **options):
    trajectory = Trajectory(
        steps=[
            Step(action=name, action_input=given, result=result, error=error)
            for name, given, result, error in steps
        ]
    )
    return score(distinct_tool_use_reward, trajectory, **options)


GOOD = ("search", {"q": "a"}, "found a", None)


@pytest.mark.parametrize(
    ("steps", "options", "reward"),
    [
        ([], {}, 0.0),
        ([GOOD], {}, 0.5),
        ([GOOD] * 20, {}, 0.5),
        ([GOOD, ("search", {"q": "b"}, "found b", None)], {}, 1.0),
        ([GOOD, ("search", {"q": "b"}, "found  a\n", None)], {}, 0.5),
        ([GOOD, ("search", {"q": "a"}, "found c", None)], {}, 0.5),
        ([("search", {"q": str(n)}, "nothing", None) for n in range(50)], {}, 0.5),
        ([("search", {"q": str(n)}, " ", None) for n in range(50)], {}, 0.0),
        ([("search", {"q": str(n)}, f"error {n}", "failed") for n in range(50)], {}, 0.0),
        ([("search", {"q": str(n)}, f"found {n}", None) for n in range(50)], {}, 1.0),
        ([("search", {"q": str(n)}, f"found {n}", None) for n in range(50)], {"by": "tool"}, 0.5),
        ([GOOD, ("sleep", {"s": 1}, "slept", None)], {"counted_tools": ["search"]}, 0.5),
        ([GOOD], {"wanted_calls": 1}, 1.0),
        ([("search", {"q": float("nan")}, "x", None)], {}, 0.0),
    ],
)
def test_only_distinct_useful_calls_are_paid(steps, options, reward):
    assert used(*steps, **options).reward == reward


@pytest.mark.parametrize(
    "option", [{"wanted_calls": 0}, {"wanted_calls": True}, {"by": "x"}, {"counted_tools": "search"}]
)
def test_a_bonus_for_no_call_is_an_error(option):
    assert used(GOOD, **option).status == "error"
