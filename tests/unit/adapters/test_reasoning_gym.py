"""Datasets of reasoning-gym as environments, with the real package: prompts, rewards, hostile answers."""

from dataclasses import replace
from typing import Any

import pytest

from ors_server.adapters import from_reasoning_gym
from ors_server.adapters.reasoning_gym_answers import FORMULAS, refuse
from ors_server.adapters.reasoning_gym_datasets import BROKEN, DATASETS, LIMITS, MODULE, SOURCE, workers
from ors_server.environments.loading import define, find_classes
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.processes.offload import FunctionPath
from ors_server.testing import open_environment
from ors_server.testing.environment_suite import check_environment
from tests.fixtures.ordinary_cases import every

pytestmark = pytest.mark.external
CONFIG = '{"seed": 0, "size": 1100}'
CHECKED = ("leg_counting", "simple_equations", "list_functions")
LONGER = replace(LIMITS, cpu_seconds=100.0)
"""For making all problems of a dataset whose problems take longest."""


def make_problem(*arguments):
    return workers().call(FunctionPath(f"{MODULE}:make_problem"), *arguments, limits=LIMITS)


def score_answer(*arguments):
    return workers().call(FunctionPath(f"{MODULE}:score_answer"), *arguments, limits=LIMITS)


@pytest.mark.parametrize(
    ("dataset", "sizes"), every(2, [("coin_flip", (230, 23)), ("caesar_cipher", (918, 91))])
)
def test_an_index_that_repeats_a_question_is_no_task(dataset, sizes):
    environment: Any = from_reasoning_gym(dataset)
    assert tuple(environment.num_tasks(split) for split in ("train", "test")) == sizes
    report = check_environment(environment, only=["splits-are-disjoint", "tasks-are-distinct"])
    assert [verdict.outcome for verdict in report.verdicts] == ["pass", "pass"], report


@pytest.mark.parametrize(
    ("dataset", "sizes", "limits"),
    [
        ("jugs", (544, 54), LIMITS),
        ("codeio", (987, 98), LIMITS),
        pytest.param("intermediate_integration", (698, 69), LONGER, marks=pytest.mark.stress),
    ],
)
def test_what_is_not_a_task_is_listed_for_datasets_that_are_slow_to_compare(dataset, sizes, limits):
    environment: Any = from_reasoning_gym(dataset)
    assert tuple(environment.num_tasks(split) for split in ("train", "test")) == sizes
    tasks = [task["index"] for split in ("train", "test") for task in environment.get_task_range(split)]
    assert tasks == workers().call(FunctionPath(f"{MODULE}:list_tasks"), dataset, CONFIG, limits=limits)


def test_a_program_of_codeio_that_writes_a_file_writes_none_where_the_server_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fresh = workers.__wrapped__()
    problem = fresh.call(FunctionPath(f"{MODULE}:make_problem"), "codeio", CONFIG, 448, limits=LIMITS)
    fresh._close_all()
    assert "sailor_performance.csv" in problem.question
    assert not list(tmp_path.iterdir())


def test_check_says_where_a_slow_dataset_with_another_seed_repeats_questions():
    environment: Any = from_reasoning_gym("jugs", seed=1, train_tasks=150, test_tasks=100)
    report = check_environment(environment, only=["splits-are-disjoint", "tasks-are-distinct"])
    reasons = [verdict.reason for verdict in report.verdicts if verdict.outcome != "pass"]
    assert any("of 100 tasks of split 'test' are" in reason for reason in reasons), report


async def play(environment, answer, index=0):
    """Return the reward of an answer, and the text beside it."""
    async with open_environment(environment) as client:
        session = await client.create(split="train", index=index, seed=0)
        await session.prompt()
        output = await session.submit("submit", {"answer": answer})
        return output.reward, output.blocks[0].text


@pytest.mark.parametrize("dataset", every(3, CHECKED))
def test_a_dataset_passes_the_suite(dataset):
    report = check_environment(f"reasoning_gym/{dataset}", tasks_per_split=2)
    assert not list(report.failed()), str(report)
    passed = {verdict.check.id for verdict in report.verdicts if verdict.outcome == "pass"}
    assert {"gold-earns-the-most", "blank-earns-the-least", "calls-are-repeatable"} <= passed


def test_every_dataset_has_a_legal_name_and_disjoint_splits():
    definitions = [define(SOURCE.load(name, is_forced=True)) for name in DATASETS]
    assert len({definition.name for definition in definitions}) == len(DATASETS) == 105
    source: Any = definitions[0].source
    train, test = (source.get_task_range(split) for split in ("train", "test"))
    assert (len(train), len(test)) == (1000, 100)
    assert not {task["index"] for task in train} & {task["index"] for task in test}
    assert set(BROKEN) < set(SOURCE.list_names())


async def test_a_right_answer_is_paid_and_a_wrong_one_is_not():
    environment: Any = from_reasoning_gym("leg_counting", seed=3, train_tasks=5, test_tasks=0, max_animals=4)
    ((_, arguments),) = environment.gold_actions(environment.get_task("train", 4))
    right = arguments["answer"]
    assert [split.name for split in environment.list_splits()] == ["train"]
    assert await play(environment, right, 4) == (1.0, "Submitted.")
    assert (await play(environment, f"{right}0", 4))[0] < 1
    assert (await play(environment, "nothing", 4))[0] == 0


async def test_an_answer_that_breaks_the_grader_earns_0():
    reward, _ = await play(from_reasoning_gym("prime_factorization"), "no number")
    assert reward == 0


ATTACKS = (
    "__import__('os')._exit(3)",
    "().__class__.__mro__",
    "[x for x in [1]]",
    "exec('1')",
    "Integral(2, x)",
    "integrate(2*x, x)",
    "open('/etc/passwd')",
    "lambda: 1",
    "x.diff()",
    "9**9**9",
    "9**99999",
    "9**(99999)",
    "1" * 50,
    "x" * 30_000,
    "x; y",
    '"x"',
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda text: text[:24])
def test_no_formula_runs_code_or_lets_the_grader_do_the_work(attack):
    assert refuse("simple_integration", attack) or attack == "9**9**9"
    assert all(refuse(dataset, "__import__('os')") for dataset in FORMULAS)


@pytest.mark.parametrize("formula", ["2*x**2 + C", "x**3/3 - 2*sin(x) + C", "exp(2*x)/2", "-(1.5*X)^2"])
def test_plain_formulas_reach_the_grader(formula):
    assert refuse("simple_integration", formula) == ""


@pytest.mark.parametrize("dataset", ["binary_matrix", "n_queens", "spiral_matrix", "string_insertion"])
def test_an_answer_is_read_as_a_literal_and_never_run(dataset, tmp_path):
    problem = make_problem(dataset, CONFIG, 0)
    file = tmp_path / "written"
    attack = f"__import__('pathlib').Path({str(file)!r}).write_text('x')"
    assert score_answer(dataset, CONFIG, 0, problem, attack).score < 1
    assert not file.exists()
    assert score_answer(dataset, CONFIG, 0, problem, problem.answer).score == 1


def test_equivalent_forms_are_paid():
    problem = make_problem("simple_integration", CONFIG, 0)
    plain = problem.answer.replace("+ C", "").strip()
    for form in (problem.answer, f"({plain}) + C", f"C + {plain}", plain):
        assert score_answer("simple_integration", CONFIG, 0, problem, form).score == 1


@pytest.mark.parametrize("answer", ["nan", "nan+1j", "NaNj", "inf"])
def test_what_is_no_number_does_not_pay(answer):
    problem = make_problem("complex_arithmetic", CONFIG, 0)
    assert score_answer("complex_arithmetic", CONFIG, 0, problem, answer).score == 0


def test_a_problem_that_differs_when_it_is_made_again_is_not_graded():
    other = make_problem("leg_counting", CONFIG, 1)
    with pytest.raises(ValueError, match="leg_counting: problem 0 differs when it is made again"):
        score_answer("leg_counting", CONFIG, 0, other, "4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": 3}, r"reasoning_gym/leg_counting: unknown option 'colour'; expected one of max_animals,"),
        ({"min_animals": 0}, r"reasoning_gym/leg_counting: the dataset refuses .*AssertionError"),
        ({"train_tasks": 0, "test_tasks": 0}, "expected at least one task, got train_tasks=0, test_tasks=0"),
        ({"train_tasks": -1}, "expected at least one task, got train_tasks=-1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(EnvironmentDefinitionError, match=message) as caught:
        from_reasoning_gym("leg_counting", **options)
    assert "\n" not in str(caught.value)


def test_a_broken_dataset_is_served_on_request_only():
    with pytest.raises(
        EnvironmentDefinitionError, match="puzzle24 is listed as broken: it pays 1 for any four"
    ):
        find_classes("reasoning_gym/puzzle24")
    with pytest.raises(UnknownEnvironmentError, match="the nearest are leg_counting"):
        from_reasoning_gym("leg_count")
