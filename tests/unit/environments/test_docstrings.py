"""Docstrings of three styles say the same of the same parameters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.environments.docstrings import read_docstring

GOOGLE = """Moves a piece.

    Only legal moves count: others are refused.

    Args:
        start (str): The square
            to leave.
        end: The square to reach: two letters.
        *rest (Optional[dict[str, tuple(int)]]): More.

    Returns:
        What happened.
    """
NUMPY = """Moves a piece.

    Only legal moves count: others are refused.

    Parameters
    ----------
    start : str
        The square
        to leave.
    end : str, optional
        The square to reach: two letters.
    *rest : Optional[dict]
        More.

    Returns
    -------
    str
        What happened.
    """
SPHINX = """Moves a piece.

    Only legal moves count: others are refused.

    :param str start: The square
        to leave.
    :type start: str
    :param end: The square to reach: two letters.
    :param *rest: More.
    :returns: What happened.
    :raises ValueError: Never.
    """


def described(text):
    def function():
        """Has a docstring."""

    function.__doc__ = text
    return read_docstring(function)


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_three_styles_say_the_same(text):
    read = described(text)
    assert read.description == "Moves a piece.\n\nOnly legal moves count: others are refused."
    assert read.parameters == {
        "start": "The square to leave.",
        "end": "The square to reach: two letters.",
        "rest": "More.",
    }


WORDS = ["Moves", "a piece", "(or two)", "x: y", "from, to", "`code`", "i.e. this", "[1, 2]"]
names = st.lists(st.sampled_from(["start", "end", "_x", "a1", "kind"]), min_size=1, max_size=4, unique=True)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def google(about, parts):
    return "\n".join([about, "", "Args:", *(f"    {name}: {text}" for name, text in parts)])


def numpy(about, parts):
    lines = [line for name, text in parts for line in (f"{name} : int", f"    {text}")]
    return "\n".join([about, "", "Parameters", "----------", *lines])


def sphinx(about, parts):
    return "\n".join([about, "", *(f":param {name}: {text}" for name, text in parts)])


@pytest.mark.parametrize("style", [google, numpy, sphinx])
@given(names=names, texts=st.lists(texts, min_size=4, max_size=4), about=texts)
def test_whatever_is_written_in_a_style_is_read(style, names, texts, about):
    parts = list(zip(names, texts, strict=False))
    read = described(style(about, parts))
    assert (read.description, dict(read.parameters)) == (about, dict(parts))


@pytest.mark.parametrize(
    "text",
    [
        *("Args are what counts.", "The rule:\n\nArgs: none", "Parameters\n\nAll of them."),
        *("Use it:: like this", "A list:\n\n- param x: is not a field", "Ends with a dash\n--"),
        "Says :param x: inside a line",
    ],
)
def test_what_only_looks_like_a_section_stays_in_the_description(text):
    read = described(text)
    assert (read.description, dict(read.parameters)) == (text, {})


def test_text_after_a_section_is_not_a_parameter_s():
    read = described("Does.\n\nArgs:\n  x: One.\n\n    Two.\n\nSome note: that belongs to nobody.")
    assert (read.description, dict(read.parameters)) == ("Does.", {"x": "One. Two."})


def test_a_function_without_a_docstring_says_nothing():
    assert described(None) == described("")
