"""Every reward of the library, asked about anything: a number or a reason, bounded work, one verdict."""

import itertools
import json
import math
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from inspect import getdoc, isawaitable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ors_server.rewards.catalogue import find_reward, list_rewards
from ors_server.rewards.define import Reward
from ors_server.rewards.group import evaluate_group, is_group_reward, score_group_with
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.scoring import evaluate, gather_fields, score
from tests.fixtures.hostile_texts import LATEX, LONG_TEXTS, NASTY, PAIRS, SHORT_TEXTS
from tests.fixtures.reward_fields import (
    FIELDS,
    NEEDS_MODEL,
    OWN_FIELDS,
    Kit,
    UnknownFieldError,
    fields_of,
    reward_of,
)

NAMES = tuple(entry.name for entry in list_rewards())
WORK_LIMIT = 5.0
"""Seconds of processor time that one judgement may take, generously: a runaway fails instead of hanging."""
PATIENCE = 100.0
"""Seconds that another thread, task or process may take for all its judgements."""
EXAMPLES = 100
"""Questions that every reward is asked in an ordinary run; async ones are asked a quarter of them."""
MANY_EXAMPLES = 10_000
"""The same in a stress run."""

SELDOM = {"code_pytest_reward": 50}
"""Rewards that start a program for each question: they are asked one of so many."""
SELDOM_AT_FIRST = {**{name: 4 for name in NAMES if find_reward(name).is_async}, **SELDOM}
"""The same in an ordinary run."""
NEVER_GRADED = frozenset({"code_functions_reward", "code_pytest_reward"})
"""Rewards that get no number here: a scripted interpreter does not speak as theirs must."""

WORST = frozenset(
    {
        *("digits", "a tower", "boxes", "open boxes", "brackets", "objects", "blanks", "commas", "letters"),
        *("fences", "thoughts", "closed answers", "claims", "options", "marks", "nulls", "lone surrogates"),
        "nested queries",
    }
)
"""Long texts of the ordinary run; the others are for the stress run."""
SOON = tuple(name for name in NAMES if name not in SELDOM)

HOSTILE = tuple(pair["prediction"] for pair in PAIRS if pair["category"].startswith("adversarial"))
ROOT = Path(__file__).parents[2]


# What is asked.


def _texts() -> st.SearchStrategy[str]:
    anything = st.text(st.characters(exclude_categories=()), max_size=60)  # lone surrogates too
    nasty = st.text(st.sampled_from(NASTY), max_size=30)
    latex = st.lists(st.sampled_from(LATEX), max_size=25).map(" ".join)
    shorts = st.sampled_from((*SHORT_TEXTS, *(text for text in HOSTILE if len(text) <= 3000)))
    documents = _values().map(lambda value: json.dumps(value, ensure_ascii=False))
    pairs = st.sampled_from(PAIRS).map(lambda pair: pair["prediction"][:1000])
    joined = st.lists(st.one_of(anything, nasty, shorts), min_size=2, max_size=4).map("".join)
    repeated = st.tuples(st.one_of(anything, shorts), st.integers(2, 50)).map(
        lambda one: (one[0] * one[1])[:3000]
    )
    return st.one_of(anything, nasty, latex, shorts, documents, pairs, joined, repeated)


def _values() -> st.SearchStrategy[Any]:
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8)
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
        max_leaves=12,
    )


@st.composite
def kits(draw: st.DrawFn) -> Kit:
    """Questions; every third answer is the gold one, so that some of them are right."""
    texts = _texts()
    gold = draw(st.one_of(texts, st.sampled_from(PAIRS).map(lambda pair: pair["gold"][:1000])))
    response = gold if draw(st.integers(0, 2)) == 0 else draw(texts)
    return Kit(response, gold, draw(texts), draw(_values()), draw(st.floats()), draw(st.integers(0, 10_000)))


def spread() -> Iterator[Kit]:
    """Questions of every kind, the same in every process."""
    texts = [*SHORT_TEXTS, *(text for text in HOSTILE if len(text) <= 3000)]
    for place, text in enumerate(texts[:: max(1, len(texts) // 24)]):
        other = texts[(7 * place + 3) % len(texts)]
        yield Kit(text, text if place % 3 == 0 else other, other, {"a": [place, text]}, place / 4, place)
    for pair in PAIRS[::120]:
        yield Kit(pair["prediction"], pair["gold"], "none", [1, {"b": None}], 0.5, len(pair["gold"]))


# How it is asked.


def ask(name: str, kit: Kit, **others: Any) -> tuple[RewardResult, ...]:
    """Scores one question, some fields of it perhaps by others; a group reward gives several results."""
    reward, fields = reward_of(name, kit), {**fields_of(name, kit), **others}
    if is_group_reward(reward):
        return score_group_with(reward, fields.pop("rollouts"), **fields)
    return (score(reward, fields.pop("trajectory", None), **fields),)


async def ask_in_task(name: str, kit: Kit) -> tuple[RewardResult, ...]:
    reward, fields = reward_of(name, kit), fields_of(name, kit)
    if is_group_reward(reward):
        return await evaluate_group(reward, fields.pop("rollouts"), fields)
    return (await evaluate(reward, gather_fields(reward, fields.pop("trajectory", None), fields)),)


def what_it_raises(name: str, kit: Kit) -> Exception | None:
    """Judges without the protection of `score`."""
    reward, fields = reward_of(name, kit), fields_of(name, kit)
    trajectory = fields.pop("trajectory", None)

    async def finish(raw: Any) -> Any:
        return await raw

    try:
        raw = reward.judge(gather_fields(reward, trajectory, fields))
        if isawaitable(raw):
            raw = anyio.run(finish, raw)
        for one in raw if is_group_reward(reward) else [raw]:
            reward.read(one)
    except Exception as error:  # noqa: BLE001  (which one it is, is the question)
        return error
    return None


def documented(reward: Reward) -> set[str]:
    """Names of the exceptions that a reward's documentation promises, and of the one for a missing field."""
    _, _, raises = (getdoc(reward.function) or "").partition("Raises:")
    of_the_sandbox = (
        {"SandboxError", "GradingError", "GraderFailedError"}
        if "evidence" in reward.signature.required
        else set()
    )
    return {*re.findall(r"^ +(\w+Error):", raises, re.MULTILINE), "RewardFieldError", *of_the_sandbox}


def fault_of(name: str, kit: Kit, result: RewardResult) -> str | None:
    """Says what is wrong with a result, if anything."""
    if result.reward is not None:
        low, high = find_reward(name).range or (-math.inf, math.inf)
        within = math.isfinite(result.reward) and low <= result.reward <= high
        return None if within else f"the reward {result.reward} is not in [{low}, {high}]"
    if result.status is not RewardStatus.ERROR:
        return None if result.reason else f"{result.status} without a reason"
    error = what_it_raises(name, kit)
    if error is None and "has the status `error`" in (getdoc(find_reward(name).function) or ""):
        return None if result.reason else "an error without a reason"
    names = {parent.__name__ for parent in type(error).__mro__}
    if names & documented(find_reward(name)):
        return None
    return f"an undocumented {type(error).__name__}: {error!s:.200}"


def faults_of(name: str, kit: Kit, statuses: Counter[str]) -> list[str]:
    """Asks one reward; what is wrong, with its name."""
    began = time.thread_time()
    results = ask(name, kit)
    spent = time.thread_time() - began
    statuses.update(str(result.status) for result in results)
    found = [fault_of(name, kit, result) for result in results]
    if spent > WORK_LIMIT:
        found.append(f"{spent:.0f} seconds of work")
    return [f"{name}: {fault}" for fault in found if fault]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch) -> Iterator[None]:
    """Nothing that is judged may write; some of it tries."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


# No surprise.


@pytest.mark.parametrize("name", NAMES)
def test_every_reward_of_the_catalogue_can_be_asked_here(name):
    kit = next(spread())
    try:
        fields = fields_of(name, kit)
    except UnknownFieldError as error:
        pytest.fail(str(error))
    assert find_reward(name).signature.required <= fields.keys()
    assert find_reward(name).range is not None, f"{name} declares no range"


def test_the_table_of_fields_has_nothing_that_no_reward_takes():
    taken = {
        name: find_reward(name).signature.required | find_reward(name).signature.optional for name in NAMES
    }
    assert not FIELDS.keys() - frozenset[str]().union(*taken.values())
    assert not OWN_FIELDS.keys() - set(NAMES)
    assert all(not own.keys() - taken[name] for name, own in OWN_FIELDS.items())


WRONG: tuple[Any, ...] = (
    None,
    0,
    True,
    3.5,
    math.nan,
    [],
    {},
    [None],
    [[1]],
    {"a": 1},
    b"x",
    10**400,
    object(),
)
"""What is no text, and may stand in a row all the same."""


@pytest.mark.parametrize("field", ["final_response", "answer", "trajectory"])
def test_a_field_of_any_type_gets_a_legal_number_or_a_reason(field):
    kit = next(spread())
    for name in SOON:
        reward, fields = reward_of(name, kit), fields_of(name, kit)
        if field not in fields:
            continue
        for wrong in WRONG:
            result, *_ = ask(name, kit, **{field: wrong})
            assert (result.reward is None) == (result.status not in {"graded", "unparsed_answer"})
            assert result.reward is not None or result.reason, f"{name} is silent about {wrong!r:.40}"
            low, high = reward.range or (-math.inf, math.inf)
            assert result.reward is None or low <= result.reward <= high, f"{name} pays for {wrong!r:.40}"


def play_any(examples: int, seldom: Mapping[str, int], *, is_fixed: bool) -> dict[str, Counter[str]]:
    """Asks every reward so many questions, some only one of several; returns how often each status came.

    Fixed questions are the same in every run.
    """
    statuses: dict[str, Counter[str]] = {name: Counter() for name in NAMES}
    turns = itertools.count()

    @settings(
        max_examples=examples,
        database=None,
        derandomize=is_fixed,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    @given(kit=kits())
    def play(kit: Kit) -> None:
        turn = next(turns)
        asked = [name for name in NAMES if turn % seldom.get(name, 1) == 0]
        faults = [fault for name in asked for fault in faults_of(name, kit, statuses[name])]
        assert not faults, "\n".join(faults)

    play()
    return statuses


@pytest.mark.timeout(300)
def test_any_texts_get_a_legal_number_or_a_reason_from_every_reward():
    statuses = play_any(EXAMPLES, SELDOM_AT_FIRST, is_fixed=True)
    unjudged = {name for name in NAMES if not statuses[name]["graded"]} - NEVER_GRADED
    assert not unjudged, f"of {EXAMPLES} questions these judged none, so nothing was tested: {unjudged}"


@pytest.mark.stress
@pytest.mark.timeout(4 * 3600)
def test_very_many_texts_get_a_legal_number_or_a_reason_from_every_reward():
    statuses = play_any(MANY_EXAMPLES, SELDOM, is_fixed=False)
    often = [counts for name, counts in statuses.items() if name not in SELDOM]
    assert all(sum(counts.values()) >= MANY_EXAMPLES for counts in often)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "text",
    [pytest.param(text, marks=() if text in WORST else pytest.mark.stress) for text in LONG_TEXTS],
)
def test_long_texts_cost_every_reward_bounded_work(text):
    kit = Kit(LONG_TEXTS[text], "42", "blank", {"a": [1]}, 0.5, 3)
    assert [fault for name in SOON for fault in faults_of(name, kit, Counter())] == []


@pytest.mark.stress
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("text", LONG_TEXTS)
def test_long_golds_cost_every_reward_bounded_work(text):
    long = LONG_TEXTS[text]
    for kit in (Kit("42", long, long, {"a": [long]}, 0.5, 4), Kit(long, long, long, {long: long}, 0.5, 5)):
        assert [fault for name in SOON for fault in faults_of(name, kit, Counter())] == []


# One verdict, wherever it is asked for.

ASKED_ANYWHERE = tuple(name for name in SOON if name not in NEEDS_MODEL)
PROGRAM = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("every_reward", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps(module.verdicts()))
"""


def shown(results: tuple[RewardResult, ...]) -> list[str]:
    """Results as text: the number, the status and the metrics."""
    return [
        json.dumps([result.reward, result.status, dict(result.extras)], default=repr, sort_keys=True)
        for result in results
    ]


def verdicts() -> list[list[str]]:
    """Every reward's verdicts on the spread of questions, in order."""
    return [shown(ask(name, kit)) for kit in spread() for name in ASKED_ANYWHERE]


@pytest.fixture(scope="module")
def expected() -> list[list[str]]:
    """The verdicts of the main thread."""
    assert threading.current_thread() is threading.main_thread()
    return verdicts()


def test_a_worker_thread_gives_the_same_verdicts(expected):
    found: list[list[list[str]]] = []
    worker = threading.Thread(target=lambda: found.append(verdicts()))
    worker.start()
    worker.join(PATIENCE)
    assert found == [expected]


def test_a_task_of_an_event_loop_gives_the_same_verdicts(expected):
    async def run() -> list[list[str]]:
        with anyio.fail_after(PATIENCE):
            return [shown(await ask_in_task(name, kit)) for kit in spread() for name in ASKED_ANYWHERE]

    assert anyio.run(run) == expected


def test_another_process_gives_the_same_verdicts_with_another_hash_seed(expected, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, __file__],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=tmp_path,
        env={"PYTHONHASHSEED": "4711", "PYTHONPATH": ":".join([str(ROOT), *filter(None, sys.path)])},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout) == expected
