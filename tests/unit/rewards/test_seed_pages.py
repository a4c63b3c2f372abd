"""The examples of ARISE's and AgentFly's pages on rewards, in their form; only what they import is ours."""

from functools import partial
from typing import Any

import pytest

from ors_server import (
    BaseReward,
    CompositeReward,
    LearnedReward,
    RewardStatus,
    ToolOutput,
    Trajectory,
    code_execution_reward,
    efficiency_reward,
    llm_judge_reward,
    reward,
    score,
    task_success,
    tool,
)
from ors_server.resources import Context, WebShopSpec
from ors_server.rewards.define import as_reward
from ors_server.testing import play
from tests.fixtures.single_task import SingleTask


def my_reward(trajectory: Trajectory) -> float:
    return 1.0


@reward(name="qa_f1_reward")
def overlap_reward(final_response: str, answer: str, trajectory: list[str]) -> Any:
    shared = set(final_response.split()) & set(answer.split())
    f1 = 2 * len(shared) / (len(final_response.split()) + len(answer.split()))
    return {"reward": f1, "f1": f1, "em": float(final_response == answer), "turns": len(trajectory)}


class APIReward(BaseReward):
    name = "api_reward"

    def __init__(self, api_key: str) -> None:
        self.api_key = api_key

    def call(self, query: str) -> Any:
        result = {"reward": 0.5, "api_key": self.api_key, "query": query}
        return result["reward"]


@reward(name="shop_reward")
async def shop_reward(final_response: str, context: Context, task_id: int) -> dict[str, Any]:
    try:
        env = await context.acquire_resource(spec=WebShopSpec, scope="global", backend="local")
        result = await env.step("get_reward", task_id)
        return {"reward": result["reward"], "output": result["observation"]}
    except Exception as e:  # noqa: BLE001  (the page's own example catches everything)
        return {"reward": 0.0, "output": f"Error: {e}"}


@reward(name="summary_reward_with_penalty")
def summary_reward(final_response: Any, length_penalty: Any, max_length: Any) -> float:
    if length_penalty:
        if len(final_response) > max_length:
            return 0.0
        return 1.0
    return 1.0


class Shop:
    def step(self, action: str, task_id: int) -> dict[str, Any]:
        return {"reward": 0.75, "observation": f"{action} {task_id}"}


class Page(SingleTask):
    """Plays an example."""

    toolsets = ("submit",)

    @tool
    async def look(self) -> ToolOutput:
        """Looks."""
        return ToolOutput.ongoing("a door")


def ended(named: Any, task: dict[str, Any], answer: str) -> tuple[float | None, dict[str, Any]]:
    """Plays two steps and submits; returns the reward and the extras."""
    with play(type("Played", (Page,), {"reward": named}), task_spec=task) as episode:
        episode.call("look")
        output = episode.call("submit", answer=answer)
    return output.reward, (output.metadata or {}).get("reward_extras", {})


def test_a_function_of_a_trajectory_is_a_reward():
    assert ended(my_reward, {}, "") == (1.0, {})


@pytest.mark.parametrize(("task", "paid"), [({"success": True}, 1.0), ({"success": False}, 0.0)])
def test_what_arises_run_takes_as_keywords_stands_in_the_task(task, paid):
    assert ended(task_success, task, "whatever")[0] == paid


def test_arises_composite_is_a_reward():
    blend = CompositeReward([(task_success, 0.6), (code_execution_reward, 0.3), (efficiency_reward, 0.1)])
    assert ended(blend, {"expected": "Paris"}, "It is Paris.")[0] == pytest.approx(1.0)
    assert ended(blend, {"expected": "Paris"}, "It is Rome.")[0] == pytest.approx(0.4)


def test_arises_partial_judge_is_a_reward_and_without_an_endpoint_no_number(monkeypatch):
    for name in ("ORS_JUDGE_BASE_URL", "ORS_JUDGE_API_KEY", "ORS_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    judge = partial(llm_judge_reward, model="gpt-4o-mini")
    assert as_reward(judge).name == "llm_judge_reward"
    assert ended(judge, {}, "hello")[0] is None


def test_arises_learned_reward_is_a_reward(tmp_path):
    learned = LearnedReward(min_examples=10, persist_path=str(tmp_path / "feedback"), max_examples=50)
    assert ended(learned, {"expected": "Paris"}, "Paris")[0] == 1.0


def test_agentflys_function_gets_its_fields_and_its_extras_are_kept():
    paid, extras = ended(overlap_reward, {"answer": "the red door"}, "red door")
    assert (paid, extras) == (0.8, {"f1": 0.8, "em": 0.0, "turns": 4})


def test_agentflys_class_holds_a_key():
    assert ended(APIReward("key"), {"query": "?"}, "")[0] == 0.5


@pytest.mark.parametrize(("length", "paid"), [(4, 0.0), (5, 1.0)])
def test_agentflys_additional_fields_come_from_the_task(length, paid):
    assert ended(summary_reward, {"length_penalty": True, "max_length": length}, "hello")[0] == paid


def test_agentflys_stateful_reward_shares_the_tools_environment():
    class Shopping(Page):
        reward = shop_reward

        async def setup(self) -> None:
            self.context.bind_resource(WebShopSpec, WebShopSpec.local(Shop))

    with play(Shopping, task_spec={"task_id": 3}) as episode:
        output = episode.call("submit", answer="done")
    assert output.reward == 0.75
    assert (output.metadata or {})["reward_extras"] == {"output": "get_reward 3"}


def test_the_examples_are_asked_outside_a_server_in_the_same_way():
    assert score(summary_reward, final_response="hello", length_penalty=False, max_length=1).reward == 1.0
    assert score(summary_reward, final_response="hello").status is RewardStatus.ERROR
