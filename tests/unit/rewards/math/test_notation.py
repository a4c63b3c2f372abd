"""What the parser refuses and what it bounds; what of a transcript and of answers in words counts."""

import pytest

from ors_server.rewards.math import MathOptions, grade_math
from tests.fixtures.case_tables import tables


@pytest.mark.parametrize("answer", tables("math_pairs")["unreadable"])
def test_what_is_no_mathematics_is_refused(answer):
    assert grade_math(answer, "7").status == "unparsed_answer"


@pytest.mark.parametrize(
    "answer",
    [
        "(-1)^{" * 70 + "1" + "}" * 70,
        ",".join("1" for _ in range(200)),
        "1e999999",
        "5000!",
        r"\binom{10000000}{5000000}",
        r"\sum_{k=1}^{100000} \sin k",
        r"\prod_{k=1}^{10^8} k",
        r"\sin(10^{10000}\pi)",
        r"2^{x^{x^{x^{200}}}} \cdot \sqrt{2^{2^{2000}}}",
        "(" + ",".join(r"\pm 1" for _ in range(8)) + ")",
        "+".join(f"\\sqrt{{x_{{{n}}}}}" for n in range(20)),
        r"\text{" * 70 + "1+" + "}" * 70,
        ",".join(rf"\sqrt{{{n}}}" for n in range(2, 60)),
    ],
)
def test_what_is_too_much_meets_a_bound_before_it_is_computed(answer):
    gold = (
        ",".join(rf"\sqrt{{{n}}}" for n in range(61, 119))
        if "," in answer and "sqrt" in answer
        else r"\sqrt 7"
    )
    assert grade_math(answer, gold).status in ("limit", "ok", "unparsed_answer")
    assert not grade_math(answer, gold).is_equal


def test_long_lists_of_numbers_are_compared_at_once():
    numbers = [str(7 * n) for n in range(60)]
    assert grade_math(", ".join(reversed(numbers)), ", ".join(numbers)).is_equal
    assert not grade_math(", ".join([*numbers[1:], "1"]), ", ".join(numbers)).is_equal


TABLES = tables("transcripts")
PROGRAM = "```python\nimport math\nprint(open('x'))\nprint('\\\\boxed{7}')\n```"
DRAWING = '[asy]\nfor (int i=0; i<5; ++i) dot((i,0));\nlabel("$7$", (0,0));\n[/asy]'
TRANSCRIPTS = TABLES["transcripts"]
ANSWERS = ["42", "-3", "3.5", r"\frac{3}{4}", r"2\sqrt{3}", "x^2-4", "(1,2)", "1, -2", r"3 \text{ or } 4"]


@pytest.mark.parametrize("kind", TRANSCRIPTS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_answer_of_a_transcript_is_found_and_nothing_else_in_it_is_one(kind, answer):
    response = TRANSCRIPTS[kind].replace("@", answer)
    verdict = grade_math(response, answer)
    assert verdict.is_equal, verdict
    for distractor in ("7", "2", "x+1", "3"):
        assert not grade_math(response, distractor).is_equal


def test_a_strict_task_takes_no_printed_answer():
    response = f"{PROGRAM}\n```output\n42\n```"
    assert grade_math(response, "42").is_equal
    assert not grade_math(response, "42", options=MathOptions(extraction="strict")).is_equal


PLACES = [
    "{}",
    r"\boxed{{{}}}",
    "3 + 4 = 7. The answer is {}.",
    "3 + 4 = 7.\n\n**Answer:** {}",
    "3 + 4 = 7.\n\n## Final Answer\n\n{}",
    "3 + 4 = 7.\n\n**{}**",
    "<answer>{}</answer>",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "gold", ["center $(0,3)$, radius $4$", "March 15", "12 ft by 9 ft", r"$2^n$, where $n>3$"]
)
def test_an_answer_in_words_is_found_and_its_digits_count(place, gold):
    assert grade_math(place.format(gold), gold).is_equal
    for digit in set(filter(str.isdigit, gold)):
        other = gold.replace(digit, str(9 - int(digit)))
        verdict = grade_math(place.format(other), gold)
        assert not verdict.is_equal, (other, verdict)


def test_a_strict_task_wants_words_in_a_place_for_answers():
    strict = MathOptions(extraction="strict")
    assert grade_math(r"\boxed{12 ft by 9 ft}", "12 ft by 9 ft", options=strict).is_equal
    assert not grade_math("The answer is 12 ft by 9 ft.", "12 ft by 9 ft", options=strict).is_equal


def test_a_long_text_is_no_wording():
    assert not grade_math("a word " * 200 + "3", "a word " * 200 + "4").is_equal


@pytest.mark.parametrize(
    ("answer", "value", "shown"),
    [
        ("25 thousand", "25000", "25"),
        ("$25 million", "25000000", "25"),
        ("The population is 1.5 million people.", "1500000", "1.5"),
        (r"\boxed{3 \text{ billion}}", "3 \\times 10^9", "3"),
        ("2 hundred", "200", "2"),
        ("3 dozen eggs", "36", "3"),
        ("4 thirds", r"\frac{4}{3}", "4"),
        ("25 thousandths", "0.025", "25"),
    ],
)
def test_a_word_behind_digits_multiplies_them(answer, value, shown):
    assert grade_math(answer, value).is_equal
    assert not grade_math(answer, shown).is_equal
