"""Every block of code on the pages of ARISE, AgentFly and ORS about rewards, as it stands there.

`tests/data/seed_blocks` holds the blocks. Only the root of imports is changed here; names that a page uses
without importing them (its agent, its runner, its shell) are given to the block.
"""

import ast
import dataclasses
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import ors_server.types
from ors_server import Environment, TextBlock, ToolOutput, tool
from ors_server.errors import EnvironmentDefinitionError
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
from ors_server.testing import play

DATA = Path(__file__).parents[2] / "data" / "seed_blocks"
SEEDS = Path(__file__).parents[4] / "shared" / "seeds"
PAGES = {
    "arise": "arise-reward-functions.txt",
    "agentfly": "agentfly-reward-system.txt",
    "ors": "ors-rewards.txt",
}
FAILED = Step(action="search", error="offline")
WORKED = Step(action="search", result="found")


def blocks(page: str) -> dict[str, str]:
    """Returns a page's blocks by name."""
    text = (DATA / f"{page}.txt").read_text(encoding="utf-8")
    return {
        part.partition("\n")[0].strip(): part.partition("\n")[2]
        for part in text.split("=== ")
        if part.strip()
    }


def run(page: str, name: str, **given: Any) -> dict[str, Any]:
    """Runs a block with another root of imports; returns its names."""
    source = blocks(page)[name].replace(f"from {page}.", "from ors_server.")
    names = dict(given)
    exec(compile(source, f"{page}:{name}", "exec"), names)  # noqa: S102  (the block is this test's own data)
    return names


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
    assert runner.reward(report) == pytest.approx(0.8)
    assert CompositeReward([(runner.reward, 1.0)])(report) == pytest.approx(0.8)
    assert runner.reward(Trajectory(outcome="Summary")) == 0.0


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


# ORS


class SubmitParams(BaseModel):
    """What `submit` takes; the page leaves its type out."""

    answer: float | str


class BashParams(BaseModel):
    """What `bash` takes; the page leaves its type out."""

    command: str


PARAMS: dict[str, type[BaseModel]] = {"submit": SubmitParams, "bash": BashParams}


def world(page_block: str, *, annotated: bool = True, **members: Any) -> type[Environment]:
    """Makes an environment whose tools are a block's functions."""
    names = run(
        "ors",
        page_block,
        ToolOutput=ToolOutput,
        TextBlock=TextBlock,
        execute_command=lambda command: {"ls": "answer.txt"}.get(command, command),
    )
    tools: dict[str, Any] = {}
    for name, params in PARAMS.items():
        if name in names:
            if annotated:
                names[name].__annotations__["params"] = params
            tools[name] = tool(names[name])
    listing = {
        "list_splits": classmethod(lambda cls: ["train"]),
        "list_tasks": classmethod(lambda cls, split: [{"answer": 4}]),
        "get_prompt": lambda self: "Go.",
    }
    return type("Played", (Environment,), {**listing, **tools, **members})


def paid(environment: type[Environment], *calls: tuple[str, Any], answer: Any = 4) -> list[float | None]:
    """Plays calls; returns what each paid."""
    with play(environment, task_spec={"answer": answer}) as episode:
        return [
            episode.call(name, **{"submit": {"answer": value}, "bash": {"command": value}}[name]).reward
            for name, value in calls
        ]


def test_the_interface_of_the_page_is_the_wire_s():
    fields = {line.strip().split(":")[0].rstrip("?") for line in blocks("ors")["interface"].splitlines()[1:5]}
    assert fields == set(ToolOutput.model_fields)


@pytest.mark.parametrize("name", ["positive", "zero", "negative"])
def test_the_outputs_of_the_page_are_read_and_written_alike(name):
    shown = json.loads(blocks("ors")[name])
    assert json.loads(ToolOutput.model_validate(shown).model_dump_json()) == shown


@pytest.mark.parametrize("name", ["sparse_submit", "sparse_bash", "dense", "penalty", "binary", "continuous"])
def test_a_tool_without_a_type_is_refused_with_what_to_write(name):
    with pytest.raises(EnvironmentDefinitionError, match=r"Params\(BaseModel\): .* params: \w+Params"):
        paid(world(name, annotated=False))


@pytest.mark.parametrize("name", ["sparse_submit", "binary"])
def test_sparse_and_binary_rewards_pay_the_right_answer_only(name):
    assert paid(world(name), ("submit", "yes"), answer="yes") == [1.0]
    assert paid(world(name), ("submit", "no"), answer="yes") == [0.0]


def test_sparse_steps_pay_nothing():
    assert paid(world("sparse_bash"), ("bash", "ls"), ("bash", "pwd")) == [0.0, 0.0]


def test_dense_rewards_pay_for_a_found_file_and_for_output():
    calls = ("bash", "ls"), ("bash", ""), ("bash", "pwd"), ("submit", 4)
    assert paid(world("dense"), *calls) == [pytest.approx(0.3), 0.0, 0.1, 1.0]


def test_shaped_rewards_grow_with_closeness():
    progress = run("ors", "shaped")["calculate_progress_reward"]
    env = world("sparse_submit")({"answer": 10})
    seen = {"viewed_problem": True, "attempted_calculation": True, "last_guess": None}
    guesses = [(None, 0.3), (16, 0.3), (13, 0.7), (10.5, 0.9)]
    assert [progress(env, {**seen, "last_guess": guess}) for guess, _ in guesses] == [
        value for _, value in guesses
    ]
    assert progress(env, {**seen, "attempted_calculation": False}) == 0.1
    assert progress(env, {**seen, "viewed_problem": False}) == 0.0


def test_penalties_end_the_episode_for_danger_and_cost_a_tenth_after_twenty_steps():
    with play(world("penalty", step_count=0), task_spec={}) as episode:
        refused = episode.call("bash", command="rm -rf /")
    assert (refused.reward, refused.finished) == (-1.0, True)
    assert paid(world("penalty", step_count=20), ("bash", "ls")) == [0.0]
    assert paid(world("penalty", step_count=21), ("bash", "ls")) == [-0.1]


@pytest.mark.parametrize(("guess", "reward_"), [(4, 1.0), (54, 0.5), (104, 0.0), (1000, 0.0)])
def test_continuous_rewards_fall_with_the_error(guess, reward_):
    assert paid(world("continuous"), ("submit", guess)) == [reward_]


def test_the_total_counts_missing_rewards_as_nothing(capsys):
    outputs = iter([(None, False), (0.25, False), (1.0, True)])

    def call_tool(*_arguments: Any) -> ToolOutput:
        paid_, finished = next(outputs)
        return ToolOutput(blocks=[], reward=paid_, finished=finished)

    run("ors", "total", finished=False, session=SimpleNamespace(call_tool=call_tool))
    assert capsys.readouterr().out == "Total episode reward: 1.25\n"


@pytest.mark.parametrize("name", ["aligned", "immediate", "hacking", "pitfall_hacking"])
def test_sketches_whose_arguments_are_left_out_define_their_tools_and_cannot_be_called(name):
    names = run("ors", name, ToolOutput=ToolOutput)
    assert names.keys() & {"submit", "bash"}
    with pytest.raises(TypeError):
        ToolOutput(..., reward=1.0, finished=True)  # type: ignore[misc]  # as the page


def test_a_sketch_without_parameters_is_no_python():
    with pytest.raises(SyntaxError):
        ast.parse(blocks("ors")["consistent"])


def test_scales_and_pitfalls_are_plain_numbers():
    assert run("ors", "scaled")["step_reward"] == 0.9
    assert run("ors", "pitfall_scaling")["final_reward"] == 1.0
    assert run("ors", "pitfall_ambiguous", perfect=False)["reward"] == 0.0


def test_the_evaluation_of_the_page_prints_mean_and_success_rate(capsys):
    agent = SimpleNamespace(step=lambda task: ToolOutput(blocks=[], reward=task, finished=True))
    source = blocks("ors")["evaluation"].replace(
        "episode_reward = 0.0", "episode_reward = 0.0; finished = False"
    )
    exec(source, {"test_tasks": [1.0, 0.0], "create_session": lambda task: task, "agent": agent})  # noqa: S102  (as above)
    assert capsys.readouterr().out == "Average reward: 0.500\nSuccess rate: 50.0%\n"


# The data


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_the_page_s_but_for_white_space(page):
    copied = SEEDS / PAGES[page]
    if copied.exists():  # the pages themselves do not come with the project
        whole = "".join(copied.read_text(encoding="utf-8").split())
        assert [name for name, text in blocks(page).items() if "".join(text.split()) not in whole] == []
    assert len(blocks(page)) == {"arise": 13, "agentfly": 5, "ors": 21}[page]
