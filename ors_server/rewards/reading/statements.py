r"""Reads a text the way a careful person does: which of the values in it does it assert? Pure.

A *statement* is a value of the text (whatever the caller takes for one: numbers, formulas, letters, names), the
place where it stands, and its polarity. Only an asserted value is an answer, and the last one is *the* answer.

How a sentence is read. It is cut into clauses at punctuation and at conjunctions ("but", "because", "which").
The words of a value's clause decide its polarity, by the classes of `polarity.toml`:

* in front of the value: negation, rejection, bounds, suppositions, reports of others;
* behind it: the same, and predicates; a value that is the subject of a predicate which does not confirm it
  ("42 is off the table", "71 would be too large") is not an answer;
* "not 41, 42": a clause that is nothing but a value continues the clause in front of it;
* a clause or sentence without a value may take back the values in front of it ("No.", "That is wrong.").

Corrections ("Wait, 43") take back what was asserted before, and values between which the text does not decide
("42 or 43", "maybe 42, maybe 43") are hedged. What a phrase of the class `harmless` says denies nothing.

Work is linear in the length of the text: phrases have a greatest length, and a value is compared with the
clauses up to its neighbours.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from ors_server.rewards.reading.polarity import NO_CLASSES, Classes, character_lists, languages_of

Span: TypeAlias = tuple[int, int]


class Polarity(StrEnum):
    """What a text says about a value in it."""

    ASSERTED = "asserted"
    DENIED = "denied"
    BOUNDED = "bounded"
    """A limit of the value: "more than 42"."""
    ASKED = "asked"
    SUPPOSED = "supposed"
    """True only under a condition: "if x = 1 then 42", "42 would be too large"."""
    QUOTED = "quoted"
    """What somebody else says."""
    RETRACTED = "retracted"
    """Struck, taken back, or corrected later."""
    HEDGED = "hedged"
    """One of several values between which the text does not decide."""
    INTERMEDIATE = "intermediate"
    """A value on the way, a label ("step 72"), a remark about the work."""


class Place(StrEnum):
    """Where a value stands."""

    BOX = "box"
    TAG = "tag"
    HASHES = "hashes"
    FIELD = "field"
    LINE = "line"
    FENCE = "fence"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class Statement:
    """A value of a text, and what the text says about it."""

    start: int
    end: int
    polarity: Polarity
    place: Place
    region: Span
    """The part of the clause that says it; what is struck if the value does not count."""
    is_framed: bool
    """Whether the clause names it as the answer ("the answer is 42", "42 is correct")."""
    is_definite: bool = False
    """Whether the clause names it by a pronoun ("it is 42")."""
    sentence: int = 0
    """Number of the sentence."""


_WORD: Final = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_STRUCK: Final = re.compile(
    r"~~(?=\S)(?:(?!~~)[^\n]){1,2000}~~|<(s|del|strike)>.{0,2000}?</\1>|"
    r"\\(?:sout|st|xout|cancel|bcancel|xcancel|hcancel)\s{0,2}\{[^{}]{0,500}(?:\{[^{}]{0,200}\}[^{}]{0,200}){0,4}\}",
    re.DOTALL | re.IGNORECASE,
)
_TAG: Final = re.compile(r"</?[A-Za-z_][\w-]{0,30}>|<\|[a-z_]{1,30}\|>")
_LINE_MARK: Final = re.compile(r"(?m)^[ \t]{0,8}(?:[-*+>]|\d{1,3}[.)]|#{1,6})[ \t]+")
_COMMAND: Final = re.compile(r"\\([A-Za-z]{1,20})")
_RELATIONS: Final = {
    "ne": "negative", "neq": "negative", "not": "negative", "notin": "negative", "neg": "negative", "lnot": "negative",
    "le": "bound", "leq": "bound", "ge": "bound", "geq": "bound", "lt": "bound", "gt": "bound",
}
_UNEQUAL: Final = re.compile(r"!=|=/=|=\\=|<>")
_ARROWS: Final = frozenset({"to", "rightarrow", "Rightarrow", "implies", "longrightarrow", "Longrightarrow", "therefore"})
_REFERENCE: Final = re.compile(r"\[\d[\d., ]*\]")
_CROSSES: Final = "✗✘❌❎✖👎🚫⛔"
_CHECKS: Final = "✓✔✅☑👍"
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CJK_STOP: Final = re.compile(r"[。！？!?；;\n]|\. ")
_CJK_BREAK: Final = re.compile(r"[，,、：:（）()]|而是|但是|但|不过|그러나|하지만|しかし")
_ABBREVIATIONS: Final = frozenset(
    "cf e.g i.e eg ie approx resp no nr eq eqs fig vs dr mr mrs ms prof sec ch pp p st ca etc al ex vol q.v".split()
)
_BLANKS: Final = " \t\r"
_MARKS: Final = frozenset(",;:()[]\"“”„«»—–")
_OR: Final = frozenset({"or", "oder", "ou", "oppure", "lub", "albo", "или", "либо", "veya", "alternatively", "else", "otherwise", "vs", "versus", "and/or"})
_AND: Final = frozenset({"and", "nor", "und", "et", "и", "ve"}) | _OR
_CONNECTING: Final = frozenset({"of", "the", "a", "an", "even", "also", "from", "with", "for", "by", "some", "others", "to", "say", "just", "either"})
_COMPLEMENTIZERS: Final = frozenset({"that", "whether", "if", "to"})
_RELATIVES: Final = frozenset({"that", "who", "which", "whose", "where"})
_FUNCTION_WORDS: Final = frozenset("to of in on at by for the a an that who per from into each every this with all its their".split())
_MAX_UNIT: Final = 3
"""Words of an unknown unit."""
_WORK_SUBJECTS: Final = frozenset({"that", "this", "it", "which", "there", "there were", "there are", "my proof", "after", "within"})
_EXCEPTIVES: Final = frozenset(
    {"but", "except", "besides", "save", "bar", "other than", "except for", "apart from", "aside from", "anything but", "anybody but", "anyone but"}
)
_UNDECIDED: Final = frozenset({Polarity.ASSERTED, Polarity.HEDGED, Polarity.RETRACTED, Polarity.SUPPOSED})
_PLURALS: Final = frozenset({"are", "were", "both", "aren't", "weren't", "don't", "do", "fail", "all", "sind", "sont", "fall", "would", "can", "can't", "cannot"})
_CONTRARY: Final = frozenset({"knew", "could", "were", "had", "might", "must", "ever", "forced", "pressed", "bet"})
_AUTHORS: Final = frozenset("i we i'd i'll i've i'm we'd we'll we've we're my our me let us to".split())
_STATING: Final = frozenset({"copula", "quantity", "answer", "confirm", "hash", "yes"})
_FILLERS: Final = frozenset("so thus hence then and but finally ok okay well now the a an of to for all".split())
_WAYS: Final = frozenset({"with", "by", "when", "if", "using", "from"})
_REFERENCES: Final = frozenset("previous above last line sentence answer paragraph message preceding foregoing former earlier".split())
_ORDERS_NOT: Final = frozenset({"don't", "never", "dont"})
_OPINIONS: Final = frozenset({"suppose", "assume", "presume", "imagine"})
_OF_ITS_VALUE: Final = frozenset({"exceptive", "reject", "report", "bound", "former", "trial", "leave"})
_RECKONINGS: Final = frozenset("arithmetic algebra calculation computation mathematics math logic formula check rule theorem equation program code output".split())
_ORDERED: Final = frozenset({"say", "guess", "write", "answer", "report", "declare", "vote", "state"})
"""Orders to the reader, which report nothing: "say 42"."""
_ORDERS: Final = frozenset({"<", ">", "≤", "≥", "le", "leq", "ge", "geq", "lt", "gt"})
_INVERTED: Final = frozenset({"should", "were", "had"})
_MAX_HEADING: Final = 4
"""Words in front of a colon that judge the value behind it: "Not the answer: 42"."""
_THIRD_PERSON: Final = frozenset({"his", "her", "their", "your"})
_GUESSES: Final = frozenset(
    {"guess", "claim", "opinion", "suggestion", "proposal", "bet", "conjecture", "attempt", "reply", "version"}
)
_DENYING: Final = frozenset({"negative", "reject"})
_TRANSPARENT: Final = frozenset({"retract", "pronoun", "yes", "pivot"})
"""Classes of phrases whose words keep their own classes."""
_FRAGMENT_START: Final = re.compile(r"\A[\s,;:)\]?!]+(?:(?:and|but|or|so)\s+)?")
_SOURCES: Final = frozenset({"question", "problem", "exercise", "prompt", "task", "statement", "text", "page", "book", "puzzle"})
_WINDOW: Final = 60
"""Characters at each side of a value that count in a script without spaces."""
_NEAR: Final = 2
"""Words between a bound and its value."""


@dataclass(slots=True)
class _Token:
    kind: str
    """`word`, `value`, `mark`, `stop`, `ask` or `line`."""
    start: int
    end: int
    word: str = ""
    classes: Classes = NO_CLASSES
    is_capital: bool = False


@dataclass(slots=True)
class _Value:
    """A value while its sentence is read."""

    token: _Token
    clause: "_Clause"
    sentence: int
    polarity: Polarity = Polarity.ASSERTED
    is_framed: bool = False
    is_maybe: bool = False
    is_shared: bool = False
    """Whether its predicate stands behind a later value."""
    region: Span = (0, 0)


@dataclass(slots=True)
class _Clause:
    lead: _Token | None
    """The punctuation or conjunction that opens it."""
    tokens: list[_Token] = field(default_factory=list["_Token"])
    values: list[_Value] = field(default_factory=list["_Value"])

    @property
    def start(self) -> int:
        return self.lead.start if self.lead is not None else self.tokens[0].start if self.tokens else 0

    @property
    def end(self) -> int:
        return self.tokens[-1].end if self.tokens else self.lead.end if self.lead is not None else 0

    def classes(self) -> Classes:
        return frozenset().union(*(token.classes for token in self.tokens))


@dataclass(slots=True)
class _Sentence:
    clauses: list[_Clause]
    is_question: bool

    @property
    def tokens(self) -> list[_Token]:
        return [token for clause in self.clauses for token in clause.tokens]


def read_statements(
    text: str,
    spans: Iterable[Span],
    *,
    neutral: Collection[str] = (),
    takes_alternatives: bool = False,
    is_same: Callable[[str, str], bool] | None = None,
    is_closed: bool = False,
    are_labels: bool = False,
    place_of: Callable[[Span], Place] | None = None,
) -> list[Statement]:
    """Read what a text says about each of the values at `spans`, in order.

    Args:
        spans: Start and end of each value; they do not overlap.
        neutral: Words, in lower case, that deny nothing here: those of the gold answer.
        takes_alternatives: Whether "42 or 43" asserts both, as where the gold answer is a list.
        is_same: Whether two different texts are one value, which "or" then only repeats ("3/4, or 0.75").
        is_closed: Whether words that are no sentence, as far as the lexicon tells, assert nothing: "shy of 42".
        are_labels: Whether the values are labels or names: as the subject of a verb that does not confirm it,
            such a value is no answer ("B comes close").
        place_of: The place of a value; by default they stand in sentences.
    """
    ordered = sorted(set(spans))
    if not ordered:
        return []
    struck = [match.span() for match in _STRUCK.finditer(text)] if "~~" in text or "<" in text or "\\" in text else []
    reader = _Reader(text, ordered, frozenset(neutral), takes_alternatives=takes_alternatives)
    reader.is_same = is_same
    reader.is_closed = reader.is_closed and is_closed
    reader.are_labels = are_labels
    values = reader.read()
    statements: list[Statement] = []
    for value in values:
        span = (value.token.start, value.token.end)
        region = value.region
        polarity = value.polarity
        container = _containing(struck, span)
        if container is not None:
            polarity, region = Polarity.RETRACTED, container
        place = Place.SENTENCE if place_of is None else place_of(span)
        is_definite = reader.is_definite(value)
        statements.append(Statement(*span, polarity, place, region, value.is_framed, is_definite, value.sentence))
    return statements


def keep_asserted(text: str, statements: Sequence[Statement]) -> str:
    """Return a text without what it does not assert."""
    kept: list[str] = []
    position = 0
    for start, end in _merged(s.region for s in statements if s.polarity is not Polarity.ASSERTED):
        # An asserted value inside of the region of another one stays (`the sum of 41, not 42`).
        kept.append(text[position : max(position, start)])
        position = max(position, end)
    kept.append(text[position:])
    if len(kept) == 1:
        return text
    pieces = [kept[0], *(_FRAGMENT_START.sub(" ", piece) for piece in kept[1:])]
    return "\n".join(piece for piece in pieces if piece.strip(" .\t"))


def _merged(regions: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(set(regions)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _containing(regions: Sequence[Span], span: Span) -> Span | None:
    return next((region for region in regions if region[0] <= span[0] and span[1] <= region[1]), None)


class _Reader:
    """Reads one text."""

    def __init__(self, text: str, spans: Sequence[Span], neutral: frozenset[str], *, takes_alternatives: bool) -> None:
        self._text = text
        self._neutral = neutral
        self._takes_alternatives = takes_alternatives
        self.is_same: Callable[[str, str], bool] | None = None
        self.is_closed = True
        self.are_labels = False
        """Whether the text is English, whose sentences the lexicon knows."""
        self._tokens = self._tokenise(spans)
        self._classify()
        self._sentences = self._split()
        self._values = [v for s in self._sentences for c in s.clauses for v in c.values]

    def read(self) -> list[_Value]:
        for index, sentence in enumerate(self._sentences):
            if any(clause.values for clause in sentence.clauses):
                self._read_sentence(sentence, index)
        self._give_up()
        self._take_back()
        self._correct()
        self._hedge()
        if _CJK.search(self._text):
            self._read_characters()
        return self._values

    # Tokens.

    def _tokenise(self, spans: Sequence[Span]) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        for start, end in spans:
            self._tokenise_words(position, start, tokens)
            tokens.append(_Token("value", start, end))
            position = end
        self._tokenise_words(position, len(self._text), tokens)
        return tokens

    def _tokenise_words(self, start: int, end: int, tokens: list[_Token]) -> None:
        """Cut the text between two values into words and punctuation."""
        text = self._text
        position = start
        while position < end:
            char = text[position]
            if char.isalpha():
                match = _WORD.match(text, position, end)
                stop = position + 1 if match is None else match.end()
                written = text[position:stop]
                tokens.append(
                    _Token("word", position, stop, written.casefold().replace("’", "'"), is_capital=written[0].isupper())
                )
                position = stop
                continue
            if char == "\\" and text.startswith("\\boxed", position):
                return  # a box that is never closed
            if char == "<" and (tag := _TAG.match(text, position, end)) is not None:
                position = tag.end()
                continue
            if char == "\n":
                tokens.append(_Token("line", position, position + 1))
            elif char in "?？":
                tokens.append(_Token("ask", position, position + 1))
            elif (char in "!！。" and text[position + 1 : position + 2] != "=") or (char == "." and self._ends_sentence(position, tokens)):
                tokens.append(_Token("stop", position, position + 1))
            elif char in "!=" and (unequal := _UNEQUAL.match(text, position, end)) is not None:
                tokens.append(_Token("word", position, unequal.end(), "≠", frozenset({"negative"})))
                position = unequal.end()
                continue
            elif char == "¬":
                tokens.append(_Token("word", position, position + 1, "≠", frozenset({"negative"})))
            elif char in "-=" and text.startswith(">", position + 1):
                tokens.append(_Token("mark", position, position + 2, ":"))
                position += 1
            elif char in _MARKS or (char == "-" and self._is_dash(position)):
                tokens.append(_Token("mark", position, position + 1, char))
            elif char == "=":
                tokens.append(_Token("word", position, position + 1, "=", frozenset({"copula"})))
            elif char in "<>≤≥≠":
                name = "negative" if char == "≠" else "bound"
                tokens.append(_Token("word", position, position + 1, char, frozenset({name})))
            elif char == "#":
                position = self._tokenise_hashes(position, tokens)
                continue
            elif char == "\\":
                position = self._tokenise_command(position, end, tokens)
                continue
            elif char in _CROSSES or char in _CHECKS:
                name = "reject" if char in _CROSSES else "confirm"
                tokens.append(_Token("word", position, position + 1, char, frozenset({name})))
            position += 1

    def _tokenise_hashes(self, position: int, tokens: list[_Token]) -> int:
        """Take `####` for the mark of an answer, `#` in front of a digit for that of a label."""
        end = position
        while self._text.startswith("#", end):
            end += 1
        if end - position > 1:
            tokens.append(_Token("line", position, position))
            tokens.append(_Token("word", position, end, "####", frozenset({"answer"})))
        elif self._text[end : end + 1].isdigit():
            tokens.append(_Token("word", position, end, "#", frozenset({"label"})))
        return end

    def _tokenise_command(self, position: int, end: int, tokens: list[_Token]) -> int:
        command = _COMMAND.match(self._text, position, end)
        if command is None:
            return position + 1
        if command[1] in _ARROWS:
            tokens.append(_Token("mark", position, command.end(), ":"))
        elif command[1] in _RELATIONS:
            tokens.append(_Token("word", position, command.end(), command[1], frozenset({_RELATIONS[command[1]]})))
        return command.end()

    def _ends_sentence(self, position: int, tokens: Sequence[_Token]) -> bool:
        following = self._text[position + 1 : position + 2]
        if following and not (following.isspace() or following in "\"')*_<]}$\\”~`"):
            return False
        if not tokens or tokens[-1].end != position or tokens[-1].word not in _ABBREVIATIONS:
            return True
        return tokens[-1].word == "no" and not self._text[position + 1 : position + 3].strip()[:1].isdigit()

    def _is_dash(self, position: int) -> bool:
        text = self._text
        before, after = text[max(position - 1, 0) : position], text[position + 1 : position + 2]
        return before.isspace() and after.isspace() or text[position - 1 : position + 2] in ("---",) or text[position : position + 2] == "--"

    def _classify(self) -> None:
        """Give words their classes; a phrase becomes one token."""
        words = [token.word if token.kind == "word" else f"\0{token.kind}" for token in self._tokens]
        lexicons = languages_of({word for word in words if word[0] != "\0"})
        self.is_closed = len(lexicons) == 1 and _CJK.search(self._text) is None
        tokens: list[_Token] = []
        index = 0
        while index < len(words):
            token = self._tokens[index]
            if token.kind != "word" or token.classes:
                if token.word in self._neutral:
                    token.classes = NO_CLASSES
                tokens.append(token)
                index += 1
                continue
            length, classes = 1, NO_CLASSES
            for lexicon in lexicons:
                phrase = lexicon.match_phrase(words, index)
                if phrase is not None and phrase[0] > length:
                    length, classes = phrase
            if length == 1:
                word = words[index]
                for lexicon in lexicons:
                    classes |= lexicon.words.get(word, NO_CLASSES)
                if word.endswith("n't"):
                    classes |= {"negative"}
                if word.startswith("n'"):
                    classes |= {"negative"}
            parts = words[index : index + length]
            if length > 1 and any("first_person" in lexicons[0].words.get(part, NO_CLASSES) for part in parts):
                classes |= {"first_person"}
            if length > 1 and classes <= _TRANSPARENT:  # "definitely not" in front of a value denies it
                for lexicon in lexicons:
                    classes |= frozenset[str]().union(*(lexicon.words.get(part, NO_CLASSES) for part in parts))
            if self._neutral and self._neutral.issuperset(parts):
                classes = classes & {"copula", "pivot"}
            tokens.append(
                _Token("word", token.start, self._tokens[index + length - 1].end, " ".join(parts), classes, token.is_capital)
            )
            index += length
        self._tokens = tokens
        for index, token in enumerate(tokens):
            if "negative" in token.classes:
                self._soften(index)

    def _soften(self, index: int) -> None:
        """Read a negation with the words behind it: "no doubt" denies nothing, "cannot solve" gives up."""
        token = self._tokens[index]
        if " " in token.word:
            return
        following = self._tokens[index + 1 : index + 6]
        for offset, other in enumerate(following[:-1]):
            if other.kind != "word":
                break
            if other.word in _EXCEPTIVES and following[offset + 1].kind == "value":
                for softened in (token, *following[: offset + 1]):
                    softened.classes = frozenset({"harmless"})
                return
        for offset, other in enumerate(following):
            if other.kind != "word":
                break
            if "benign" in other.classes and offset < _NEAR + 1:
                for softened in (token, *following[: offset + 1]):
                    softened.classes = frozenset({"harmless"})
                break
            if "solving" in other.classes and offset < _NEAR + 1:
                if token.word not in _ORDERS_NOT and not any("benign" in later.classes for later in following[offset + 1 :]):
                    token.classes |= {"refuse"}
                break
            if "negative" in other.classes or "reject" in other.classes:
                break

    # Sentences and clauses.

    def _split(self) -> list[_Sentence]:
        sentences: list[_Sentence] = []
        current: list[_Token] = []
        for index, token in enumerate(self._tokens):
            if token.kind == "line" and self._is_wrapped(index):
                continue
            if token.kind in ("stop", "ask", "line"):
                if current:
                    sentences.append(self._clauses(current, len(sentences), is_question=token.kind == "ask"))
                elif token.kind == "ask" and sentences:
                    sentences[-1].is_question = sentences[-1].is_question or self._tokens[index - 1].kind in ("ask", "stop")
                current = []
            else:
                current.append(token)
        if current:
            sentences.append(self._clauses(current, len(sentences), is_question=False))
        return sentences

    def _is_wrapped(self, index: int) -> bool:
        """Whether a line end is inside of a sentence: small letters go on in the next line."""
        before = self._tokens[index - 1] if index else None
        after = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
        if before is not None and after is not None and before.kind == "word" and before.classes & {"copula", "negative"}:
            return True
        if before is not None and before.word == ":" and index > 1 and "negative" in self._tokens[index - 2].classes:
            return True
        if before is None or after is None or before.kind not in ("word", "mark") or after.kind != "word":
            return False
        if before.word == ":" or _LINE_MARK.match(self._text, before.end):
            return False
        between = self._text[before.end : after.start]
        return not after.is_capital and between.count("\n") == 1 and not between.strip()

    def _clauses(self, tokens: Sequence[_Token], number: int, *, is_question: bool) -> _Sentence:
        clauses = [_Clause(None)]
        for index, token in enumerate(tokens):
            if token.kind == "mark":
                if token.word in "\"“”„«»" or (token.word in "[]" and not clauses[-1].tokens):
                    continue
                clauses.append(_Clause(token))
            elif token.kind == "word" and (
                "pivot" in token.classes
                or (token.word.partition(" ")[0] in _AND and clauses[-1].values and "bound_after" not in token.classes)
                or (clauses[-1].values and _opens_contrast(tokens, index))
            ):
                if clauses[-1].lead is not None and not clauses[-1].tokens and clauses[-1].lead.kind == "mark":
                    clauses[-1].lead = _Token("word", clauses[-1].lead.start, token.end, token.word, token.classes)
                else:
                    clauses.append(_Clause(token))
                if token.classes - {"pivot", "reason"}:
                    clauses[-1].tokens.append(token)
            else:
                clauses[-1].tokens.append(token)
                if token.kind == "value":
                    clauses[-1].values.append(_Value(token, clauses[-1], number))
                elif token.word and token.word in _CROSSES + _CHECKS and clauses[-1].values:
                    clauses.append(_Clause(None))
        return _Sentence([clause for clause in clauses if clause.tokens], is_question)

    # Polarity in a sentence.

    def _read_sentence(self, sentence: _Sentence, number: int) -> None:
        is_confirmed = sentence.is_question and self._is_yes(number + 1)
        for place, clause in enumerate(sentence.clauses):
            for index, value in enumerate(clause.values):
                left, right = self._around(clause, index)
                value.region = self._region(sentence, place, index)
                self._judge(value, left, right)
                if value.polarity is Polarity.ASSERTED and index == 0:
                    value.polarity = self._inherited(sentence, place, left, right) or value.polarity
                if value.polarity is Polarity.ASSERTED and self._is_conditional(sentence, place):
                    value.polarity = Polarity.SUPPOSED
                if value.polarity in (Polarity.ASSERTED, Polarity.QUOTED) and index == len(clause.values) - 1:
                    value.polarity = self._after(sentence, place, value) or value.polarity
                if sentence.is_question and not is_confirmed:
                    value.polarity = Polarity.ASKED
        self._share_predicate(sentence)
        self._subordinate(sentence)

    def _share_predicate(self, sentence: _Sentence) -> None:
        """Read a predicate of several values for each of them: "41 and 43 are wrong"."""
        for place in range(len(sentence.clauses) - 1, 0, -1):
            clause, earlier = sentence.clauses[place], sentence.clauses[place - 1]
            if not clause.values or not earlier.values or earlier.tokens[-1].kind != "value":
                continue
            value, other = clause.values[0], earlier.values[-1]
            left, right = self._around(clause, 0)
            if any(token.word not in _CONNECTING for token in left) or clause.lead is None:
                continue
            is_plural = bool(right) and right[0].word in _PLURALS
            is_listed = clause.lead.word in ("and", "nor", ",") and (is_plural or value.is_shared)
            if is_listed and value.polarity is not Polarity.ASSERTED and other.polarity is Polarity.ASSERTED:
                other.polarity, other.is_shared = value.polarity, True

    def _around(self, clause: _Clause, index: int) -> tuple[list[_Token], list[_Token]]:
        tokens = clause.tokens
        at = tokens.index(clause.values[index].token)
        left = tokens[:at]
        following = clause.values[index + 1].token if index + 1 < len(clause.values) else None
        right = tokens[at + 1 : len(tokens) if following is None else tokens.index(following)]
        return left, right

    def _region(self, sentence: _Sentence, place: int, index: int) -> Span:
        clause = sentence.clauses[place]
        start = clause.start if index == 0 else clause.values[index - 1].token.end
        end = clause.end if index == len(clause.values) - 1 else clause.values[index].token.end
        return start, end

    def _judge(self, value: _Value, left: list[_Token], right: list[_Token]) -> None:
        left = _in_scope(left)
        before = frozenset[str]().union(*(token.classes for token in left))
        after = frozenset[str]().union(*(token.classes for token in right))
        is_mine = "first_person" in before
        value.is_maybe = "maybe" in before or "maybe" in after
        is_confirmed = bool(right) and "copula" in right[0].classes and "confirm" in after
        value.is_framed = "answer" in before or "hash" in before or is_confirmed
        value.polarity = self._from_left(left, before, is_mine=is_mine) or self._from_right(
            left, right, after, before, is_last=value is value.clause.values[-1]
        )

    def _from_left(self, left: list[_Token], before: Classes, *, is_mine: bool) -> Polarity | None:
        last = left[-1] if left else None
        if last is not None and ("label" in last.classes or last.word == "#"):
            return Polarity.INTERMEDIATE if "answer" not in last.classes else None
        if left and ("leave" in left[0].classes or {"retract", "first_person"} <= left[-1].classes):
            return Polarity.DENIED
        if left and left[0].word in _INVERTED:
            return Polarity.SUPPOSED
        left = _behind_value(left)
        near = frozenset[str]().union(*(token.classes for token in left[-1 - _NEAR :]))
        if "trial" in near:
            return Polarity.SUPPOSED
        if "bound" in near and not (near & {"harmless"}):
            return Polarity.BOUNDED
        if "undecided" in before:
            return Polarity.HEDGED
        if "reject" in before or "refuse" in before or ("negative" in before and not self._is_in_relative_clause(left)):
            return Polarity.DENIED
        if ("suppose" in before and not _is_guess(left)) or ("would" in before and not self._may_be_would(left, before)):
            return Polarity.SUPPOSED
        if left and left[0].word in _ORDERED:
            return None
        if ("report" in before and not _is_mine(left)) or self._is_of_another(left):
            return Polarity.QUOTED
        if "intermediate" in before:
            return Polarity.INTERMEDIATE
        if "former" in before:
            return Polarity.RETRACTED
        if _is_label_of(left) and "answer" not in before:
            return Polarity.INTERMEDIATE
        return None

    def _is_in_relative_clause(self, left: list[_Token]) -> bool:
        """Whether all negations are in clauses about the subject: "the number that does not divide it is 42"."""
        if not left or "copula" not in left[-1].classes or not any("negative" in token.classes for token in left):
            return False
        first = next(index for index, token in enumerate(left) if "negative" in token.classes)
        last = max(index for index, token in enumerate(left) if "negative" in token.classes)
        behind = left[last + 1 : -1]
        if not behind or any(token.word in _COMPLEMENTIZERS or token.classes & {"answer"} for token in behind):
            return False
        before = left[:first]
        if any(token.word in _RELATIVES for token in before):
            return True
        return bool(before) and not before[-1].classes & {"copula", "first_person", "pronoun"}

    def _may_be_would(self, left: list[_Token], before: Classes) -> bool:
        """Whether "would" is mere politeness: "the answer would be 42", "that would make 42"."""
        return bool(before & {"answer"}) or any(token.word in ("that", "this", "which", "i", "we") for token in left)

    def _is_of_another(self, left: list[_Token]) -> bool:
        """Whether the clause is about somebody else's answer: "Tom's answer is", "his guess was"."""
        for owner, noun in zip(left, left[1:], strict=False):
            if "answer" in noun.classes or noun.word in _GUESSES:
                if owner.word in _THIRD_PERSON:
                    return True
                if owner.word.endswith("'s") and owner.is_capital and "copula" not in owner.classes:
                    return True
        return False

    def _from_right(
        self, left: list[_Token], right: list[_Token], after: Classes, before: Classes, *, is_last: bool
    ) -> Polarity:
        if not right:
            return Polarity.ASSERTED if self._has_frame(left, right) else Polarity.INTERMEDIATE
        first = right[0]
        if "bound_after" in first.classes or any("bound_after" in token.classes for token in right[:2]):
            return Polarity.BOUNDED
        relative = next((i for i, token in enumerate(right) if token.word in ("that", "who", "whom", "whose")), None)
        seen = after if not relative else frozenset[str]().union(*(token.classes for token in right[:relative]))
        if seen & {"negative", "reject", "refuse", "fault"}:
            return Polarity.DENIED
        if "suppose" in seen or ("would" in seen and first.classes & {"would", "harmless"}):
            return Polarity.SUPPOSED
        if ("report" in seen and "first_person" not in seen) or self._is_of_another(right):
            return Polarity.QUOTED
        if is_last and ("bound" in first.classes or ("bound" in seen and first.classes & {"copula"})):
            return Polarity.BOUNDED
        if "intermediate" in seen or "operation" in first.classes:
            return Polarity.INTERMEDIATE
        if not left and len(right) > _MAX_UNIT and not any(token.classes or token.word in _FUNCTION_WORDS for token in right):
            return Polarity.INTERMEDIATE  # words that are no sentence
        if not self._has_frame(left, right):
            return Polarity.INTERMEDIATE
        if self._is_about_the_work(left, right, before):
            return Polarity.INTERMEDIATE
        is_subject = "copula" in first.classes or "maybe" in first.classes
        is_subject = is_subject or (self.are_labels and _is_verb(first) and "confirm" not in first.classes)
        if is_subject and not (before & {"copula", "answer"}) and not (seen & {"confirm", "answer"}):
            return Polarity.INTERMEDIATE
        return Polarity.ASSERTED

    def _is_about_the_work(self, left: list[_Token], right: list[_Token], before: Classes) -> bool:
        """Whether a value counts lines or steps of the solution, or words of the question."""
        if "answer" in before or not any("work" in token.classes for token in right[:2]):
            return False
        is_short = len(right) <= _NEAR or any(token.word in _SOURCES for token in right)
        has_subject = bool(left) and (left[0].word in _WORK_SUBJECTS or "first_person" in left[0].classes)
        return is_short and has_subject and any("work_verb" in token.classes for token in left)

    def _has_frame(self, left: list[_Token], right: list[_Token]) -> bool:
        """Whether a clause is a sentence that may state a value, not just words around one."""
        if not self.is_closed:
            return True
        words = [token for token in left if token.kind == "word" and token.word not in _FILLERS]
        if not words or all(token.classes for token in words):
            return True
        return any(token.classes & _STATING for token in (*left, *right))

    def _inherited(self, sentence: _Sentence, place: int, left: list[_Token], right: list[_Token]) -> Polarity | None:
        """Return the polarity of the clause that a clause of nothing but a value continues."""
        clause = sentence.clauses[place]
        lead = clause.lead
        if place == 0 or lead is None:
            return None
        is_joined = lead.word in _AND or lead.word == ","
        earlier = sentence.clauses[place - 1]
        if lead.word in (":", "]", ")") and not left and not earlier.values and len(earlier.tokens) <= _MAX_HEADING:
            return self._headed(earlier)
        if not is_joined or any(token.word not in _CONNECTING and "maybe" not in token.classes for token in left):
            return None
        if earlier.values and earlier.values[-1].polarity in (
            Polarity.DENIED, Polarity.BOUNDED, Polarity.QUOTED, Polarity.HEDGED, Polarity.SUPPOSED,
        ):
            if any(token.classes & {"correction"} for token in left) or (right and not left and right[0].classes & {"copula"}):
                return None
            return earlier.values[-1].polarity
        return None

    def _headed(self, heading: _Clause) -> Polarity | None:
        """Return what a heading says of the value behind its colon: "Rejected: 42", "First guess: 42"."""
        classes = heading.classes()
        if "copula" in classes or (len(heading.tokens) == 1 and classes & {"negative", "bound"}):
            return None
        if classes & {"reject", "negative", "fault"} or (len(heading.tokens) == 1 and "retract" in classes):
            return Polarity.DENIED
        if "intermediate" in classes or "label" in heading.tokens[-1].classes:
            return Polarity.INTERMEDIATE
        if "report" in classes and "first_person" not in classes and any(" " in token.word for token in heading.tokens):
            return Polarity.QUOTED
        return Polarity.QUOTED if self._is_of_another(heading.tokens) else None

    def _is_conditional(self, sentence: _Sentence, place: int) -> bool:
        """Whether the clauses around a value make it conditional: "if x = 1, then 42", "42 if it rains"."""
        clauses = sentence.clauses
        for clause in clauses[max(place - 2, 0) : place] + clauses[place + 1 : place + 2]:
            if _is_mistaken_way(clause):
                return True
            if clause.lead is not None and "suppose" in clause.lead.classes or (clause.tokens and "suppose" in clause.tokens[0].classes and clause is not clauses[place]):
                if not _is_own_work(clause):
                    return True
        return False

    def _after(self, sentence: _Sentence, place: int, value: _Value) -> Polarity | None:
        """Return what the clauses behind a value, up to the next value, make of it."""
        for clause, following in zip(sentence.clauses[place + 1 :], [*sentence.clauses[place + 2 :], None], strict=False):
            if clause.values:
                break
            if following is not None and following.values and len(clause.tokens) == 1:
                break  # "42; no, not 43"
            polarity = self._judge_remark(clause, value.polarity, is_framed=value.is_framed)
            if polarity is not None:
                return polarity
        return None

    def _judge_remark(self, clause: _Clause, polarity: Polarity, *, is_framed: bool) -> Polarity | None:
        classes = clause.classes()
        lead = clause.lead
        if lead is not None and "reason" in lead.classes and lead.word not in ("though", "although", "even though", "while", "whereas"):
            return None
        first = clause.tokens[0]
        if polarity is Polarity.QUOTED:
            is_approved = "approval" in classes and not classes & {"negative", "reject", "fault", "report"}
            return Polarity.ASSERTED if is_approved else None
        if "retract" in first.classes or any("retract" in token.classes and len(token.word.split()) > 1 for token in clause.tokens):
            return Polarity.RETRACTED
        if "report" in first.classes and "first_person" not in classes:
            return Polarity.QUOTED
        if "refuse" in classes:
            return Polarity.RETRACTED
        if _disapproves(clause.tokens, is_framed=is_framed):
            if classes & {"reject", "fault"} and lead is not None and lead.word in ("but", "yet", "and", "though", "although", "however"):
                return Polarity.RETRACTED
            is_about = any(token.classes & {"pronoun"} for token in clause.tokens[:2]) or (lead is not None and lead.word == "which")
            is_bare = bool(first.classes & {"negative", "reject", "fault"})
            is_other = first.is_capital or (len(clause.tokens) > 1 and clause.tokens[1].is_capital)
            if is_about or is_bare or is_other or ("copula" in first.classes):
                return Polarity.RETRACTED
        return None

    def _subordinate(self, sentence: _Sentence) -> None:
        """Take values of subordinate clauses and remarks as intermediate where a main clause has one."""
        values = [v for clause in sentence.clauses for v in clause.values if v.polarity is Polarity.ASSERTED]
        if len(values) < 2:  # noqa: PLR2004  (a main clause and another)
            return
        secondary: list[_Value] = []
        for earlier, value in zip([None, *values], values, strict=False):
            is_first = not value.is_framed or value.clause.values[0] is not value
            lead = value.clause.lead
            goes_on = (
                earlier in secondary and lead is not None and lead.word in ("and", ",") and not value.is_framed
                and earlier is not None and earlier.clause.lead is not None and "reason" in earlier.clause.lead.classes
                and not any(token.classes & {"copula", "first_person"} for token in value.clause.tokens[:2])
            )
            if is_first and (self._is_secondary(value) or goes_on):
                secondary.append(value)
        if len(secondary) < len(values):
            for value in secondary:
                value.polarity = Polarity.INTERMEDIATE

    def _is_secondary(self, value: _Value) -> bool:
        clause = value.clause
        lead = clause.lead
        if self._text[value.token.start] == "[" and _REFERENCE.fullmatch(self._text, value.token.start, value.token.end):
            return True
        if lead is not None and ("reason" in lead.classes or lead.word in "(["):
            return True
        left = _behind_value(clause.tokens[: clause.tokens.index(value.token)])
        return any("oblique" in token.classes for token in left[-_NEAR:])

    # What later sentences say.

    def _is_yes(self, number: int) -> bool:
        if number >= len(self._sentences):
            return False
        tokens = self._sentences[number].tokens
        return bool(tokens) and "yes" in tokens[0].classes and not any("negative" in t.classes for t in tokens)

    def _give_up(self) -> None:
        """Deny what stands behind words of giving up and is not named as the answer."""
        has_given_up = False
        for sentence in self._sentences:
            for clause in sentence.clauses:
                has_given_up = has_given_up or ("refuse" in clause.classes() and not sentence.is_question)
                for value in clause.values:
                    is_definite = value.is_framed or any("copula" in t.classes and " " not in t.word and "'" in t.word for t in clause.tokens)
                    if has_given_up and not is_definite and value.polarity is Polarity.ASSERTED:
                        value.polarity = Polarity.DENIED

    def _take_back(self) -> None:
        """Take back the values in front of sentences that do so: "No.", "That is wrong."."""
        open_values: list[_Value] = []
        for sentence in self._sentences:
            values = [value for clause in sentence.clauses for value in clause.values]
            asserted = [value for value in values if value.polarity is Polarity.ASSERTED]
            if open_values and self._takes_back(sentence, has_value=bool(values)):
                for value in open_values:
                    if value.polarity is Polarity.ASSERTED:
                        value.polarity = Polarity.RETRACTED
                open_values = []
            open_values += asserted
            if not values and any("undecided" in token.classes for token in sentence.tokens):
                self._hedge_all([value for value in open_values if value.polarity is Polarity.ASSERTED])

    def _hedge_all(self, values: list[_Value]) -> None:
        if len({self._written(value) for value in values}) > 1:
            for value in values:
                value.polarity = Polarity.HEDGED

    def _takes_back(self, sentence: _Sentence, *, has_value: bool) -> bool:
        if sentence.is_question:
            return False
        for place, clause in enumerate(sentence.clauses):
            if clause.values:
                break
            following = sentence.clauses[place + 1].lead if place + 1 < len(sentence.clauses) else None
            if following is not None and following.word == ":":
                continue  # a heading: it judges the value behind it
            if self._clause_takes_back(clause, has_value=has_value):
                return True
        return False

    def _clause_takes_back(self, clause: _Clause, *, has_value: bool) -> bool:
        tokens = clause.tokens
        classes = clause.classes()
        if "refuse" in classes:
            return True
        if any("retract" in token.classes and (len(token.word.split()) > 1 or len(tokens) <= 2) for token in tokens):  # noqa: PLR2004
            return True
        if has_value and len(tokens) > 2:  # noqa: PLR2004
            return False
        orders = [token for token in tokens[:2] if token.word not in ("please", "kindly", "now", "so", "just")]
        if orders and orders[0].classes & {"leave", "reject"} and any(token.word in _REFERENCES or "pronoun" in token.classes for token in tokens):
            return True
        if not _disapproves(tokens, is_framed=True):
            return False
        return any(token.classes & {"pronoun"} for token in tokens[:3])

    def _correct(self) -> None:
        """Take back what was asserted in front of a correction: "Wait, 43", "or rather 43"."""
        earlier: list[_Value] = []
        for sentence in self._sentences:
            is_led = False
            for clause in sentence.clauses:
                head = clause.tokens[:3]
                opened = any("correction" in token.classes for token in head) or (
                    clause.lead is not None and "correction" in clause.lead.classes
                )
                is_led = is_led or opened
                for value in clause.values:
                    if value.polarity is Polarity.ASSERTED and is_led:
                        for other in earlier:
                            if other.polarity is Polarity.ASSERTED and other.clause is not clause:
                                other.polarity = Polarity.RETRACTED
                        is_led = False
                    earlier.append(value)

    def _hedge(self) -> None:
        """Decide for none of the values between which a text does not decide."""
        doubtful = [value for value in self._values if value.is_maybe and value.polarity is Polarity.ASSERTED]
        if len({self._written(value) for value in doubtful}) > 1:
            last = self._values[-1]
            if last in doubtful or last.polarity is not Polarity.ASSERTED:
                for value in doubtful:
                    value.polarity = Polarity.HEDGED
        self._hedge_by_doubt()
        if self._takes_alternatives:
            return
        for earlier, value in zip(self._values, self._values[1:], strict=False):
            lead = value.clause.lead
            if value.sentence > earlier.sentence + 1 or value.clause is earlier.clause:
                continue
            if lead is None and not (value.sentence > earlier.sentence and value.clause.tokens[0].word in _OR):
                continue
            words = ["" if lead is None else lead.word, *(token.word for token in value.clause.tokens[:2])]
            is_or = any(word.partition(" ")[0] in _OR for word in words) or (
                value.is_maybe and lead is not None and lead.word == "," and "maybe" in value.clause.tokens[0].classes
            )
            pair = {value.polarity, earlier.polarity}
            if is_or and Polarity.ASSERTED in pair and pair <= _UNDECIDED and self._differ(value, earlier):
                value.polarity = earlier.polarity = Polarity.HEDGED

    def _hedge_by_doubt(self) -> None:
        """Take a guess behind a definite statement for a hedge: "It's 42. Then again, maybe 43."."""
        asserted = [value for value in self._values if value.polarity is Polarity.ASSERTED]
        for earlier, value in zip(asserted, asserted[1:], strict=False):
            is_near = value.sentence <= earlier.sentence + 1
            is_definite = earlier.is_framed or earlier.is_maybe or self.is_definite(earlier)
            if value is asserted[-1] and value.is_maybe and is_near and is_definite and self._differ(value, earlier):
                value.polarity = earlier.polarity = Polarity.HEDGED

    def is_definite(self, value: _Value) -> bool:
        """Whether a clause names its value by a pronoun: "it is 42", "that makes 42"."""
        left = value.clause.tokens[: value.clause.tokens.index(value.token)]
        return bool(left) and bool(left[-1].classes & {"copula"}) and left[0].classes & {"pronoun", "copula"} != set()

    def _differ(self, value: _Value, other: _Value) -> bool:
        written, others = self._written(value), self._written(other)
        return written != others and not (self.is_same is not None and self.is_same(written, others))

    def _written(self, value: _Value) -> str:
        return "".join(self._text[value.token.start : value.token.end].split()).strip("$.,*").casefold()

    # Scripts without spaces.

    def _read_characters(self) -> None:
        """Read Chinese, Japanese and Korean by the characters around a value."""
        lists = character_lists()
        for value in self._values:
            if value.polarity is not Polarity.ASSERTED:
                continue
            before, after = self._window(value)
            value.polarity = _by_characters(before, after, lists) or value.polarity
        retracting = lists["retract"]
        for value in self._values:
            tail = self._text[value.token.end :]
            stop = _CJK_STOP.search(tail)
            rest = "" if stop is None else tail[stop.end() :].strip()
            sentence = _CJK_STOP.split(rest, maxsplit=1)[0].strip() if rest else ""
            if value.polarity is Polarity.ASSERTED and sentence and _CJK.search(sentence):
                head = _CJK_BREAK.split(sentence, maxsplit=1)[0].strip()
                if head in retracting or any(sentence.startswith(word) for word in retracting if len(word) > 2):  # noqa: PLR2004
                    value.polarity = Polarity.RETRACTED

    def _window(self, value: _Value) -> tuple[str, str]:
        before = self._text[max(0, value.token.start - _WINDOW) : value.token.start]
        before = _CJK_BREAK.split(_CJK_STOP.split(before)[-1])[-1]
        after = self._text[value.token.end : value.token.end + _WINDOW]
        after = _CJK_STOP.split(after, maxsplit=1)[0] + ("?" if re.match(r"[^。！!；;\n]{0,60}[？?]", after) else "")
        return before, after


def _is_mine(tokens: Sequence[_Token]) -> bool:
    """Whether the author is the one who says what a clause reports: "I claim", but not "they told me"."""
    for index, token in enumerate(tokens):
        if "report" in token.classes and not any(t.word in _AUTHORS for t in tokens[max(0, index - 3) : index + 1]):
            is_reckoning = any(t.word in _RECKONINGS for t in tokens[max(0, index - 2) : index])
            return is_reckoning or token.word.partition(" ")[0] in _AUTHORS
    return True


def _is_label_of(left: Sequence[_Token]) -> bool:
    """Whether a clause says the number of something that is only numbered: "the room number is 42"."""
    if len(left) < 2 or "copula" not in left[-1].classes:  # noqa: PLR2004  (a noun and its verb)
        return False
    noun = left[-2]
    is_numbered = noun.word == "number" and len(left) > 2 and "label" in left[-3].classes  # noqa: PLR2004
    return is_numbered or ("label" in noun.classes and noun.word.endswith("number"))


def _is_guess(left: Sequence[_Token]) -> bool:
    """Whether "suppose" is the author's opinion: "I suppose the answer is 42"."""
    names = [token for token in left if "suppose" in token.classes]
    return all(token.word.removeprefix("i ") in _OPINIONS for token in names) and "first_person" in left[0].classes


def _opens_contrast(tokens: Sequence[_Token], index: int) -> bool:
    """Whether a negation sets the next value against the one in front of it: "42, not 43", "6 rather than 5"."""
    if "negative" not in tokens[index].classes or "copula" in tokens[index - 1].classes:
        return False
    return any(token.kind == "value" for token in tokens[index + 1 : index + 4])


def _in_scope(left: list[_Token]) -> list[_Token]:
    """Return the words in front of a value without those that are about an earlier value of its clause.

    "Instead of 41 we find 42", "I reject 41 in favour of 42"; but "not 41 and 42".
    """
    last = max((index for index, token in enumerate(left) if token.kind == "value"), default=-1)
    return [token for index, token in enumerate(left) if index > last or not token.classes & _OF_ITS_VALUE]


def _behind_value(tokens: list[_Token]) -> list[_Token]:
    """Return the tokens behind the last value among them."""
    last = max((index for index, token in enumerate(tokens) if token.kind == "value"), default=-1)
    return tokens[last + 1 :]


def _disapproves(tokens: Sequence[_Token], *, is_framed: bool) -> bool:
    """Whether a remark about a value says that it is wrong.

    A negation alone says so of a value that the text has not named as its answer, or with a word of approval
    ("is not right", "it isn't"): "The answer is 42, which is not a square" stands.
    """
    classes = frozenset[str]().union(*(token.classes for token in tokens))
    if classes & {"reject", "fault"}:
        return True
    if "negative" not in classes:
        return False
    at = next(index for index, token in enumerate(tokens) if "negative" in token.classes)
    rest = [token for token in tokens[at + 1 :] if not token.classes & {"pronoun", "copula", "negative"}]
    return not is_framed or not rest or any(token.classes & {"confirm", "answer"} for token in rest)


def _is_mistaken_way(clause: _Clause) -> bool:
    """Whether a clause in front of a value says how one goes wrong: "using the wrong formula, one gets 42"."""
    if clause.values or not clause.tokens:
        return False
    first = clause.tokens[0]
    is_way = first.word.endswith("ing") or first.word in _WAYS or (clause.lead is not None and clause.lead.word in _WAYS)
    is_rejected = bool(first.classes & {"reject", "leave"}) and first.word not in _WAYS
    return is_way and not is_rejected and bool(clause.classes() & {"reject", "fault", "leave"})


def _is_own_work(clause: _Clause) -> bool:
    """Whether an if-clause only says how the author works: "if we add them"."""
    if any(token.word in _CONTRARY or token.classes & {"reject", "leave", "negative", "fault"} for token in clause.tokens):
        return False
    return any("first_person" in token.classes or token.word == "you" for token in clause.tokens[:3])


def _is_verb(token: _Token) -> bool:
    """Whether a word behind a name is a verb in the third person: "B comes close"."""
    word = token.word
    return len(word) > 3 and word.isascii() and word.endswith("s") and word[-2] not in "siu" and "pivot" not in token.classes  # noqa: PLR2004


def _by_characters(before: str, after: str, lists: dict[str, tuple[str, ...]]) -> Polarity | None:
    head = _CJK_BREAK.split(after, maxsplit=1)[0]
    rows = (
        ("denied_before", before, Polarity.DENIED),
        ("denied_after", head, Polarity.DENIED),
        ("bound_before", before, Polarity.BOUNDED),
        ("bound_after", head[:8], Polarity.BOUNDED),
        ("supposed_before", before, Polarity.SUPPOSED),
        ("supposed_after", head, Polarity.SUPPOSED),
        ("reported_before", before, Polarity.QUOTED),
        ("reported_after", head, Polarity.QUOTED),
        ("asked_after", head, Polarity.ASKED),
    )
    for name, window, polarity in rows:
        if any(word in window for word in lists[name]):
            return polarity
    return Polarity.ASKED if after.endswith("?") and _CJK.search(before + after) else None
