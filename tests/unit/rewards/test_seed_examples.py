"""What the pages of ARISE and AgentFly show works as it is written there: their shapes, our words."""

import dataclasses
from functools import partial

import anyio
import pytest

from ors_server.resources import Context, ResourcePool, WebShopSpec
from ors_server.rewards import (
    BaseReward,
    CompositeReward,
    LearnedReward,
    RewardStatus,
    Step,
    Trajectory,
    answer_match_reward,
    code_execution_reward,
    efficiency_reward,
    evaluate,
    llm_judge_reward,
    math_equal_reward,
    math_equal_reward_tool,
    qa_f1_reward,
    qa_f1_reward_tool,
    reward,
    score,
    task_success,
    webshop_reward,
)
from ors_server.rewards.judges import ScriptedJudge
from ors_server.rewards.metrics import summarise_extras

FAILED = Step(action="search", action_input={"q": "x"}, error="offline")
WORKED = Step(action="search", action_input={"q": "x"}, result="found")
TOOL_CHAT = [
    {"role": "user", "content": "How much is 6 * 7?"},
    {"role": "tool", "content": "42"},
    {"role": "assistant", "content": "The answer is \\boxed{42}."},
]

# ARISE


def report_reward(trajectory: Trajectory) -> float:
    said = trajectory.outcome.lower()
    if not all(section in said for section in ("summary", "conclusion")):
        return 0.0
    cost = 0.1 * sum(1 for step in trajectory.steps if step.error)
    bonus = 0.1 if len(said) < 2000 else 0.0
    return max(0.0, min(1.0, 1.0 - cost + bonus))


def test_a_trajectory_has_the_page_s_fields_in_the_page_s_order():
    assert [one.name for one in dataclasses.fields(Trajectory)][:7] == [
        "task",
        "steps",
        "outcome",
        "reward",
        "skill_library_version",
        "timestamp",
        "metadata",
    ]
    assert [one.name for one in dataclasses.fields(Step)][:7] == [
        "observation",
        "reasoning",
        "action",
        "action_input",
        "result",
        "error",
        "latency_ms",
    ]


def test_any_callable_that_takes_a_trajectory_is_a_reward():
    report = Trajectory(outcome="Summary ... Conclusion", steps=[FAILED] * 3)
    assert score(report_reward, report).reward == pytest.approx(0.8)
    assert score(report_reward, Trajectory(outcome="Summary")).reward == 0.0


@pytest.mark.parametrize(
    ("signals", "outcome", "paid"),
    [
        ({"success": True}, "", 1.0),
        ({"success": False}, "", 0.0),
        ({"expected": "Paris"}, "It is Paris.", 1.0),
        ({"expected": "Paris"}, "It is Lyon.", 0.0),
        ({}, "whatever", 1.0),
    ],
)
def test_signals_reach_a_reward_as_metadata(signals, outcome, paid):
    assert score(task_success, Trajectory(outcome=outcome, metadata=signals)).reward == paid
    assert score(task_success, task="t", final_response=outcome, **signals).reward == paid


def test_an_expected_output_is_matched_and_a_rubric_beside_it_does_no_harm():
    signals = {"expected_output": "4", "rubric": "must be an integer"}
    assert score(answer_match_reward, Trajectory(outcome=" 4\n", metadata=signals)).reward == 1.0
    assert score(answer_match_reward, task="2 + 2?", final_response="It is 4.", **signals).reward == 0.7


def test_errors_and_steps_cost_what_the_page_says():
    assert score(code_execution_reward, Trajectory(steps=[FAILED, WORKED])).reward == 0.75
    assert score(efficiency_reward, Trajectory(steps=[WORKED] * 3)).reward == 0.8
    assert score(efficiency_reward, Trajectory(steps=[WORKED])).reward == 1.0


def test_a_judge_is_configured_with_partial():
    judged = partial(llm_judge_reward, model=ScriptedJudge('{"reason": "good", "score": 0.75}'))
    assert score(judged, Trajectory(task="Say hello", outcome="Hello, how are you?")).reward == 0.75


def test_a_judge_s_model_may_be_a_name():
    result = score(partial(llm_judge_reward, model="gpt-4o-mini"), Trajectory(task="t", outcome="an outcome"))
    assert (result.reward, result.status) == (None, RewardStatus.ERROR)  # no endpoint is named here
    assert "ORS_JUDGE" in (result.reason or "")


def test_ratings_are_learned_from_and_survive_a_restart(tmp_path):
    options = {"min_examples": 2, "persist_path": str(tmp_path / "feedback"), "max_examples": 50}
    learned = LearnedReward(**options, model="gpt-4o-mini")
    done = Trajectory(task="t", outcome="o", metadata={"success": True})
    assert score(learned, done).reward == 1.0  # task_success, until there are enough
    learned.add_feedback(done, score=0.9)
    learned.add_feedback(done, score=0.2)
    again = LearnedReward(**options, model=ScriptedJudge('{"reason": "so so", "score": 0.4}'))
    assert [one.human_score for one in again.examples] == [0.9, 0.2]
    assert score(again, done).reward == 0.4


def test_a_blend_is_weighted_and_its_weights_need_not_add_up_to_one():
    parts = (task_success, 6), (code_execution_reward, 3), (efficiency_reward, 1)
    episode = Trajectory(steps=[FAILED, WORKED], metadata={"success": True})
    wanted = 0.6 + 0.3 * 0.75 + 0.1 * 0.9
    assert score(CompositeReward(list(parts)), episode).reward == pytest.approx(wanted, abs=1e-9)
    small = CompositeReward([(part, weight / 10) for part, weight in parts])
    assert score(small, episode).reward == pytest.approx(wanted, abs=1e-9)


# AgentFly


@reward(name="shared_words_reward")
def shared_words(final_response: str, answer: str, trajectory: list[str]) -> float:
    ours, theirs = set(final_response.split()), set(answer.split())
    recall = len(ours & theirs) / len(theirs)
    return {"reward": recall, "recall": recall, "exact": float(ours == theirs)}  # type: ignore[return-value]  # as the page


@reward(name="summary_reward_with_penalty")
def summary_reward(final_response, length_penalty, max_length):
    return 0.0 if length_penalty and len(final_response) > max_length else 1.0


class APIReward(BaseReward):
    name = "api_reward"

    def __init__(self, api_key):
        self.api_key = api_key

    def call(self, query: str):
        return {"secret": 1.0}.get(self.api_key, 0.0) if query else 0.0


class Shop:
    """An environment with AgentFly's methods."""

    def __init__(self):
        self.bought = None

    async def step(self, action, argument=None):
        if action == "buy":
            self.bought = argument
        return {"reward": float(self.bought == argument), "observation": f"bought {self.bought}"}


@reward(name="shop_reward")
async def shop_reward(final_response: str, context: Context, task_id: int) -> dict:
    env = await context.acquire_resource(spec=WebShopSpec, scope="global", backend="local")
    told = await env.step("get_reward", task_id)
    return {"reward": told["reward"], "output": told["observation"]}


def test_a_decorated_function_has_its_name_and_its_extras():
    assert shared_words.name == "shared_words_reward"
    result = score(shared_words, TOOL_CHAT, final_response="a b", answer="a c")
    assert (result.reward, dict(result.extras)) == (0.5, {"recall": 0.5, "exact": 0.0})
    assert summarise_extras([result])["reward_extra/recall/mean"] == 0.5


def test_a_class_needs_no_call_of_its_parent():
    assert APIReward("secret").name == "api_reward"
    assert score(APIReward("secret"), query="q").reward == 1.0
    assert APIReward("wrong")(query="q") == {"reward": 0.0}


def test_further_fields_of_a_task_reach_the_reward():
    task = {"messages": [{"role": "user", "content": "Summarise."}], "length_penalty": True, "max_length": 5}
    assert score(summary_reward, final_response="short", **task).reward == 1.0
    assert score(summary_reward, final_response="too long", **task).reward == 0.0
    assert score(summary_reward, final_response="too long", **{**task, "length_penalty": False}).reward == 1.0


@pytest.mark.parametrize("asked", [shop_reward, webshop_reward])
def test_a_reward_asks_the_environment_that_the_tools_have_used(asked):
    async def play():
        async with ResourcePool(bindings={WebShopSpec: WebShopSpec.local(Shop)}) as pool:
            context = Context("rollout-1", pool=pool)
            env = await context.acquire_resource(spec=WebShopSpec, scope="global", backend="local")
            await env.step("buy", 7)
            fields = {"final_response": "done", "context": context}
            right = await evaluate(asked, {**fields, "task_id": 7})
            wrong = await evaluate(asked, {**fields, "task_id": 8})
            await context.aclose()
            return right, wrong

    right, wrong = anyio.run(play)
    assert (right.reward, right.extras["output"]) == (1.0, "bought 7")
    assert wrong.reward == 0.0


def test_an_environment_that_cannot_be_had_is_an_error_and_no_zero():
    async def play():
        async with ResourcePool() as pool:
            context = Context("rollout-1", pool=pool)
            return await evaluate(webshop_reward, {"context": context, "task_id": 7})

    result = anyio.run(play)
    assert (result.reward, result.status) == (None, RewardStatus.ERROR)


def test_the_predefined_rewards_take_what_their_page_says_and_return_its_keys():
    qa = {"final_response": "The Paris", "answer": "Paris", "trajectory": TOOL_CHAT}
    keys = {"reward", "f1", "em", "precision", "recall"}
    assert set(qa_f1_reward(**qa)) == set(qa_f1_reward_tool(**qa)) == keys
    assert qa_f1_reward(**qa)["reward"] == qa_f1_reward_tool(**qa)["reward"] == 1.0
    sum_ = {"final_response": "\\boxed{42}", "answer": "42"}
    assert math_equal_reward(**sum_, difficulty="easy")["reward"] == 1.0
    assert math_equal_reward_tool(**sum_, trajectory=TOOL_CHAT) == {"reward": 1.0, "acc": 1.0}


@pytest.mark.parametrize("asked", [qa_f1_reward_tool, math_equal_reward_tool])
@pytest.mark.parametrize(
    ("answer", "tools", "paid"), [("42", 0, 0.0), ("41", 1, 0.1), ("42", 1, 1.0), ("42", 3, 1.0)]
)
def test_the_tool_rewards_pay_nothing_a_tenth_or_one(asked, answer, tools, paid):
    chat = [{"role": "user", "content": "q"}, *[{"role": "tool", "content": "r"}] * tools]
    assert score(asked, chat, final_response="42", answer=answer).reward == paid
    steps = Trajectory(steps=[WORKED] * tools)
    assert score(asked, steps, final_response="42", answer=answer).reward == paid
