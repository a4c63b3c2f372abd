r"""What a response asserts: without what it denies, asks, supposes, quotes or takes back, or repeats of the prompt. Pure.

The reader of statements (`ors_server.rewards.reading.statements`) says which values count; here they are found,
and the response is cut down to what the search for the answer may read.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ors_server.rewards.math.answer_values import disjoint, find_values
from ors_server.rewards.math.boxes import find_boxes
from ors_server.rewards.math.echo import Prompt, is_echo, is_sentence_of
from ors_server.rewards.math.limits import ANSWER_CHARS
from ors_server.rewards.reading.statements import Polarity, Span, Statement, keep_asserted, read_statements

_SAYING: Final = re.compile(
    r"(?<![^\s(\[*_\"'}$>-])(?!(?:and|or|sin|cos|tan|cot|sec|csc|log|ln|exp|gcd|lcm|mod|max|min|det|pi)\b)[A-Za-z]{2,}(?=[\s,.;:!?)'\"*<-]|$)|"
    r"[?#]|</|\\(?:boxed|fbox)|[^\x00-\x7f]"
)
"""What a text has that may say something about its values."""
_RELATIONS: Final = frozenset({"ne", "neq", "not", "notin", "le", "leq", "ge", "geq", "lt", "gt", "<", ">", "≠", "≤", "≥"})
_RELATION: Final = re.compile(r"[<>≠≤≥]|\\(?:neq?|notin|not|leq?|geq?|lt|gt)(?![A-Za-z])")
_LABEL: Final = re.compile(r"(?<![\w'])(?:[B-HJ](?![\w'])|[AI](?![\w'])(?!\s+(?!is\b|was\b|and\b|or\b|because\b|since\b|as\b|but\b)[a-z]))")
_TAIL_CHARS: Final = 8_000
_KEY: Final = re.compile(r"""["']([\w -]{1,40})["']\s{0,4}:\s{0,4}["'\[{]{0,3}\s{0,4}\Z""")
_ANSWER_KEY: Final = re.compile(r"(?:final[_ ]?)?(?:answer|result|solution|value|number)", re.IGNORECASE)
_KEY_CHARS: Final = 60
_SENTENCE_END: Final = re.compile(r"[.?!](?=\s|$)|\n")
_SENTENCE_CHARS: Final = 1_000

Same: TypeAlias = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Question:
    """What a response answers."""

    gold: str
    """The gold answer, whose words deny nothing."""
    prompt: Prompt | None = None
    """The text of the task: its formulas and sentences are no answer."""
    is_list: bool = False
    """Whether the gold answer has several values, which "or" may join."""
    must_agree: bool = False
    """Whether boxes that the response takes back stay, so that they disagree."""
    is_same: Same | None = None
    """Whether two texts are one value."""
    is_closed: bool = True
    """Whether the gold answer is mathematics, so that words around a value are a sentence about it."""


def asserted_text(response: str, question: Question) -> str:
    """Return a response without the values that it does not assert as its answer."""
    prompt = question.prompt
    if _SAYING.search(response) is None:
        return "" if prompt is not None and is_echo(response, prompt, question.gold) else response
    boxes = [(start, end) for start, end, _ in find_boxes(response)]
    if boxes:
        statements = _read(response, boxes, question, prompt)
        if question.must_agree:
            statements = [statement for statement in statements if statement.polarity is not Polarity.RETRACTED]
        response = keep_asserted(response, statements)
        if any(statement.polarity is Polarity.ASSERTED for statement in statements):
            return response
    start = max(0, len(response) - _TAIL_CHARS)
    spans = _with_gold(response, find_values(response, start), question.gold)
    return keep_asserted(response, _read(response, spans, question, prompt))


def _read(text: str, spans: list[Span], question: Question, prompt: Prompt | None) -> list[Statement]:
    statements = read_statements(
        text, spans, neutral=_words(question.gold), takes_alternatives=question.is_list, is_same=question.is_same, is_closed=question.is_closed
    )
    if '":' in text or '" :' in text or "':" in text:
        statements = [_without_other_field(text, statement) for statement in statements]
    if prompt is None:
        return statements
    return [_without_echo(text, statement, prompt, question.gold) for statement in statements]


def _without_other_field(text: str, statement: Statement) -> Statement:
    """Take the value of a field of JSON for no answer, unless the field is named so."""
    field = _KEY.search(text[max(0, statement.start - _KEY_CHARS) : statement.start])
    if field is None or statement.polarity is not Polarity.ASSERTED or _ANSWER_KEY.fullmatch(field[1].strip()):
        return statement
    return replace(statement, polarity=Polarity.INTERMEDIATE)


def _without_echo(text: str, statement: Statement, prompt: Prompt, gold: str) -> Statement:
    if statement.polarity is not Polarity.ASSERTED:
        return statement
    value = text[statement.start : statement.end]
    if is_echo(value, prompt, gold) or is_sentence_of(_sentence_around(text, statement), prompt):
        return replace(statement, polarity=Polarity.INTERMEDIATE)
    return statement


def _sentence_around(text: str, statement: Statement) -> str:
    before = _SENTENCE_END.split(text[max(0, statement.start - _SENTENCE_CHARS) : statement.start])[-1]
    after = _SENTENCE_END.split(text[statement.end : statement.end + _SENTENCE_CHARS], maxsplit=1)[0]
    return before + text[statement.start : statement.end] + after


def _words(gold: str) -> Collection[str]:
    if len(gold) > ANSWER_CHARS:
        return ()
    words = {word.casefold() for word in re.findall(r"[^\W\d_]+", gold)}
    return words | _RELATIONS if _RELATION.search(gold) else words


def _with_gold(text: str, spans: list[Span], gold: str) -> list[Span]:
    """Add the places of a gold answer in words."""
    bare = gold.strip()
    if len(bare) == 1 and "A" <= bare <= "J":
        return disjoint(sorted([*spans, *(match.span() for match in _LABEL.finditer(text))]))
    if not bare or len(bare) > ANSWER_CHARS or not bare[0].isalpha() or any(char.isdigit() for char in bare):
        return spans
    lowered, sought = text.casefold(), bare.casefold()
    if len(lowered) != len(text):
        return spans
    places = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(sought)}(?!\w)", lowered)][:200]
    return disjoint(sorted([*spans, *places], key=lambda span: (span[0], -span[1])))

