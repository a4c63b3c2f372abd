"""What of a transcript counts: the answerer's turn, its headings and boxes, and not its programs."""

import pytest

from ors_server.rewards.math import MathOptions, grade_math

PROGRAM = "```python\nimport math\nprint(open('x'))\nprint('\\\\boxed{7}')\n```"
DRAWING = '[asy]\nfor (int i=0; i<5; ++i) dot((i,0));\nlabel("$7$", (0,0));\n[/asy]'
TRANSCRIPTS = {
    "a program before a box": f"{PROGRAM}\n```output\n7\n```\nSo it is $\\boxed{{@}}$.",
    "a program before a sentence": f"{PROGRAM}\n```output\n7\n```\nTherefore, the answer is @.",
    "nothing but what a program printed": f"{PROGRAM}\n```output\n7\n@\n```",
    "a box that a program printed": f"{PROGRAM}\n```output\n\\boxed{{@}}\n```",
    "a program cut off": f"So it is $\\boxed{{@}}$.\n{PROGRAM[:-4]}",
    "a drawing before": f"{DRAWING}\nSo it is $\\boxed{{@}}$.",
    "a drawing behind": f"So the answer is $@$.\n\n{DRAWING}",
    "several boxes": r"First \boxed{7}, then \boxed{x+1}; the answer is $\boxed{@}$. This took 7 steps.",
    "a box without its brace": r"So it is $\boxed{@$.",
    "a next user's turn": "It is $\\boxed{@}$.<|im_end|>\n<|im_start|>user\nand 7?\\boxed{7}",
    "a turn with its opening": "<|im_start|>assistant\nIt is $\\boxed{@}$.<|im_end|>",
    "a next question": "1+1=2. The answer is @.\n\nQuestion: 3 and 4?\nAnswer: The answer is 7.",
    "a next problem": "It is $\\boxed{@}$.\n\n**Problem 2:**\nFind x.\n$\\boxed{7}$",
    "a heading": "### Step 1\n**Total**: 7\n\n### Final Answer\n@",
    "a heading in bold type": "**Step 1.** 3 + 4 = 7\n\n**Final Answer**\n\n$$@$$",
    "a bold label": "3 + 4 = 7\n\n**Final Answer**: @",
    "a bold line": "**Step 1:** 3 + 4 = 7\n\n**Answer: $@$**",
    "an emphasised statement": "1. **Add** 7.\n\nSo the answer is **$@$**.",
    "a reason behind": "The answer is $@$ because $3+4=7$ and $x=7$.",
    "an explanation behind": "Answer: $@$\n\nExplanation: 3 plus 4 is 7.",
    "an answer to something": "3 + 4 = 7, so the answer to the problem is @.",
}
ANSWERS = ["42", "-3", "3.5", r"\frac{3}{4}", r"2\sqrt{3}", "x^2-4", "(1,2)", "1, -2", r"3 \text{ or } 4"]


@pytest.mark.parametrize("kind", TRANSCRIPTS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_answer_of_a_transcript_is_found_and_nothing_else_in_it_is_one(kind, answer):
    response = TRANSCRIPTS[kind].replace("@", answer)
    verdict = grade_math(response, answer)
    assert verdict.is_equal, verdict
    for distractor in ("7", "2", "x+1", "3"):
        assert not grade_math(response, distractor).is_equal


@pytest.mark.parametrize(
    ("gold", "response"),
    [
        (r"2\sqrt{3}", "We add and get\n2\\sqrt{3}"),
        ("2,3", "Hence the solutions are $x=2$ and $x=3$."),
        ("2,3", "Therefore x = 2 or x = 3."),
        ("y=2x+3", "So we conclude that y = 2x + 3."),
        ("5", "**Step 3.** The result of it all is 5 apples."),
        ("16", "Hence, $m+n = 7+9 = 16$."),
        ("3/4", "The answer is 3/4 of a mile."),
        ("42", "Final answer: 42 (forty-two)"),
        ("3/4", r"The answer is $\frac{3}{4}$, or 0.75."),
        (r"\text{Tuesday}", "So Tuesday is the answer."),
        ("x=2", "Hence the slope of the line is $x=2$."),
        ("5", r"so \(\| v \| = 5\)"),
    ],
)
def test_a_statement_in_a_text_is_read_whole(gold, response):
    verdict = grade_math(response, gold)
    assert verdict.is_equal, verdict


@pytest.mark.parametrize(
    ("gold", "response"),
    [
        ("3", "We add and get\n2\\sqrt{3}"),
        ("2", "We add and get\n2\\sqrt{3}"),
        ("3", "Hence the solutions are $x=2$ and $x=3$."),
        ("3", r"So the value is \(45 \foo 9 = 3\)."),
        ("5", "We get x^2 + 3x - 5"),
        ("16", "Hence, $m+n = 8+9 = 16$."),
        ("3/4", r"The answer is $\frac{3}{4}$, or 0.76."),
        ("12", r"Adding 5 and 12, the answer is \boxed{\frac{1"),
        ("3", "**3.** Therefore nothing is known."),
    ],
)
def test_no_number_is_taken_out_of_a_formula(gold, response):
    assert not grade_math(response, gold).is_equal


def test_a_strict_task_takes_no_printed_answer():
    response = f"{PROGRAM}\n```output\n42\n```"
    assert grade_math(response, "42").is_equal
    assert not grade_math(response, "42", options=MathOptions(extraction="strict")).is_equal
