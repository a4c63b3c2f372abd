"""Every block of code on the Open Reward Standard's page about rewards, as it stands there."""

import ast
import json
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from ors_server import Environment, TextBlock, ToolOutput, tool
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.testing import play
from tests.fixtures.seed_blocks import blocks, run


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
