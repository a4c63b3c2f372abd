"""What a policy that knows nothing may hand in, texts that nobody can read included: none of it pays."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ors_server.rewards.catalogue import find_reward, list_rewards
from ors_server.rewards.scoring import evaluate, score
from ors_server.rewards.text.matches import exact_match_reward, word_match_reward
from tests.fixtures.case_tables import tables

TABLES = tables("text_hacks")
CITIES = ["Paris", "London", "Rome", "Oslo"]
TASKS = {
    "exact_match_reward": {"answer": "Paris"},
    "normalised_match_reward": {"answer": "Paris"},
    "word_match_reward": {"answer": "Paris", "choices": CITIES},
    "all_of_match_reward": {"answer": ["Paris"], "choices": CITIES},
    "strict_answer_match_reward": {"answer": "Paris"},
    "regex_match_reward": {"pattern": "Paris", "mode": "fullmatch"},
    "multiple_choice_reward": {"answer": "Paris", "choices": CITIES},
}
NUMBERS = {
    "numeric_match_reward": {"answer": "42"},
    "gsm8k_reward": {"answer": "#### 42", "mode": "flexible"},
    "exact_match_reward": {"answer": "42"},
    "normalised_match_reward": {"answer": "42"},
    "word_match_reward": {"answer": "42"},
    "strict_answer_match_reward": {"answer": "42", "match": "numeric"},
    "regex_match_reward": {"pattern": r"42", "mode": "fullmatch"},
}
CONSTANTS = TABLES["constants"]
DISGUISED = TABLES["disguises"]
TEXT_DISGUISES = [one for one in DISGUISED if one not in {"{}/7", "7/{}"}]


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("response", CONSTANTS, ids=ascii)
def test_a_constant_earns_nothing(name, response):
    result = score(find_reward(name), final_response=response, **TASKS[name])
    assert result.reward == 0.0


@pytest.mark.parametrize("name", TASKS)
def test_the_gold_earns_the_most_and_in_disguise_nothing(name):
    found = find_reward(name)
    assert score(found, final_response="Paris", **TASKS[name]).reward == 1.0
    for disguise in TEXT_DISGUISES:
        assert score(found, final_response=disguise.format("Paris"), **TASKS[name]).reward == 0.0, disguise


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_in_disguise_is_another_number(name):
    found = find_reward(name)
    assert score(found, final_response="42", **NUMBERS[name]).reward == 1.0
    for disguise in DISGUISED:
        if name == "gsm8k_reward" and disguise in {"not {}", "{}%"}:
            continue  # the last number is asked for, whatever is said of it, and GSM8K leaves units out
        assert score(found, final_response=disguise.format("42"), **NUMBERS[name]).reward == 0.0, disguise


@pytest.mark.parametrize("name", TASKS)
def test_a_list_of_all_choices_earns_nothing(name):
    found = find_reward(name)
    for listed in (", ".join(CITIES), " or ".join(CITIES), "\n".join(CITIES), " ".join(reversed(CITIES))):
        for form in ("{}", r"\boxed{{{}}}", "Answer: {}", "The answer is {}.", "{}?"):
            response = form.format(listed)
            if name != "multiple_choice_reward" or "\n" not in response:
                assert score(found, final_response=response, **TASKS[name]).reward == 0.0, response
    boxes = "".join(rf"\boxed{{{city}}}" for city in CITIES)
    assert score(found, final_response=boxes, **TASKS[name]).reward == 0.0


@pytest.mark.parametrize("name", [*TASKS, "gsm8k_reward", "numeric_match_reward"])
def test_padding_earns_no_more(name):
    found, task = find_reward(name), {**NUMBERS, **TASKS}[name]
    gold = "42" if name in {"gsm8k_reward", "numeric_match_reward"} else "Paris"
    for filler in ("so ", "\n", "and then ", "Rome, ", "7 "):
        rewards: list[Any] = [
            score(found, final_response=filler * times + answer, **task).reward
            for answer in (gold, "Oslo")
            for times in (0, 1, 5, 20, 50)
        ]
        assert rewards[0] == 1.0 == max(rewards)
        assert max(rewards[5:]) == 0.0


TEXT_FIELDS = {"answer": "a b c d", "pattern": "a", "choices": ["a b c d", "e"], "length": 5, "max_len": 9}
TEXT_FIELDS |= {"max_completion_len": 9, "soft_punish_cache": 2}
MODULES = ("matches", "numeric_match", "multiple_choice", "response_format", "lengths", "overlap")
OURS = [entry.name for entry in list_rewards() if entry.place.split(":")[0].split(".")[-1] in MODULES]
OF_TEXTS = sorted(set(OURS) - {"length_group_reward", "latency_cost_reward"})
RESPONSES = ["a b c d", "A", "", "<think>a</think>b", "#### 5", "1/2", "é\u0301ß²", "Answer: A", "a " * 200]


def verdicts(_=None):
    return [
        [score(find_reward(name), final_response=response, **TEXT_FIELDS).as_json() for response in RESPONSES]
        for name in OF_TEXTS
    ]


def test_every_reward_for_texts_is_played_here():
    places = {entry.place.split(":")[0].split(".")[-1] for entry in list_rewards() if entry.name in OURS}
    assert places == set(MODULES)


def test_verdicts_are_the_same_in_threads_and_in_another_process_with_other_hashes():
    here = json.dumps(verdicts())
    with ThreadPoolExecutor(4) as pool:
        assert {json.dumps(one) for one in pool.map(verdicts, range(4))} == {here}
    code = f"""
import json
from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.scoring import score
print(json.dumps([
    [score(find_reward(name), final_response=text, **{TEXT_FIELDS!r}).as_json() for text in {RESPONSES!r}]
    for name in {OF_TEXTS!r}
]))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    assert json.loads(told.stdout) == json.loads(here)


def test_no_package_of_the_extra_is_imported_before_it_is_needed():
    heavy = {"numpy", "regex", "rapidfuzz", "sacrebleu", "langdetect"}
    code = f"""
import sys
import ors_server.app
from ors_server.rewards.catalogue import list_rewards
assert len(list(list_rewards())) > 24
from ors_server.rewards.text.matches import exact_match_reward
exact_match_reward(final_response="a", answer="a")
print(sorted({heavy!r} & set(sys.modules)))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert told.stdout == "[]\n"


def test_rewards_are_bounded_whatever_the_golds_are():
    golds = ["gold"] * 1_000
    response = "gold, silver " * 7_000
    assert score(exact_match_reward, final_response=response, answer=golds).reward == 0.0
    assert score(word_match_reward, final_response=response, answer=golds).reward == 0.0


pytestmark = pytest.mark.timeout(240)
WORDS = "no word of it is right " * 6_000
GROWING = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT group_concat(x) FROM n, n AS m"
)
DATABASE = "CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1);"
NESTED = "[" * 100_000
MANY = json.dumps(list(range(490_000)))
TEXTS = {
    "an exponent without end": "1e999999999",
    "a factorial": "100000!",
    "4,001 digits": "9" * 4_001,
    "a tower of powers": "9^{9^{9^{9^{9}}}}",
    "21,000 characters": "x" * 21_000,
    "120,000 characters of words": WORDS,
    "a line of 2 MB": "a" * 2_000_000,
    "nesting without end": NESTED,
    "braces without end": "{" * 100_000,
    "490,000 items": MANY,
    "nothing": "",
    "lone surrogates and NULs": "\ud800\x00\udfff",
    "spaces": " " * 200_000,
    "line breaks": "\n" * 200_000,
    "boxes without end": "\\boxed{" * 20_000,
    "reasoning without end": "<think>" * 20_000,
    "combining marks": "e" + "\u0301" * 100_000,
    "a query that grows": GROWING,
}
REWARDS: dict[str, dict[str, Any]] = {
    "math_equal_reward": {"answer": "17"},
    "math_string_equal_reward_tool": {"answer": "17", "trajectory": []},
    "qa_f1_reward": {"answer": "quite another"},
    "ok_vqa_reward": {"answers": ["quite another"]},
    "exact_match_reward": {"answer": "right"},
    "normalised_match_reward": {"answer": "quite another"},
    "word_match_reward": {"answer": "quite another"},
    "all_of_match_reward": {"answer": ["quite", "another"]},
    "numeric_match_reward": {"answer": "17"},
    "multiple_choice_reward": {"answer": "B", "choices": ["one", "two", "three"]},
    "gsm8k_reward": {"answer": "17"},
    "regex_match_reward": {"pattern": r"(a|aa)+\$"},
    "rouge_l_reward": {"answer": "quite another text 17"},
    "rouge_n_reward": {"answer": "quite another text 17"},
    "edit_similarity_reward": {"answer": "QUITE ANOTHER TEXT 17"},
    "bleu_reward": {"answer": "quite another text 17"},
    "chrf_reward": {"answer": "QUITE ANOTHER TEXT 17"},
    "think_format_reward": {},
    "answer_format_reward": {},
    "json_schema_reward": {"schema": {"type": "object", "required": ["a"]}},
    "json_match_reward": {"answer": {"a": 17}},
    "sql_match_reward": {"answer": "SELECT x FROM t", "database": DATABASE},
    "instruction_reward": {"instructions": [{"kind": "ends_with", "text": "the end"}]},
}
"""By name, with the fields of a task that none of the texts solves."""
SLIGHT = 0.15
"""What may be paid for letters that a text shares with the gold by chance."""


@pytest.mark.parametrize("name", REWARDS)
async def test_every_text_is_paid_the_least(name):
    reward = find_reward(name)
    wrong = {}
    for text, response in TEXTS.items():
        result = await evaluate(reward, {"final_response": response, **REWARDS[name]}, time_limit=100)
        if result.reward is None or result.reward > SLIGHT:
            wrong[text] = f"{result.status}: {result.reward}: {result.reason}"
    assert wrong == {}
