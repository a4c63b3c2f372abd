"""Adapters by the packages' signatures; tests/clients tries those of TRL, Inspect and openreward for real."""

import asyncio
import functools
import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from ors_server import TextBlock, ToolOutput
from ors_server.rewards.adapters.foreign_functions import accept, is_async, name_of, read_number
from ors_server.rewards.adapters.openreward import as_openreward, as_score_group, from_openreward
from ors_server.rewards.adapters.trainer_messages import conversation_fields
from ors_server.rewards.adapters.trl import as_trl, from_trl
from ors_server.rewards.adapters.verifiers import as_verifiers, from_verifiers
from ors_server.rewards.adapters.verl import as_verl, from_verl
from ors_server.rewards.define import reward
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import (
    NoRewardError,
    RewardFieldError,
    RewardValueError,
    UnknownRewardError,
)
from ors_server.rewards.scoring import score


@reward(range=(0, 1))
def same(final_response: str, answer: str, **rest: Any) -> RewardResult:
    """Compares texts, and cannot judge without one."""
    if not answer:
        return RewardResult.without(RewardStatus.BAD_GOLD, "the answer is empty")
    return RewardResult(float(final_response == answer), extras={"length": len(final_response), **rest})


@reward
async def same_later(final_response: str, answer: str) -> float:
    """Compares texts."""
    await anyio.lowlevel.checkpoint()
    return float(final_response == answer)


@reward
def calls(trajectory: Any, answer: str) -> dict[str, Any]:
    """Counts tool results."""
    return {"reward": len(trajectory.steps), "task": trajectory.task, "gold": trajectory.metadata["answer"]}


TALK = [
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "tool", "name": "add", "content": "4"},
    {"role": "assistant", "content": [{"type": "text", "text": "4"}]},
]


# verl, by the keywords of its reward managers


def test_verl_gets_a_number():
    compute = as_verl(same)
    assert compute("gsm8k", "4", "4") == 1.0
    assert compute(data_source="d", solution_str="5", ground_truth="4", extra_info={"split": "train"}) == 0.0
    assert compute.__name__ == "same"


def test_verl_s_ground_truth_wins_over_an_answer_among_the_extra_info():
    assert as_verl(same)("gsm8k", "4", "4", {"answer": "2 + 2 = 4\n#### 4", "index": 7}) == 1.0


def test_verl_gets_the_extras_that_were_asked_for_and_no_others():
    compute = as_verl(same, extras=["length", "index"])
    assert compute("d", "4", "4", {"index": 7}) == {"score": 1.0, "length": 1, "index": 7}
    with pytest.raises(RewardValueError, match="has no extra index"):
        compute("d", "4", "4")


def test_verl_is_never_paid_for_what_was_not_judged():
    with pytest.raises(NoRewardError, match=r"same has no reward \(bad_gold\): the answer is empty"):
        as_verl(same)("d", "4", "")
    with pytest.raises(NoRewardError, match="needs more"):
        as_verl(lambda final_response, answer, more: 1.0)("d", "4", "4")


def test_verl_awaits_an_async_reward():
    compute = as_verl(same_later)
    assert inspect.iscoroutinefunction(compute)
    assert asyncio.run(compute(data_source="d", solution_str="4", ground_truth="4", extra_info=None)) == 1.0


def test_a_compute_score_is_a_reward_of_ours():
    seen: dict[str, Any] = {}

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        seen.update(source=data_source, info=extra_info)
        return {"score": float(solution_str == ground_truth), "acc": True}

    result = score(from_verl(compute_score), final_response="4", answer="4", data_source="d", index=7)
    assert (result.reward, result.extras["acc"]) == (1.0, True)
    assert seen == {"source": "d", "info": {"index": 7}}
    short = from_verl(lambda solution_str, ground_truth: solution_str == ground_truth, name="short")
    assert score(short, final_response="4", ground_truth="5").reward == 0.0
    assert short.name == "short"


@pytest.mark.parametrize("given", [{"acc": 1.0}, None, float("nan"), "1.0", {"score": None}, float("inf")])
def test_a_compute_score_that_gives_no_number_is_no_number(given):
    result = score(from_verl(lambda **_: given), final_response="4", answer="4")
    assert (result.reward, result.status) == (None, RewardStatus.ERROR)


def test_a_declared_range_is_enforced_on_foreign_rewards():
    result = score(from_verl(lambda **_: 2.0, range=(0, 1)), final_response="4", answer="4")
    assert result.status is RewardStatus.ERROR


# verifiers: named arguments, as `Rubric` fills them


async def call_as_rubric(function: Any, available: Mapping[str, Any]) -> float:
    """Calls a reward function as verifiers 0.1.14 does, but for what it makes of errors."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return float(await function(**available))
    names = {parameter.name for parameter in parameters}
    return float(await function(**{key: value for key, value in available.items() if key in names}))


def test_verifiers_calls_a_reward_of_ours_by_name():
    available = {
        "prompt": [{"role": "user", "content": "2 + 2?"}],
        "completion": TALK,
        "answer": "4",
        "info": {"hint": "add"},
        "state": {"turn": 1},
        "task": "default",
        "parser": object(),
    }
    assert asyncio.run(call_as_rubric(as_verifiers(same), available)) == 1.0
    assert asyncio.run(call_as_rubric(as_verifiers(same_later), available)) == 1.0
    assert asyncio.run(call_as_rubric(as_verifiers(calls), available)) == 1.0
    assert as_verifiers(same).__name__ == "same"
    names = set(inspect.signature(as_verifiers(same)).parameters)
    assert not names & {"states", "prompts", "completions", "answers", "tasks", "infos"}  # marks of a group's


def test_verifiers_is_told_where_there_is_no_reward():
    state: dict[str, Any] = {}
    with pytest.raises(NoRewardError):
        asyncio.run(as_verifiers(same)(completion="4", answer="", state=state))
    assert isinstance(state["error"], NoRewardError)


def test_a_trace_of_verifiers_v1_is_judged_by_its_last_reply():
    class Data:
        def model_dump(self) -> dict[str, Any]:
            return {"answer": "4", "prompt": "2 + 2?"}

    class Said(SimpleNamespace):
        def model_dump(self) -> dict[str, Any]:
            return vars(self)

    trace = SimpleNamespace(messages=[Said(role="assistant", content="4")], last_reply="4")
    assert asyncio.run(as_verifiers(same)(task=Data(), trace=trace)) == 1.0


def test_a_function_of_a_rubric_is_a_reward_of_ours():
    async def exact(completion, answer, state, **_):
        assert state["answer"] == answer
        return float(completion[-1]["content"] == answer)

    def bare(prompt, answer):
        return 0.5 if prompt == [{"role": "user", "content": "2 + 2?"}] else 0.0

    def broken(completion):
        raise KeyError("answer")

    assert score(from_verifiers(exact), final_response="4", answer="4").reward == 1.0
    assert from_verifiers(exact).name == "exact"
    assert score(from_verifiers(bare), final_response="4", answer="4", prompt="2 + 2?").reward == 0.5
    assert score(from_verifiers(broken), final_response="4").status is RewardStatus.ERROR


# TRL


def test_trl_s_columns_are_fields_and_what_belongs_to_the_batch_is_not():
    function = as_trl(lambda final_response, answer, **rest: {"reward": 1, "rest": sorted(rest)})
    logged: dict[str, float] = {}
    rewards = function(
        prompts=["a", "b"],
        completions=["1", "2"],
        answer=["1", "2"],
        other=["only one"],
        trainer_state={"step": 1},
        log_metric=logged.__setitem__,
    )
    assert rewards == [1.0, 1.0]
    assert logged == {"reward_status/graded": 1.0}


def test_trl_s_conversations_become_trajectories():
    function = as_trl(calls)
    asked = [{"role": "user", "content": "2 + 2?"}]
    assert function(prompts=[asked, "x"], completions=[TALK, "4"], answer=["4", "4"]) == [1.0, 0.0]
    assert as_trl(same)(prompts=[asked], completions=[TALK], answer=["4"]) == [1.0]


def test_trl_gets_none_and_never_a_number_for_what_was_not_judged():
    assert as_trl(same)(prompts=["a"] * 2, completions=["4"] * 2, answer=["", "4"]) == [None, 1.0]
    later = as_trl(same_later)
    assert asyncio.run(later(prompts=["a"] * 2, completions=["4"] * 2)) == [None, None]


@pytest.mark.parametrize("given", [[None], [float("nan")], [], [1.0, 1.0], [float("inf")], ["1"]])
def test_a_trl_reward_that_gives_no_number_is_no_number(given):
    result = score(from_trl(lambda completions, **_: given), final_response="4")
    assert (result.reward, result.status) == (None, RewardStatus.ERROR)


def test_a_trl_reward_gets_messages_or_texts():
    seen: list[Any] = []

    def look(prompts, completions, answer):
        seen.append((prompts, completions, answer))
        return [0.5]

    assert score(from_trl(look), final_response="4", prompt="?", answer="4", more=1).reward == 0.5
    assert score(from_trl(look, conversational=False), completion="4", answer="4").reward == 0.5
    assert seen == [
        ([[{"role": "user", "content": "?"}]], [[{"role": "assistant", "content": "4"}]], ["4"]),
        ([""], ["4"], ["4"]),
    ]
    assert "needs completion or final_response" in (score(from_trl(look), answer="4").reason or "")


# openreward, in the shape of this package's own outputs


def test_an_output_has_the_reward_the_status_and_the_reason():
    judged = as_openreward(same, package="ors_server")
    output: Any = asyncio.run(judged(final_response="4", answer="4"))
    assert (output.reward, output.finished) == (1.0, True)
    assert "4" not in output.blocks[0].text
    output = asyncio.run(judged(final_response="4", answer="", text="so be it"))
    assert output.reward is None
    assert output.blocks[0].text == "so be it"
    assert output.metadata == {"reward_status": "bad_gold", "reward_reason": "the answer is empty"}


def test_a_group_is_scored_or_refused():
    score_group = as_score_group(same, package="ors_server")
    block = SimpleNamespace(type="text", text="4")
    message = SimpleNamespace(role="assistant", blocks=[block, SimpleNamespace(type="image")])
    candidates = [SimpleNamespace(messages=[message]), SimpleNamespace(messages=[])]
    environment = SimpleNamespace(task_spec={"answer": "4"})
    scores: list[Any] = asyncio.run(score_group(environment, candidates))
    assert [one.reward for one in scores] == [1.0, 0.0]
    with pytest.raises(NoRewardError):
        asyncio.run(score_group(SimpleNamespace(task_spec={"answer": ""}), candidates))


def test_an_output_is_a_reward_of_ours():
    async def submit(answer):
        return ToolOutput(blocks=[TextBlock(text="")], reward=None if answer == "?" else 0.5, finished=True)

    assert score(from_openreward(submit), answer="4", more=1).reward == 0.5
    assert score(from_openreward(submit), answer="?").status is RewardStatus.ERROR
    assert score(from_openreward(lambda **fields: len(fields)), a=1, b=2).reward == 2.0
    assert score(from_openreward(lambda: "1.0")).status is RewardStatus.ERROR


# what they share


def test_every_adapter_takes_a_name():
    assert as_verl("efficiency_reward")("d", "4", "4") == 1.0
    with pytest.raises(UnknownRewardError):
        as_verifiers("nope")


def test_foreign_numbers_are_read():
    assert read_number(SimpleNamespace(item=lambda: 0.5), "f").reward == 0.5
    assert read_number(1, "f").reward == 1.0
    with pytest.raises(RewardValueError):
        read_number([1.0], "f")


def test_foreign_functions_are_looked_at_through_partials_and_objects():
    class Later:
        async def __call__(self, a):
            return a

    def named(a, b):
        return a

    assert is_async(functools.partial(Later(), 1))
    assert not is_async(named)
    assert name_of(functools.partial(named, 1)) == "named"
    assert name_of(Later()) == "Later"
    assert accept(named, {"a": 1, "c": 2}) == {"a": 1}


@pytest.mark.parametrize("value", [7, b"text", ["text"], [7]])
def test_a_prompt_is_a_text_or_messages(value):
    with pytest.raises(RewardFieldError):
        conversation_fields(value, "answer", {})
    with pytest.raises(RewardFieldError):
        conversation_fields("question", value, {})


def test_a_conversation_without_an_answer_has_an_empty_one():
    fields = conversation_fields(None, [{"role": "tool", "content": "4"}], {"answer": "4"})
    assert fields["final_response"] == ""
    assert fields["trajectory"].metadata == {"answer": "4"}
