"""The file that an agent starts from: an outline, or a solution with a bug."""

import pytest

from ors_server_tasks.code.stub import BugError, make_stub, public_classes, put_in_bug

SOLUTION = '''\
import re
from collections.abc import Iterator

SECRET = 42


def double(x: int) -> int:
    """Return twice a number."""
    return _twice(x)


def _twice(x: int) -> int:
    return 2 * x


class Box:
    """Holds things."""

    limit = SECRET

    def __init__(self) -> None:
        self._things = []

    def __iter__(self) -> Iterator[int]:
        """Give them all."""
        yield from self._things

    def _hidden(self) -> None:
        pass


class _Private:
    pass
'''

STUB = '''\
from collections.abc import Iterator


def double(x: int) -> int:
    """Return twice a number."""
    raise NotImplementedError


class Box:
    """Holds things."""

    def __init__(self) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        """Give them all."""
        raise NotImplementedError
'''


def test_a_stub_has_the_public_signatures_and_docstrings_only():
    assert make_stub(SOLUTION) == STUB


def test_public_classes_are_found():
    assert public_classes(SOLUTION) == ["Box"]


def test_a_bug_takes_the_place_of_its_lines():
    bug = "-    return _twice(x)\n+    y = x\n+    return y\n-    return 2 * x\n+    return x\n"
    assert put_in_bug(SOLUTION, bug) == SOLUTION.replace(
        "    return _twice(x)\n", "    y = x\n    return y\n"
    ).replace("    return 2 * x\n", "    return x\n")


def test_a_bug_can_be_a_missing_line():
    assert put_in_bug("a\nb\nc\n", "-b\n") == "a\nc\n"


@pytest.mark.parametrize("bug", ["-d\n+e\n", "-x\n+e\n", "+e\n", "- b\n+e\n"])
def test_a_bug_that_does_not_fit_exactly_once_is_refused(bug):
    with pytest.raises(BugError):
        put_in_bug("a\nb\nx\nx\n", bug)
