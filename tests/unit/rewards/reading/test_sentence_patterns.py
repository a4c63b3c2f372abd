"""Patterns of sentences that decide between values, and what stands against them."""

import random
import tomllib
from pathlib import Path

import pytest

from ors_server.rewards.math import grade_math
from ors_server.rewards.reading import sentence_patterns as module
from ors_server.rewards.reading.sentence_patterns import sentence_patterns
from ors_server.rewards.reading.statements import read_statements

NUMBERS = ("41", "42")


def paid(text):
    """Return which of two numbers a text states as its answer."""
    return [number for number in NUMBERS if grade_math(text, number).is_equal]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("41 (should be 42)", ["42"]),
        ("41 [now 42]", ["42"]),
        ("The answer is 41. But no: 42.", ["42"]),
        ("I wrote 41 when I should have written 42.", ["42"]),
        ("41\u2014wait, I have to add 1\u2014so 42.", ["42"]),
        ("The total is 42. Of these, 41 come from the first box.", ["42"]),
        ("x = 42. Substituting back gives 41 on both sides.", ["42"]),
        ("Fact: the value is 42. Fiction: it is 41.", ["42"]),
        ("42 survives, 41 perishes.", ["42"]),
        ("Only 42 does not lead to a contradiction.", ["42"]),
        ("Is it 42? Let me double-check: yes, it works.", ["42"]),
        ("- [ ] 41\n- [x] 42", ["42"]),
        ("41 de\u011fil 42.", ["42"]),
        ("The answer is 42, although it could just as well be 41.", []),
        ("42 today, 41 tomorrow.", []),
        ("The bound 42 is tight.", []),
        ("42'den fazla", []),
        ("42 \u2260 the answer", []),
        ("So we know: 42 boys, 41 girls.", []),
        ("So we know there are 42 boys.", ["42"]),
        ("What follows is wrong. The answer is 42.", []),
        # What speaks against a pattern stands.
        ("41 (should be 42). I got that wrong.", []),
        ("I can't say that 41 should be 42.", []),
        ("Should I change 41 to 42?", []),
    ],
)
def test_a_sentence_with_two_numbers_says_which_one_is_the_answer(text, numbers):
    assert paid(text) == numbers


def patterns_of(are_names):
    patterns = sentence_patterns(are_names=are_names).patterns.values()
    return list({pattern.rank: pattern for listed in patterns for pattern in listed}.values())


@pytest.mark.parametrize("are_names", [False, True])
def test_every_pattern_says_something_of_each_of_its_values(are_names):
    patterns = patterns_of(are_names)
    assert len(patterns) > 300
    for pattern in patterns:
        assert pattern.expression.groups == len(pattern.marks), pattern.text
        assert pattern.marks.strip("."), f"says nothing of its values: {pattern.text}"
    assert all(sentence_patterns(are_names=are_names).patterns)


SIGNS = {"~": "", "~!": "", "^": "", "$": "", "/": ","}
"""Words that signs of a pattern match."""


def example_of(pattern, rng):
    """Writes words that a pattern matches, bare and with the letters of their classes."""
    bare: list[str] = []
    marked: list[str] = []
    for match in module._ELEMENT.finditer(pattern.text):
        kind, content = match.lastgroup, match[match.lastgroup]
        if kind == "value":
            words = "" if content == "*" else "§"
        elif kind == "word_class":
            bare.append("word")
            marked.append(f"word{module._FLAGS[content]}")
            continue
        elif kind in ("maybe_name", "optional") and rng.random() < 0.5:
            continue
        else:
            names = module._read_data()["words"]
            content = names[content].replace("\n", "|") if kind.endswith("name") else content
            words = rng.choice(content.split("|")) if kind != "literal" else content
        chosen = " ".join(SIGNS.get(word, word) for word in words.split()).split()
        bare += chosen
        marked += chosen
    return bare, marked


@pytest.mark.parametrize("are_names", [False, True])
def test_every_pattern_is_found_by_the_words_of_its_matches(are_names):
    rng = random.Random(0)  # noqa: S311  (test data)
    index = sentence_patterns(are_names=are_names)
    matched = set()
    for pattern in patterns_of(are_names):
        for _ in range(8):
            before, after = rng.choice([([], []), (["."], ["."]), (["?"], [".", "word"])])
            bare, marked = example_of(pattern, rng)
            line = "".join(f" {word}" for word in [*before, *marked, *after])
            if pattern.expression.search(line):
                matched.add(pattern.rank)
                assert pattern in index.find([*before, *bare, *after], len(bare)), (pattern.text, line)
    assert len(matched) == len(patterns_of(are_names))


def test_no_pattern_is_written_twice():
    data = tomllib.loads(Path(module.__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    texts = [
        line
        for table in ("patterns", "number_patterns", "name_patterns")
        for lines in data[table].values()
        for line in lines.split("\n")
        if line
    ]
    assert sorted(texts) == sorted(set(texts))


def test_the_later_of_two_patterns_decides_in_every_run():
    text = "There are 41 boys. Of these, 42 play chess, which is what we were asked for."
    spans = [(10, 12), (29, 31)]
    first = read_statements(text, spans, is_closed=True)
    assert [statement.polarity.value for statement in first] == ["denied", "asserted"]
    assert first == read_statements(text, spans, is_closed=True)
