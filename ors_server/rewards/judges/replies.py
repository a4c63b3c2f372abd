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
_MIN_DEEP_CHARACTERS = 500
"""Minimum number of characters of such an object."""
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
_WHOLE_KEYS = frozenset({"overall", "final", "result", "evaluation", "assessment", "judgement", "judgment"})
"""Keys of the whole, which hold the score, or an object with it, where no other key is named so."""

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
    verdicts, rest = last_object(spoken(text))
    # The last object counts: a reply may quote the agent's text, with its own objects, before the verdict.
    if verdicts is None:
        return _from_text(rest, rubric)
    names = {criterion.name for criterion in rubric.criteria}
    if len(names) == 1 and "verdict" in verdicts and "verdict" not in names:
        verdicts = {rubric.criteria[0].name: verdicts}
    if isinstance(verdicts, _Repeated) or set(verdicts) != names:
        raise UnusableReplyError(
            f"the object's keys have to be {sorted(names)}, each once, and are {sorted(verdicts)[:20]}"
        )
    return {criterion.name: _from_entry(verdicts[criterion.name], criterion) for criterion in rubric.criteria}


def read_score(text: str, low: float = 0.0, high: float = 1.0) -> ReadScore:
    """Read a score: an object with a key such as `score` or `rating`, or text that `find_score` reads.

    Raises:
        UnusableReplyError: There is no score, or there are two.
    """
    reply = spoken(text)
    # An object that the reply takes back ("... no, that was too generous") is not its score.
    scores_object, span = _find_object(reply)
    rest = reply[span[1] :]
    if scores_object is not None and not is_asserted(reply, span):
        raise UnusableReplyError("the reply takes its object with the score back")
    listed = None if scores_object is None else _scores_of(scores_object)
    # An object without a score may be an example; the text behind it then states the score.
    if scores_object is None or (not listed and re.search(r"\d", rest)):
        return ReadScore(
            _check_score(find_score(rest if scores_object is not None else reply, low, high), low, high)
        )
    if not listed:
        raise UnusableReplyError(f"the object has no key score; its keys are {sorted(scores_object)[:20]}")
    scores = [
        _check_score(find_score(value, low, high) if isinstance(value, str) else value, low, high)
        for value in listed
    ]
    # Numbers behind the object may correct it; only the same number is not a contradiction.
    if re.search(r"\d", rest):
        scores.append(find_score(f"{scores[-1]!r}\n{rest}", low, high))
    # More than the rounding of the same number in two spellings.
    if max(scores) - min(scores) > 1e-9:  # noqa: PLR2004  (of what is written as the same number)
        raise UnusableReplyError("the object gives different scores")
    reason = next(
        (scores_object[key] for key in ("reason", "explanation", "reasoning") if key in scores_object), ""
    )
    return ReadScore(scores[0], reason if isinstance(reason, str) else "")


def spoken(text: str) -> str:
    """Return a reply without its reasoning.

    Raises:
        UnusableReplyError: It is empty, too long, or ends within its reasoning.
    """
    # Before any pattern runs: each is linear, but the reply is the model's.
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
    last, span = _find_object(text)
    rest = text[span[1] :]
    return (None if rest.strip(_MARKUP) else last), rest


def _find_object(text: str) -> tuple[dict[str, Any] | None, tuple[int, int]]:
    """Return the last JSON object of a text, and where it is.

    The search continues where a broken object ended, so that the work is linear in the length of the text. An
    object within a broken one is skipped.
    """
    decoder = json.JSONDecoder(
        # A very long integer is slow to convert, and cannot be a score.
        object_pairs_hook=_mark_repeated,
        parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else math.inf,
    )
    last: dict[str, Any] | None = None
    start = over = deep = broken = 0
    opening = _OPENING.search(text)
    while opening is not None and broken < MAX_BROKEN and deep < MAX_DEEP:
        begins = opening.start()
        try:
            last, over = decoder.raw_decode(text, begins)
            start, begins = begins, over
        except json.JSONDecodeError as error:
            broken += 1
            # `error.pos` is where decoding failed: nothing is read twice.
            begins = max(begins + 1, error.pos)
        except RecursionError:
            deep += 1
            # The decoder gave up deep inside; skipping less would meet the same nesting again.
            begins += _MIN_DEEP_CHARACTERS
        opening = _OPENING.search(text, begins)
    # Bounded attempts: a reply made of braces must not take quadratic time.
    if opening is not None:
        raise UnusableReplyError("the reply has too many objects that are broken or nested too deeply")
    return last, (start, over)


def _mark_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    # A repeated key is marked, not refused: only the object that counts must be unambiguous.
    return entries if len(entries) == len(pairs) else _Repeated(entries)


def _from_entry(entry: Any, criterion: Criterion) -> ReadVerdict:
    if isinstance(entry, str):
        return ReadVerdict(_choice(entry, criterion))
    if not isinstance(entry, dict) or isinstance(entry, _Repeated):
        raise UnusableReplyError(f"{criterion.name} has to be an object with reason and verdict, each once")
    fields = cast("dict[str, Any]", entry)
    verdict, reason = fields.get("verdict"), fields.get("reason", "")
    if not isinstance(verdict, str | int) or not isinstance(reason, str):
        raise UnusableReplyError(f"{criterion.name} has to be an object with reason and verdict, both texts")
    return ReadVerdict(_choice(str(verdict), criterion), reason)


def _from_text(text: str, rubric: Rubric) -> dict[str, ReadVerdict]:
    alone = rubric.criteria[0] if len(rubric.criteria) == 1 else None
    lines = [_LINE.fullmatch(line.rstrip()) for line in text.strip().splitlines()]
    # The last line tells whether the reply has the form of lines; earlier lines may be reasoning.
    if not lines or lines[-1] is None:
        if alone is not None and "\n" not in text.strip():
            return {alone.name: ReadVerdict(_choice(text, alone))}
        raise UnusableReplyError("the reply ends neither in a JSON object nor in a line VERDICT name: choice")
    choices = {(line["name"] or (alone and alone.name)): line["choice"] for line in lines if line is not None}
    names = {criterion.name for criterion in rubric.criteria}
    if set(choices) != names:
        missing = sorted(names - set(choices))
        raise UnusableReplyError(
            f"there is no verdict for {missing}"
            if missing
            else f"there is a verdict for something else than {sorted(names)}"
        )
    return {
        criterion.name: ReadVerdict(_choice(choices[criterion.name], criterion))
        for criterion in rubric.criteria
    }


def _choice(text: str, criterion: Criterion) -> str:
    bare = text.strip(_MARKUP).rstrip(".").strip(_MARKUP).casefold()
    for choice in criterion.choices:
        if choice.strip().casefold() == bare:
            return choice
    raise UnusableReplyError(f"{criterion.name} must be one of {list(criterion.choices)}, got {text[:80]!r}")


def _scores_of(reply: Mapping[str, Any]) -> list[Any]:
    """Return the values that may be the score: that of `score`, or those of similar keys."""
    if isinstance(reply, _Repeated):
        raise UnusableReplyError(f"the object has a key twice; its keys are {sorted(reply)[:20]}")
    keys = {key: re.sub(r"[^a-z]", "", key.casefold()) for key in reply}
    named = [reply[key] for key, form in keys.items() if form in _SCORE_KEYS]
    whole = [reply[key] for key, form in keys.items() if form in _WHOLE_KEYS]
    if not named and len(whole) == 1:
        (inner,) = whole
        return _scores_of(cast("dict[str, Any]", inner)) if isinstance(inner, dict) else whole
    if "score" not in reply:
        return named
    return [reply["score"], *(value for value in named if isinstance(value, float | int))]


def _check_score(score: object, low: float, high: float) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise UnusableReplyError(f"the score must be a number, got {score!r:.80}")
    if not (low <= score <= high and math.isfinite(score)):
        raise UnusableReplyError(f"the score must be in [{low:g}, {high:g}], got {score!r:.80}")
    return float(score)
