r"""What a response asserts as its answer. Pure.

Values that the response denies, asks, supposes, quotes, takes back, or repeats from the prompt are left out.
The reader of statements (`ors_server.rewards.reading.statements`) says which values count; here they are
found, and the response is cut down to what the search for the answer may read.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from ors_server.rewards.math.answer_values import disjoint, find_values
from ors_server.rewards.math.boxes import find_boxes
from ors_server.rewards.math.echo import Prompt, is_echo, is_sentence_of
from ors_server.rewards.math.limits import ANSWER_CHARS
from ors_server.rewards.math.prose import has_code, try_reading
from ors_server.rewards.math.token_names import FUNCTIONS, GREEK
from ors_server.rewards.math.transcript import without_programs
from ors_server.rewards.math.units import CURRENCY_CODES, WORDS
from ors_server.rewards.reading.polarity import Polarity, classes_of, words_of
from ors_server.rewards.reading.sentences import Span
from ors_server.rewards.reading.statements import FIELD_KEY, Statement, keep_asserted, read_statements

_SAYING: Final = re.compile(
    r"\A\s*over\b|[?#¬]|!=|=/=|(?:->|=>|\\to(?![A-Za-z]))\s*[$\d-]|</|\\(?:boxed|fbox)|[^\x00-\x7f]"
)
"""What a text has that may say something about its values."""
_WORD: Final = re.compile(r"(?<![\\A-Za-z0-9_^{])[A-Za-z]{2,}(?![A-Za-z])")
_SIGNS_BEHIND: Final = tuple("(_^{+*/=")
"""Signs behind the name of a function or a product of letters."""
_PLAIN: Final = (
    WORDS
    | CURRENCY_CODES
    | frozenset(FUNCTIONS)
    | frozenset(GREEK)
    | {"and", "or", "times", "percent", "dx", "dy", "dz", "dt", "du", "dr", "over", "mod"}
)
"""Words of mathematics and quantities, which say nothing about them."""
_NUMBERING: Final = re.compile(
    r"\s*(?:\([b-hivx]{1,4}\)|[b-h]\)|(?:Q|Ex|No|Nr|Problem|Question|Exercise|Task)\.?\s?\d{1,3}\s?[.:)])"
    r"\s+(?=\S)(?![-+*/^=]|\\(?:cdot|times|div|pm|[gl]eq?|in)\b)"
)
"""The number of an exercise in front of its answer; "(x) + 1" is a sum."""
_CUE: Final = re.compile(
    r"\s*(?:(?:so|thus|hence|therefore),? )?(?:(?:the|my|our) )?(?:final )?(?:answer|result)"
    r"(?: is|:| =|: is) (?![^\n]*(?:[;,]|[.:] ))(?=[^\n]*\s*\Z)",
    re.IGNORECASE,
)
"""The words in front of an answer that is nothing but a value, in one line."""
_MARKED: Final = re.compile(r"\s*(?:<answer>([^<]*)</answer>|\\boxed\{((?:(?!\\boxed)[^\n])*)\})[\s.]*")
"""An answer in its mark, and nothing else."""
_SIMPLE = (
    r"[-+]?\$?\d[\d,]{0,30}(?:\.\d{1,30})?(?:/\d{1,30})?|"
    r"-?\\[dt]?frac\{-?\d{1,30}\}\{\d{1,30}\}"
)
_LAST_LINE: Final = re.compile(
    rf"(?:####[ \t]?(?P<hash>{_SIMPLE})|(?:(?:so|thus|hence|therefore),? )?"
    rf"(?:the|my|our) (?:final )?answer is:? "
    rf"(?:\$?(?P<box>\\boxed\{{(?:{_SIMPLE})\}})\$?|\$?(?P<bare>{_SIMPLE})\$?))\.?\s*\Z",
    re.IGNORECASE,
)
"""A last line that names a number as the answer."""
_UNSETTLING: Final = re.compile(
    r"[?\"#]|\b(?:or|else|otherwise|alternatively|vs|versus|following|below|next|underneath|hereafter)\b",
    re.IGNORECASE,
)
"""Words and signs in front of the last line that may say something about it."""
_COMMENT: Final = re.compile(
    r"\\begin\{comment\}.{0,2000}?\\end\{comment\}|(?m:^[ \t]*%[ \t]+[A-Za-z].*$)", re.DOTALL
)
"""What LaTeX does not print."""
_REFERENCES: Final = re.compile(
    r"(?m:^[ \t]*\[\d{1,3}\](?=[ \t]+[A-Z]))|(?<=[\w*}$)])(?<! is)(?<! are)(?<! be)(?<!als)"
    r"[ \t]\[\d{1,3}\](?![\w({])|"
    r"[ \t]\((?:(?:see|cf\.?) )?(?:p|pp|eq|eqs|fig|sec|ch|ref|line|page|step|note|table|section|chapter|"
    r"exercise|lemma|theorem|figure|equation)\.?[ \t]?\d{1,4}\)|"
    r"[ \t]?[\[(]\d{1,2} (?:points?|marks?|pts?)[\])]"
)
"""References to sources, pages and steps: "42 [7]", "42 (p. 6)"."""
_TWO_WORDS: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,} [A-Za-z]{2,}")
_LINE_CHARS: Final = 200
_NEAR_CHARS: Final = 400
"""Characters in front of the last line that may say something about it."""
_CONJUNCTION: Final = re.compile(r"(?<![\\A-Za-z])(?:[Aa]nd|[Oo]r)(?![A-Za-z])")
_PAIR: Final = 2
_SHORT_WORDS: Final = words_of(
    "is it no if so we at to of be do es ne un il el er in on by as my me he an am us up go or ja "
    "da si en et ou le la de se vs eq pp ch nr tl"
)
"""Words of two letters; other pairs of letters are products."""
_CODE: Final = re.compile(
    r"\b(?:eval|exec|int|float|str|print|assert|return|system|write|input|sum|abs|round|submit)\([^)]|"
    r"\bos\.environ\b|\bSystemExit\b|\bsys\.exit\b|(?-i:\bSELECT) [\d'\"*]|\A\s*\"?\d+\"? ?== ?\"?\d|"
    r"(?m:^)[ \t>`]*(?:print|echo|return|assert) [\"$'\d]|\(True\b|\(False\b|"
    r"(?-i:\b(?:or|and|not) (?:True|False|None)\b|\b(?:True|False|None) (?:or|and)\b)|<script|\{comment\}|"
    r"\$\(\(|\$\([a-z]{2,} |\bin range\(|"
    r"\w ?== ?[^#\n]{1,80}#|\breturn True\b|\breturn \w+\s+#|"
    r"\blambda \w|\bdef \w+\(|\bimport \w|__\w+__|;\s*--|\bselect\b.{1,40}\bfrom\b|"
    r"(?:\A|\w)['\"]\s*or\s+['\"]?[\w.]+['\"]?\s*=|;\s*(?:drop table|return)\b|"
    r"(?-i:\bUPDATE \w+ SET|\bINSERT INTO|\bDELETE FROM)\b|\bassert \w+\(|"
    r"`\s*echo|<img\b|/\*|\\iffalse|\bcurl -|\btry:\s*\n\s|\bclass \w+:|\bself\b,|"
    r"\bSYSTEM:|\[SYSTEM\]|\breward ?= ?[\d.]|\{\{ ",
    re.IGNORECASE,
)
"""Code around a value, which does not state it."""
_CODE_PARTS: Final = words_of(
    "al( ec( nt( at( tr( rt( rn( em( te( ut( um( bs( nd( it( ge( print echo return assert true false none "
    "<script {comment} $( == lambda def import __ -- select <img /* \\iffalse curl try: class self system: "
    "{{ environ systemexit sys.exit drop reward update insert delete"
) | frozenset({"' or ", '" or '})
"""Lower case, with the ends of common function names: a text without any of these is not code."""
_CODE_CALLS: Final = frozenset(part for part in _CODE_PARTS if "(" in part)
_CODE_WORDS: Final = _CODE_PARTS - _CODE_CALLS
_OPTION: Final = re.compile(r"(?<!\w)\(?([A-E])[).]\s*\$?(?=[-\d\\$(])")
_MIN_OPTIONS: Final = 3
_LIST_NUMBER: Final = re.compile(r"(?m)^[ \t]{0,8}(?:\*\*)?\d{1,3}[.)](?:\*\*)?[ \t]+(?=\S)")
_BOLD_NUMBER: Final = re.compile(r"(?m)^[ \t]{0,8}\*\*\d{1,3}[.)]\*\*[ \t]+(?=\S)")
_MIN_ITEMS: Final = 2
_CHATTER: Final = (
    r"(?!\s+(?:btw|omg|lol|lmao|imo|imho|tbh|haha|thx|pls|fyi|bro|guys|folks|everyone|yeah|right|now|that|then|again|"
    r"once|when|after|because|since|here|today|instead|indeed|already|altogether|too|either|isn|for|while|if|en|und|et|och|og|ve|"
    r"ist|est|is|was|are|were|did|does|do|be|has|have|had|will|would|can|could|should|must)\b)"
)
"""No unit follows in front of a word of talk."""
_UNIT_TEXT: Final = re.compile(
    rf"{_CHATTER}(?:\s*\\degree\s?[CFK]?(?![A-Za-z])|\s*\\?[%°]|\s?[ap]\.?\s?m\b\.?|"
    rf"(?:{_CHATTER}\s+[A-Za-z]{{2,}}(?![\w'’])|\s+[mgslhtNJWVL](?![A-Za-z])){{1,6}}\s*)"
)
_BOX_CHARS: Final = 2_000
"""Characters in front of the last box in which other values are looked for."""
_RELATIONS: Final = frozenset(
    {
        "<",
        ">",
        "≠",
        "≤",
        "≥",
        *(f"\\{name}" for name in ("ne", "neq", "not", "notin", "le", "leq", "ge", "geq", "lt", "gt")),
    }
)
_RELATION: Final = re.compile(r"[<>≠≤≥]|\\(?:neq?|notin|not|leq?|geq?|lt|gt)(?![A-Za-z])")
_ENVIRONMENT: Final = re.compile(r"\\(?:begin|end)\{[a-z]{1,12}\*?\}")
_EMPTY_TAG: Final = re.compile(r"<(answer|final_answer|solution)>\s*</\1>", re.IGNORECASE)
"""A tag whose answer was taken back."""
_EXCLAMATION: Final = re.compile(r"(?<=[a-z]: )(-?\d[\d.,]*)!(?=\s+[A-Z][a-z']*\s)")
_STYLE: Final = re.compile(r"\\(?:display|text|script)style(?![A-Za-z])\s*")
_ROW: Final = re.compile(r"\\\\|\n")
_EVALUATING: Final = re.compile(r"\\(?:sum|int|prod|lim|iint|oint)(?![A-Za-z])")
"""Commands of a left side that the right side evaluates."""
_MAX_SPREAD: Final = 8
"""Values of a list that is spread over sentences."""
_UNKNOWN: Final = re.compile(r"[A-Za-z](?:_\w)?")
_SCRIPT: Final = re.compile(r"[_^](?:\{[^{}]*\}|\w)")
_LABEL: Final = re.compile(
    r"(?<![\w'])(?:[B-HJ](?![\w'])|[AI](?![\w'])(?!\s+(?!is\b|was\b|and\b|or\b|because\b|since\b|as\b|"
    r"but\b)[a-z]))"
)
_ZERO: Final = re.compile(r"(?:\b(?:is|are|was|equals|be|it's|that's)|[:=]|\A)\s{1,2}(zero)\b", re.IGNORECASE)
_STATING: Final = re.compile(
    r"\b(?:(?:falls?|fell|is|was) on|is|are|was|were|be|has|have|had|it's|that's|there's|exists?|but|thus|"
    r"hence|therefore|becomes)\s+"
    r"(?:(?:an?|the|thus|therefore|hence|always|indeed|then|simply)\s+){0,2}[\"'*]{0,3}\Z",
    re.IGNORECASE,
)
"""The words in front of a gold answer in words."""
_SUBJECT: Final = re.compile(
    r"(?:\A|[.\n,]\s{0,3})(?:(?:so|thus|hence|therefore),?\s)?(?:the|this|it|that)(?:\s\w+){0,4}\s\Z",
    re.IGNORECASE,
)
"""The subject of a gold answer that is a verb: "The series diverges"."""
_BEHIND_WORDS: Final = re.compile(
    r"[\"'*$)]{0,3}\s{0,3}(?:[.!]?\s{0,3}\Z|[.!]?\n|,?\s(?:because|since|as|for)\b|,\snot\b)", re.IGNORECASE
)
_LEAD_CHARS: Final = 80
_TAIL_CHARS: Final = 8_000
_HAS_NUMBER: Final = re.compile(r"\d|[a-z]{3}", re.IGNORECASE)
_JOINER: Final = re.compile(
    r"[\s*_]*(?:[,;]|and\b|or\b|&)?\s*(?:and\b|or\b)?[\s*_]*(?:[A-Za-z]\s*=\s*)?", re.IGNORECASE
)
_BETWEEN_QUANTITIES: Final = re.compile(
    r"\A\s+(?:hours?|minutes?|seconds?|feet|foot|ft|inch|inches|in|h|hrs?|min|dollars|cents|years?|"
    r"months?|weeks?|days?)\b"
)
"""The unit in the middle of "2 hours and 30 minutes"."""
_ANSWER_KEY: Final = re.compile(
    r"selected|chosen|choice|(?:(?:final|right|correct)[_ ]?)?(?:answer|result|solution|value|number)|final",
    re.IGNORECASE,
)
_REJECTED_FIELD: Final = re.compile(
    r"[,{]\s*\"(?:not|(?:rejected|discarded|excluded|eliminated|dismissed|wrong|incorrect|ruled[_ ]?out)"
    r"(?:_[a-z_]{1,30})?)\""
    r"\s*:\s*(?:\"[^\"\n]{0,200}\"|-?\d[\d.]{0,40}|\[[^\[\]\n]{0,400}\])",
)
"""A field of JSON with values that were rejected, which takes nothing back of the other fields."""
_JOINED: Final = re.compile(
    r"(?<=[\d$)}\]]),? (?:as well as|along with|together with|and also|and additionally) "
    r"(?=[-\u2212$\\(\d]|[a-z] ?=)"
)
"""Words between two values that are both answers, if the gold answer is a list."""
_FAREWELL: Final = re.compile(
    r"\s*(?:thanks?|i hope|hope|let me know|feel free|have a|happy to|cheers|good luck)\b[^\n\d\\$]{0,160}",
    re.IGNORECASE,
)
"""A last paragraph that says nothing about the problem."""
_KEY_CHARS: Final = 60
_SENTENCE_END: Final = re.compile(r"[.?!](?=\s|$)|\n")
_SENTENCE_CHARS: Final = 300

Same: TypeAlias = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """What a response answers."""

    gold: str
    """The gold answer, whose words deny nothing."""
    prompt: Prompt | None = None
    """The text of the task: its formulas and sentences are not answers."""
    is_list: bool = False
    """Whether the gold answer has several values, which "or" may join."""
    must_agree: bool = False
    """Whether boxes that the response takes back stay, so that they disagree."""
    is_same: Same | None = None
    """Whether two texts are one value."""
    is_closed: bool = True
    """Whether the gold answer is mathematics, so that words around a value are a sentence about it."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a response asserts."""

    text: str
    """The response without the values that it does not assert."""
    answers: tuple[str, ...] | None = None
    """Texts of the last assertion, likeliest first; `None` where the whole text has to be searched."""


def read_assertion(response: str, question: AnsweredQuestion) -> Assertion:
    """Read which values a response asserts, and the last of them, which is its answer."""
    prompt = question.prompt
    response = _clean(response, question)
    # The cheap readings come first: reading all sentences takes about ten times as long.
    if (named := _read_last_line(response, question)) is not None:
        return named
    cue = _CUE.match(response) if prompt is None else None
    rest = "" if cue is None else response[cue.end() :]
    is_single = question.is_list or (" or " not in rest and "(or" not in rest)
    if cue is not None and is_single and _is_plain(rest):
        return Assertion(response)
    if prompt is None and "=" not in question.gold and (side := _derived_side(response)) is not None:
        return Assertion(response, (side,))
    if _is_plain(response) and (_CONJUNCTION.search(response) is None or try_reading(response) is not None):
        return Assertion("" if prompt is not None and is_echo(response, prompt, question.gold) else response)
    searched, _ = without_programs(response)
    assertion = _read_prose(searched, question)
    if searched == response or assertion.answers or assertion.text != searched:
        return assertion
    return Assertion(response)  # nothing but programs, or their output


def _clean(response: str, question: AnsweredQuestion) -> str:
    """Leave out what says nothing about the values: layout, references, exclamations and the like."""
    response = response.replace("\\,", " ")  # a thin space
    if "style" in response:
        response = _STYLE.sub("", response)
    if "comment" in response or "%" in response:
        response = _COMMENT.sub("", response)
    # A gold answer with brackets may itself look like a reference.
    if "[" not in question.gold and ("[" in response or "(" in response):
        response = _REFERENCES.sub("", response)
    if '":' in response:
        response = _REJECTED_FIELD.sub(lambda field: field[0][0] if field[0][0] == "{" else "", response)
    paragraph = response.rfind("\n\n")
    if paragraph > 0 and _FAREWELL.fullmatch(response, paragraph):
        response = response[:paragraph]
    if question.is_list:
        response = _JOINED.sub(" and ", response)
    if "!" in response and "!" not in question.gold:
        response = _EXCLAMATION.sub(r"\1.", response)
    if response.endswith("!") and "!" not in question.gold and _TWO_WORDS.search(response) is not None:
        response = response.rstrip("!")  # an exclamation, no factorial
    if question.is_closed and (numbering := _NUMBERING.match(response)) is not None:
        response = response[numbering.end() :]
    return response


def _read_last_line(response: str, question: AnsweredQuestion) -> Assertion | None:
    """Read a response whose last line names a number as the answer; `None` for any other.

    A separate sentence at the end of a text refers at most to the sentence in front of it, so that the rest
    need not be read, which takes ten times as long.
    """
    body = response.rstrip()
    start = max(body.rfind("\n"), len(body) - _LINE_CHARS - 1, -1) + 1
    line = _LAST_LINE.match(response, start)
    head = response[:start].rstrip()
    is_apart = start == 0 or (response[start - 1] == "\n" and head.endswith("."))
    is_other = not question.is_closed or question.gold[:1].isalpha() or not response.isascii()
    # Any sign that the last line is not the only candidate sends the text to the full reading.
    if line is None or is_other or not is_apart or _has_other_mark(response, line.lastgroup):
        return None
    value = line[line.lastgroup or 0]
    if _UNSETTLING.search(head[-_NEAR_CHARS:].rpartition("\n\n")[2]) is not None:
        return None
    prompt = question.prompt
    if prompt is not None and (is_echo(value, prompt, question.gold) or is_sentence_of(line[0], prompt)):
        return None
    return Assertion(response, (value,) if line.lastgroup == "bare" else None)


def _has_other_mark(response: str, mark: str | None) -> bool:
    """Whether a text has marks of answers or programs besides that of its last line."""
    boxes, hashes = response.count("box"), response.count("####")
    is_marked = "<" in response or "```" in response or "[asy]" in response or '":' in response
    return is_marked or boxes != (mark == "box") or hashes != (mark == "hash")


def _is_plain(text: str) -> bool:
    """Whether a text is mathematics and quantities alone."""
    marked = _MARKED.fullmatch(text)
    if marked is not None:
        text = marked[1] or marked[2] or ""
    # One unknown word is enough for a sentence, which may deny its value; most texts begin with one.
    if not all(_is_plain_word(text, match) for match in _WORD.finditer(text)):
        return False
    is_code = _may_be_code(text) and _CODE.search(text) is not None
    return not is_code and _SAYING.search(text) is None


def _is_plain_word(text: str, match: re.Match[str]) -> bool:
    word = match[0]
    if word in _PLAIN or word.casefold() in _PLAIN:
        return True
    if text.startswith(_SIGNS_BEHIND, match.end()):
        return len(word) == _PAIR or not classes_of(word)  # "not*42" is not a product
    is_product = (
        not classes_of(word)
        and text[match.start() - 1 : match.start()] == "("
        and text[match.end() : match.end() + 1] == ")"
    )
    return is_product or (len(word) == _PAIR and word.casefold() not in _SHORT_WORDS)


def _read_prose(response: str, question: AnsweredQuestion) -> Assertion:
    prompt = question.prompt
    boxes = find_boxes(response)
    # Words about a box are near it.
    if boxes:
        cut = max(0, boxes[-1][0] - _BOX_CHARS)
        tail = response[cut : boxes[-1][1] + _TAIL_CHARS]
        starts = {start - cut for start, _, _ in boxes}
        statements = [
            # Values outside of boxes do not compete with a box; hedges between them do.
            statement
            for statement in _read(tail, _values(tail, question), question, prompt)
            if statement.start in starts or statement.polarity is Polarity.HEDGED
        ]
        # With `must_agree` boxes that are taken back stay, so that they disagree.
        if question.must_agree and any(item.polarity is not Polarity.RETRACTED for item in statements):
            statements = [
                statement for statement in statements if statement.polarity is not Polarity.RETRACTED
            ]
        response = response[:cut] + keep_asserted(tail, statements)
        if find_boxes(response):
            return Assertion(response)
    # The mark of an answer in front of the part that is read stays in force; sentences there do not.
    head, response = response[:-_TAIL_CHARS], response[-_TAIL_CHARS:]
    if "####" in head or "<answer>" in head:
        return Assertion(head + response)
    spans = _without_numbering(response, _with_gold(response, _values(response, question), question.gold))
    statements = _taken_together(response, _read(response, spans, question, prompt))
    # A response that asserts no value has no answer, rather than any of its numbers.
    if statements and question.is_closed and all(s.polarity is not Polarity.ASSERTED for s in statements):
        return Assertion("", ())
    text = _EMPTY_TAG.sub("", keep_asserted(response, statements))
    if question.is_closed:
        return Assertion(text, _final_texts(response, statements, question))
    return Assertion(
        text, (question.gold,) if _ends_with_words(response, statements, question.gold) else None
    )


def _taken_together(text: str, statements: list[Statement]) -> list[Statement]:
    """Take a value for denied, or for a bound, wherever it is, if that is the last word on it.

    "First we get 42, ... so it isn't 42." "The terms add up to 42. ... So it is more than 42."
    """
    last = statements[-1] if statements else None
    final = {text[item.start : item.end]: item.polarity for item in statements}
    taken = {value for value, polarity in final.items() if polarity is Polarity.DENIED}
    if last is not None and last.polarity is Polarity.BOUNDED:
        taken.add(text[last.start : last.end])
    return [
        replace(item, polarity=final[value])
        if (value := text[item.start : item.end]) in taken and item.polarity is Polarity.ASSERTED
        else item
        for item in statements
    ]


def _ends_with_words(text: str, statements: Sequence[Statement], gold: str) -> bool:
    """Whether the last sentence states the words of a gold answer: "Hence the equation has no solution."."""
    last = statements[-1] if statements else None
    if last is None or last.polarity is not Polarity.ASSERTED:
        return False
    head = text[max(0, last.start - _LEAD_CHARS) : last.start]
    is_gold = text[last.start : last.end].casefold() == gold.strip().casefold()
    if not is_gold or _BEHIND_WORDS.match(text, last.end) is None:
        return False
    return _STATING.search(head) is not None or (gold.endswith("s") and _SUBJECT.search(head) is not None)


def _without_numbering(text: str, spans: list[Span]) -> list[Span]:
    """Leave out the numbers of a numbered list."""
    if "\n" not in text and "**" not in text:
        return spans
    numbers = [match.span() for match in _LIST_NUMBER.finditer(text)]
    if len(numbers) < _MIN_ITEMS:
        numbers = [match.span() for match in _BOLD_NUMBER.finditer(text)]
    return [span for span in spans if not any(start <= span[0] and span[1] <= end for start, end in numbers)]


def _final_texts(text: str, statements: list[Statement], question: AnsweredQuestion) -> tuple[str, ...]:
    """Return the texts of the last asserted value, or of the list that it ends.

    A value that is named as the answer, or in a separate sentence, takes precedence over one in running text.
    """
    gold = question.gold
    # A number is preferred where the gold has one, since names and labels are values too.
    asserted = [statement for statement in statements if statement.polarity is Polarity.ASSERTED]
    if any(char.isdigit() for char in gold):
        asserted = [item for item in asserted if _HAS_NUMBER.search(text, item.start, item.end)] or asserted
    if not asserted:
        return ()
    chosen = next(
        (
            index
            for index in reversed(range(len(asserted)))
            if asserted[index].is_framed or asserted[index].is_definite
        ),
        len(asserted) - 1,
    )
    # "It's 25 now; the tip brings it to 30": a pronoun names each value in turn.
    while (
        chosen + 1 < len(asserted)
        and not asserted[chosen].is_framed
        and asserted[chosen + 1].is_stated
        and asserted[chosen + 1].sentence == asserted[chosen].sentence
    ):
        chosen += 1
    last = chosen
    while last + 1 < len(asserted) and _is_listed(text, asserted[last], asserted[last + 1]):
        last += 1
    first = chosen
    while first and _is_listed(text, asserted[first - 1], asserted[first]):
        first -= 1
    start, end = asserted[first].start, asserted[last].end
    if (
        first == last
        and question.is_list
        and "," in gold
        and (spread := _spread_list(text, asserted, chosen)) is not None
    ):
        return (spread,)
    unit = _UNIT_TEXT.match(text, end, max(end, asserted[last].region[1]))
    # The whole list, and its last member: the gold may be either.
    values = [text[start:end], text[asserted[last].start : asserted[last].end]]
    # "42!" is an exclamation unless the gold has factorials.
    if "!" not in gold:
        values = [value.rstrip("!") for value in values]
    if "**" in values[0]:
        values = [value.replace("**", "") for value in values]
    texts = [values[0] + ("" if unit is None else unit[0]), *values]
    # For one value its right side is likelier than the equation; for a list it is the last resort.
    side = None if "=" in gold else _right_side(values[-1]) or _derived_side(values[-1])
    if side is not None:
        texts.insert(0 if first == last else len(texts), side)
    return tuple(dict.fromkeys(texts))


def _spread_list(text: str, asserted: Sequence[Statement], chosen: int) -> str | None:
    """Return the values of a list over clauses: "One root is 3. The other is 8."; `None` for one value."""
    first, last = chosen, chosen
    while last + 1 < len(asserted) and asserted[last + 1].sentence <= asserted[last].sentence + 1:
        last += 1
    while first and asserted[first].sentence <= asserted[first - 1].sentence + 1:
        if asserted[first].is_framed and not asserted[first - 1].is_framed:
            break  # "12 and 13 are steps. Answer: {1, 3}"
        first -= 1
    values = [text[item.start : item.end].strip("$ ") for item in asserted[first : last + 1]]
    values = list(dict.fromkeys(values))
    return ", ".join(values) if 1 < len(values) <= _MAX_SPREAD and not any("," in v for v in values) else None


def _right_side(formula: str) -> str | None:
    r"""Return what a formula says a quantity to be: 87 of `I &= \int f \\ &= 87`, 96 of `p + q = 96`.

    The left side of an equation to solve has numbers, as in `2x = 84`.
    """
    if "=" not in formula or "\\boxed" in formula:
        return None
    rows = _ROW.split(_ENVIRONMENT.sub("", formula).strip("$ \n").removeprefix("\\[").removesuffix("\\]"))
    sides = [side.strip(" &$\n") for side in rows[-1].rstrip(". ").split("=")]
    left = _SCRIPT.sub("", "".join(sides[:-1]))
    if len(sides) < _PAIR or not sides[-1] or _RELATION.search(formula) is not None:
        return None
    is_quantity = not any(char.isdigit() for char in left) and (bool(left) or len(rows) > 1)
    return sides[-1] if is_quantity else None


def _derived_side(response: str) -> str | None:
    r"""Return what a derivation in one formula ends with: 13 of `$x + 32 = 45, x = 13$` and `$\int f = 13$`.

    Equations for several unknowns (`x = 5, y = 13`) end with no answer.
    """
    response = response.strip()
    if response.startswith("\\[") and response.rstrip(".").endswith("\\]"):
        response = f"${response.rstrip('.')[2:-2].strip()}$"
    if not response.startswith("$") or "=" not in response or "\\boxed" in response:
        return None
    formula = response.strip("$ .\n")
    equations = [equation.split("=") for equation in formula.split(", ")]
    *earlier, last = equations
    if "$" in formula or len(last) < _PAIR or _RELATION.search(formula) is not None:
        return None
    name = last[0].strip()
    if not earlier:
        left = "=".join(last[:-1])
        is_evaluated = _EVALUATING.search(left) is not None and not any(
            map(str.isdigit, _SCRIPT.sub("", left))
        )
        return last[-1].strip() if is_evaluated else None
    is_solved = _UNKNOWN.fullmatch(name) is not None and all(
        len(sides) > 1 and name in sides[0] and sides[0].strip() != name for sides in earlier
    )
    return last[-1].strip() if is_solved else None


def _is_listed(text: str, first: Statement, second: Statement) -> bool:
    between = _BETWEEN_QUANTITIES.sub(" ", text[first.end : second.start], count=1)
    return first.sentence == second.sentence and _JOINER.fullmatch(between) is not None


def _values(text: str, question: AnsweredQuestion) -> list[Span]:
    return find_values(text, has_factorials="!" in question.gold)


def _read(text: str, spans: list[Span], question: AnsweredQuestion, prompt: Prompt | None) -> list[Statement]:
    statements = read_statements(
        text,
        spans,
        neutral=_words(question.gold),
        takes_alternatives=question.is_list,
        is_same=question.is_same,
        is_closed=question.is_closed,
    )
    # Most texts have no sign of code, and the patterns of code are slow.
    if _may_be_code(text) or has_code(text):
        statements = [
            replace(item, polarity=Polarity.INTERMEDIATE)
            if item.polarity is Polarity.ASSERTED and _is_code(_sentence_around(text, item))
            else item
            for item in statements
        ]
    # "(A) 41 (B) 42 (C) 43" lists choices and asserts none.
    if len(options := [match.end() for match in _OPTION.finditer(text)]) >= _MIN_OPTIONS:
        statements = [
            replace(item, polarity=Polarity.INTERMEDIATE)
            if any(end - 1 <= item.start <= end for end in options)
            else item
            for item in statements
        ]
    # JSON: a field that is not named as the answer is data.
    if '":' in text or '" :' in text or "':" in text:
        statements = [_without_other_field(text, statement) for statement in statements]
    if prompt is None:
        return statements
    return [_without_echo(text, statement, prompt, question.gold) for statement in statements]


@lru_cache(maxsize=256)
def _is_code(text: str) -> bool:
    return _CODE.search(text) is not None or has_code(text)


def _may_be_code(text: str) -> bool:
    has = text.lower().__contains__
    return not text.isascii() or any(map(has, _CODE_WORDS)) or (has("(") and any(map(has, _CODE_CALLS)))


def _without_other_field(text: str, statement: Statement) -> Statement:
    """Take the value of a field of JSON for no answer, unless the field is named so."""
    field = FIELD_KEY.search(text[max(0, statement.start - _KEY_CHARS) : statement.start])
    if (
        field is None
        or statement.polarity is not Polarity.ASSERTED
        or _ANSWER_KEY.fullmatch(field[1].strip())
    ):
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
    # Words of the gold answer deny nothing: "no solution" is an answer there.
    words = {word.casefold() for word in re.findall(r"[^\W\d_]+", gold)}
    return words | _RELATIONS if _RELATION.search(gold) else words


def _with_gold(text: str, spans: list[Span], gold: str) -> list[Span]:
    """Add the places of a gold answer in words."""
    bare = gold.strip()
    # A single capital letter may be a choice, whose label is a value.
    if len(bare) == 1 and "A" <= bare <= "J":
        return disjoint(sorted([*spans, *(match.span() for match in _LABEL.finditer(text))]))
    if bare == "0":
        return disjoint(sorted([*spans, *(match.span(1) for match in _ZERO.finditer(text))]))
    if not bare or len(bare) > ANSWER_CHARS or not bare[0].isalpha() or any(char.isdigit() for char in bare):
        return spans
    lowered, sought = text.casefold(), bare.casefold()
    # Places in the folded text must be places in the text.
    if len(lowered) != len(text):
        return spans
    places = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(sought)}(?!\w)", lowered)][:200]
    return disjoint(sorted([*spans, *places], key=lambda span: (span[0], -span[1])))
