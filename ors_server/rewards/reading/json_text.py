"""Strict JSON within bounds: an agent's text is read strictly, or not at all. Pure.

The language is RFC 8259 without what RFC 7493 (I-JSON) takes away: no name twice in an object, no half of a
surrogate pair, no number beyond the range of a double; and, beyond both, bounds on length and depth.
"""

import json
import math
import re
from decimal import Decimal
from typing import Any, NoReturn, cast

MAX_CHARACTERS = 1_000_000
"""Characters of a JSON text that are read."""
MAX_DEPTH = 100
"""Levels of arrays and objects."""
MAX_NUMBER_CHARACTERS = 320
"""Characters of one number; a double needs 309 digits at most before its point."""
MAX_PLACES = 400
"""Greatest negative exponent: numbers nearer to zero than any double are refused, 0 excepted."""
_BRACKET = re.compile(r'"(?:[^"\\]+|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string, which is skipped, or a bracket. A string that does not end swallows the rest: linear time."""
_SURROGATE = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")
_LARGEST = int(float.fromhex("0x1.fffffffffffffp+1023"))


class JSONTextError(ValueError):
    """A text is not JSON, or exceeds a bound; the message says where."""


def parse_json(text: str, *, exact: bool = False) -> Any:
    """Read a JSON text; `exact` reads numbers with a point or an exponent as `Decimal`."""
    if len(text) > MAX_CHARACTERS:
        raise JSONTextError(f"the text has {len(text)} characters; at most {MAX_CHARACTERS} are read")
    # Before `json.loads`, which recurses and would exhaust the stack.
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_decimal if exact else _float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise JSONTextError(f"not JSON: {error.msg} at character {error.pos}") from None
    # Two escapes may be a pair, which only the decoded value tells; checked only where there is one.
    if _SURROGATE.search(text):
        _check_encodable(value)
    return value


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _BRACKET.finditer(text):
        mark = bracket[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JSONTextError(f"more than {MAX_DEPTH} nested arrays and objects")
        elif mark in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    seen: set[str] = set()
    twice = next(name for name, _ in pairs if name in seen or cast("Any", seen.add(name)))
    raise JSONTextError(f"the name {twice[:80]!r} is twice in one object")


def _integer(text: str) -> int:
    _check_length(text)
    # The length first: converting a long integer takes quadratic time.
    value = int(text)
    if abs(value) > _LARGEST:
        raise JSONTextError("a number is beyond the range of a double")
    return value


def _float(text: str) -> float:
    _check_length(text)
    value = float(text)
    if not math.isfinite(value):
        raise JSONTextError("a number is beyond the range of a double")
    return value


def _decimal(text: str) -> Decimal:
    # The range of a double is the bound for exact numbers, too.
    _float(text)
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise JSONTextError("a number's exponent is too large") from None
    if not value:
        return Decimal(0)
    if value.adjusted() < -MAX_PLACES:
        raise JSONTextError("a number is nearer to zero than any double")
    return value


def _check_length(text: str) -> None:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise JSONTextError(f"a number has {len(text)} characters; at most {MAX_NUMBER_CHARACTERS} are read")


def _constant(name: str) -> NoReturn:
    raise JSONTextError(f"{name} is not a JSON value")


def _check_encodable(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise JSONTextError("a string has half a surrogate pair") from None
