"""Question answering: token F1 and exact match.

Source: the normalisation and scores of SQuAD v2.0's official evaluation (Rajpurkar et al. 2018), with maximum
over several golds for each of the two figures apart.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias, cast

YesNo: TypeAlias = Literal["squad", "hotpot"]
"""Whether yes, no and noanswer are words like others, or count only as the whole answer (HotpotQA's rule)."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_ARTICLES = frozenset({"a", "an", "the"})
_DECIDED = frozenset({"yes", "no", "noanswer"})
MAX_ANSWER = 300_000
"""Characters of an answer; a longer one is wrong."""
_QUOTATION_MARKS = ('""', "''", "``", "“”", "„“", "„”", "‘’", "‚‘", "«»", "»«", "‹›", "「」", "『』")  # noqa: RUF001  (the marks themselves)
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class QAScore:
    """How an answer compares with a gold answer; all in [0, 1]."""

    f1: float
    em: float
    precision: float
    recall: float

    def as_extras(self) -> dict[str, float]:
        """Render the four figures by name."""
        return {"f1": self.f1, "em": self.em, "precision": self.precision, "recall": self.recall}


@dataclass(frozen=True, slots=True)
class QAOptions:
    """How answers are compared."""

    yes_no: YesNo = "squad"
    unicode: bool = False
    """Whether forms are unified (NFKC), case is folded, and punctuation of every script is dropped."""
    numeric: bool = False
    """Whether a gold that is a number is compared as a number, so that 3.5 is not 35 and -5 is not 5."""
    empty: Literal["squad2", "squad1"] = "squad2"
    """What two answers that normalise to nothing earn as F1: 1 by SQuAD v2.0, 0 by v1.1.

    Of several golds, v2.0 drops those that normalise to nothing; v1.1 and Search-R1 keep them, so that "a" is
    an exact match of the golds "A" and "B".
    """


DEFAULT_OPTIONS = QAOptions()
WRONG = QAScore(0.0, 0.0, 0.0, 0.0)


def unquoted(text: str) -> str:
    """Return a text without the quotation marks around all of it: `«Turin»`, `" Oslo "`."""
    bare = text.strip()
    for marks in _QUOTATION_MARKS:
        opening, closing = marks[0], marks[1]
        inner = bare[1:-1]
        if len(bare) > 2 and bare[0] == opening and bare[-1] == closing:  # noqa: PLR2004  (two marks)
            return text if opening in inner or closing in inner else inner.strip()
    return text


def normalise_answer(text: str, options: QAOptions = DEFAULT_OPTIONS) -> str:
    """Lower the case, drop punctuation and articles, and collapse white space."""
    if options.unicode:
        folded = unicodedata.normalize("NFKC", text).casefold()
        bare = "".join(letter for letter in folded if unicodedata.category(letter)[0] not in "PS")
    else:
        bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_without_articles(bare.split()))


def score_answer(answer: str, gold: str | Sequence[str], options: QAOptions = DEFAULT_OPTIONS) -> QAScore:
    """Compare an answer with a gold one; of several golds, each figure is the greatest.

    An empty list means that no answer is right; so do, by SQuAD v2.0, golds that all normalise to nothing.
    Precision and recall are those of the gold with the greatest F1. An answer of more than 300,000 characters
    is wrong.

    Raises:
        TypeError: One of them is not text.
    """
    golds: list[object] = [gold] if isinstance(gold, str) else list(gold)
    texts = [gold_text for gold_text in golds if isinstance(gold_text, str)]
    response = cast("object", answer)  # a data set may hold anything
    if len(texts) < len(golds) or not isinstance(response, str):
        raise TypeError(f"expected answers as texts, got {response!r:.80} and {golds!r:.80}")
    if not isinstance(gold, str):
        # SQuAD v2.0 drops golds that normalise to nothing, v1.1 keeps them all; none means that there is no
        # answer.
        if options.empty == "squad2":
            texts = [text for text in texts if normalise_answer(text, options)]
        texts = texts or [""]
    if len(response) > MAX_ANSWER:
        return WRONG
    read = _NormalisedAnswer(response, normalise_answer(response, options), options)
    scores = [read.compared_with(text) for text in texts]
    best = max(scores, key=lambda score: score.f1)
    return QAScore(best.f1, max(score.em for score in scores), best.precision, best.recall)


def count_f1(shared: int, answer: int, gold: int) -> tuple[float, float, float]:
    """Return F1, precision and recall, by the numbers of shared words, and of each side's."""
    if not shared:
        return 0.0, 0.0, 0.0
    precision, recall = shared / answer, shared / gold
    return 2 * precision * recall / (precision + recall), precision, recall


def _without_articles(words: list[str]) -> Iterator[str]:
    for word in words:
        if word.isalnum():
            if word not in _ARTICLES:
                yield word
        else:
            yield from _ARTICLE.sub(" ", word).split()


class _NormalisedAnswer:
    """An answer, normalised once for all golds."""

    def __init__(self, text: str, form: str, options: QAOptions) -> None:
        self._text, self._form, self._options = text, form, options
        self._words = form.split()
        self._word_counts = Counter(self._words)

    def compared_with(self, gold: str) -> QAScore:
        if self._options.numeric and (number := _number(gold)) is not None:
            same = float(_number(self._text) == number)
            return QAScore(same, same, same, same)
        right = normalise_answer(gold, self._options)
        em = float(self._form == right)
        if self._options.yes_no == "hotpot" and not em and ({self._form, right} & _DECIDED):
            return WRONG
        return self._overlap(right.split(), em)

    def _overlap(self, gold: list[str], em: float) -> QAScore:
        if not self._words or not gold:
            both = em if self._options.empty == "squad2" else 0.0
            return QAScore(both, em, both, both)
        shared = sum((self._word_counts & Counter(gold)).values())
        f1, precision, recall = count_f1(shared, len(self._words), len(gold))
        return QAScore(f1, em, precision, recall)


def _number(text: str) -> Decimal | None:
    match = _NUMBER.fullmatch(text.strip())
    return None if match is None else Decimal(match[0].replace(",", ""))
