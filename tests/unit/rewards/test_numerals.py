"""Numbers and choices are read exactly, and only where they are the answer or the final statement."""

import random
import re
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.scoring import score
from ors_server.rewards.text.multiple_choice import multiple_choice_reward
from ors_server.rewards.text.numeric_match import gsm8k_reward, last_number, numeric_match_reward, read_number
from tests.fixtures.case_tables import tables

TABLES = tables("numerals")
MILLION = 1_000_000


@pytest.mark.parametrize(("text", "value"), TABLES["read"])
def test_a_number_is_read_exactly(text, value):
    found = read_number(text)
    assert found is not None
    assert found.value == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "nan", "NaN", "inf", "-Infinity", "1e999999", "1,00", "1,0000", "1.2.3", "5 5", "5 cm"),
        *(
            "1/0",
            "1 1/0",
            "--5",
            "5-",
            "0x10",
            "1_000",
            "10\u00b2",
            "\u0665",
            "five",
            "5 or 6",
            "1;2",
            "5%",
            "$5",
        ),
        *("1" * 401, "1" * MILLION, "1/", "/2", "1//2", "e5", "."),
    ],
    ids=lambda text: f"{ascii(text)[:14]}-{len(text)}",
)
def test_what_is_no_number_is_not_read(text):
    assert read_number(text) is None
    result = score(numeric_match_reward, final_response=text, answer="5")
    assert (result.reward, result.status) == (0.0, "unparsed_answer")
    assert score(numeric_match_reward, final_response="5", answer=text).status == "bad_gold"


@given(st.fractions(max_denominator=10**6))
def test_every_fraction_is_read_as_it_is_written(value):
    found = read_number(str(value))
    assert found is not None
    assert found.value == value


@given(st.integers(), st.integers())
def test_different_integers_never_match(left, right):
    result = score(numeric_match_reward, final_response=str(left), answer=right, rel_tol=0.5)
    assert result.reward == float(left == right)


@pytest.mark.parametrize(("response", "gold", "options", "wanted"), TABLES["matched"])
def test_numbers_match_exactly_or_within_a_decimal_s_tolerance(response, gold, options, wanted):
    result = score(numeric_match_reward, final_response=response, answer=gold, **options)
    unread = (0.0, "unparsed_answer")
    assert (result.reward, result.status) == (unread if wanted == "unread" else (wanted, "graded"))


@pytest.mark.parametrize(
    "gold",
    [
        pytest.param(gold, id=f"{number}-{type(gold).__name__}")
        for number, gold in enumerate(
            [None, True, [""], "", "five", float("nan"), float("inf"), {1: 2}, [5, "x"], 10**5000, [1] * 1001]
        )
    ],
)
def test_a_gold_that_is_no_number_is_a_bad_gold(gold):
    for reward in (numeric_match_reward, gsm8k_reward):
        result = score(reward, final_response="5", answer=gold)
        assert (result.reward, result.status) == (None, "bad_gold")


@pytest.mark.parametrize(
    "options",
    [
        *({"abs_tol": -1}, {"abs_tol": float("nan")}, {"rel_tol": float("inf")}, {"rel_tol": "x"}),
        {"where": "first"},
    ],
)
def test_illegal_options_are_said(options):
    with pytest.raises(RewardDefinitionError):
        numeric_match_reward(final_response="5", answer="5", **options)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("a 1 b 2 c", "2"),
        ("-5", "-5"),
        ("3-5", "5"),
        ("costs $1,234.50 now", "1,234.50"),
        ("3 1/2 cups", "3 1/2"),
        ("v1.2.3", None),
        ("none", None),
    ],
)
def test_the_last_number_is_read_as_it_is_written(text, last):
    assert last_number(text) == last


SOLUTION = "48/2 = <<48/2=24>>24 clips in May.\n48+24 = 72 altogether.\n#### 72"


@pytest.mark.parametrize(("response", "mode", "wanted"), TABLES["gsm8k"])
def test_gsm8k_reads_the_number_behind_the_marks_or_the_last_one(response, mode, wanted):
    for gold in ("72", SOLUTION, 72):
        result = score(gsm8k_reward, final_response=response, answer=gold, mode=mode)
        unread = (0.0, "unparsed_answer")
        assert (result.reward, result.status) == (unread if wanted == "unread" else (wanted, "graded"))


def verl_strict(response, gold):
    """verl's formula for GSM8K, written down once more from what it does."""
    found = re.findall(r"#### (\-?[0-9\.\,]+)", response[-300:])
    return 0.0 if not found else float(found[-1].replace(",", "").replace("$", "") == gold)


PIECES = TABLES["pieces"]


def test_the_strict_mode_of_gsm8k_is_verl_s():
    draw = random.Random(7)  # noqa: S311  (the same texts in every run)
    paid = 0
    for _ in range(4_000):
        response = "a" + "".join(draw.choices(PIECES, k=draw.randint(1, 9))).replace("<|im_end|>", "")
        for gold in ("72", "1072", "-7"):
            wanted = verl_strict(response, gold)
            assert score(gsm8k_reward, final_response=response, answer=gold).reward == wanted, response
            paid += wanted
    assert paid > 50


def test_gsm8k_knows_two_modes_and_a_solution_with_a_number():
    with pytest.raises(RewardDefinitionError, match="strict or flexible"):
        gsm8k_reward(final_response="1", answer="1", mode="lenient")
    assert score(gsm8k_reward, final_response="1", answer="#### many").status == "bad_gold"


@pytest.mark.parametrize("filler", ["1,", "1", "1 ", "-", "####", "1/", "$", "x", "\n"])
def test_a_million_characters_are_graded(filler):
    response = filler * (MILLION // len(filler))
    assert score(numeric_match_reward, final_response=response, answer="5").status == "unparsed_answer"
    for mode in ("strict", "flexible"):
        assert score(gsm8k_reward, final_response=response, answer="72", mode=mode).reward == 0.0
    last = score(numeric_match_reward, final_response=response, answer="72", where="last")
    assert last.reward == 0.0
    choice = score(multiple_choice_reward, final_response=response, answer="A", choices=["3", "2"])
    assert choice.reward == 0.0


CHOICES = ["Paris", "London", "Rome", "A dog"]


@pytest.mark.parametrize(("response", "label"), TABLES["choice_picked"])
def test_a_choice_is_picked_by_letter_or_text(response, label):
    result = score(multiple_choice_reward, final_response=response, answer=label, choices=CHOICES)
    assert (result.reward, result.status) == (1.0, "graded")
    wrong = "C" if label != "C" else "B"
    result = score(multiple_choice_reward, final_response=response, answer=wrong, choices=CHOICES)
    assert (result.reward, result.status) == (0.0, "graded")


@pytest.mark.parametrize("response", TABLES["no_choice_picked"])
def test_a_list_a_sentence_and_the_article_pick_nothing(response):
    for gold in "ABCD":
        result = score(multiple_choice_reward, final_response=response, answer=gold, choices=CHOICES)
        assert (result.reward, result.status) == (0.0, "unparsed_answer"), result


@pytest.mark.parametrize(
    ("mode", "boxed", "answered", "whole"),
    [("boxed", 1, 0, 0), ("answer", 0, 1, 0), ("fullmatch", 0, 0, 1), ("any", 1, 1, 1)],
)
def test_a_mode_says_where_to_look(mode, boxed, answered, whole):
    for response, wanted in ((r"it's \boxed{B}", boxed), ("Answer: B", answered), ("B", whole)):
        result = score(
            multiple_choice_reward, final_response=response, answer="B", choices=CHOICES, mode=mode
        )
        assert result.reward == wanted
    with pytest.raises(RewardDefinitionError, match="fullmatch"):
        multiple_choice_reward(final_response="B", answer="B", choices=CHOICES, mode="first")


@pytest.mark.parametrize(
    ("gold", "choices"),
    [
        ("B", CHOICES),
        ("(b)", CHOICES),
        ("London", CHOICES),
        (1, CHOICES),
        ("y", {"x": "Paris", "y": "London"}),
    ],
)
def test_a_gold_is_a_label_a_text_or_an_index(gold, choices):
    for response in ("London", "Answer: London"):
        result = score(multiple_choice_reward, final_response=response, answer=gold, choices=choices)
        assert result.reward == 1.0


@pytest.mark.parametrize(
    ("gold", "choices"),
    [
        *(("E", CHOICES), ("", CHOICES), (None, CHOICES), (True, CHOICES), (4, CHOICES), (-1, CHOICES)),
        *(("A, B", CHOICES), (["A"], CHOICES), ("A", ["B", "A"]), ("A", ["x"]), ("A", []), ("A", None)),
        *(("A", ["x", "X"]), ("A", ["x", ""]), ("A", ["x", 5]), ("A", ["x"] * 27), ("A", "xy")),
        ("á" + "\u0301" * 40, CHOICES),
    ],
)
def test_a_gold_or_choices_that_leave_doubt_are_a_bad_gold(gold, choices):
    result = score(multiple_choice_reward, final_response="A", answer=gold, choices=choices)
    assert (result.reward, result.status) == (None, "bad_gold")


STATEMENTS = tables("choice_statements")
STATED_CHOICES = ["one side", "two sides", "three sides", "none of these"]
LABELS = "ABCD"
FORMS = STATEMENTS["forms"]
MORE = STATEMENTS["forms_with_more_behind"]
BEFORE = STATEMENTS["before"]
NOTHING = STATEMENTS["nothing_stated"]


def earned(response, gold):
    return score(multiple_choice_reward, final_response=response, answer=gold, choices=STATED_CHOICES)


def written(form, label, other="B"):
    return form.format(L=label, l=label.lower(), T=STATED_CHOICES[LABELS.index(label)], O=other)


@pytest.mark.parametrize("form", [*FORMS, *MORE])
def test_every_form_of_a_statement_is_read(form):
    for label, gold in product(LABELS, LABELS):
        result = earned(written(form, label), gold)
        assert (result.reward, result.status) == (float(label == gold), "graded"), result


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("form", FORMS)
def test_the_final_statement_wins_over_what_was_said_before(form, before):
    if "\n" not in before and form not in FORMS[11:29]:
        return  # nothing in the middle of a sentence is a statement
    for label in LABELS:
        other = LABELS[(LABELS.index(label) + 1) % 4]
        response = written(before, label, other) + written(form, label)
        assert earned(response, label).reward == 1.0, response
        assert earned(response, other).reward == 0.0, response


@pytest.mark.parametrize("form", NOTHING)
def test_an_article_a_denial_a_list_and_a_conflict_state_nothing(form):
    for label, other in product(LABELS, LABELS):
        if label == other:
            continue
        response = written(form, label, other)
        for gold in LABELS:
            assert earned(response, gold).reward == 0.0, response


WORDS = [*"soisAanotor=wrongBCD().,:}I\n", "and", "because", "right", "Answer", "option", "the", "\\boxed{"]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_written_at_most_one_choice_is_paid(seed):
    draw = random.Random(seed)  # noqa: S311  (the same texts in every run)
    for _ in range(400):
        response = " ".join(draw.choices(WORDS, k=draw.randint(1, 14)))
        assert sum(earned(response, gold).reward for gold in LABELS) <= 1.0, response


ENGLISH = STATEMENTS["articles"]
NOUNS = ("dog", "plan", "good idea", "rectangle of paper", "Frenchman", "1st try", "a", "B", "C", "D")


@pytest.mark.parametrize("sentence", ENGLISH)
def test_an_article_is_no_choice_in_any_sentence(sentence):
    for noun in NOUNS:
        response = sentence.replace("{}", noun)
        assert earned(response, "A").reward == 0.0, response


@pytest.mark.parametrize("piece", STATEMENTS["long_pieces"])
def test_long_responses_are_read_in_linear_time(piece):
    response = piece * (100_000 // len(piece))
    assert earned(response, "B").reward == 0.0
    assert earned(response + "\nAnswer: B", "B").reward in {0.0, 1.0}
