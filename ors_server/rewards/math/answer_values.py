r"""The values of a text that may be answers: boxes, formulas, expressions, numbers. Pure.

Finds where they are; the parser decides what a value means.
"""

import re
from typing import Final

from ors_server.rewards.math.boxes import find_boxes
from ors_server.rewards.reading.polarity import words_of
from ors_server.rewards.reading.sentences import Span

_NUMBER = (
    r"(?:\d{1,3}(?:(?:,|\{,\})\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[ ](?:hundred|thousand|million|billion|"
    r"trillion|dozen)\b)?|\.\d+"
)
_NO_VALUE = (
    r"(?:boxed|fbox|(?:ne|neq|not|notin|le|leq|ge|geq|lt|gt|to|in|degree|ldots|cdots|dots|quad|qquad"
    r"|Rightarrow|rightarrow|"
    r"implies|therefore|approx|left|right)(?![A-Za-z]))"
)
"""Commands that are relations, signs or layout."""
_ARGUMENT = r"\s?\{[^{}\n]{0,120}(?:\{[^{}\n]{0,60}\}[^{}\n]{0,60}){0,4}\}"
_COMMAND = rf"\\(?!{_NO_VALUE})[A-Za-z]{{1,13}}(?:\[[^\[\]\n]{{0,20}}\])?(?:{_ARGUMENT}){{0,2}}"
_LETTER = r"[A-Za-z](?![A-Za-z'’])"
_GROUP = (
    r"(?![(\[{][^()\[\]{}\n]{0,80}(?<![\\A-Za-z])[A-Za-z]{2,}[\s.,):;])"  # no words
    r"[(\[{][^()\[\]{}\n\"]{0,80}(?:[(\[{][^()\[\]{}\n]{0,40}[)\]}][^()\[\]{}\n]{0,40}){0,3}[)\]}]"
)
_CALL = (
    r"\\?(?:sin|cos|tan|cot|sec|csc|log|ln|exp|gcd|lcm|max|min|det|arcsin|arccos|"
    r"arctan)(?:[_^](?:\{[^{}\n]{0,20}\}|\w))?[ ]{0,2}(?=[\d\\({])"
)
_ATOM = rf"(?:{_CALL}|{_NUMBER}|{_COMMAND}|(?:\\left[ ]?)?{_GROUP}|{_LETTER})"
_SIGN = (
    r"(?:[-+*/^_=<>!|%°']|x(?=[ ]?10(?!\d))|:(?! )|\\(?:cdot|times|div|pm|mp|ne|neq|le|leq|ge|geq|approx|"
    r"equiv|in)(?![A-Za-z]))"
)
_EXPRESSION: Final = re.compile(
    rf"(?<![A-Za-z0-9_\\.'’])(?:[-+][ ]?)?(?:[$€£]?(?:{_NUMBER})|{_CALL}(?={_ATOM})|{_COMMAND}|"
    rf"{_LETTER}(?=[ ]{{0,3}}(?:[=<>^_*/+(]|\\(?:ne|le|ge|in|neq|leq|geq|equiv|approx)(?![A-Za-z])))|"
    rf"(?:\\left[ ]?)?{_GROUP})"
    rf"(?:[ ]{{0,3}}(?:{_SIGN}[ ]{{0,3}}){{1,2}}{_ATOM}|{_ATOM}(?![a-z]{{2}})|[!%°'])*"
)
_DASHED: Final = re.compile(r"[ ](?:-|\\to)[ ](?=\$?\d[\d.,]*[ ][a-z]{2,})")
"""A dash between two sentences, in front of a number and a word; not a minus sign."""
_FORMULA: Final = re.compile(
    r"\$\$(.{1,2000}?)\$\$|\$(?![\s$])([^$\n]{1,1000}?)(?:(?<![\s\\])|(?<=\\degree\s))\$(?!\d)|"
    r"\\\(((?:(?!\\\().){1,2000}?)\\\)|"
    r"\\\[((?:(?!\\\[).){1,2000}?)\\\]|\\begin\{(?:[pbvBV]?matrix|array|"
    r"cases)\}.{1,2000}?\\end\{(?:[pbvBV]?matrix|array|cases)\}|\\begin\{(align|equation|gather|"
    r"multline)(\*?)\}(.{1,2000}?)\\end\{\5\6\}",
    re.DOTALL,
)
_EXCLAIMED: Final = re.compile(r"\s+[A-Z]|\s*\Z")
_LONE_LETTER: Final = re.compile(r"(?:\$|\\\()\s*[A-Za-z]\s*(?:\$|\\\))")
"""A letter alone, which a sentence is about."""
_UNITS = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_SPELLED: Final = re.compile(
    rf"(?<![\w-])(?:minus |negative )?(?:(?:{_TENS})(?:[- ](?:{_UNITS}))?|{_TEENS}|two|three|four|five|"
    rf"six|seven|eight|nine|"
    rf"(?:a|one)(?=[- ](?:hundred|thousand|million)))(?:(?:[- ]| and )(?:hundred|thousand|million|{_UNITS}|"
    rf"{_TEENS}|{_TENS}))*(?![\w-])",
    re.IGNORECASE,
)
_SPELLED_PARTS: Final = words_of(
    "two three four five six seven eight nine ten eleven twelve teen twenty thirty forty fifty hundred "
    "thousand million"
)
"""Every number in words has one of these in it, in small letters."""
_FEW: Final = re.compile(rf"(?:{_UNITS}|ten|eleven|twelve)", re.IGNORECASE)
_STATING: Final = re.compile(
    r"(?:(?<![\w'])(?:is|are|was|were|be|it's|that's|equals?|makes?|gives?|gets?|got|has|have|not"
    r"|but|or|leaves?|"
    r"answer|says?|said|than|exactly)|n't|[:=.!?\n\u2013\u2014*(]|\A)\s{0,3}\Z"
)
_COUNTED: Final = re.compile(
    r"\s+(?:\w+ )?(?:sides?|values?|roots?|solutions?|candidates?|cases?|ways?|steps?|parts?"
    r"|methods?|numbers?|answers?|"
    r"options?|possibilities|readings?|approaches|terms?|factors?|equations?|times)\b"
)
_NEAR_CHARS: Final = 12


def find_values(text: str, *, has_factorials: bool = True) -> list[Span]:
    """Return where the formulas, boxes, expressions and numbers of a text are, in order.

    Without `has_factorials` an exclamation mark at the end of a sentence is not part of a number.
    """
    spans: list[Span] = []
    position = 0
    for opening, closing in _formulas(text):
        spans += _plain_values(text, position, opening, has_factorials=has_factorials)
        if _LONE_LETTER.fullmatch(text, opening, closing) is None:
            spans.append((opening, closing))
        position = closing
    spans += _plain_values(text, position, len(text), has_factorials=has_factorials)
    few = [span for span in spans if text[span[0]].isalpha() and _FEW.fullmatch(text, *span) is not None]
    if few and len(few) < len(spans):
        counting = {  # "the two sides agree"
            (start, end)
            for start, end in few
            if _STATING.search(text[max(0, start - _NEAR_CHARS) : start]) is None
            or _COUNTED.match(text, end) is not None
        }
        spans = [span for span in spans if span not in counting]
    return spans


def _formulas(text: str) -> list[Span]:
    spans = [
        match.span()
        for match in _FORMULA.finditer(text)
        if "boxed" not in match[0] and "fbox" not in match[0]
    ]
    spans += [(opening, closing) for opening, closing, _ in find_boxes(text)]
    merged: list[Span] = []
    for opening, closing in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not merged or opening >= merged[-1][1]:
            merged.append((opening, closing))
    return merged


def _plain_values(text: str, start: int, end: int, *, has_factorials: bool) -> list[Span]:
    spans: list[Span] = []
    position = start
    may_dash = " - " in text or " \\to " in text
    while position < end and (match := _EXPRESSION.search(text, position, end)) is not None:
        opening, closing = match.span()
        dash = _DASHED.search(text, opening) if may_dash else None
        if dash is not None and dash.start() < closing:
            closing = dash.start()
        written = text[opening:closing].rstrip()
        if written.endswith("!") and not has_factorials and _EXCLAIMED.match(text, opening + len(written)):
            written = written[:-1]
        closing = opening + len(written)
        if closing <= opening:
            position = match.end()
            continue
        if any(char.isdigit() for char in written) or "\\" in written or "=" in written:
            spans.append((opening, closing))
        position = closing
    if any(map(text[start:end].lower().__contains__, _SPELLED_PARTS)):
        spans += [match.span() for match in _SPELLED.finditer(text, start, end)]
    return disjoint(sorted(spans))


def disjoint(spans: list[Span]) -> list[Span]:
    """Leave out spans that overlap an earlier one; the spans are sorted."""
    chosen: list[Span] = []
    for span in spans:
        if not chosen or span[0] >= chosen[-1][1]:
            chosen.append(span)
    return chosen
