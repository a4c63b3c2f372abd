"""AgentFly's decorator, class and reading of results against recordings of them, case by case."""

import ast
import inspect
import json
import re
from functools import partial

import anyio
import pytest

from ors_server.rewards.define import BaseReward, as_mapping, as_reward, reward
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardFieldError, RewardValueError
from ors_server.rewards.scoring import score

TOLD = re.compile(r"(direct call|calculate_reward): (.+?) (\{.*\})")
"""How the recording tells a case: who is called, which function, and with which fields."""


def returning(value):
    @reward(name="t_float")
    def t_float(a, b=0):
        return value

    return t_float


@reward(name="t_raises")
def raises(a):
    raise KeyError("k")


@reward(name="t_default")
def default_b(a, b=3.0):
    return float(b)


@reward(name="t_async")
async def later(a):
    return 0.25


@reward
def no_name(a):
    return 1.0


@reward(name="t_rest")
def rest(a, **kwargs):
    return {"reward": 1.0, "got": sorted(kwargs)}


KINDS = {
    "returns int": returning(1),
    "returns float": returning(0.5),
    "returns bool": returning(value=True),
    "returns None": returning(None),
    "returns str": returning("0.5"),
    "returns nan": returning(float("nan")),
    "returns inf": returning(float("inf")),
    "returns list": returning([1.0]),
    "returns dict": returning({"reward": 0.5, "f1": 0.8}),
    "dict": returning({"reward": 0.5, "f1": 0.8}),
    "dict with reward": returning({"reward": 0.5, "f1": 0.8}),
    "dict without reward key": returning({"x": 1}),
    "raises": raises,
    "default b, extra ignored": default_b,
    "default b given": default_b,
    "missing required a": returning(0.5),
    "async fn": later,
    "async fn missing arg": later,
    "no name": no_name,
    "**kwargs": rest,
}


class APIReward(BaseReward):
    """As the page writes it: without `super().__init__()`."""

    name = "api_reward"

    def __init__(self, api_key):
        self.api_key = api_key

    def call(self, query: str):
        return {"k": 1.0}[self.api_key] if query else 0.0


class LaterReward(BaseReward):
    """An async class."""

    name = "later_reward"

    async def call(self, final_response):
        return 1.0


def called(asked, **fields):
    given = asked(**fields)
    return RewardResult.from_raw(anyio.run(partial(awaited, given)) if inspect.isawaitable(given) else given)


async def awaited(given):
    return await given


def calculated(asked, **fields):
    raw = as_reward(asked).judge(fields)
    return asked.read(anyio.run(partial(awaited, raw)) if inspect.isawaitable(raw) else raw)


def play_framework(case):
    told = case["input"]
    if told.startswith("seed APIReward"):
        return called(APIReward("k"), query="q")
    if told.startswith("async BaseReward"):
        return called(LaterReward(), final_response="r")
    who, kind, fields = TOLD.fullmatch(told).groups()
    known = [name for name in KINDS if f"{kind} ".startswith(f"{name} ")]
    if not known:
        pytest.fail(
            f"{told!r} is not played"
        )  # no exception of a reward, which the comparison would take it for
    asked = KINDS[max(known, key=len)]
    return (called if who == "direct call" else calculated)(asked, **ast.literal_eval(fields))


def play_from_raw(case):
    text = case["input"]
    if text.startswith("RewardResult("):
        return RewardResult.from_raw(RewardResult(float(re.search(r"reward=([\d.]+)", text)[1])))
    number = re.search(r"-?\b(nan|inf)\b", text)
    if number is None:
        return RewardResult.from_raw(ast.literal_eval(text))
    return RewardResult.from_raw({"reward": float(number[0])} if "{" in text else float(number[0]))


PLAYERS = {"agentfly_reward_framework": play_framework, "agentfly_reward_result_from_raw": play_from_raw}


def test_a_recorded_case_comes_out_as_there_or_the_table_says_why_not(vectors, case, compare):
    compare(vectors, case, PLAYERS[vectors])


def test_the_rest_of_the_fields_reaches_a_function_that_takes_it():
    assert rest(a=1, b=2, c=3) == {"reward": 1.0, "got": ["b", "c"]}


def test_what_a_direct_call_gives_is_what_the_reading_gives():
    result = score(returning({"reward": 0.5, "f1": 0.8}), a=1)
    assert as_mapping(result) == returning({"reward": 0.5, "f1": 0.8})(a=1) == {"reward": 0.5, "f1": 0.8}


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), None, "1.0", [1.0], (1.0,), {"reward": "x"}, {}]
)
def test_what_is_no_reward_is_refused(value):
    with pytest.raises(RewardValueError):
        RewardResult.from_raw(value)
    assert score(returning(value), a=1).as_json()["reward"] is None
    assert "NaN" not in json.dumps(score(returning(value), a=1).as_json())


def test_a_missing_field_is_named():
    with pytest.raises(RewardFieldError, match="a"):
        default_b(b=1.0)
