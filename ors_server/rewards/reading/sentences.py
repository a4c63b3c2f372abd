"""Cuts a text into sentences, clauses and words, and gives words their classes. Pure.

A value of the text is one token, of any characters; so is a phrase of the lexicon. A sentence ends at a
full stop, a question mark or the end of a line that does not break it; a clause at punctuation and at
conjunctions. A clause has a greatest length, so that the work on it is bounded.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Final, TypeAlias

from ors_server.rewards.reading.polarity import (
    NO_CLASSES,
    Classes,
    Lexicon,
    Polarity,
    languages_of,
    option_lexicon,
    words_of,
)

Span: TypeAlias = tuple[int, int]
_WORD: Final = re.compile(r"(?:i\.e|e\.g)(?=\.)|[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_LATIN: Final = re.compile(r"[a-z]")
_LOOKALIKES: Final = str.maketrans("аеорсухіјѕһԁԛԝѵοανικτυρɑɡ", "aeopcyxijshdqwvoaviktupag")
"""Letters of other scripts inside Latin words, which only look like theirs: a denial stays one."""
_TAG: Final = re.compile(r"</?[A-Za-z_][\w-]{0,30}>|<\|[a-z_]{1,30}\|>")
_LINE_MARK: Final = re.compile(r"(?m)^[ \t]{0,8}(?:[-*+>|]|\d{1,3}[.)]|#{1,6})[ \t]+")
_COMMAND: Final = re.compile(r"\\([A-Za-z]{1,20})")
_RELATIONS: Final = {
    "ne": "negative",
    "neq": "negative",
    "not": "negative",
    "notin": "negative",
    "neg": "negative",
    "lnot": "negative",
    "le": "bound",
    "leq": "bound",
    "ge": "bound",
    "geq": "bound",
    "lt": "bound",
    "gt": "bound",
}
_UNEQUAL: Final = re.compile(r"!=|=/=|=\\=|<>")
_ARROWS: Final = frozenset(
    {"to", "rightarrow", "Rightarrow", "implies", "longrightarrow", "Longrightarrow", "therefore"}
)
_NUMBERED: Final = re.compile(r"\s{0,2}\d")
CROSSES: Final = "✗✘❌❎✖👎🚫⛔"
_CHECKS: Final = "✓✔✅☑👍"
CJK: Final = re.compile(r"[\u0600-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts that are read by the characters around a value: Chinese, Japanese, Korean, Arabic, Hindi, Thai."""
_ABBREVIATIONS: Final = words_of(
    "cf e.g i.e eg ie approx resp nr eq eqs fig vs dr mr mrs ms prof sec ch pp p st ca etc al ex vol q.v"
)
_KINDS: Final = {"\n": "line", "?": "ask", "？": "ask", "؟": "ask", "!": "stop", "！": "stop", "。": "stop"}
_SIGN_CLASSES: Final = {
    "=": "copula",
    "¬": "negative",
    "≠": "negative",
    "+": "bound_after",
    **dict.fromkeys("<>≤≥", "bound"),
    **dict.fromkeys(CROSSES, "reject"),
    **dict.fromkeys(_CHECKS, "confirm"),
}
_MARKS: Final = frozenset(',;:()[]"“”„«»—–')
OR: Final = frozenset(
    {
        "or",
        "oder",
        "ou",
        "oppure",
        "lub",
        "albo",
        "или",
        "либо",
        "veya",
        "alternatively",
        "else",
        "otherwise",
        "vs",
        "versus",
        "and/or",
    }
)
AND: Final = frozenset({"and", "nor", "und", "et", "и", "ve"}) | OR
_EXCEPTIVES: Final = frozenset(
    {
        "but",
        "except",
        "besides",
        "save",
        "bar",
        "other than",
        "except for",
        "apart from",
        "aside from",
        "anything but",
        "anybody but",
        "anyone but",
    }
)
_ORDERS_NOT: Final = frozenset({"don't", "never", "dont"})
_BEFORE_VERBS: Final = words_of("would will might could should may to they you many some i we he she")
_COMPLEMENTIZERS: Final = words_of("dass daß ob że iż czy что чтобы будто")
"""Words of other languages that open an object clause behind a comma; English "that" has no comma."""
_NOBODY: Final = frozenset({"no one", "not even", "not one"})
_STARTERS: Final = words_of(
    "the this that that's it it's we no don't there there's here hope let note do does sorry oops wait "
    "actually hmm but so check because since however other another if when please feel thus hence therefore "
    "you these those"
)
"""Words with which a sentence begins behind a value without a full stop."""
_RESTARTS: Final = frozenset({"it's", "its", "it is", "that's"})
"""Words with which another sentence may begin without a full stop."""
_POSTPOSED: Final = frozenset({"değil", "değildir", "değildi"})
"""Negations behind what they deny."""
_NOES: Final = frozenset({"no", "nope", "nah"})
_CHANGED: Final = _NOES | {"statt", "answer", "answers"}
"""Words whose class depends on their neighbours."""
_BEFORE_NO: Final = frozenset({":", "but", "oh", "ah", "well", "hmm", "uh", "ugh"})
_ARTICLES: Final = ("the ", "an ", "a ", "my ", "our ")
_TRICKS: Final = words_of("trick tricks")
_MEANS: Final = words_of("method way proof approach derivation shortcut argument formula")
"""What an author may not know although the answer is known: "I don't know a slicker method"."""
_NOT_DOUBLED: Final = frozenset({"wrong", "lie", "lies", "false"})
_MAX_BLANK: Final = 3
"""Line ends in the middle of a sentence."""
_MAX_CLAUSE: Final = 60
"""Words and values of a clause; what follows is another one, so that the work is linear."""
_TRANSPARENT: Final = frozenset({"retract", "pronoun", "yes", "pivot"})
"""Classes of phrases whose words keep their own classes."""
_ADDED: Final = frozenset({"choosing", "outranks", "outranked", "tied"})
"""Classes of options that a word has in addition to its others."""
_FAULTY: Final = re.compile(
    r"un(?!den|mist|amb|beat|quest|ass|avoid|disp|chall|equal|paral|riv|contest|doubt|der|anim)\w{3,}(?:ed|ing|ive|ful|able|ible)"
    r"|(?:mis|over|dis)(?!play|cuss|cov|cern|tin)\w{4,}s|ir(?:rel|reg|rat)\w+|il(?:log|leg)\w+"
)
"""Predicates that a prefix makes ones of wrongness: "unconvincing", "misreads", "overstates"."""
MAX_NEAR_WORDS: Final = 2
"""Words up to which a bound is near its value, and an opening near its clause's begin."""


@dataclass(slots=True, eq=False)
class TextToken:
    """A word, a phrase, a sign or a value."""

    kind: str
    """`word`, `value`, `mark`, `stop`, `ask` or `line`."""
    start: int
    end: int
    word: str = ""
    classes: Classes = NO_CLASSES
    is_capital: bool = False


@dataclass(slots=True, eq=False)
class Value:
    """A value while its sentence is read."""

    token: TextToken
    clause: "Clause"
    sentence: int
    polarity: Polarity = Polarity.ASSERTED
    is_framed: bool = False
    is_maybe: bool = False
    is_weak: bool = False
    """Whether nothing but the lack of a known frame speaks against it."""
    region: Span = (0, 0)


@dataclass(slots=True, eq=False)
class Clause:
    """A part of a sentence."""

    lead: TextToken | None
    """The punctuation or conjunction that opens it."""
    tokens: list[TextToken]
    values: list[Value]

    @property
    def start(self) -> int:
        """Where it begins, with what opens it."""
        return self.lead.start if self.lead is not None else self.tokens[0].start if self.tokens else 0

    @property
    def end(self) -> int:
        """Where its last token ends."""
        return self.tokens[-1].end if self.tokens else self.lead.end if self.lead is not None else 0

    def classes(self) -> Classes:
        """Return the classes of its tokens."""
        return classes_in(self.tokens)


@dataclass(slots=True)
class Sentence:
    """A sentence, or a line."""

    clauses: list[Clause]
    is_question: bool
    is_granted: bool = False
    """Whether it says that its condition holds: "if the coin is fair, as stated"."""
    tokens: list[TextToken] = field(init=False)
    """The tokens of its clauses, in order."""
    values: list[Value] = field(init=False)

    def __post_init__(self) -> None:
        """Gather what its clauses have, which do not change."""
        self.tokens = [token for clause in self.clauses for token in clause.tokens]
        self.values = [value for clause in self.clauses for value in clause.values]


class SentenceReader:
    """A text, cut into sentences."""

    def __init__(
        self,
        text: str,
        spans: Sequence[Span],
        neutral: frozenset[str],
        *,
        takes_alternatives: bool,
        are_labels: bool = False,
    ) -> None:
        self._text = text
        self._neutral = neutral
        self._takes_alternatives = takes_alternatives
        self.is_same: Callable[[str, str], bool] | None = None
        self.is_closed = True
        """Whether the text is English, whose sentences the lexicon knows, and the values are mathematics."""
        self.is_english = True
        self.has_characters = not text.isascii() and CJK.search(text) is not None
        """Whether the text has words in a script that is read by characters."""
        self.are_labels = are_labels
        """Whether the values are labels or names."""
        # In this order: words need no classes to be cut, phrases need all words of their sentence, and
        # sentences are cut at classified words.
        self._tokens = self._tokenise(spans)
        self._classify()
        phrases = {token.word for token in self._tokens}
        self._words = phrases.union(" ".join(phrases).split())
        """The words and phrases of the text: a rule that needs one of others is not tried."""
        self._classify_in_place()
        self._classes = classes_in(self._tokens)
        """Their classes. A rule may make a word harmless later, and gives it no other class."""
        self._sentences = self._split()
        self._values = [value for sentence in self._sentences for value in sentence.values]

    def _tokenise(self, spans: Sequence[Span]) -> list[TextToken]:
        tokens: list[TextToken] = []
        position = 0
        for start, end in spans:
            self._tokenise_words(position, start, tokens)
            tokens.append(TextToken("value", start, end))
            position = end
        self._tokenise_words(position, len(self._text), tokens)
        return tokens

    def _tokenise_words(self, start: int, end: int, tokens: list[TextToken]) -> None:
        """Cut the text between two values into words and punctuation."""
        text = self._text
        position = start
        while position < end:
            char = text[position]
            if char == " ":
                position += 1
            elif char.isalpha():
                token = self._read_word(position, end)
                tokens.append(token)
                position = token.end
            elif char == "\\" and text.startswith("\\boxed", position):
                # Everything behind it is inside the box.
                return  # a box that is never closed
            elif char == "<" and (tag := _TAG.match(text, position, end)) is not None:
                position = tag.end()
            elif char == "#":
                position = self._tokenise_hashes(position, tokens)
            elif char == "\\":
                position = self._tokenise_command(position, end, tokens)
            else:
                sign = self._read_sign(position, end, tokens)
                if sign is not None:
                    tokens.append(sign)
                position = position + 1 if sign is None else max(sign.end, position + 1)

    def _read_word(self, position: int, end: int) -> TextToken:
        match = _WORD.match(self._text, position, end)
        stop = position + 1 if match is None else match.end()
        written = self._text[position:stop]
        word = written.casefold()
        if not word.isascii():
            word = word.replace("’", "'")
            # Letters of other scripts may hide a denial from the lexicon.
            if not word.isascii() and _LATIN.search(word):
                word = word.translate(_LOOKALIKES)
        return TextToken("word", position, stop, word, NO_CLASSES, written[0].isupper())

    def _read_sign(self, position: int, end: int, tokens: Sequence[TextToken]) -> TextToken | None:
        """Read a sign; `None` for one that says nothing."""
        text, char = self._text, self._text[position]
        # `!=` is a relation, not the end of a sentence.
        if (kind := _KINDS.get(char)) is not None and text[position + 1 : position + 2] != "=":
            return TextToken(kind, position, position + 1)
        if char == "." and self._ends_sentence(position, tokens):
            return TextToken("stop", position, position + 1)
        if char in "!=<" and (unequal := _UNEQUAL.match(text, position, end)) is not None:
            return TextToken("word", position, unequal.end(), "≠", frozenset({"negative"}))
        is_arrow = char in "-=" and text.startswith(">", position + 1)
        is_bracket = char in _MARKS and not self._is_call(position, tokens)
        if is_arrow or is_bracket or (char == "-" and self._is_dash(position)):
            return TextToken("mark", position, position + 1 + is_arrow, ":" if is_arrow else char)
        return self._read_word_sign(position, tokens)

    def _read_word_sign(self, position: int, tokens: Sequence[TextToken]) -> TextToken | None:
        """Read a sign that stands for a word, or ends a cell of a table."""
        char = self._text[position]
        # In tables of options a bar separates cells; elsewhere it is an absolute value.
        if char == "|":
            is_cell = self.are_labels and self._is_cell(position)
            return TextToken("mark", position, position + 1, ",") if is_cell else None
        if char == "/":
            around = self._text[position - 1 : position] + self._text[position + 1 : position + 2]
            is_apart = around.isspace() and len(around) > 1
            return TextToken("word", position, position + 1, "or") if is_apart else None
        name = _SIGN_CLASSES.get(char)
        is_behind = bool(tokens) and tokens[-1].kind == "value" and tokens[-1].end == position
        if name is None or (char == "+" and not is_behind):
            return None
        return TextToken("word", position, position + 1, char, frozenset({name}))

    def _tokenise_hashes(self, position: int, tokens: list[TextToken]) -> int:
        """Take `####` for the mark of an answer, `#` in front of a digit for that of a label."""
        end = position
        while self._text.startswith("#", end):
            end += 1
        # Several hashes begin a separate line: GSM8K's answer.
        if end - position > 1:
            tokens.append(TextToken("line", position, position))
            tokens.append(TextToken("word", position, end, "####", frozenset({"answer"})))
        elif self._text[end : end + 1].isdigit():
            tokens.append(TextToken("word", position, end, "#", frozenset({"label"})))
        return end

    def _tokenise_command(self, position: int, end: int, tokens: list[TextToken]) -> int:
        command = _COMMAND.match(self._text, position, end)
        if command is None:
            return position + 1
        if command[1] in _ARROWS:
            tokens.append(TextToken("mark", position, command.end(), ":"))
        elif command[1] in _RELATIONS:
            tokens.append(
                TextToken("word", position, command.end(), command[0], frozenset({_RELATIONS[command[1]]}))
            )
        return command.end()

    def _ends_sentence(self, position: int, tokens: Sequence[TextToken]) -> bool:
        following = self._text[position + 1 : position + 2]
        if following and not (following.isspace() or following in "\"')*_<]}$\\”~`"):
            # A point inside of a number, an address or a name ends nothing.
            return False
        if tokens and tokens[-1].end == position and tokens[-1].word == "no":
            before = tokens[-2] if len(tokens) > 1 else None
            if before is not None and (before.word in _BEFORE_NO or before.kind == "ask"):
                return True  # "41: no. 42: yes.", "Is it 41? No. 42.", "But no. 42."
            return _NUMBERED.match(self._text, position + 1) is None  # "no. 5"
        return not (tokens and tokens[-1].end == position and tokens[-1].word in _ABBREVIATIONS)

    def _is_call(self, position: int, tokens: Sequence[TextToken]) -> bool:
        """Whether a bracket belongs to the word in front of it: `not(42)`."""
        return (
            bool(tokens)
            and self._text[position] == "("
            and tokens[-1].word == "not"
            and tokens[-1].end == position
        )

    def _is_cell(self, position: int) -> bool:
        """Whether a bar ends a cell of a table."""
        start = self._text.rfind("\n", 0, position) + 1
        return start < position and self._text.startswith("|", start)

    def _is_dash(self, position: int) -> bool:
        text = self._text
        before, after = text[max(position - 1, 0) : position], text[position + 1 : position + 2]
        return (before.isspace() and after.isspace()) or text[position : position + 2] == "--"

    def _classify(self) -> None:
        """Give words their classes; a phrase becomes one token."""
        words = [token.word if token.kind == "word" else f"\0{token.kind}" for token in self._tokens]
        lexicons = languages_of({word for word in words if word[0] != "\0"})
        # Rules that rely on English sentences need a text in English only.
        self.is_closed = self.is_english = len(lexicons) == 1 and not self.has_characters
        tokens: list[TextToken] = []
        index, neutral = 0, self._neutral
        english = lexicons[0]
        while index < len(words):
            token = self._tokens[index]
            length = 1
            # A sign has its class already; the gold answer's own words lose theirs.
            if token.kind != "word" or token.classes:
                if token.word in neutral:
                    token.classes = NO_CLASSES
            else:
                word = token.word
                # Most pairs of words begin no phrase.
                if len(lexicons) > 1 or "n'" in word or tuple(words[index : index + 2]) in english.phrases:
                    length, classes = _look_up(lexicons, words, index)
                else:
                    classes = english.words.get(word, NO_CLASSES)
                if self.are_labels:
                    length, classes = _look_up_option(words, index, length, classes)
                # A phrase of the gold answer denies nothing, but still joins words.
                if neutral and neutral.issuperset(words[index : index + length]):
                    classes = classes & {"copula", "pivot"}
                if length > 1:
                    token.end = self._tokens[index + length - 1].end
                    token.word = " ".join(words[index : index + length])
                token.classes = classes
            tokens.append(token)
            index += length
        self._tokens = tokens

    def _classify_in_place(self) -> None:
        """Give words the classes that depend on their neighbours."""
        tokens = self._tokens
        for earlier, token in pairwise(() if self._words.isdisjoint(_CHANGED) else tokens):
            if earlier.word == "statt" and token.kind not in ("word", "value"):
                earlier.classes = NO_CLASSES  # "fand in Riga statt", not "statt Riga"
            is_verb = token.word == "answer" and earlier.word in _BEFORE_VERBS
            if is_verb or (token.word == "answers" and "source" in earlier.classes):  # "my friend answers 42"
                token.classes = frozenset({"report"})
            if earlier.word in _NOES and token.kind == "value" and self._is_reply(earlier):
                earlier.classes = frozenset({"correction"})  # "41 no 42", "nah 42"
        # After all classes are known: a negation is read with the words behind it.
        for index, token in enumerate(tokens):
            if not token.classes:
                continue
            if "refuse" in token.classes and _is_about_way(tokens[index : index + 5]):
                token.classes = frozenset({"harmless"})
            is_phrase = " " in token.word and token.word not in _NOBODY
            if "negative" in token.classes and (not is_phrase or token.word == "and no"):
                self._soften(index)

    def _is_reply(self, token: TextToken) -> bool:
        """Whether a "no" directly in front of a value answers what is in front of it: "41 no 42"."""
        before = self._text[: token.start].rstrip()[-1:]
        return token.word != "no" or before.isdigit() or before in ("$", "}")

    def _soften(self, index: int) -> None:
        """Read a negation with the words behind it: "no doubt" denies nothing, "cannot solve" gives up."""
        token = self._tokens[index]
        following = self._tokens[index + 1 : index + 6]
        words = list(takewhile(lambda other: other.kind == "word", following))
        is_at_value = len(words) < len(following) and following[len(words)].kind == "value"
        if words and (self._is_reply_or_order(index, words[0]) or self._is_of_answer(index, words[0])):
            return
        if words and is_at_value and any(word.word in _EXCEPTIVES for word in words[-1:]):
            _make_harmless(token, words)  # "nothing but 42"
            return
        reach = len(words) if token.word in _NOBODY else MAX_NEAR_WORDS + 1  # "not even a skeptic would deny"
        for offset, word in enumerate(words[:reach]):
            # "no trick", but not "does not do the trick"
            is_benign = word.word not in _TRICKS or (offset == 0 and token.word != "not")
            if "benign" in word.classes and is_benign:
                _make_harmless(token, words[: offset + 1])
                return
            if "solving" in word.classes and is_at_value and word is words[-1]:
                return  # "I would not say 42"
            if "solving" in word.classes:
                is_softened = any(
                    "benign" in later.classes or later.word in _MEANS for later in words[offset + 1 :]
                )
                if token.word not in _ORDERS_NOT and not is_softened:
                    token.classes |= {"refuse"}
                return
            if word.classes & {"reject", "fault"} and word.word not in _NOT_DOUBLED:
                if (offset < MAX_NEAR_WORDS or reach > MAX_NEAR_WORDS + 1) and not token.classes & {
                    "exceptive"
                }:
                    _make_harmless(token, words[: offset + 1])  # "nobody disputes"
                return
            if "negative" in word.classes:
                break

    def _is_of_answer(self, index: int, following: TextToken) -> bool:
        """Whether a form of "be" is denied of the answer, which gives nothing up: "41 is not the answer"."""
        near = self._tokens[max(index - 1, 0) : index + 1]
        if following.word == "be":  # "can't be the answer"
            near, following = [following], next(iter(self._tokens[index + 2 : index + 3]), following)
        is_noun = "answer" in following.classes and following.word.startswith(_ARTICLES)
        return is_noun and any("copula" in token.classes for token in near)

    def _is_reply_or_order(self, index: int, following: TextToken) -> bool:
        """Whether a negation is a reply or an order: "no that is wrong", "do not be misled into 42"."""
        word = self._tokens[index].word
        is_order = word == "don't" or (index > 0 and self._tokens[index - 1].word == "do")
        return (word in _NOES and "pronoun" in following.classes) or (is_order and following.word == "be")

    def _split(self) -> list[Sentence]:
        sentences: list[Sentence] = []
        current: list[TextToken] = []
        for index, token in enumerate(self._tokens):
            if token.kind == "line" and self._is_wrapped(index):
                continue
            if token.kind in ("stop", "ask", "line"):
                if current:
                    sentences.append(self._clauses(current, len(sentences), is_question=token.kind == "ask"))
                elif token.kind == "ask" and sentences:
                    sentences[-1].is_question = sentences[-1].is_question or self._tokens[index - 1].kind in (
                        "ask",
                        "stop",
                    )
                current = []
            else:
                # A new sentence without a full stop, which would judge the value in front of it.
                if (
                    token.is_capital
                    and token.word.partition(" ")[0] in _STARTERS
                    and current
                    and (current[-1].kind == "value")
                ):
                    sentences.append(self._clauses(current, len(sentences), is_question=False))
                    current = []  # "42 The other one fails."
                current.append(token)
        if current:
            sentences.append(self._clauses(current, len(sentences), is_question=False))
        return sentences

    def _is_wrapped(self, index: int) -> bool:
        """Whether a line end is inside of a sentence: the next line continues with a small letter."""
        before = self._tokens[index - 1] if index else None
        following = index + 1
        # Blank lines up to a bound; a longer gap is a new paragraph.
        while (
            following < len(self._tokens)
            and self._tokens[following].kind == "line"
            and following < index + _MAX_BLANK
        ):
            following += 1
        after = self._tokens[following] if following < len(self._tokens) else None
        if after is not None and after.word == "####":
            return False
        if before is not None and before.kind == "line" and index > 1:
            before = self._tokens[index - 2]
        is_colon = before is not None and before.word == ":" and index > 1
        if is_colon and after is not None and after.kind == "value":
            return True
        if (
            before is not None
            and after is not None
            and before.kind == "word"
            and before.classes & {"copula", "negative"}
            and "confirm" not in before.classes
            and _LINE_MARK.match(self._text, self._tokens[index].end) is None
        ):
            return True
        if before is None or after is None or before.kind not in ("word", "mark") or after.kind != "word":
            # A line that begins like an item of a list is a new one.
            return False
        if before.word == ":" or _LINE_MARK.match(self._text, before.end):
            return False
        between = self._text[before.end : after.start]
        return not after.is_capital and between.count("\n") == 1 and not between.strip()

    def _clauses(self, tokens: Sequence[TextToken], number: int, *, is_question: bool) -> Sentence:
        current = Clause(None, [], [])
        clauses = [current]
        for index, token in enumerate(tokens):
            word, classes = token.word, token.classes
            if token.kind == "mark":
                # Quotation marks and empty brackets do not divide a clause.
                is_silent = word in '"“”„«»' or (word in "[]" and not current.tokens)
                # "Ich bezweifle, dass es Riga ist"
                following = tokens[index + 1].word if index + 1 < len(tokens) else ""
                is_inner = word == "," and current.tokens and following in _COMPLEMENTIZERS
                if is_silent or is_inner:
                    continue
                current = Clause(token, [], [])
                clauses.append(current)
            elif (
                token.kind == "word"
                and (
                    (
                        "pivot" in classes
                        and not (word == "as" and _is_value(tokens, index + 1))
                        # "it would then be 42"
                        and not (word == "then" and "would" in classes_in(current.tokens[-1:]))
                    )
                    or ((word in _RESTARTS or word == "and") and _opens_sentence(current, tokens, index))
                    or (
                        current.values
                        and (
                            (word.partition(" ")[0] in AND and "bound_after" not in classes)
                            or ("negative" in classes and _opens_contrast(tokens, index))
                            or (word in _NOES and "correction" in classes)
                        )
                    )
                )
            ):
                lead = current.lead
                # ", but" is one opener: the comma takes the word's class.
                if not current.tokens and lead is not None and lead.kind == "mark":
                    current.lead = TextToken("word", lead.start, token.end, word, classes)
                elif not current.tokens and lead is not None and lead.word == "because":
                    current.tokens.append(token)
                    continue
                else:
                    current = Clause(token, [], [])
                    clauses.append(current)
                if classes - {"pivot", "reason"}:
                    current.tokens.append(token)
            else:
                # The bound keeps the work on a clause constant; what follows is read as another one.
                if len(current.tokens) >= _MAX_CLAUSE:
                    current = Clause(None, [], [])
                    clauses.append(current)
                current.tokens.append(token)
                if token.kind == "value":
                    current.values.append(Value(token, current, number))
                elif word and word in CROSSES + _CHECKS and current.values:
                    current = Clause(None, [], [])
                    clauses.append(current)
        return Sentence([clause for clause in clauses if clause.tokens], is_question)


def classes_in(tokens: Sequence[TextToken]) -> Classes:
    """Return the classes of some tokens."""
    sets = [token.classes for token in tokens if token.classes]
    return NO_CLASSES.union(*sets) if len(sets) > 1 else sets[0] if sets else NO_CLASSES


def _look_up(lexicons: Sequence[Lexicon], words: list[str], index: int) -> tuple[int, Classes]:
    """Return the length in words and the classes of the phrase or word at a place."""
    length, classes = 1, NO_CLASSES
    for lexicon in lexicons:
        phrase = lexicon.match_phrase(words, index)
        if phrase is not None and phrase[0] > length:
            length, classes = phrase
    if length == 1:
        word = words[index]
        own, foreign = lexicons[0].words.get(word, NO_CLASSES), NO_CLASSES
        for lexicon in lexicons[1:]:
            foreign |= lexicon.words.get(word, NO_CLASSES)
        own = foreign or own  # German "war" (was) says nothing of a value, though the English word does
        return 1, own | {"negative"} if word.endswith("n't") or word.startswith("n'") else own
    parts = words[index : index + length]
    own = NO_CLASSES.union(*(lexicon.words.get(part, NO_CLASSES) for lexicon in lexicons for part in parts))
    if classes <= _TRANSPARENT:  # "definitely not" in front of a value denies it
        classes |= own - {"oblique", "preposition"} if "yes" in classes else own  # "of course"
    is_mine = any("first_person" in lexicons[0].words.get(part, NO_CLASSES) for part in parts)
    return length, classes | {"first_person"} if is_mine else classes


def _look_up_option(words: list[str], index: int, length: int, classes: Classes) -> tuple[int, Classes]:
    """Return what words say about options, where it is not what they say about numbers."""
    lexicon = option_lexicon()
    phrase = lexicon.match_phrase(words, index)
    if (
        not classes
        and phrase is None
        and words[index] not in lexicon.words
        and _FAULTY.fullmatch(words[index])
    ):
        return 1, frozenset({"fault"})
    if phrase is None and length == 1 and words[index] in lexicon.words:
        phrase = 1, lexicon.words[words[index]]
    if phrase is None or phrase[0] < length:
        return length, classes
    return phrase[0], phrase[1] | classes if phrase[1] <= _ADDED else phrase[1]


def _make_harmless(token: TextToken, words: Sequence[TextToken]) -> None:
    for softened in (token, *words):
        softened.classes = frozenset({"harmless"})


def _is_about_way(tokens: Sequence[TextToken]) -> bool:
    """Whether an author only knows no way of the work: "I don't know a slicker method"."""
    is_noun = len(tokens) > 1 and tokens[1].word in ("a", "an", "any", "of", "the")
    return is_noun and tokens[0].word.endswith(" know") and any(token.word in _MEANS for token in tokens)


def _is_value(tokens: Sequence[TextToken], index: int) -> bool:
    return index < len(tokens) and tokens[index].kind == "value"


def _opens_sentence(clause: Clause, tokens: Sequence[TextToken], index: int) -> bool:
    """Whether a pronoun with its verb begins another sentence, without a full stop: "not 41 it's 42"."""
    # "the key is wrong and it's 42": the answer is set against what the clause rejects
    is_joined = tokens[index].word == "and" and index + 1 < len(tokens) and "reject" in clause.classes()
    at = index + 1 if is_joined else index
    is_stated = tokens[at].word in _RESTARTS and _is_value(tokens, at + 1)
    return is_stated and (is_joined or bool(clause.values))


def _opens_contrast(tokens: Sequence[TextToken], index: int) -> bool:
    """Whether a negation sets the next value against the last one: "42, not 43", "6 rather than 5"."""
    if "copula" in tokens[index - 1].classes or tokens[index].word in _POSTPOSED:
        return False
    return any(token.kind == "value" for token in tokens[index + 1 : index + 4])
