"""What of a transcript counts: the answerer's turn, its headings and boxes, and not its programs."""

import pytest

from ors_server.rewards.math import MathOptions, grade_math
from tests.fixtures.case_tables import tables

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
