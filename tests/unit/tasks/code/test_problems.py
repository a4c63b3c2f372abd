"""All problems as their pages tell them: solutions are right, bugs are wrong, nothing is given away."""

import doctest
import json
import types
from collections import Counter
from hashlib import sha256
from importlib.resources import files

import pytest

from ors_server_tasks.code.catalogue import SPLITS, load_problem
from ors_server_tasks.code.hidden import make_call, public_functions, run_source
from ors_server_tasks.code.problem import Grading, Kind, Problem

PROBLEMS = [load_problem(name) for names in SPLITS.values() for name in names]
MIN_CASES = 12
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)


def those(grading: Grading):
    found = [problem for problem in PROBLEMS if problem.grading is grading]
    return pytest.mark.parametrize("problem", found, ids=lambda problem: problem.name)


def key(function, arguments, keywords):
    return json.dumps([function, arguments, keywords])


def visible_calls(problem: Problem):
    """What the examples of the docstrings call, as the agent sees them."""
    seen = set()

    def stand_in(name):
        def call(*arguments, **keywords):
            seen.add(key(name, arguments, keywords))
            return ""

        return call

    fakes = {name: stand_in(name) for name in public_functions(run_source(problem.solution, problem.name))}
    for test in doctests_of(problem):
        for example in test.examples:
            run_source(example.source, problem.name, **fakes, print=str)
    return seen


def doctests_of(problem: Problem):
    namespace = run_source(problem.solution, problem.name)
    module = types.ModuleType("solution")
    module.__dict__.update(namespace)
    found = doctest.DocTestFinder().find(module, "solution", module=False, globs=namespace)
    return [test for test in found if test.examples]


def test_the_splits_have_their_sizes():
    assert {split: len(names) for split, names in SPLITS.items()} == {
        "train": 46,
        "validation": 10,
        "test": 40,
    }


def test_the_order_of_the_problems_is_fixed():
    listing = json.dumps(SPLITS, sort_keys=True)
    assert (
        sha256(listing.encode()).hexdigest()
        == "4c69377f1116202b0388021dcdfaa6a18fb1adbbe6a8f1bdf9e11ca93d5fda0a"
    )


def test_every_page_stands_in_exactly_one_split():
    pages = [page.name for page in files("ors_server_tasks.code").joinpath("problems").iterdir()]
    assert sorted(pages) == sorted(f"{problem.name}.md" for problem in PROBLEMS)


def test_every_kind_and_difficulty_stands_in_the_test_split():
    found = [load_problem(name) for name in SPLITS["test"]]
    assert {problem.kind for problem in found} == set(Kind)
    assert {problem.difficulty for problem in found} == {"easy", "medium", "hard"}


def test_a_name_outside_of_the_catalogue_is_no_problem():
    with pytest.raises(KeyError):
        load_problem("../README")


@every_problem
def test_the_examples_that_the_agent_sees_are_right(problem):
    for test in doctests_of(problem):
        said: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert not said, "".join(said)
    for given, printed in problem.examples:
        assert run_source(problem.solution, problem.name)["solve"](given) == printed


@every_problem
def test_the_agent_sees_examples_or_tells_from_the_description(problem):
    if problem.kind in {Kind.FUNCTION, Kind.PROGRAM}:
        assert doctests_of(problem) or problem.examples


@every_problem
def test_the_task_tells_neither_solution_nor_hidden_cases(problem):
    told = json.dumps(problem.describe())
    assert json.loads(told) == problem.describe()
    assert json.dumps(problem.solution)[1:-1] not in told
    assert json.dumps(problem.page.code(problem.grading))[1:-1] not in told


@every_problem
def test_the_prompt_tells_the_file_and_what_to_do(problem):
    assert problem.prompt.startswith(f"# {problem.page.title}\n\n")
    assert f"`{problem.file}`" in problem.prompt
    assert problem.topics


@pytest.mark.parametrize("grading", [Grading.CALLS, Grading.INPUTS])
def test_hidden_cases_are_many_different_and_plain(grading):
    for problem in PROBLEMS:
        if problem.grading is grading:
            calls = problem.hidden_calls
            keys = [key(call.function, call.arguments, call.keywords) for call in calls]
            assert len(keys) >= MIN_CASES, problem.name
            assert [k for k, count in Counter(keys).items() if count > 1] == [], problem.name
            for call in calls:
                values = [list(call.arguments), call.keywords, call.expected]
                assert json.loads(json.dumps(values, allow_nan=False)) == values, problem.name


@those(Grading.CALLS)
def test_special_casing_the_visible_examples_cannot_pass(problem):
    hidden = {key(call.function, call.arguments, call.keywords) for call in problem.hidden_calls}
    assert len(hidden - visible_calls(problem)) >= MIN_CASES


@those(Grading.INPUTS)
def test_no_hidden_input_is_an_example(problem):
    hidden = {call.arguments for call in problem.hidden_calls}
    assert not hidden & {(given,) for given, _ in problem.examples}
    assert any(not call.expected for call in problem.hidden_calls) or len(hidden) > MIN_CASES


@those(Grading.CALLS)
def test_an_error_that_is_expected_is_named_to_the_agent(problem):
    for call in problem.hidden_calls:
        assert call.raises is None or call.raises in problem.prompt + (problem.starting_file or "")


@those(Grading.CALLS)
def test_no_constant_answer_is_right_for_all_cases(problem):
    outcomes = {(call.raises, json.dumps(call.expected)) for call in problem.hidden_calls}
    assert len(outcomes) > 1


@pytest.mark.parametrize(
    "problem", [problem for problem in PROBLEMS if problem.kind is Kind.FIX], ids=lambda problem: problem.name
)
def test_a_file_to_mend_fails_some_cases_and_passes_others(problem):
    if problem.grading is Grading.TESTS:
        return  # played in tests/contract/test_code.py
    functions = public_functions(run_source(problem.starting_file, problem.name))
    right = 0
    for call in problem.hidden_calls:
        made = make_call(call.function, functions[call.function], call.arguments, call.keywords)
        right += (made.raises, json.dumps(made.expected)) == (call.raises, json.dumps(call.expected))
    assert 0 < right < len(problem.hidden_calls)


@those(Grading.TESTS)
def test_hidden_tests_are_many(problem):
    assert problem.hidden_tests.count("\ndef test_") >= MIN_CASES
    assert problem.classes or problem.kind is Kind.FIX
