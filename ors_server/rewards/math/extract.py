r"""Where the answer stands in a response.

Order: the last box (boxes joined by nothing but a comma or "and" are one list); `<answer>` tags and `####`;
the whole response, if it is an answer as it stands; what follows the last "the answer is"; and, unless
extraction is strict, the last emphasised text, the last formula, the last number. What stands in a box is
never searched for numbers.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from ors_server.rewards.math.lexer import find_closing
from ors_server.rewards.math.limits import ANSWER_CHARS, LimitError, MathError
from ors_server.rewards.math.normalise import plain, unfence
from ors_server.rewards.math.reading import Reading, read
from ors_server.rewards.math.units import WORDS
from ors_server.rewards.math.vocabulary import FUNCTIONS, GREEK

Source = Literal["box", "tag", "bare", "marker", "formula", "number", "words"]
_CUT: Final = re.compile(r"<\|(?:im_start|im_end|endoftext|eot_id|end_of_text)\|>|<｜end▁of▁sentence｜>")
_THOUGHT: Final = "</think>"
_BOX: Final = re.compile(r"\\(?:boxed|fbox|framebox|beginboxed)(?![A-Za-z])\s*")
_UNBRACED: Final = re.compile(r"\\?[A-Za-z0-9.,]+")
_TAGS: Final = ("<answer>", "</answer>")
_HASHES: Final = re.compile(r"####[ \t]*([^\n]+)")
_BETWEEN: Final = re.compile(
    r"(?:for part \w\s*)?(?:,|;|and|or|&|, and)\s*(?:[A-Za-z]\w*(?:\s*_\s*\w+)?\s*=)?", re.IGNORECASE
)
_MATH_MARKS: Final = re.compile(
    r"\\[()\[\]]|\$|\\(?:quad|qquad|text|mbox|textrm|[ ,;!:])(?![A-Za-z])|[{}()~]"
)
_ADVERB: Final = re.compile(r"\A\s*(?:therefore|thus|hence|so|then|finally)\b,?\s+", re.IGNORECASE)
_MARKER: Final = re.compile(
    r"(?:(?:final\s+)?answer(?:\s+is|\s*:|\s*=|\s+(?=\$|\\\(|\\\[))|(?:final\s+)?result\s*(?:is|:)|réponse(?:\s+est|\s*:)|"
    r"respuesta(?:\s+es|\s*:)|resposta(?:\s+é|\s*:)|risposta(?:\s+è|\s*:)|antwort(?:\s+ist|\s*:)|ответ\s*:|답\s*:|"
    r"答案\s*(?:是|为|為|:))\s*:?",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(r"\.? {0,3}I hope (?:it|this) is correct.*|\n[ \t]{0,8}\n.*", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<!\\)[.!?](?=\s|$|\*)|\n")
_STATED: Final = re.compile(r".*(?:\b(?:is|are|be|equals|becomes)\b|=\s|:\s|是|为|為)\s*(.+)", re.DOTALL)
_FORMULA: Final = re.compile(
    r"\$\$(.{1,2000}?)\$\$|\$([^$]+)\$|\\\(((?:(?!\\\().)+?)\\\)|\\\[((?:(?!\\\[).)+?)\\\]", re.DOTALL
)
_STRONG: Final = re.compile(r"\*\*([^*\n]+)\*\*")
_NUMBER: Final = re.compile(
    r"(?<![A-Za-z0-9_.,^{/])(?:(?<![0-9)\]}] )(?<![A-Za-z0-9)\]}])[-+])?[$€£]?"
    r"(?:\\d?frac\{[^{}]+\}\{[^{}]+\}|(?:\d{1,3}(?:(?:,|\{,\})\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:\s*/\s*\d+)?)(?:\s*\\?%)?(?!\s*[\^_!*(\[{]|[A-Za-z0-9]*\d|\.\d)"
)
_CODE: Final = re.compile(r"__|\w\(\)|\w\(['\"]|\blambda\b|\bimport\b|\bopen\(|=>|\bfor \w+ in\b")
_NO_PROSE: Final = frozenset(FUNCTIONS) | frozenset(GREEK) | WORDS
_PROSE: Final = re.compile(r"(?<![\\A-Za-z{])([A-Za-z]{2,})(?:['\s,.:]|$)")
_OPENS_AS_PROSE: Final = re.compile(r"[^\W\d_]{2,}[\s,']|(?![A-Za-z])[^\W\d_]{2,}")
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]{2}")
_FEW_WORDS: Final = 4
"""Words of an answer in words: "no real solution"."""
_JOINER_CHARS: Final = 200
"""Characters of what joins two boxes, and of an answer in words inside a formula."""
_TAIL_CHARS: Final = 8_000
"""Characters at the end of a text without boxes in which its answer is looked for."""
_MOST_UNCLOSED: Final = 2
"""Boxes without an end that are passed over; each costs a look at the rest of the text."""
_MOST_BOXES: Final = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """What was found.

    Attributes:
        reading: The answer, read.
        source: Where it stood.
    """

    reading: Reading
    source: Source


def clean(response: str) -> str:
    """Cut a response at the end of the answerer's turn and drop its thinking.

    Args:
        response: A response as it came.
    """
    cut = _CUT.search(response)
    if cut is not None:
        response = response[: cut.start()]
    _, thought, rest = response.rpartition(_THOUGHT)
    return rest if thought and rest.strip() else response


def find_boxes(text: str) -> list[tuple[int, int, str]]:
    """Give start, end and content of every outermost box, in order.

    Args:
        text: A response.
    """
    boxes: list[tuple[int, int, str]] = []
    position = unclosed = 0
    while (match := _BOX.search(text, position)) is not None:
        position = match.end()
        if text.startswith("{", position):
            end = find_closing(text, position)
            unclosed += end < 0
            if unclosed > _MOST_UNCLOSED:
                break
            if end < 0:
                continue
            boxes.append((match.start(), end + 1, text[position + 1 : end]))
            position = end + 1
        elif (unbraced := _UNBRACED.match(text, position)) is not None:
            boxes.append((match.start(), unbraced.end(), unbraced[0]))
            position = unbraced.end()
    return boxes


def boxed(text: str, *, is_gold: bool = False, must_agree: bool = False) -> str | None:
    """Give the content of the last box, or of the boxes that are one list.

    Args:
        text: A response.
        is_gold: Whether all boxes are one list, as in a gold.
        must_agree: Whether several different boxes are no answer.
    """
    boxes = find_boxes(text)
    if not boxes:
        return None
    if must_agree and len({"".join(content.split()) for _, _, content in boxes}) > 1:
        return ""
    run = boxes if is_gold else _last_run(text, boxes)
    contents = list(dict.fromkeys(unfence(content) for _, _, content in run))
    return ", ".join(contents[-_MOST_BOXES:])


def _last_run(text: str, boxes: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    run = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        between = text[box[1] : run[0][0]]
        if len(between) > _JOINER_CHARS:
            break
        if _BETWEEN.fullmatch(" ".join(_MATH_MARKS.sub(" ", between).split())) is None:
            break
        run.insert(0, box)
    return run


def unbox(text: str) -> str:
    """Replace boxes inside an answer by their contents.

    Args:
        text: One answer.
    """
    for _ in range(4):
        boxes = find_boxes(text)
        if not boxes:
            break
        for start, end, content in reversed(boxes):
            text = (
                f"{text[:start]}{{{content}}}{text[end:]}"
                if "," not in content
                else f"{text[:start]}{content}{text[end:]}"
            )
    return text


def extract(response: str, *, is_strict: bool, must_agree: bool) -> Candidate | None:
    """Find the answer.

    Args:
        response: A response, already unified and cleaned.
        is_strict: Whether only boxes, tags and bare answers count.
        must_agree: Whether several different boxes are no answer.

    Raises:
        LimitError: The answer is longer or deeper than the grader reads.
    """
    content = boxed(response, must_agree=must_agree)
    if content is not None:
        return Candidate(read(unbox(content)), "box") if content.strip() else None
    tagged = _tagged(response)
    if tagged is not None:
        return Candidate(read(tagged), "tag")
    whole = _read_whole(response)
    if whole is not None and whole.is_math:
        return Candidate(whole, "bare")
    found = None if is_strict else _marked(response) or _from_prose(response)
    if found is not None:
        return found
    return None if whole is None else Candidate(whole, "words")


def _tagged(response: str) -> str | None:
    opening, closing = _TAGS
    end = response.rfind(closing)
    start = response.rfind(opening, 0, end) if end >= 0 else -1
    if start >= 0:
        return response[start + len(opening) : end]
    hashes = _HASHES.findall(response)
    return hashes[-1] if hashes else None


def _read_whole(response: str) -> Reading | None:
    text = _ADVERB.sub("", response, count=1).strip()
    if not text:
        return None
    if len(text) > ANSWER_CHARS:
        if _is_prose(text):
            return None
        raise LimitError(f"an answer of more than {ANSWER_CHARS} characters")
    return read(text)


def _marked(response: str) -> Candidate | None:
    """Read what stands behind the last "the answer is"; if there is one, nothing before it counts."""
    response = response[-_TAIL_CHARS:]
    markers = [marker.end() for marker in _MARKER.finditer(response)][-3:]
    rests = [_CLOSING.sub("", response[end:].lstrip(" *\n")) for end in markers]
    for rest in reversed(rests):
        reading = _first_reading(rest.strip(" *\n"))
        if reading is not None:
            return Candidate(reading, "marker")
    if not rests:
        return None
    return _from_prose(rests[-1]) or Candidate(read(rests[-1].strip(" *\n").split("\n", 1)[0]), "words")


def _first_reading(rest: str) -> Reading | None:
    line = rest.strip()[:ANSWER_CHARS]
    sentence = _SENTENCE.split(line, maxsplit=1)[0]
    texts = [line, line.split("\n", 1)[0], sentence]
    stated = _STATED.fullmatch(sentence)
    texts += [stated[1]] if stated is not None else []
    for text in dict.fromkeys(texts):
        reading = _try_reading(text)
        if reading is not None:
            return reading
    formulas = _FORMULA.findall(sentence)
    if len(formulas) == 1:
        return _try_reading("".join(formulas[0]))
    return _first_number(sentence) or _wordy(sentence)


def _try_reading(text: str) -> Reading | None:
    try:
        reading = read(text)
    except MathError:
        return None
    return reading if reading.is_math else None


def _first_number(sentence: str) -> Reading | None:
    number = _NUMBER.search(sentence) if _OPENS_AS_PROSE.match(sentence) else None
    return None if number is None or _CODE.search(sentence) else _try_reading(number[0])


def _wordy(sentence: str) -> Reading | None:
    return read(sentence) if 0 < len(sentence.split()) <= _FEW_WORDS else None


def _is_prose(text: str) -> bool:
    return any(word not in _NO_PROSE for word in _PROSE.findall(text)) or _FOREIGN.search(text) is not None


def _from_prose(response: str) -> Candidate | None:
    tail = response[-_TAIL_CHARS:]
    if not _is_prose(tail) or _CODE.search(tail):
        return None
    strong = [_try_reading(content.split(": ")[-1]) for content in _STRONG.findall(tail)[-1:]]
    if strong and strong[0] is not None:
        return Candidate(strong[0], "formula")
    for sentence in reversed(_SENTENCE.split(tail)):
        candidate = _last_value(sentence)
        if candidate is not None:
            return candidate
    return None


def _last_value(sentence: str) -> Candidate | None:
    """Read what stands last in a sentence: a formula, or a number outside of formulas."""
    formulas = list(_FORMULA.finditer(sentence))
    end = formulas[-1].end() if formulas else 0
    numbers = list(_NUMBER.finditer(sentence, end))
    reading = (_read_stated(sentence, end) or _try_reading(numbers[-1][0])) if numbers else None
    if reading is not None:
        return Candidate(reading, "number")
    for formula in reversed(formulas[-3:]):
        reading = _read_formula("".join(filter(None, formula.groups())))
        if reading is not None:
            return Candidate(reading, "formula")
    return None


def _read_stated(sentence: str, end: int) -> Reading | None:
    """Read what a sentence says that something is, if it says so behind its last formula."""
    stated = _STATED.fullmatch(sentence)
    return None if stated is None or stated.start(1) < end else _try_reading(stated[1])


def _read_formula(text: str) -> Reading | None:
    reading = _try_reading(text)
    is_short = len(text) <= _JOINER_CHARS and len(plain(text).split()) <= _FEW_WORDS
    return read(text) if reading is None and is_short and not _CODE.search(text) else reading
