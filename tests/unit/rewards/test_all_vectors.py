"""Every recording is played by a module of tests, and every row of the table of deviations is needed."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

import pytest

from ors_server.rewards.deviations import DEVIATIONS
from tests.fixtures.deviations import covers, expected, explains
from tests.fixtures.recorded_rewards import DATA, recorded_cases

HERE = Path(__file__).parent
MODULES = sorted(path for path in HERE.rglob("test_*.py") if path != Path(__file__))
RECORDINGS = sorted(path.stem for path in DATA.glob("*.json"))


@cache
def words_of(module):
    """The texts that a module has as constants, its documentation apart."""
    tree = ast.parse(module.read_text())
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@cache
def players_of(module):
    if "PLAYERS" not in module.read_text():
        return {}
    spec = importlib.util.spec_from_file_location(f"played_{module.stem}", module)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.PLAYERS


def played():
    return {name: player for module in MODULES for name, player in players_of(module).items()}


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recording_is_played(name):
    assert any({name, f"{name}.json"} & words_of(module) for module in MODULES)


def test_every_row_is_about_a_recording_and_says_why():
    for row in DEVIATIONS:
        assert row.files
        assert set(row.files) <= set(RECORDINGS), row
        assert row.what.strip(), row
        assert row.why.strip(), row
    assert len({(row.vectors, row.what) for row in DEVIATIONS}) == len(DEVIATIONS)


@pytest.mark.parametrize("row", DEVIATIONS, ids=lambda row: f"{row.files[0]}-{row.becomes}-{row.what[:30]}")
def test_every_row_is_about_a_case_that_is_recorded(row):
    assert any(covers(row, name, case) for name in row.files for case in recorded_cases(name))


def test_every_row_is_needed_by_a_case(compare):
    players = played()
    needed = {
        (row, name)
        for name, player in players.items()
        for case in recorded_cases(name)
        for row in compare(name, case, player)
    }
    rows = [row for row in DEVIATIONS if set(row.files) <= set(players)]
    assert len(rows) >= 15  # the others are about files whose own modules count
    assert [row.what for row in rows if not any(row is one for one, _ in needed)] == []


def judged(player, case):
    try:
        return player(case)
    except Exception:  # noqa: BLE001  (whatever a reward raises is no number)
        return None


@pytest.fixture(scope="module")
def results():
    """Every recorded case that is played here, with this library's result; `None` where it raises."""
    return [
        (name, case, judged(player, case))
        for name, player in played().items()
        for case in recorded_cases(name)
    ]


def rows_for(name, case, reward, figures=None):
    return [row for row in DEVIATIONS if explains(row, name, case, reward, figures)]


WRONG = (0.0, 0.05, 0.1, 0.25, 0.5, 2 / 3, 0.9, 1.0, -1.0, 10.0)


def test_an_arbitrary_wrong_number_is_excused_nowhere(results):
    excused = []
    for name, case, result in results:
        right = None if result is None else result.reward
        wrong = [number for number in WRONG if right is None or abs(number - right) > 1e-9]
        wrong += [] if right is None else [right + 0.001, right - 0.5]
        excused += [(name, case["input"], number) for number in wrong if rows_for(name, case, number)]
    assert excused == []


def test_no_number_where_there_should_be_one_is_excused_nowhere(results):
    excused = [
        (name, case["input"])
        for name, case, result in results
        if result is not None and result.reward is not None and rows_for(name, case, None)
    ]
    assert excused == []


def test_a_wrong_figure_beside_a_right_number_is_excused_nowhere(results):
    excused, deviating = [], 0
    for name, case, result in results:
        if result is None or not rows_for(name, case, result.reward, result.extras):
            continue
        deviating += 1
        output = case["output"].get("value", {})
        known = set(output) if isinstance(output, dict) else set()
        for row in rows_for(name, case, result.reward, result.extras):
            for figure in (known | set(expected(row, name, case).figures)) & set(result.extras) - {"output"}:
                changed = {**result.extras, figure: result.extras[figure] + 0.25}
                excused += [(name, case["input"], figure)] * explains(row, name, case, result.reward, changed)
    assert excused == []
    assert deviating > 100


@pytest.mark.parametrize(
    ("name", "given", "output"),
    [
        ("agentfly_code_reward_test", {"env_step_returns": "4", "env_step_raises": None}, {"reward": 1.0}),
        ("agentfly_qa_f1_reward", {"final_response": "a", "answer": "b", "trajectory": []}, {"reward": 0.0}),
        (
            "agentfly_math_equal_reward",
            {"final_response": r"\boxed{2^n-1}", "answer": "2^{n-1}"},
            {"reward": 0.0},
        ),
        ("agentfly_math_equal_reward", {"final_response": "x 42 y", "answer": "42"}, {"reward": 0.0}),
        ("arise_learned_reward", {"llm_reply": "0.3", "feedback": 1, "min_examples": 2}, {"reward": 0.0}),
        ("arise_composite_reward", [[0.5, 1], [1.0, 3]], 0.875),
        (
            "agentfly_webshop_reward",
            {"env_step_returns": {"reward": 1.0, "observation": "ok"}},
            {"reward": 1.0},
        ),
    ],
)
def test_an_ordinary_case_is_in_no_row(name, given, output):
    case = {"input": given, "output": {"value": output}}
    assert [row.what for row in DEVIATIONS if covers(row, name, case)] == []


def test_a_traceback_is_expected_to_be_paid_nothing():
    told = "Traceback (most recent call last):\n  ...\nNameError: x"
    case = {
        "input": {"env_step_returns": told, "env_step_raises": None},
        "output": {"value": {"reward": 1.0}},
    }
    assert rows_for("agentfly_code_reward_test", case, 0.0)
    assert not rows_for("agentfly_code_reward_test", case, 0.5)
    assert not rows_for("agentfly_code_reward_test", case, None)
