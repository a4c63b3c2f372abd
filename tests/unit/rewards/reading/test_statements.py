"""What a text says about its values, and that no text makes the reader slow, wrong or loud."""

import json
from pathlib import Path

import pytest

from ors_server.rewards import math_equal_reward
from ors_server.rewards.math.answer_values import find_values
from ors_server.rewards.math.grade import grade_math
from ors_server.rewards.math.math_options import MathOptions
from ors_server.rewards.reading.polarity import Polarity
from ors_server.rewards.reading.statements import keep_asserted, read_statements
from ors_server.rewards.reading.struck_text import struck_regions
from tests.fixtures.processor_time import processor_seconds

SAMPLE = Path(__file__).parents[3] / "data" / "responses_dev.jsonl"
GROWTH = 5.0
"""Times the work of a text that is twice as long; linear work is 2."""


def read(text, **options):
    return [(text[s.start : s.end], s.polarity) for s in read_statements(text, find_values(text), **options)]


@pytest.mark.parametrize(
    ("text", "polarity"),
    [
        ("The answer is 42.", Polarity.ASSERTED),
        ("The answer is 42, no doubt about it.", Polarity.ASSERTED),
        ("The answer is not 42.", Polarity.DENIED),
        ("42 has been ruled out.", Polarity.DENIED),
        ("It is anything but 42.", Polarity.DENIED),
        ("It can be nothing but 42.", Polarity.ASSERTED),
        ("More than 42.", Polarity.BOUNDED),
        ("42 or more", Polarity.BOUNDED),
        ("Is it 42?", Polarity.ASKED),
        ("Is it 42? Yes.", Polarity.ASSERTED),
        ("If it rains, then 42.", Polarity.SUPPOSED),
        ("If we add them, we get 42.", Polarity.ASSERTED),
        ("Bob says 42.", Polarity.QUOTED),
        ("I say 42.", Polarity.ASSERTED),
        ("~~42~~", Polarity.RETRACTED),
        ("The answer is 42. I take that back.", Polarity.RETRACTED),
        ("See step 42.", Polarity.INTERMEDIATE),
        ("Die Antwort ist keinesfalls 42.", Polarity.DENIED),
        ("答案不是42。", Polarity.DENIED),
        ("The answer is n\u043et 42.", Polarity.DENIED),  # a Cyrillic letter
        ("There's room for 42 of them and then some.", Polarity.BOUNDED),
        ("First we get 42, which must be doubled.", Polarity.INTERMEDIATE),
        ("We get 42, which we double.", Polarity.INTERMEDIATE),
        ("It comes to 42, which is then halved.", Polarity.INTERMEDIATE),
        ("We get 42. This must be doubled.", Polarity.RETRACTED),
        ("We get 42, which is to be expected.", Polarity.ASSERTED),
        ("We get 42, and this is sufficient.", Polarity.ASSERTED),
    ],
)
def test_a_sentence_says_whether_its_value_is_the_answer(text, polarity):
    assert read(text) == [("42", polarity)]


@pytest.mark.parametrize(
    ("text", "asserted"),
    [
        ("The answer is not 41 but 42.", ["42"]),
        ("It's 42, not 41.", ["42"]),
        ("42 rather than 41", ["42"]),
        ("Instead of 41 we find 42.", ["42"]),
        ("The answer is 41. Wait, 42.", ["42"]),
        ("41 should read 42.", ["42"]),
        ("41 or 42", []),
        ("Maybe 41, maybe 42.", []),
        ("41, 42 and 43 are ruled out.", []),
        ("The total is 42, where 31 is the first part.", ["42"]),
        ("Any answer other than 42 is wrong.", ["42"]),
    ],
)
def test_of_several_values_those_count_that_the_text_asserts(text, asserted):
    assert [value for value, polarity in read(text) if polarity is Polarity.ASSERTED] == asserted


@pytest.mark.parametrize(
    "text", ["The units digit is 9.", "Powers end in 3, 9, 7, 1. So the last digit is 9."]
)
def test_a_digit_is_an_answer(text):
    assert grade_math(text, "9").is_equal


def test_the_last_digit_of_a_value_does_not_replace_it():
    assert grade_math("We get 29. The last digit is 9.", "29").is_equal


@pytest.mark.parametrize(
    ("text", "gold", "is_equal"),
    [
        ("Locker 41 beside locker 42 here stood open", "42", False),
        ("Adding 41 to 1 gives 42", "42", True),
        ("For 41 read 42", "42", True),
    ],
)
def test_a_second_value_needs_a_verb_that_states_it(text, gold, is_equal):
    assert grade_math(text, gold).is_equal is is_equal


def test_alternatives_count_where_the_gold_answer_is_a_list():
    assert [polarity for _, polarity in read("41 or 42", takes_alternatives=True)] == [Polarity.ASSERTED] * 2


def test_words_of_the_gold_answer_deny_nothing():
    text = "The answer is not 42."
    assert read(text, neutral={"not"}) == [("42", Polarity.ASSERTED)]
    assert read(text) == [("42", Polarity.DENIED)]


def test_what_is_not_asserted_is_cut_out():
    text = "The answer is 41. No, that is wrong. It is 42."
    kept = keep_asserted(text, read_statements(text, find_values(text)))
    assert "42" in kept
    assert "41" not in kept


def test_what_is_struck_through_is_found_with_its_marks():
    text = r"~~a~~ <del>b</del> \sout{c} \cancel{d} <s>open"
    assert [text[start:end] for start, end in struck_regions(text)] == [
        "~~a~~",
        "<del>b</del>",
        r"\sout{c}",
        r"\cancel{d}",
    ]


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        ("What is 17 + 25?", 0.0),
        (r"\boxed{17 + 25}", 0.0),
        ("So the answer is $17+25$.", 0.0),
        ("$25 + 17$", 0.0),
        ("17 + 25 = 42", 1.0),
        ("42", 1.0),
    ],
)
def test_the_question_is_no_answer(response, reward):
    result = math_equal_reward.function(response, "42", "What is 17 + 25?")
    assert result.reward == reward


@pytest.mark.parametrize(
    ("answer", "gold", "is_equal"),
    [
        ("2^{10}", "1024", False),
        ("2^{10}", "2^{10}", True),
        ("1024", "2^{10}", True),
        ("max(64,64)", "64", False),
        (r"\binom{9}{2}", "36", False),
        (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", True),
        (r"\frac{84}{2}", "42", False),
        (r"\frac{3}{4}", "0.75", True),
        (r"\sqrt{16}", "4", False),
        (r"1+\sqrt{2}", r"\sqrt{2}+1", True),
    ],
)
def test_an_answer_may_have_to_be_as_evaluated_as_the_gold_answer(answer, gold, is_equal):
    assert grade_math(answer, gold).is_equal
    assert grade_math(answer, gold, options=MathOptions(evaluated=True)).is_equal is is_equal


@pytest.mark.parametrize(
    "text", ["42 is wrong", "43 gibberish and more", "(True and 43)", "&echo 43&", "409是错的"]
)
def test_words_behind_a_value_are_no_unit_if_they_say_something(text):
    gold = "".join(char for char in text if char.isdigit())
    assert not grade_math(text, gold).is_equal
    assert not grade_math(text, gold, options=MathOptions(extraction="strict")).is_equal


def test_a_unit_that_is_not_known_is_a_noun_phrase():
    assert grade_math("42 jars of honey", "42").is_equal


def test_the_shared_sample_of_responses_is_graded_as_labelled():
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["reward"] == "math_equal_reward" and row["label"] != "contested"]
    wrong = [
        row["response"]
        for row in rows
        if grade_math(row["response"], row["gold"], prompt=row.get("prompt")).is_equal
        != (row["label"] == "pay")
    ]
    assert len(rows) > 90
    assert wrong == []


HOSTILE = {
    "denials": "not ",
    "values": "41 ",
    "alternatives": "41 or ",
    "brackets": "([{",
    "quotes": '"say ',
    "open boxes": "\\boxed{",
    "boxes": "\\boxed{41} ",
    "dollars": "$a ",
    "tags": "</answer><answer>",
    "strikes": "<s>~~ ",
    "commands": "\\cancel{",
    "rows": "\\begin{align}",
    "words for numbers": "twenty-two ",
    "emphasis": "*a_",
    "right to left": "\u202eليس ٤٢ ",
    "zero width": "4\u200b2 ",
    "characters": "不是41，",  # noqa: RUF001  (a comma of Chinese)
    "lines": "not\r\n",
    "questions": "Is it 42? ",
    "conditions": "if x = 1 then ",
    "json": '"answer": 4, ',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_in_linear_time_and_not_paid(name):
    def spent(length):
        text = (HOSTILE[name] * length)[:length]
        results = []
        seconds = processor_seconds(
            lambda: results.append(math_equal_reward.function(text, "42", text)), times=1
        )
        assert results[0].reward == 0.0
        return seconds

    spent(2_000)  # what is read once
    small = min(spent(20_000) for _ in range(2))
    assert spent(80_000) < 4 * GROWTH * small + 0.5  # work, as a ratio
