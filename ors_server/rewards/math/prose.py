"""Answers in running text: after "the answer is", in the last emphasis, formula or number.

Conventions:

* the text after the last "the answer is" (a heading "Answer", "Answer:", "答案:") is the answer, and the text
  before it is ignored;
* formulas side by side, joined by nothing but a comma, "and" or "or", are one list;
* a line that is mathematics, as a whole or from one of its words on, is parsed whole: no number is ever taken
  out of a formula, with or without dollar signs;
* words before a number, and units after it, belong to the sentence.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

from ors_server.rewards.math.limits import ANSWER_CHARS, MathError
from ors_server.rewards.math.normalise import plain
from ors_server.rewards.math.parsed_answer import ParsedAnswer, read
from ors_server.rewards.math.token_names import FUNCTIONS, GREEK
from ors_server.rewards.math.units import WORDS
from ors_server.rewards.reading.polarity import words_of

Found = tuple[ParsedAnswer, Literal["marker", "formula", "number", "words"]]
_MARKER: Final = re.compile(
    r"(?:(?:final[ \t]+)?answer[ \t]{0,3}(?:\([^()\n]{1,40}\))?[ \t*_]{0,6}(?:"
    r"(?:to|for|of)[ \t][^.:?!\n]{1,80}?[ \t]is\b|is\b|(?:would|must|should) be\b|equals\b|:|=|"
    r"(?=\$|\\\(|\\\[))|"
    r"(?:final\s+)?result\s*(?:is|:)|"
    r"(?:\A|(?<=\n))[ \t#*_]{0,8}(?:the )?(?:final )?answer[ \t#*_]{0,8}(?=\n)|"
    r"réponse(?:\s+est|\s*:)|respuesta(?:\s+es|\s*:)|resposta(?:\s+é|\s*:)|risposta(?:\s+è|\s*:)|"
    r"antwort(?:\s+ist|\s*:)|ответ\s*:|답\s*:|答案\s*(?:是|为|為|:))[ \t*_]{0,8}:?",
    re.IGNORECASE,
)
_CUE: Final = re.compile(
    r"answer|antwort|result|répon|respuesta|resposta|risposta|ответ|답|答案", re.IGNORECASE
)
"""The beginning of every marker; most answers have none."""
_CLOSING: Final = re.compile(r"\.? {0,3}I hope (?:it|this) is correct.*|\n[ \t]{0,8}\n.*", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?:(?<!\\)[.?]|(?<=[A-Za-z]{2})!)(?=\s|$|\*)|\n")
_STATED: Final = re.compile(r".*(?:\b(?:is|are|be|equals|becomes)\b|=\s|:\s|是|为|為)\s*(.+)", re.DOTALL)
_NAMED: Final = re.compile(
    r"\s*(?:(?:so|thus|hence|therefore),? )?(.+?) is the (?:final |correct )?answer", re.IGNORECASE
)
_FORMULA: Final = re.compile(
    r"\$\$(.{1,2000}?)\$\$|\$([^$]+)\$|\\\(((?:(?!\\\().)+?)\\\)|\\\[((?:(?!\\\[).)+?)\\\]", re.DOTALL
)
_JOINER: Final = re.compile(r"\s*(?:[,;]|and\b|or\b|&|、|和|或)(?:\s*(?:,|and\b|or\b))?\s*", re.IGNORECASE)
_STRONG: Final = re.compile(r"\*\*([^*\n]+)\*\*")
_STRONG_END: Final = re.compile(r"\*\*(?=[\s.,;:!?]|\Z)")
_HEADING: Final = re.compile(
    r"\A\s*(?:\(?[\dA-Za-z]{1,3}[.)]|.*:|(?:step|part|case|problem)\b.*)\s*\Z", re.IGNORECASE
)
_NUMBER: Final = re.compile(
    r"(?<![A-Za-z0-9_.,^{/\\])(?:(?<![0-9)\]}] )(?<![A-Za-z0-9)\]}])[-+])?[$€£]?"
    r"(?:\\d?frac\{[^{}]+\}\{[^{}]+\}|(?:\d{1,3}(?:(?:,|\{,\})\d{3})+(?!\d)|"
    r"\d+)(?:\.\d+)?(?:\s*/\s*\d+)?)(?:\s*\\?%)?"
    r"(?!\s*(?:[\^_!*(\[{+×÷·<>≤≥/=]|\\(?!\)|\]|%|\\|text|mbox|mathrm|,|;|!|:|\ ))|"
    r"[A-Za-z0-9]*\d|\.\d|\s*-\s?[\d\\(])"
)
_GLUED_UNIT: Final = re.compile(r"[-+]?[\d.,]+[mgslh](?:\^|\s*$)")
"""A number with the letter of its unit, `5m`, which is a product in a formula."""
_IN_FORMULA: Final = re.compile(r"[\^_*({\[+×÷·<>≤≥/\\-]\s*\Z|\\[A-Za-z]{2,}\s*\Z")
_CODE: Final = re.compile(
    r"__|\((?:True|False|None)\b|\becho\b|\bexec\(|<script|\$\(\(|\bin range\(|\b(?:or|and|not) (?:True|"
    r"False|None)\b|"
    r"\b(?:True|False|None) (?:or|and)\b|\{comment\}|\w\(\)|\w\(['\"]|(?<!\\)\blambda\b[^:\n]{0,40}:|"
    r"\bimport\b|\bopen\(|\)\s{0,3}=>|=>\s{0,3}\{|\b[a-z] => |"
    r"\bfor [A-Za-z_]\w* in (?:[\w.]*[(\[:]|[\w.]+[)\]])"
)
"""Signs of code, whose numbers are not answers."""
_CODE_PARTS: Final = words_of(
    "__ () (' (\" => True False None echo exec( <script $(( range( {comment} lambda import open( for"
)
"""Texts without any of these are not code; the search for them takes a tenth of the pattern's time."""
_NO_PROSE: Final = frozenset(FUNCTIONS) | frozenset(GREEK) | WORDS
_PROSE: Final = re.compile(r"(?<![\\A-Za-z{])([A-Za-z]{2,})(?:['\s,.:]|$)")
_OPENS_AS_PROSE: Final = re.compile(r"[^\W\d_]{2,}[\s,']|(?![A-Za-z])[^\W\d_]{2,}")
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]{2}")
_REMARK: Final = re.compile(
    r",?\s+\(?(?:because|since|as|which|where|when|so|after|by|but|given|if|although|though|"
    r"even though|however|while|whereas|unless|despite|rather than|instead of|not|yet|until|except|"
    r"of (?:a|an|the)|for (?:all|every|any|each|some))\b|\s+\((?=[a-z]{2})"
)
_ASIDE: Final = re.compile(
    r",\s+(?=[A-Za-z]{2,}(?![A-Za-z]*\s?[=<>]))|\s+-\s+(?=[A-Za-z]{2,})|\s\[(?=\d)|\s\("
)
"""A remark behind a comma, a dash or a bracket."""
_START: Final = re.compile(
    r"(?<!\S)(?=[\\($\[{|+\-\d√]|[B-HJ-Zb-z]'?(?:_\S+)?(?:\([^()\s]{1,9}\))?\s*[=<>≤≥+*^-])"
)
_MAX_ANSWER_WORDS: Final = 4
"""Words of an answer in words: "no real solution"."""
_FORMULA_WORDS: Final = 200
"""Characters of an answer in words inside a formula."""
_TAIL_CHARS: Final = 8_000
"""Characters at the end of a text without boxes in which its answer is searched."""
_MAX_SENTENCES: Final = 40
"""Sentences, from the end, in which an answer is searched."""
_MAX_STARTS: Final = 6
"""Words of a sentence from which on it is parsed as mathematics."""


def is_prose(text: str) -> bool:
    """Return whether a text has words that are not mathematics."""
    return any(word not in _NO_PROSE for word in _PROSE.findall(text)) or _FOREIGN.search(text) is not None


def has_code(text: str) -> bool:
    """Return whether a text has signs of code."""
    return any(map(text.__contains__, _CODE_PARTS)) and _CODE.search(text) is not None


def find_marked(response: str) -> Found | None:
    """Parse the text after the last "the answer is"; if there is one, the text before it is ignored."""
    rests = marked_texts(response)
    # From the last marker: an earlier one may belong to a draft.
    for rest in reversed(rests):
        reading = _first_reading(rest)
        if reading is not None:
            return reading, "marker"
    if not rests:
        return None
    return find_last(rests[-1]) or (read(rests[-1].split("\n", 1)[0]), "words")


def marked_texts(response: str) -> list[str]:
    """Return the text after each of the last "the answer is", in order, without closing remarks."""
    # The end only: the answer is there, and the patterns are not cheap.
    response = response[-_TAIL_CHARS:]
    if _CUE.search(response) is None:
        return []
    ends = [marker.end() for marker in _MARKER.finditer(response)][-3:]
    return [_without_emphasis(_CLOSING.sub("", response[end:].lstrip(" *_#>\n"))) for end in ends]


def _without_emphasis(text: str) -> str:
    """Remove the end of an emphasis that began before a text, as in `the answer is **5**.`."""
    line, newline, rest = text.strip(" *\n").partition("\n")
    if line.count("**") % 2:
        ends = list(_STRONG_END.finditer(line))
        line = line[: ends[-1].start()] + line[ends[-1].end() :] if ends else line
    return line + newline + rest


def stated_texts(response: str) -> list[str]:
    """Return the texts that a response states last: after "the answer is", emphasised, as a sentence."""
    texts: list[str] = []
    # The text after a marker is the statement; the rest is not looked at.
    for rest in marked_texts(response)[-1:]:
        line = rest.split("\n", 1)[0]
        return [line, _SENTENCE.split(line, maxsplit=1)[0]]
    tail = response[-_TAIL_CHARS:]
    texts += _STRONG.findall(tail)[-1:]
    for sentence in list(_last_sentences(tail))[:1]:
        stated = _STATED.fullmatch(sentence)
        formulas = _FORMULA.findall(sentence)[-1:]
        named = _NAMED.match(sentence)
        texts += [named[1]] if named else []
        texts += [sentence, *([stated[1]] if stated else []), *("".join(formula) for formula in formulas)]
    return texts


def _first_reading(rest: str) -> ParsedAnswer | None:
    line = rest.strip()[:ANSWER_CHARS]
    sentence = _SENTENCE.split(line, maxsplit=1)[0]
    # From the longest reading to the shortest: a value must not lose its unit or its other members.
    texts = [line, line.split("\n", 1)[0], sentence, _REMARK.split(sentence, maxsplit=1)[0]]
    texts.append(_ASIDE.split(sentence, maxsplit=1)[0])
    stated = _STATED.fullmatch(sentence)
    formulas = list(_FORMULA.finditer(sentence))
    # A statement inside of a formula is not the sentence's.
    is_outside = stated is not None and (not formulas or stated.start(1) >= formulas[-1].end())
    texts += [stated[1]] if stated is not None and is_outside else []
    run = _opening_run(sentence)
    texts += [] if run is None else [run]
    for text in dict.fromkeys(texts):
        reading = try_reading(text)
        if reading is not None:
            return reading
    # Formulas side by side are one list, even if no text around them parses.
    if run is not None:
        return _read_formula(run)
    if len(formulas) == 1:
        return try_reading("".join(filter(None, formulas[0].groups())))
    number = _NUMBER.search(sentence) if _OPENS_AS_PROSE.match(sentence) else None
    if number is not None and not has_code(sentence) and (reading := try_reading(number[0])) is not None:
        return reading
    return read(sentence) if 0 < len(sentence.split()) <= _MAX_ANSWER_WORDS else None


def _opening_run(sentence: str) -> str | None:
    """Return the formulas side by side with which a sentence begins."""
    first = _FORMULA.match(sentence)
    if first is None:
        return None
    end = first.end()
    while (joiner := _JOINER.match(sentence, end)) and (following := _FORMULA.match(sentence, joiner.end())):
        end = following.end()
    return sentence[:end]


# The same texts are tried for the candidates and for the verdict.
@lru_cache(maxsize=512)
def try_reading(text: str) -> ParsedAnswer | None:
    """Parse a text; `None` if it is code, or no mathematics."""
    if has_code(text):
        return None
    try:
        reading = read(text)
    except MathError:
        return None
    return reading if reading.is_math else None


def find_last(response: str) -> Found | None:
    """Parse the last emphasised text, or the last value of the last sentence that has one."""
    tail = response[-_TAIL_CHARS:]
    # A text without words is a formula, and has been parsed as a whole.
    if not is_prose(tail):
        return None
    strong = [
        try_reading(content.split(": ")[-1])
        for content in _STRONG.findall(tail)[-1:]
        if not _HEADING.match(content)
    ]
    if strong and strong[0] is not None:
        return strong[0], "formula"
    for sentence in _last_sentences(tail):
        value = _last_value(sentence)
        if value is not None:
            return value
    return None


def _last_sentences(tail: str) -> Iterator[str]:
    sentences = [sentence for sentence in _SENTENCE.split(tail) if sentence.strip()]
    yield from reversed(sentences[-_MAX_SENTENCES:])


def _last_value(sentence: str) -> Found | None:
    """Parse the last formula of a sentence, or the last number outside of formulas."""
    if has_code(sentence):
        return None
    # No number is ever taken out of a formula.
    if not is_prose(sentence) and (reading := try_reading(sentence)) is not None:
        return reading, "formula"
    formulas = list(_FORMULA.finditer(sentence))
    end = formulas[-1].end() if formulas else 0
    numbers = list(_NUMBER.finditer(sentence, end))
    if numbers:
        # The statement first, then the longest end of the sentence that is mathematics, then the bare number.
        reading = (
            _read_stated(sentence, end)
            or _read_from_word(sentence[end:])
            or _read_number(sentence, numbers[-1])
        )
        if reading is not None:
            return reading, "number"
    elif not formulas and (reading := _read_from_word(sentence)) is not None:
        return reading, "formula"
    return _last_formula(sentence, formulas)


def _last_formula(sentence: str, formulas: list[re.Match[str]]) -> Found | None:
    # A few formulas from the end: the last ones may be remarks.
    for last in range(len(formulas) - 1, max(len(formulas) - 4, -1), -1):
        first = last
        while first and _JOINER.fullmatch(sentence, formulas[first - 1].end(), formulas[first].start()):
            first -= 1
        reading = _read_formula(sentence[formulas[first].start() : formulas[last].end()])
        if reading is not None:
            return reading, "formula"
    return None


def _read_stated(sentence: str, end: int) -> ParsedAnswer | None:
    """Parse the value that a sentence states after its last formula, if it states one."""
    stated = _STATED.fullmatch(sentence)
    return None if stated is None or stated.start(1) < end else try_reading(stated[1])


def _read_from_word(text: str) -> ParsedAnswer | None:
    """Parse a text from one of its words on: `we find that x = 2 or x = 3`."""
    # The earliest start has the most of the statement.
    for start in list(_START.finditer(text))[:_MAX_STARTS]:
        rest = text[start.start() :]
        reading = try_reading(rest)
        if reading is not None and not _GLUED_UNIT.match(rest):
            return reading
    return None


def _read_number(sentence: str, number: re.Match[str]) -> ParsedAnswer | None:
    # A number behind an operator belongs to a formula that could not be parsed.
    is_in_formula = _IN_FORMULA.search(sentence[max(number.start() - 20, 0) : number.start()])
    return None if is_in_formula else try_reading(number[0])


def _read_formula(text: str) -> ParsedAnswer | None:
    reading = try_reading(text)
    is_short = len(text) <= _FORMULA_WORDS and len(plain(text).split()) <= _MAX_ANSWER_WORDS
    return read(text) if reading is None and is_short and not has_code(text) else reading
