"""Compares a printed answer with the expected one. No I/O."""

import math
import re
from dataclasses import dataclass

from ors_server.grading.grading_errors import GradingError

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_MAX_NUMBER = 400


@dataclass(frozen=True)
class TextComparison:
    """How texts are compared; by default without white space at the ends of lines and empty last lines."""

    exact: bool = False
    """Whether every byte counts."""
    tolerance: float | None = None
    """How far a number that is expected with a point or an exponent may be off, relative to it; absolute
    where it is 0. Words are then separated by any white space; words and whole numbers must be the same."""

    def __post_init__(self) -> None:
        """Raise `GradingError` if an exact comparison has a tolerance, or the tolerance is not from 0."""
        if self.tolerance is None:
            return
        if self.exact or not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise GradingError("a tolerance is a finite number from 0, for a comparison that is not exact")

    def agrees(self, expected: str, answer: bytes) -> bool:
        """Return whether printed bytes agree with the expected text; never if they are not UTF-8."""
        if self.exact:
            return answer == expected.encode(errors="surrogatepass")
        try:
            wanted, got = _lines(expected), _lines(answer.decode())
        except UnicodeDecodeError:
            return False
        if self.tolerance is None or wanted == got:
            return wanted == got
        if len(wanted) != len(got):
            return False
        lines = ((line.split(), other.split()) for line, other in zip(wanted, got, strict=True))
        return all(
            len(words) == len(others) and all(map(self._word_agrees, words, others))
            for words, others in lines
        )

    def _word_agrees(self, expected: str, answer: str) -> bool:
        if expected == answer:
            return True
        if not (_is_number(expected) and set(expected) & set(".eE") and _is_number(answer)):
            return False
        wanted = float(expected)
        return abs(wanted - float(answer)) <= (self.tolerance or 0.0) * (abs(wanted) or 1.0)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _is_number(word: str) -> bool:
    return len(word) <= _MAX_NUMBER and _NUMBER.fullmatch(word) is not None
