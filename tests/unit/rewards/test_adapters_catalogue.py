"""Every reward of the catalogue through each adapter, called with the arguments that the package gives."""

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from ors_server.rewards.adapters.openreward import as_score_group
from ors_server.rewards.adapters.trl import as_trl
from ors_server.rewards.adapters.verifiers import as_verifiers
from ors_server.rewards.adapters.verl import as_verl
from ors_server.rewards.catalogue import find_reward, list_rewards
from ors_server.rewards.group import is_group_reward
from ors_server.rewards.reward_errors import NoRewardError, RewardDefinitionError
from ors_server.rewards.scoring import score
from ors_server.rewards.text.lengths import length_group_rewards
from tests.fixtures.reward_fields import Kit, fields_of, reward_of

NAMES = [entry.name for entry in list_rewards()]
KIT = Kit(response="42", gold="42", other="x", value={"a": 1}, number=0.5, count=30)
PROMPT = [{"role": "user", "content": "How much is 6 * 7?"}]
IDS = [[5, 6, 7, 5, 6, 7], [5, 6]]
SAID = ["42", "It is 41."]
OWN = {"final_response", "prediction", "trajectory", "rollouts", "length"}
"""Fields that come with each rollout, and not with the task."""
UNGRADED = {"code_functions_reward", "code_pytest_reward"}
"""Rewards that get no number here: a scripted interpreter does not speak as theirs must."""
MORE: dict[str, dict[str, Any]] = {
    "group_rank_reward": {"score": 0.5},
    "instruction_reward": {"instructions": [{"kind": "no_comma"}]},
}
"""What a task of a reward has beside the fields that it must have."""
NEEDS_TOKENS = {"soft_overlong_reward", "cosine_length_reward", "token_cost_reward"}
"""Rewards that count tokens, which verl does not hand over."""


def task_of(name):
    """The fields of a task, as a row of a data set has them."""
    fields = {key: value for key, value in fields_of(name, KIT).items() if key not in OWN}
    return {**fields, **MORE.get(name, {})}


def spoken(text):
    return [{"role": "assistant", "content": text}]


def is_judged(name):
    return name not in UNGRADED


def call_as_grpo(function, columns, ids=IDS, said=SAID):
    """Calls a reward function as `GRPOTrainer._calculate_rewards` of TRL 1.16 does."""
    metrics: dict[str, float] = {}
    extras: dict[str, list[str]] = {}
    given = function(
        prompts=[PROMPT] * len(said),
        completions=[spoken(text) for text in said],
        completion_ids=ids,
        **{name: [value] * len(said) for name, value in columns.items()},
        trainer_state=SimpleNamespace(global_step=1),
        log_extra=extras.__setitem__,
        log_metric=metrics.__setitem__,
    )
    return (asyncio.run(given) if inspect.isawaitable(given) else given), extras


@pytest.mark.parametrize("name", NAMES)
def test_trl_gets_a_number_from_every_reward_as_the_trainer_calls_it(name):
    rewards, extras = call_as_grpo(as_trl(reward_of(name, KIT)), task_of(name))
    assert len(rewards) == 2
    if is_judged(name):
        assert None not in rewards, extras


@pytest.mark.parametrize("name", NAMES)
def test_trl_gets_what_the_reward_gives_by_itself(name):
    asked = reward_of(name, KIT)
    if is_group_reward(asked):
        return  # compared below
    rewards, _ = call_as_grpo(as_trl(asked), task_of(name))
    messages = [[*PROMPT, *spoken(text)] for text in SAID]
    own = [
        score(asked, talk, **task_of(name), final_response=text, prediction=text, length=len(ids), ids=ids)
        for text, ids, talk in zip(SAID, IDS, messages, strict=True)
    ]
    assert rewards == [one.reward for one in own]


@pytest.mark.parametrize("name", NAMES)
def test_verl_gets_a_number_from_every_reward_or_learns_why_there_is_none(name):
    if is_group_reward(find_reward(name)):
        with pytest.raises(RewardDefinitionError, match="one response at a time"):
            as_verl(name)
        return
    compute = as_verl(reward_of(name, KIT))
    task = task_of(name)

    def call():
        given = compute(
            data_source="d", solution_str="42", ground_truth=task.get("answer", "42"), extra_info=task
        )
        return asyncio.run(given) if inspect.isawaitable(given) else given

    if name in NEEDS_TOKENS:
        with pytest.raises(NoRewardError, match="length"):
            call()
    elif is_judged(name):
        assert isinstance(call(), float)
    else:
        with pytest.raises(NoRewardError):
            call()


def state_of(text, ids, task):
    """A state of verifiers 0.1.14 after its rollout."""
    return {
        "prompt": PROMPT,
        "completion": spoken(text),
        "answer": task.get("answer", ""),
        "info": {},
        "task": None,
        "input": task,
        "trajectory": [{"completion": spoken(text), "tokens": {"completion_ids": ids}}],
    }


async def call_as_rubric(function, states):
    """Calls a reward function as `Rubric` of verifiers 0.1.14 does, but for the 0 that it makes of errors."""
    names = set(inspect.signature(function).parameters)
    if names & {"states", "prompts", "completions", "answers", "tasks", "infos"}:
        return await function(
            prompts=[state["prompt"] for state in states],
            completions=[state["completion"] for state in states],
            answers=[state["answer"] for state in states],
            states=states,
            tasks=[state["task"] for state in states],
            infos=[state["info"] for state in states],
            parser=object(),
        )
    return [
        await function(
            **{
                **state["input"],
                **{key: state[key] for key in ("prompt", "completion", "answer", "info", "task")},
                "state": state,
                "parser": object(),
            }
        )
        for state in states
    ]


@pytest.mark.parametrize("name", NAMES)
def test_verifiers_gets_a_number_from_every_reward_as_the_rubric_calls_it(name):
    task = task_of(name)
    states = [state_of(text, ids, task) for text, ids in zip(SAID, IDS, strict=True)]
    function: Any = as_verifiers(reward_of(name, KIT))
    if is_judged(name):
        given = asyncio.run(call_as_rubric(function, states))
        assert all(isinstance(one, float) for one in given)
    else:
        with pytest.raises(NoRewardError):
            asyncio.run(call_as_rubric(function, states))
        assert isinstance(states[0]["error"], NoRewardError)


def candidate(text):
    block = SimpleNamespace(type="text", text=text)
    return SimpleNamespace(messages=[SimpleNamespace(role="assistant", blocks=[block])])


@pytest.mark.parametrize("name", NAMES)
def test_openreward_gets_a_score_for_every_candidate(name):
    environment = SimpleNamespace(task_spec={**task_of(name), "length": 3})
    score_group: Any = as_score_group(reward_of(name, KIT), package="ors_server")
    judged = score_group(environment, [candidate(text) for text in SAID])
    if is_judged(name):
        assert all(isinstance(one.reward, float) for one in asyncio.run(judged))
    else:
        with pytest.raises(NoRewardError):
            asyncio.run(judged)


# What TRL's tokens do.


def test_trl_s_tokens_are_counted_and_compared():
    tokens = [[1] * length for length in (70, 90, 101)]
    said = ["a"] * 3
    overlong = as_trl("soft_overlong_reward", fields={"max_completion_len": 100, "soft_punish_cache": 20})
    assert call_as_grpo(overlong, {}, tokens, said)[0] == [0.0, -0.5, -1.0]
    cost = as_trl("token_cost_reward", fields={"cost_per_token": 0.01})
    assert call_as_grpo(cost, {}, tokens, said)[0] == pytest.approx([-0.7, -0.9, -1.0])
    repeated = as_trl("repetition_penalty_reward", fields={"ngram_size": 2})
    ids = [[1, 2, 3, 4], [5, 5, 5, 5, 5], [1]]
    assert call_as_grpo(repeated, {}, ids, ["the the the the"] * 3)[0] == [0.0, -0.75, 0.0]


def test_trl_s_cosine_reward_reads_the_conversation_and_the_tokens():
    cosine = as_trl("cosine_length_reward", fields={"max_len": 100})
    solution = {"solution": r"\frac{1}{3}"}
    said = [r"\boxed{\frac{1}{3}}", r"\boxed{\frac{1}{2}}"]
    assert call_as_grpo(cosine, solution, [[1] * 50] * 2, said)[0] == pytest.approx([0.75, -0.75])
    bounds = {"max_len": 100, "max_value_correct": 0.8, "min_value_correct": 0.2, "min_value_wrong": -0.2}
    bound = as_trl("cosine_length_reward", fields={**bounds, "max_value_wrong": 0.0})
    assert call_as_grpo(bound, solution, [[1] * 50] * 2, said)[0] == pytest.approx([0.5, -0.1])


@pytest.mark.parametrize("bound", [2.0, -1.5, float("nan"), "1", True])
def test_a_bound_of_the_cosine_outside_the_range_is_refused(bound):
    result = score(
        "" or find_reward("cosine_length_reward"), length=1, max_len=2, is_correct=True, min_value_wrong=bound
    )
    assert (result.reward, result.status) == (None, "error")


def test_a_column_that_is_named_as_a_length_wins_over_the_tokens():
    function = as_trl("token_cost_reward", columns={"steps": "length"}, fields={"cost_per_token": 0.01})
    assert call_as_grpo(function, {"steps": 3})[0] == pytest.approx([-0.03, -0.03])


def test_trl_s_groups_are_the_completions_of_one_prompt():
    function = as_trl("length_group_reward")
    said = ["42", "It is 42", "41", "So 42"]
    ids = [[0] * length for length in (10, 30, 20, 40)]
    rewards = function(
        prompts=["a", "a", "b", "b"],
        completions=said,
        completion_ids=ids,
        answer=["42", "42", "42", "42"],
    )
    assert rewards == [
        *length_group_rewards([10, 30], [True, True]),
        *length_group_rewards([20, 40], [False, True]),
    ]


def test_an_async_group_reward_is_awaited():
    async def longest(rollouts):
        most = max(len(one.final_response) for one in rollouts)
        return [float(len(one.final_response) == most) for one in rollouts]

    assert call_as_grpo(as_trl(longest), {})[0] == [0.0, 1.0]


def test_a_group_that_could_not_be_judged_has_none_for_each():
    def broken(rollouts):
        raise KeyError("answer")

    assert call_as_grpo(as_trl(broken), {})[0] == [None, None]


def test_verifiers_and_openreward_compare_the_rollouts_of_a_group():
    task = {"answer": "42"}
    states = [state_of(text, ids, task) for text, ids in zip(["42", "So 42"], IDS, strict=True)]
    function: Any = as_verifiers("length_group_reward")
    assert asyncio.run(call_as_rubric(function, states)) == [-0.5, 0.5]
    score_group: Any = as_score_group("length_group_reward", package="ors_server")
    environment = SimpleNamespace(task_spec=task)
    given = asyncio.run(score_group(environment, [candidate("42"), candidate("So it is 42")]))
    assert [one.reward for one in given] == [0.5, -0.5]
