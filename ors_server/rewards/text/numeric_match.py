"""Rewards that compare numbers, read exactly: integers, decimals, fractions, with thousands and a unit.

A number is a `Fraction`, so that 0.1 + 0.2 is 0.3 and 10**20 + 1 is not 10**20; NaN and infinities are not
read.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, cast

from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.text.texts import (
    MAX_GOLDS,
    MAX_RESPONSE,
    BadGoldError,
    TextForm,
    UnparsedAnswerError,
    normalise_text,
    read_response,
    shown,
    text_reward,
)

MAX_CHARACTERS: Final = 400
"""Characters of a number."""

Where: TypeAlias = Literal["whole", "last"]
Gsm8kMode: TypeAlias = Literal["strict", "flexible"]

_DIGITS: Final = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_DECIMAL: Final = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?"
_NUMBER: Final = re.compile(rf"([-+]?)\s?({_DECIMAL})(?:\s?/\s?({_DECIMAL}))?")
_MIXED: Final = re.compile(r"([-+]?)([0-9]+) ([0-9]+/[0-9]+)")
_IN_TEXT: Final = re.compile(
    rf"(?<![\w.,/^])((?:(?<!\d\s)[-+])?)[$€£]?((?:\d+ (?=\d+/))?{_DECIMAL}(?:/{_DECIMAL})?)(?![\w/^]|[.,]\d)"
)
_HASHES: Final = re.compile(r"####[ \t]*([^\n]{0,400})")
_STRICT: Final = re.compile(r"#### (-?[0-9.,]+)")
CLIPPED: Final = 300
"""Characters at the end of a response in which verl's method "strict" looks."""
_GSM8K_UNITS: Final = ("$", "%")
"""Signs that GSM8K's own answers leave out."""
_FORM: Final = TextForm(casefold=False)


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number as it was written."""

    value: Fraction
    is_decimal: bool
    """Whether it was written with a point or an exponent, so that a tolerance makes sense."""
    text: str = ""
    """As it was written, without a unit."""


def read_number(text: str, units: Sequence[str] = ()) -> Numeral | None:
    """Read a text that is one number; `None` if it is not, or has more than 400 characters without its unit.

    Such as `-1,234.5`, `3/4`, `3 1/2`, `1e3`, or `$5` with the unit `$`, which may be behind it.
    """
    # A bound on the work of normalising: the unit, and the spaces around it, may take as many again.
    if len(text) > MAX_CHARACTERS * 2:
        return None
    bare = _without_unit(normalise_text(text, _FORM), units)
    if (mixed := _MIXED.fullmatch(bare)) is not None and (part := read_number(mixed[3])) is not None:
        return Numeral(
            (int(mixed[2]) + part.value) * (-1 if mixed[1] == "-" else 1), is_decimal=False, text=bare
        )
    match = _NUMBER.fullmatch(bare) if len(bare) <= MAX_CHARACTERS else None
    if match is None:
        return None
    sign, upper, lower = match.groups()
    value = _fraction(upper) * (-1 if sign == "-" else 1)
    if lower is not None:
        denominator = _fraction(lower)
        if not denominator:
            return None
        value /= denominator
    return Numeral(value, re.search(r"[.eE]", match[0]) is not None, bare)


def last_number(text: str) -> str | None:
    """Return the last number in a text, as it is written there."""
    match = None
    for match in _IN_TEXT.finditer(normalise_text(text, _FORM)):  # noqa: B007  (the last one counts)
        pass
    return None if match is None else match[1] + match[2]


@text_reward
def numeric_match_reward(
    final_response: str,
    answer: str,
    abs_tol: float = 0.0,
    rel_tol: float = 0.0,
    unit: str | Sequence[str] = (),
    where: Where = "whole",
) -> float:
    """Pays for the same number as a gold one: exactly, or within a tolerance where the gold is a decimal.

    Hazards: a comma before three digits is one of thousands, so "1,234" is not a decimal; a gold written as
    an integer or a fraction is exact under any tolerance ("10" is not 10.4, though "10.0" may be);
    `where="last"` takes the last number of a text, which may not be its answer. Other units are never
    converted, and `last` does not look at them. NaN and infinities are not answers.

    Source: this library; tolerances as those of Python's `math.isclose`, but on exact numbers.

    `unit` is a unit, or spellings of it, which may be at the number of either side.

    Raises:
        RewardDefinitionError: If a tolerance is negative or not finite, or `where` is something else.
    """
    tolerances = (_tolerance(abs_tol), _tolerance(rel_tol))
    units = [unit] if isinstance(unit, str) else list(unit)
    golds = _gold_numbers(answer, units)
    if where not in {"whole", "last"}:
        raise RewardDefinitionError(f"expected where to be whole or last, got {where!r}")
    text = read_response(final_response, MAX_RESPONSE if where == "last" else None)
    number = read_number((last_number(text) or "") if where == "last" else text.strip(), units)
    if number is None:
        raise UnparsedAnswerError(f"the response {'is not a' if where == 'whole' else 'has no'} number")
    return float(any(_is_near(number.value, gold, tolerances) for gold in golds))


@text_reward
def gsm8k_reward(final_response: str, answer: str, mode: Gsm8kMode = "strict") -> float:
    """Pays for the number behind the last `####`, or the last number of the response, if it is the gold one.

    Hazards: `flexible` takes any number that comes last ("72 clips in 2 months" is 2); `strict` pays nothing
    for a right number in another form ("#### 72.0", "#### $72"), so tell the model the form. Both take the
    number even if the text denies it ("not #### 72").

    Source: GSM8K (Cobbe et al. 2021, arXiv 2110.14168), whose solutions end in `#### 72`. `strict` is verl's
    `compute_score` with its method "strict": digits, points and commas behind "#### " in the last 300
    characters, compared as text. `flexible` reads the last number exactly, so that "72." is 72, which verl's
    own "flexible" takes for another text.

    Raises:
        RewardDefinitionError: If the mode is another one.
    """
    if mode not in {"strict", "flexible"}:
        raise RewardDefinitionError(f"expected the mode strict or flexible, got {mode!r}")
    raw = cast("object", answer)  # a row may have a number
    finals = _HASHES.findall(raw) if isinstance(raw, str) else []
    gold = _gold_numbers(finals[-1] if finals else raw, _GSM8K_UNITS)[0]
    if mode == "strict":
        # As verl's method reads answers, and as verl's data has golds.
        numbers = _STRICT.findall(read_response(final_response)[-CLIPPED:])
        if not numbers:
            raise UnparsedAnswerError(f'no number behind "#### " in the last {CLIPPED} characters')
        return float(str(numbers[-1]).replace(",", "") == gold.text.replace(",", ""))
    text = last_number(read_response(final_response, MAX_RESPONSE))
    number = None if text is None else read_number(text, _GSM8K_UNITS)
    if number is None:
        raise UnparsedAnswerError("the response has no number")
    return float(number.value == gold.value)


def _gold_numbers(answer: Any, units: Sequence[str]) -> list[Numeral]:
    golds: list[object] = (
        list(cast("Sequence[object]", answer)) if isinstance(answer, list | tuple) else [answer]
    )
    if not golds or len(golds) > MAX_GOLDS:
        raise BadGoldError(f"expected 1 to {MAX_GOLDS} gold answers, got {len(golds)}")
    return [_gold_number(gold, units) for gold in golds]


def _gold_number(gold: object, units: Sequence[str]) -> Numeral:
    is_text = isinstance(gold, str)
    is_number = isinstance(gold, int | float) and not isinstance(gold, bool)
    text = None
    if is_text or is_number:
        with suppress(ValueError):  # an integer of more digits than Python writes
            text = str(gold)
    read = None if text is None else read_number(text, units)
    if read is None:
        raise BadGoldError(f"expected a gold answer as one number, got {shown(gold)}")
    return read


def _without_unit(text: str, units: Sequence[str]) -> str:
    text = text[:-1].rstrip() if text.endswith(".") else text
    for unit in sorted(map(str.strip, units), key=len, reverse=True):
        if unit and text.endswith(unit) and re.search(r"[0-9.]\s?$", text[: -len(unit)]):
            return text[: -len(unit)].rstrip()
        if unit and (led := re.fullmatch(rf"([-+]?)\s?{re.escape(unit)}\s?([0-9.].*)", text)) is not None:
            return led[1] + led[2]
    return text


def _fraction(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


def _tolerance(value: float) -> Fraction:
    try:
        tolerance = Fraction(repr(float(value)))  # 0.1 is a tenth
    except (ValueError, OverflowError, TypeError) as error:
        raise RewardDefinitionError(f"expected a finite tolerance, got {shown(value)}") from error
    if tolerance < 0:
        raise RewardDefinitionError(f"expected a tolerance of at least 0, got {value!r}")
    return tolerance


def _is_near(value: Fraction, gold: Numeral, tolerances: tuple[Fraction, Fraction]) -> bool:
    if not gold.is_decimal:
        return value == gold.value
    absolute, relative = tolerances
    return abs(value - gold.value) <= max(absolute, relative * abs(gold.value))
