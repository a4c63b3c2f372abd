"""What the pages of ARISE and AgentFly show beside their blocks of code: their shapes, our words."""

import anyio
import pytest

from ors_server.resources import Context, ResourcePool, WebShopSpec
from ors_server.rewards import (
    LearnedReward,
    Step,
    Trajectory,
    answer_match_reward,
    evaluate,
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

WORKED = Step(action="search", action_input={"q": "x"}, result="found")
TOOL_CHAT = [
    {"role": "user", "content": "How much is 6 * 7?"},
    {"role": "tool", "content": "42"},
    {"role": "assistant", "content": "The answer is \\boxed{42}."},
]

# ARISE


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


# AgentFly


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
