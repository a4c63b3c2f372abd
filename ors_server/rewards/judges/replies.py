"""Reads verdicts out of replies. Strict: what is not plainly a verdict is none, and the last one binds.

A JSON object is looked for first, then lines of text. A reply may quote the agent's text before it comes to
its own verdict, so of several it is the last that counts.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from ors_server.rewards.judges.errors import UnusableReplyError
from ors_server.rewards.judges.rubric import Criterion, Rubric, closed_object

MOST_CHARACTERS = 100_000
"""Of a reply that is read at all."""
MOST_OPENINGS = 2_000
"""Braces at which a JSON object is looked for."""
_NUMBER = re.compile(
    r"([-+]?(?:\d{1,20}\.?\d{0,30}|\.\d{1,30})(?:[eE][-+]?\d{1,3})?)(?:\s*/\s*(\d{1,4}(?:\.0+)?))?"
)
_LABEL = re.compile(r"\b(?:score|rating|reward|grade)\b[*_`]*\s*[:=]", re.IGNORECASE)
_LINE = re.compile(
    r"^\W*verdict(?:\s+(?P<name>[A-Za-z]\w*))?\W*[:=]\s*(?P<choice>.+?)\s*$", re.IGNORECASE | re.MULTILINE
)
_MARKUP = " \t\r\n*_`'\""

SCORE_SCHEMA = closed_object({"reason": {"type": "string"}, "score": {"type": "number"}})
SCORE_FORM = (
    "Reply with one JSON object and nothing after it, the reason first and the score after it: "
    '{"reason": "...", "score": ...}\n'
    "If you cannot write JSON, reason first and end with one line: Score: number"
)


@dataclass(frozen=True, slots=True)
class ReadVerdict:
    """One criterion's verdict as the judge gave it."""

    choice: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReadScore:
    """A score as the judge gave it."""

    score: float
    reason: str = ""


def read_verdicts(text: str, rubric: Rubric) -> dict[str, ReadVerdict]:
    """Read a reply to a rubric.

    Args:
        text: The reply.
        rubric: What was asked.

    Returns:
        For every criterion, by name, its verdict.

    Raises:
        UnusableReplyError: A verdict is missing, said twice, no choice, or stands before its reason.
    """
    found, said = last_object(spoken(text))
    if found is None:
        return _from_lines(said, rubric)
    names = {one.name for one in rubric.criteria}
    if set(found) != names:
        raise UnusableReplyError(
            f"the object's keys have to be {sorted(names)}, and are {sorted(found)[:20]}"
        )
    return {one.name: _from_entry(found[one.name], one) for one in rubric.criteria}


def read_score(text: str, low: float = 0.0, high: float = 1.0) -> ReadScore:
    """Read a reply that is a score.

    Args:
        text: The reply: an object with `reason` and `score`, a line `Score: number` at its end, or a number
            alone on its last line. `8/10` is one only on a scale that ends at 10.
        low: Least score.
        high: Greatest score.

    Returns:
        A finite score in the range.

    Raises:
        UnusableReplyError: There is none.
    """
    found, said = last_object(spoken(text))
    if found is None:
        return ReadScore(_checked(_number_at_the_end(said, high), low, high))
    if set(found) != {"reason", "score"}:
        raise UnusableReplyError(
            f"the object's keys have to be reason and score, and are {sorted(found)[:20]}"
        )
    reason = _reason_before(found, "score")
    return ReadScore(_checked(found["score"], low, high), reason)


def spoken(text: str) -> str:
    """Return what a reply says once its thoughts are over.

    Args:
        text: The reply.

    Raises:
        UnusableReplyError: It is empty, too long, or ends within its thoughts.
    """
    if len(text) > MOST_CHARACTERS:
        raise UnusableReplyError("the reply is far too long")
    before, closing, after = text.rpartition("</think>")
    said = (after if closing else text).strip()
    if "<think>" in said and not before:
        raise UnusableReplyError("the reply ended before its thoughts were over")
    if not said:
        raise UnusableReplyError("the reply is empty")
    return said


def last_object(text: str) -> tuple[dict[str, Any] | None, str]:
    """Find the JSON object with which a text ends.

    Args:
        text: Any text.

    Returns:
        The object, if nothing but marks of a code block follow it; and the text that is left to be read: what
        follows the last object, or all of it if there is none.

    Raises:
        UnusableReplyError: An object has a key twice, or NaN or an infinity in it.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse)
    found: dict[str, Any] | None = None
    over = 0
    start = text.find("{")
    for _ in range(MOST_OPENINGS):
        if start < 0:
            break
        try:
            found, over = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
        else:
            start = text.find("{", over)
    rest = text[over:]
    return (None if rest.strip(_MARKUP) else found), rest


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise UnusableReplyError(f"an object says a key twice: {names[:20]}")
    return dict(pairs)


def _refuse(constant: str) -> NoReturn:
    raise UnusableReplyError(f"{constant} is no number")


def _from_entry(entry: Any, criterion: Criterion) -> ReadVerdict:
    if not isinstance(entry, dict) or set(cast("dict[str, Any]", entry)) != {"reason", "verdict"}:
        raise UnusableReplyError(f"{criterion.name} has to be an object with reason and verdict")
    said = cast("dict[str, Any]", entry)
    reason = _reason_before(said, "verdict")
    return ReadVerdict(_choice(str(said["verdict"]), criterion), reason)


def _reason_before(entry: Mapping[str, Any], verdict: str) -> str:
    reason = entry["reason"]
    if not isinstance(reason, str) or list(entry).index("reason") > list(entry).index(verdict):
        raise UnusableReplyError(f"the reason is a text and comes before the {verdict}")
    return reason


def _from_lines(text: str, rubric: Rubric) -> dict[str, ReadVerdict]:
    if _LINE.fullmatch(text.strip().rpartition("\n")[2]) is None:
        raise UnusableReplyError("the reply ends neither in a JSON object nor in a line VERDICT name: choice")
    alone = rubric.criteria[0].name if len(rubric.criteria) == 1 else None
    said = {found["name"] or alone: found["choice"] for found in _LINE.finditer(text)}
    names = {one.name for one in rubric.criteria}
    if set(said) != names:
        missing = sorted(names - set(said))
        raise UnusableReplyError(
            f"there is no verdict for {missing}" if missing else "a verdict is for no criterion"
        )
    return {one.name: ReadVerdict(_choice(said[one.name], one)) for one in rubric.criteria}


def _choice(said: str, criterion: Criterion) -> str:
    bare = said.strip(_MARKUP).rstrip(".").strip(_MARKUP).casefold()
    for choice in criterion.choices:
        if choice.strip().casefold() == bare:
            return choice
    raise UnusableReplyError(
        f"{criterion.name} has to be one of {list(criterion.choices)}, not {said[:80]!r}"
    )


def _number_at_the_end(text: str, high: float) -> float:
    labels = list(_LABEL.finditer(text))
    tail = text[labels[-1].end() :] if labels else text.strip(_MARKUP).rpartition("\n")[2]
    bare = tail.strip(_MARKUP)
    found = _NUMBER.fullmatch(bare) or _NUMBER.fullmatch(bare.removesuffix(".").strip(_MARKUP))
    if found is None:
        raise UnusableReplyError(f"the reply does not end in a number alone: {tail[-80:]!r}")
    if found[2] is not None and float(found[2]) != high:
        raise UnusableReplyError(f"the scale ends at {high:g}, not at {found[2]}")
    return float(found[1])


def _checked(score: object, low: float, high: float) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise UnusableReplyError(f"a score is a number, not {score!r:.80}")
    if not (low <= score <= high and math.isfinite(score)):
        raise UnusableReplyError(f"a score is in [{low:g}, {high:g}], not {score!r:.80}")
    return float(score)
