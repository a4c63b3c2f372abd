"""Reads verdicts in replies, in every unambiguous form.

A JSON object is looked for first, then lines of text. A reply may quote the agent's text before its own
verdict, so the last one counts. The work is linear in the length of the reply.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ors_server.rewards.judges.asserted_scores import is_asserted
from ors_server.rewards.judges.rubric import Criterion, Rubric, closed_object
from ors_server.rewards.judges.stated_score import find_score
from ors_server.rewards.reading.answer_text import cut_reasoning
from ors_server.rewards.reward_errors import UnusableReplyError

MAX_CHARACTERS = 100_000
"""Greatest length of a reply, reasoning included."""
MAX_READ = 30_000
"""Greatest length without reasoning: it is read on the event loop, in some hundredths of a second."""
MAX_BROKEN = 1_000
"""Greatest number of broken objects in a reply."""
MAX_DEEP = 3
"""Greatest number of objects that are nested too deeply."""
_DEEP = 500
"""Least number of characters of such an object."""
_DIGITS = 30
"""Greatest number of digits of an integer that is read exactly."""
_OPENING = re.compile(r'\{(?=\s{0,200}(?:"[^"\n]{0,200}"\s{0,20}:|\}))')
"""The beginning of an object, whose first key has at most 200 characters."""
_LINE = re.compile(r"\W*verdict(?:\s+(?P<name>[A-Za-z]\w*))?\W*[:=](?P<choice>.+)", re.IGNORECASE)
_MARKUP = " \t\r\n*_`'\""
_SCORE_KEYS = frozenset(
    {
        *("score", "finalscore", "overallscore", "totalscore", "rating", "finalrating", "overallrating"),
        *("reward", "grade", "mark"),
    }
)

SCORE_SCHEMA = closed_object({"reason": {"type": "string"}, "score": {"type": "number"}})
SCORE_FORM = (
    "Reply with one JSON object and nothing after it, the reason first and the score after it: "
    '{"reason": "...", "score": ...}\n'
    "If you cannot write JSON, reason first and end with one line: Score: number"
)


@dataclass(frozen=True, slots=True)
class ReadVerdict:
    """The judge's verdict on one criterion."""

    choice: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReadScore:
    """The judge's score."""

    score: float
    reason: str = ""


class _Repeated(dict[str, Any]):
    """An object with a repeated key."""


def read_verdicts(text: str, rubric: Rubric) -> dict[str, ReadVerdict]:
    """Read a reply to a rubric: a verdict for every criterion, by name.

    It may be an object with a choice, or an object with `verdict` and perhaps `reason`, for every criterion;
    or end in lines `VERDICT name: choice`. For a rubric of one criterion it may also be a bare choice, or an
    object with `verdict`.

    Raises:
        UnusableReplyError: A verdict is missing, repeated, or not one of the choices.
    """
    found, rest = last_object(spoken(text))
    if found is None:
        return _from_text(rest, rubric)
    names = {one.name for one in rubric.criteria}
    if len(names) == 1 and "verdict" in found and "verdict" not in names:
        found = {rubric.criteria[0].name: found}
    if isinstance(found, _Repeated) or set(found) != names:
        raise UnusableReplyError(
            f"the object's keys have to be {sorted(names)}, each once, and are {sorted(found)[:20]}"
        )
    return {one.name: _from_entry(found[one.name], one) for one in rubric.criteria}


def read_score(text: str, low: float = 0.0, high: float = 1.0) -> ReadScore:
    """Read a score: an object with a key such as `score` or `rating`, or text that `find_score` reads.

    Raises:
        UnusableReplyError: There is no score, or there are two.
    """
    reply = spoken(text)
    found, span = _find_object(reply)
    rest = reply[span[1] :]
    if found is not None and not is_asserted(reply, span):
        raise UnusableReplyError("the reply takes its object with the score back")
    given = None if found is None else _scores_of(found)
    if found is None or (not given and re.search(r"\d", rest)):
        return ReadScore(_checked(find_score(rest if found is not None else reply, low, high), low, high))
    if not given:
        raise UnusableReplyError(f"the object has no key score; its keys are {sorted(found)[:20]}")
    scores = [_as_score(value, low, high) for value in given]
    if re.search(r"\d", rest):
        scores.append(find_score(f"{scores[-1]!r}\n{rest}", low, high))
    if max(scores) - min(scores) > 1e-9:  # noqa: PLR2004  (of what is written as the same number)
        raise UnusableReplyError("the object gives different scores")
    reason = next((found[key] for key in ("reason", "explanation", "reasoning") if key in found), "")
    return ReadScore(scores[0], reason if isinstance(reason, str) else "")


def spoken(text: str) -> str:
    """Return a reply without its reasoning.

    Raises:
        UnusableReplyError: It is empty, too long, or ends within its reasoning.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnusableReplyError(f"the reply has more than {MAX_CHARACTERS:,} characters")
    reply = cut_reasoning(text)
    if reply is None:
        raise UnusableReplyError("the reply ended within its reasoning")
    if not reply.strip():
        raise UnusableReplyError("the reply is empty")
    if len(reply) > MAX_READ:
        raise UnusableReplyError(f"the reply has more than {MAX_READ:,} characters")
    return reply.strip()


def last_object(text: str) -> tuple[dict[str, Any] | None, str]:
    """Find the JSON object with which a text ends, but for marks of a code block.

    Returns:
        The object, or `None`; and the text after the last object, or all of it without one.
    """
    found, span = _find_object(text)
    rest = text[span[1] :]
    return (None if rest.strip(_MARKUP) else found), rest


def _find_object(text: str) -> tuple[dict[str, Any] | None, tuple[int, int]]:
    """Return the last JSON object of a text, and where it is.

    The search goes on where a broken object ended, so that the work is linear in the length of the text. An
    object within a broken one is skipped.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=_once, parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else math.inf
    )
    found: dict[str, Any] | None = None
    start = over = deep = broken = 0
    opening = _OPENING.search(text)
    while opening is not None and broken < MAX_BROKEN and deep < MAX_DEEP:
        begins = opening.start()
        try:
            found, over = decoder.raw_decode(text, begins)
            start, begins = begins, over
        except json.JSONDecodeError as error:
            broken += 1
            begins = max(begins + 1, error.pos)
        except RecursionError:
            deep += 1
            begins += _DEEP
        opening = _OPENING.search(text, begins)
    if opening is not None:
        raise UnusableReplyError("the reply has too many objects that are broken or nested too deeply")
    return found, (start, over)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Repeated(made)


def _from_entry(entry: Any, criterion: Criterion) -> ReadVerdict:
    if isinstance(entry, str):
        return ReadVerdict(_choice(entry, criterion))
    if not isinstance(entry, dict) or isinstance(entry, _Repeated):
        raise UnusableReplyError(f"{criterion.name} has to be an object with reason and verdict, each once")
    given = cast("dict[str, Any]", entry)
    verdict, reason = given.get("verdict"), given.get("reason", "")
    if not isinstance(verdict, str | int) or not isinstance(reason, str):
        raise UnusableReplyError(f"{criterion.name} has to be an object with reason and verdict, both texts")
    return ReadVerdict(_choice(str(verdict), criterion), reason)


def _from_text(text: str, rubric: Rubric) -> dict[str, ReadVerdict]:
    alone = rubric.criteria[0] if len(rubric.criteria) == 1 else None
    lines = [_LINE.fullmatch(line.rstrip()) for line in text.strip().splitlines()]
    if not lines or lines[-1] is None:
        if alone is not None and "\n" not in text.strip():
            return {alone.name: ReadVerdict(_choice(text, alone))}
        raise UnusableReplyError("the reply ends neither in a JSON object nor in a line VERDICT name: choice")
    given = {(one["name"] or (alone and alone.name)): one["choice"] for one in lines if one is not None}
    names = {one.name for one in rubric.criteria}
    if set(given) != names:
        missing = sorted(names - set(given))
        raise UnusableReplyError(
            f"there is no verdict for {missing}"
            if missing
            else f"there is a verdict for something else than {sorted(names)}"
        )
    return {one.name: ReadVerdict(_choice(given[one.name], one)) for one in rubric.criteria}


def _choice(text: str, criterion: Criterion) -> str:
    bare = text.strip(_MARKUP).rstrip(".").strip(_MARKUP).casefold()
    for choice in criterion.choices:
        if choice.strip().casefold() == bare:
            return choice
    raise UnusableReplyError(
        f"{criterion.name} has to be one of {list(criterion.choices)}, not {text[:80]!r}"
    )


def _scores_of(found: Mapping[str, Any]) -> list[Any]:
    """Return the values that may be the score: that of `score`, or those of similar keys."""
    if isinstance(found, _Repeated):
        raise UnusableReplyError(f"the object has a key twice; its keys are {sorted(found)[:20]}")
    named = [value for key, value in found.items() if re.sub(r"[^a-z]", "", key.casefold()) in _SCORE_KEYS]
    if "score" not in found:
        return named
    return [found["score"], *(value for value in named if isinstance(value, float | int))]


def _as_score(value: object, low: float, high: float) -> float:
    if isinstance(value, str):
        return _checked(find_score(value, low, high), low, high)
    return _checked(value, low, high)


def _checked(score: object, low: float, high: float) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise UnusableReplyError(f"the score has to be a number, not {score!r:.80}")
    if not (low <= score <= high and math.isfinite(score)):
        raise UnusableReplyError(f"the score has to be in [{low:g}, {high:g}], not {score!r:.80}")
    return float(score)
