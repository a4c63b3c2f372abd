"""Whatever text an agent hands in, a reward gives a number: the least, for all of these are wrong."""

import json
from typing import Any

import pytest

from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.scoring import evaluate

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
