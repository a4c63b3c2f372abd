"""What an agent's function answered is read into a few short values, whatever it wrote."""

import pytest

from ors_server.grading.encoding import DecodingError, to_text
from ors_server.grading.function_answer import FunctionAnswer, read_answer


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"value": [1, 2]}, FunctionAnswer(has_value=True, is_expected=True)),
        ({"value": [2, 1]}, FunctionAnswer(has_value=True)),
        ({"value": {"x": 1, "y": 2}}, FunctionAnswer(has_value=True)),
        ({"stop": None}, FunctionAnswer(names=("StopIteration",))),
        (
            {"raised": {"names": ["Mine", "ValueError"], "text": "why"}},
            FunctionAnswer(names=("Mine", "ValueError"), text="why"),
        ),
        ({"raised": {"names": 3}}, FunctionAnswer()),
        ({"raised": {"text": "x" * 10_000}}, FunctionAnswer(text="x" * 200)),
        ({"raised": [1]}, FunctionAnswer()),
        ({"unfit": "y" * 10_000}, FunctionAnswer(unfit="y" * 200)),
        ({"is_expected": True, "has_value": True}, FunctionAnswer()),
        ({}, FunctionAnswer()),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_answer_is_read(answer, read):
    assert read_answer(to_text(answer), [1, 2], 0.0) == read


def test_the_names_of_an_error_are_kept_with_the_last_one():
    names = [f"Mine{number}" for number in range(5_000)]
    read = read_answer(to_text({"raised": {"names": [*names, "ValueError"]}}), None, 0.0)
    assert read.names[:2] == ("Mine0", "Mine1")
    assert (len(read.names), read.names[-1]) == (1_000, "ValueError")


@pytest.mark.parametrize("text", [b"", b"[1]", b"3", b"{", b"[" * 100_000, b"\xff"])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(DecodingError):
        read_answer(text, None, 0.0)
