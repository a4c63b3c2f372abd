"""The phrases around a score: each finds its example, and not the one that differs in what counts."""

import tomllib
from pathlib import Path

import pytest

from ors_server.rewards.judges import asserted_scores
from ors_server.rewards.judges.asserted_scores import GAP, NO_SCORE, asserted_reply, phrases

TABLES = tomllib.loads(Path(asserted_scores.__file__).with_name("score_phrases.toml").read_text("utf-8"))
EXAMPLES = [
    (table, number, phrase["yes"], phrase["no"])
    for table, content in TABLES.items()
    if table != "parts"
    for number, phrase in enumerate(content.get("phrases", ()))
]


@pytest.mark.parametrize(("table", "number", "yes", "no"), EXAMPLES, ids=[example[2] for example in EXAMPLES])
def test_a_phrase_finds_its_example_and_not_the_other_one(table, number, yes, no):
    pattern = phrases(table)[number]
    match = pattern.search(yes)
    assert match is not None
    assert pattern.search(no) is None
    if "number" in pattern.groupindex:
        assert float(match["number"].rstrip(".")) in {0.3, 0.4, 0.5, 0.6, 0.8, 0.9}


@pytest.mark.parametrize(
    ("yes", "no"),
    [(yes, no) for table, _, yes, no in EXAMPLES if table == "not_scores"],
)
def test_a_number_that_is_not_the_score_is_blanked_in_a_reply(yes, no):
    assert {NO_SCORE, GAP} & set(asserted_reply(yes))
    assert any(char.isdigit() for char in asserted_reply(no))
