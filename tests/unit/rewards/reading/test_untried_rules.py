"""A rule of reading that is not tried since a text has none of its words would say nothing of the text."""

import re
from pathlib import Path

import pytest

from ors_server.rewards.math.answer_values import find_values
from ors_server.rewards.reading import front_words
from ors_server.rewards.reading.sentences import SentenceReader
from ors_server.rewards.reading.statements import read_statements
from tests.fixtures.case_tables import tables
from tests.fixtures.response_templates import load_templates, make_cases

REWARDS = ("math_equal_reward", "word_match_reward", "multiple_choice_reward")
EVERY = 12
"""Templates of which one is filled in."""
EXAMPLE = re.compile(r'"([^"\n]*\b4[0-9]\b[^"\n]*)"')
"""A sentence with a number, by which the source of a rule explains it."""


class Everything(frozenset):
    """The words, or the classes, of a text on which each rule is tried."""

    def __contains__(self, word):
        return True

    def isdisjoint(self, words):
        return False

    def __and__(self, words):
        return frozenset(words)


@pytest.fixture
def try_all_rules(monkeypatch):
    """Return a function with whose call each rule is tried from then on."""
    read_text = SentenceReader.__init__

    def read_and_know_everything(self, *arguments, **options):
        read_text(self, *arguments, **options)
        self._words = self._classes = Everything()

    def start():
        monkeypatch.setattr(SentenceReader, "__init__", read_and_know_everything)
        monkeypatch.setattr(front_words, "_may_judge", lambda *_: True)

    return start


@pytest.mark.parametrize("are_labels", [False, True])
def test_each_text_is_read_the_same_with_the_rules_whose_words_it_has_not(try_all_rules, are_labels):
    templates = [template for template in load_templates() if template.reward in REWARDS][::EVERY]
    texts = sorted({case.response for case in make_cases(0, templates, draws=1)})
    texts += [case[0] for table in tables("number_statements").values() for case in table["cases"]]
    sources = [path.read_text(encoding="utf-8") for path in Path(front_words.__file__).parent.glob("*.py")]
    examples = [example for source in sources for example in EXAMPLE.findall(source)]
    texts += examples
    assert len(texts) > 1000
    assert len(examples) > 100

    def read_all():
        return [
            read_statements(text, find_values(text), is_closed=not are_labels, are_labels=are_labels)
            for text in texts
        ]

    with_words = read_all()
    try_all_rules()
    assert [pair for pair in zip(texts, with_words, read_all(), strict=True) if pair[1] != pair[2]] == []
