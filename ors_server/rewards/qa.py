"""Question answering: token F1 and exact match.

Source: the normalisation and scores of SQuAD v2.0's official evaluation (Rajpurkar et al. 2018), with maximum
over several golds for each of the two figures apart.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

YesNo: TypeAlias = Literal["squad", "hotpot"]
"""Whether yes, no and noanswer are words like others, or count only as the whole answer (HotpotQA's rule)."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DECIDED = frozenset({"yes", "no", "noanswer"})
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
    """What two answers that normalise to nothing earn as F1: 1 by SQuAD v2.0, 0 by v1.1."""


DEFAULT_OPTIONS = QAOptions()


def normalise_answer(text: str, options: QAOptions = DEFAULT_OPTIONS) -> str:
    """Lower the case, drop punctuation and articles, and collapse white space.

    Args:
        text: An answer.
        options: How.
    """
    if options.unicode:
        folded = unicodedata.normalize("NFKC", text).casefold()
        bare = "".join(letter for letter in folded if unicodedata.category(letter)[0] not in "PS")
    else:
        bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def score_answer(answer: str, gold: str | Sequence[str], options: QAOptions = DEFAULT_OPTIONS) -> QAScore:
    """Compare an answer with a gold one, or with the best of several.

    Args:
        answer: What was answered.
        gold: What is right; of several, each figure is the greatest. None at all means that there is no
            answer.
        options: How they are compared.

    Returns:
        The figures; precision and recall are those of the gold with the greatest F1.

    Raises:
        TypeError: If one of them is no text.
    """
    golds: list[object] = [gold] if isinstance(gold, str) else list(gold)
    texts = [one for one in golds if isinstance(one, str)]
    given = cast("object", answer)  # a data set may hold anything
    if len(texts) < len(golds) or not isinstance(given, str):
        raise TypeError(f"answers are texts; {given!r:.80} and {golds!r:.80} came")
    if not isinstance(gold, str):  # SQuAD v2.0 drops golds that normalise to nothing; none is "no answer"
        texts = [one for one in texts if normalise_answer(one, options)] or [""]
    scores = [_compare(answer, one, options) for one in texts]
    best = max(scores, key=lambda score: score.f1)
    return QAScore(best.f1, max(score.em for score in scores), best.precision, best.recall)


def _compare(answer: str, gold: str, options: QAOptions) -> QAScore:
    if options.numeric and (number := _number(gold)) is not None:
        same = float(_number(answer) == number)
        return QAScore(same, same, same, same)
    left, right = normalise_answer(answer, options), normalise_answer(gold, options)
    em = float(left == right)
    if options.yes_no == "hotpot" and left != right and ({left, right} & _DECIDED):
        return QAScore(0.0, em, 0.0, 0.0)
    ours, theirs = left.split(), right.split()
    if not ours or not theirs:
        both = em if options.empty == "squad2" else 0.0
        return QAScore(both, em, both, both)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    if not shared:
        return QAScore(0.0, em, 0.0, 0.0)
    precision, recall = shared / len(ours), shared / len(theirs)
    return QAScore(2 * precision * recall / (precision + recall), em, precision, recall)


def _number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text.strip())
    return None if found is None else float(found[0].replace(",", ""))
