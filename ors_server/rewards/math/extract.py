"""Finds the answer in a response.

Order: the last box (boxes joined by nothing but a comma or "and" are one list); `<answer>` tags and `####`;
the whole response, if it is a bare answer; the text after the last "the answer is"; and, unless extraction is
strict, the last emphasised text, the last formula, the last number; if there is nothing but programs, their
output. Boxes and programs are never searched for numbers.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from ors_server.rewards.math.boxes import boxed, unbox
from ors_server.rewards.math.dress import without_lead
from ors_server.rewards.math.everyday import readings_of
from ors_server.rewards.math.limits import ANSWER_CHARS, LimitError
from ors_server.rewards.math.parsed_answer import ParsedAnswer, read
from ors_server.rewards.math.prose import find_last, find_marked, is_prose, stated_texts, try_reading
from ors_server.rewards.math.transcript import without_programs
from ors_server.rewards.reading.answer_text import last_tagged

Source = Literal["box", "tag", "bare", "marker", "formula", "number", "words", "output"]
_HASHES: Final = re.compile(r"####[ \t]*([^\n]+)")
_FIELD: Final = re.compile(
    r"""["'](?:(?:final|right|correct)[_ ]?)?(?:answer|result|solution)["']\s{0,4}:\s{0,4}"""
    r"""(?:\{\s{0,8}["']value["']\s{0,4}:\s{0,4})?"""
    r"""(?:"((?:[^"\n]|\\"){0,1000})"|([^\s"'\[][^"'\n]{0,200}))""",
    re.IGNORECASE,
)
"""The field of a JSON object that holds the answer."""
_WORDY: Final = re.compile(
    r"\A\s*(?!(?:sin|cos|tan|log|ln|exp|gcd|lcm|max|min|det|arc\w*)\b)(?:[A-Za-z]?[a-z]{2,}|"
    r"[A-Z][a-z])\s+(?:[A-Za-z']+\s+){0,8}[-$\\(]?\d"
)
"""Words in front of a number, whose letters are not a product: "Es sind 16.4"."""
_ADVERB: Final = re.compile(r"\A\s*(?:therefore|thus|hence|so|then|finally)\b,?\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer, and where it was found."""

    reading: ParsedAnswer
    source: Source


def extract(
    response: str, *, is_strict: bool, must_agree: bool, answers: tuple[str, ...] | None = None
) -> Candidate | None:
    """Find the answer in a response, already unified and cleaned.

    `is_strict` allows only boxes, tags and bare answers; with `must_agree`, several different boxes are no
    answer. `answers` are the texts of the last assertion of a response in sentences, if it was read.

    Raises:
        LimitError: The answer is longer or deeper than the grader parses.
    """
    text, printed = without_programs(response)
    content = boxed(text, must_agree=must_agree)
    if content is not None and not content.strip() and len(text) < len(response):
        content = boxed(response, must_agree=must_agree)  # a box around a drawing
    if content is not None:
        return Candidate(read(unbox(content)), "box") if content.strip() else None
    tagged = _tagged(text)
    if tagged is not None:
        reading = read(tagged)
        inner = None if reading.is_math or not is_prose(tagged) else find_marked(tagged) or find_last(tagged)
        return Candidate(reading if inner is None else inner[0], "tag")
    if answers is not None and not is_strict and not printed:
        stated = next(filter(None, map(_read_stated, answers)), None)
        if stated is not None:
            return Candidate(stated, "marker")
    return _in_running_text(text, printed, is_strict=is_strict)


def _read_stated(text: str) -> ParsedAnswer | None:
    """Parse the text of an asserted value, which may be a number in words; `None` for other text."""
    reading = try_reading(text)
    return read(text) if reading is None and readings_of(text) else reading


def _in_running_text(text: str, printed: str, *, is_strict: bool) -> Candidate | None:
    """Find the answer of a text without a mark."""
    last = None if is_strict else find_marked(text)
    whole = None if last is not None else _read_whole(text if is_strict else without_lead(text))
    is_wordy = _WORDY.match(text) is not None and is_prose(text) and find_last(text) is not None
    if whole is not None and whole.is_math and not is_wordy:
        return Candidate(whole, "bare")
    last = last if last is not None or is_strict else find_last(text)
    if last is not None:
        return Candidate(*last)
    if printed and not is_strict:
        return Candidate(read(unbox(boxed(printed) or printed.rsplit("\n", 1)[-1])), "output")
    return None if whole is None else Candidate(whole, "words")


def answer_texts(response: str, *, is_strict: bool, must_agree: bool) -> list[str]:
    """Return the texts that may be an answer in words, likeliest first; arguments as for `extract`."""
    text, _ = without_programs(response)
    content = boxed(text, must_agree=must_agree)
    if content is not None:
        return [unbox(content)]
    tagged = _tagged(text)
    if tagged is not None:
        return [tagged]
    texts = [_ADVERB.sub("", text, count=1)]
    return texts if is_strict else texts + stated_texts(text)


def _tagged(response: str) -> str | None:
    tagged = last_tagged(response)
    if tagged is not None:
        return tagged
    hashes = _HASHES.findall(response)
    if hashes:
        return without_lead(hashes[-1])
    fields = _FIELD.findall(response) if '"' in response or "'" in response else []
    return _cut_at_json_end(fields[-1][0] or fields[-1][1]) if fields else None


def _cut_at_json_end(text: str) -> str:
    """Return a text up to the brace or comma that ends the JSON object around it."""
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return text[:index].strip()
    return text.strip(", ")


def _read_whole(response: str) -> ParsedAnswer | None:
    text = _ADVERB.sub("", response, count=1).strip()
    if not text:
        return None
    if len(text) > ANSWER_CHARS:
        if is_prose(text):
            return None
        raise LimitError(f"an answer of more than {ANSWER_CHARS} characters")
    return read(text)
