"""Every block of code on the pages of ARISE, AgentFly and ORS about rewards, as it stands there.

`tests/data/seed_blocks` holds the blocks. Only the root of imports is changed here; names that a page uses
without importing them (its agent, its runner, its shell) are given to the block.
"""

import ast
import dataclasses
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

import ors_server.types
from ors_server.resources import Context, ResourcePool, WebShopSpec
from ors_server.rewards import (
    BaseReward,
    CompositeReward,
    GatedReward,
    LearnedReward,
    RewardError,
    Step,
    Trajectory,
    answer_match_reward,
    calculate_reward,
    code_execution_reward,
    efficiency_reward,
    llm_judge_reward,
    math_equal_reward,
    qa_f1_reward,
    reward,
    score,
    task_success,
)
from ors_server.rewards.judges import ScriptedJudge
from tests.fixtures.seed_blocks import blocks, run

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"
PAGES = {
    "arise": "arise-reward-functions.txt",
    "agentfly": "agentfly-reward-system.txt",
    "ors": "ors-rewards.txt",
}
FAILED = Step(action="search", error="offline")
WORKED = Step(action="search", result="found")


class Arise:
    """The runner of ARISE's page, as far as a reward sees it: it calls the reward with a trajectory."""

    def __init__(self, agent_fn: Callable[[str], str], reward_fn: Callable[[Trajectory], float]) -> None:
        self.agent = agent_fn
        self.reward = reward_fn
        self.rewards: list[float] = []

    def run(self, task: str, **signals: Any) -> str:
        outcome = self.agent(task)
        trajectory = Trajectory(task=task, steps=[WORKED], outcome=outcome, metadata=signals)
        self.rewards.append(self.reward(trajectory))
        return outcome


def runner_of(name: str, **given: Any) -> Arise:
    """Runs a block of ARISE's page that makes a runner."""
    runner: Arise = run("arise", name, **{"ARISE": Arise, "my_agent": lambda _task: "It is Paris.", **given})[
        "arise"
    ]
    return runner


# ARISE


def test_the_first_reward_of_arises_page_is_one():
    mine = run("arise", "first_reward")["my_reward"]
    assert mine(Trajectory()) == score(mine, Trajectory()).reward == 1.0


@pytest.mark.parametrize(("name", "ours"), [("trajectory", Trajectory), ("step", Step)])
def test_the_dataclasses_have_the_fields_and_the_order_of_the_page(name, ours):
    theirs = run("arise", name, dataclass=dataclasses.dataclass, Step=Step, datetime=datetime, Any=Any)
    wanted = [one.name for one in dataclasses.fields(theirs[ours.__name__])]
    assert [one.name for one in dataclasses.fields(ours)][: len(wanted)] == wanted
    assert getattr(ors_server.types, ours.__name__) is ours


def test_keywords_of_a_run_are_the_trajectorys_metadata():
    seen: list[dict[str, Any]] = []

    def see(episode: Trajectory) -> float:
        seen.append(episode.metadata)
        return 1.0

    arise = Arise(lambda _task: "42", see)
    run("arise", "signals", arise=arise, task="t")
    assert seen == [
        {"success": True},
        {"expected": "42"},
        {"expected_output": "42", "rubric": "must be an integer"},
    ]


def test_the_built_in_rewards_are_imported_as_the_page_does():
    names = run("arise", "imports")
    for name in ("task_success", "code_execution_reward", "answer_match_reward", "efficiency_reward"):
        assert type(names[name](Trajectory(metadata={"expected": "x"}))) is float


@pytest.mark.parametrize(("outcome", "expected"), [("It is Paris.", 1.0), ("It is Lyon.", 0.0)])
def test_task_success_follows_the_signals(outcome, expected):
    runner = runner_of("task_success", my_agent=lambda _task: outcome, task="t")
    assert runner.rewards == [1.0, 0.0, expected]


@pytest.mark.parametrize(("errors", "paid"), [(0, 1.0), (1, 0.75), (4, 0.0), (6, 0.0)])
def test_each_failed_step_costs_a_quarter(errors, paid):
    runner = runner_of("code_execution_reward")
    assert runner.reward(Trajectory(steps=[FAILED] * errors + [WORKED])) == paid


@pytest.mark.parametrize(("outcome", "paid"), [(" 4\n", 1.0), ("It is 4.", 0.7), ("five", 0.0)])
def test_an_answer_matches_wholly_partly_or_not(outcome, paid):
    arise = Arise(lambda _task: outcome, answer_match_reward)
    run("arise", "answer_match_reward", arise=arise)
    assert arise.rewards == [paid]
    assert answer_match_reward(Trajectory(outcome=outcome)) == 0.5


@pytest.mark.parametrize(("steps", "paid"), [(1, 1.0), (3, 0.8), (11, 0.0), (20, 0.0)])
def test_each_further_step_costs_a_tenth(steps, paid):
    reward_ = run("arise", "efficiency_reward")["efficiency_reward"]
    assert reward_(Trajectory(steps=[WORKED] * steps)) == pytest.approx(paid, abs=1e-9)


def test_a_judge_is_set_up_by_partial_and_called_directly(monkeypatch):
    runner = runner_of("llm_judge_reward")
    monkeypatch.delenv("ORS_JUDGE_BASE_URL", raising=False)
    with pytest.raises(RewardError, match="ORS_JUDGE_BASE_URL"):  # no 0.5 for a judge that is not there
        runner.run("Say hello.")
    scripted = ScriptedJudge('{"reason": "good", "score": 0.75}')
    assert llm_judge_reward(Trajectory(task="t", outcome="Hello, you."), model=scripted) == 0.75


def test_people_s_ratings_are_kept_and_task_success_pays_until_there_are_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = Trajectory(task="a", outcome="o"), Trajectory(task="b", outcome="o")
    runner = runner_of("learned_reward", trajectory=first, trajectory2=second)
    runner.run("t", success=False)
    assert runner.rewards == [0.0]
    again = LearnedReward(persist_path="./feedback")
    assert [one.human_score for one in again.examples] == [0.9, 0.2]


def test_a_composite_is_called_with_a_trajectory_by_position():
    runner = runner_of("composite_reward")
    episode = Trajectory(steps=[FAILED, WORKED], metadata={"success": True})
    assert runner.reward(episode) == pytest.approx(0.6 + 0.3 * 0.75 + 0.1 * 0.9)
    heavier = CompositeReward([(task_success, 6), (code_execution_reward, 3), (efficiency_reward, 1)])
    assert heavier(episode) == pytest.approx(runner.reward(episode))


def test_the_page_s_own_domain_reward_runs_directly_and_in_a_blend():
    runner = runner_of("domain_reward", Trajectory=Trajectory)
    report = Trajectory(outcome="Summary, recommendations, conclusion", steps=[FAILED] * 3)
    assert runner.reward(report) == score(runner.reward, report).reward == pytest.approx(0.8)
    assert CompositeReward([(runner.reward, 1.0)])(report) == pytest.approx(0.8)
    short = Trajectory(outcome="Summary")
    assert runner.reward(short) == score(runner.reward, short).reward == 0.0


def test_a_reward_of_arises_is_a_number_to_calculate_with():
    won = Trajectory(metadata={"success": True})
    assert 0.5 * task_success(won) + 0.5 * efficiency_reward(won) == 1.0


def test_a_number_that_is_not_there_is_an_error_and_not_zero():
    with pytest.raises(RewardError, match="bad_gold"):
        answer_match_reward(Trajectory(outcome="4"), match="exact")


def test_a_trajectory_holds_its_reward_and_its_metrics_after_scoring():
    won = Trajectory(metadata={"success": True})
    assert won.reward == 0.0
    score(CompositeReward([(task_success, 1), (efficiency_reward, 1)]), won)
    assert (won.reward, won.metrics) == (1.0, {"task_success": 1.0, "efficiency_reward": 1.0})
    score(answer_match_reward, won, match="exact")
    assert won.reward is None


# AgentFly


def test_agentflys_function_returns_a_mapping_with_the_page_s_keys():
    given = {"reward": reward, "List": list}
    words = run(
        "agentfly",
        "function",
        f1_score=lambda mine, gold: (float(mine == gold),) * 3,
        em_score=lambda mine, gold: float(mine == gold),
        **given,
    )["qa_f1_reward"]
    assert words.name == "qa_f1_reward"
    fields = {"final_response": "Paris", "answer": "Paris", "trajectory": []}
    assert words(**fields) == {"reward": 1.0, "f1": 1.0, "em": 1.0, "precision": 1.0, "recall": 1.0}
    assert set(qa_f1_reward(**fields)) == set(words(**fields))


def test_agentflys_class_keeps_its_credentials_without_calling_its_parent():
    asked: list[dict[str, Any]] = []

    def request(**sent: Any) -> dict[str, float]:
        asked.append(sent)
        return {"reward": 0.5}

    requests = SimpleNamespace(request=request)
    made = run("agentfly", "class", BaseReward=BaseReward, requests=requests)["APIReward"]("key")
    assert made(query="?") == {"reward": 0.5}
    assert asked == [{"api_key": "key", "query": "?"}]


class Shop:
    """What the page's reward asks."""

    async def step(self, action: str, task_id: int) -> dict[str, Any]:
        return {"reward": 1.0 if (action, task_id) == ("get_reward", 7) else 0.0, "observation": "bought"}


def test_agentflys_stateful_reward_acquires_the_environment_of_the_tools():
    shop_reward = run("agentfly", "stateful", reward=reward)["webshop_reward"]

    async def ask() -> tuple[Any, Any]:
        async with ResourcePool(bindings={WebShopSpec: WebShopSpec.local(Shop)}) as pool:
            context = Context("rollout-1", pool=pool)
            fields = {"final_response": "done", "context": context}
            given = await shop_reward(**fields, task_id=7), await shop_reward(**fields, task_id=8)
            await context.aclose()
            return given

    right, wrong = anyio.run(ask)
    assert (right, wrong["reward"]) == ({"reward": 1.0, "output": "bought"}, 0.0)


def test_agentflys_task_input_is_no_python_as_it_is_printed_and_its_fields_reach_the_reward():
    source = blocks("agentfly")["task_input"]
    with pytest.raises(SyntaxError):
        ast.parse(source)
    source = source[: source.index("await")].replace("[", "[{", 1).replace("],", "}],", 1)
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102  (the block is this test's own data)
    summary = run("agentfly", "additional_fields", reward=reward)["summary_reward"]
    task = names["task_messages"]
    assert score(summary, final_response="short", **task).reward == 1.0
    assert score(summary, final_response="x" * 2049, **task).reward == 0.0
    assert summary(final_response="x" * 2049, length_penalty=False, max_length=1) == {"reward": 1.0}


def test_calculate_reward_gives_the_typed_result_and_puts_it_on_the_trajectory():
    @reward(name="both")
    def both(trajectory: Trajectory, answer: str) -> dict[str, float]:
        return {"reward": 0.5, "length": len(trajectory.outcome + answer)}

    episode = Trajectory(outcome="abc")
    result = anyio.run(lambda: calculate_reward(both, trajectory=episode, answer="d"))
    assert result is not None
    assert (result.reward, dict(result.extras)) == (0.5, {"length": 4})
    assert (episode.reward, episode.metrics) == (0.5, {"length": 4})
    assert anyio.run(calculate_reward, None) is None
    with pytest.raises(RewardError):
        anyio.run(lambda: calculate_reward(both, trajectory=episode))


def test_direct_calls_take_the_final_response_from_a_trajectory():
    answered = Trajectory(outcome="\\boxed{42}", metadata={"answer": "42"})
    assert math_equal_reward(trajectory=answered)["reward"] == 1.0
    assert GatedReward(math_equal_reward, efficiency_reward)(answered)["reward"] == 1.0


# The data


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_the_page_s_but_for_white_space(page):
    copied = SEEDS / PAGES[page]
    if copied.exists():  # the pages themselves do not come with the project
        whole = "".join(copied.read_text(encoding="utf-8").split())
        assert [name for name, text in blocks(page).items() if "".join(text.split()) not in whole] == []
    assert len(blocks(page)) == {"arise": 13, "agentfly": 5, "ors": 21}[page]
