"""Rewards for how much of a reference a response has: edit distance, ROUGE, BLEU, chrF; by the extra `text`.

All of them pay for words, not for meaning: "not" costs one word. They suit translations and summaries,
together with a reward for the truth. Of several golds the best counts.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from ors_server.rewards.qa import count_f1
from ors_server.rewards.reading.optional_packages import load_package
from ors_server.rewards.requirements import needs_package
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.text import porter
from ors_server.rewards.text.texts import (
    BadGoldError,
    TextForm,
    UnparsedAnswerError,
    WorkLimitError,
    normalise_golds,
    normalise_text,
    read_golds,
    read_response,
    text_reward,
)

MAX_CHARACTERS: Final = 300_000
"""Characters of a response that is compared by edits or words; a longer one earns 0."""
MAX_COUNTED: Final = 100_000
"""Characters of a response of which BLEU and chrF count n-grams."""
MAX_WORK: Final = 1_000_000_000
"""Characters of a response times those of all golds."""
COMPARABLE_CHARACTERS: Final = 1_000
"""A response of so many characters must be comparable with all golds."""
MAX_ORDER: Final = 8
"""Words of the longest n-gram."""
STEMMED_CHARACTERS: Final = 3
"""Words of no more characters keep their endings (rouge-score)."""

Tokenizer: TypeAlias = Literal["ascii", "unicode"]
EditMethod: TypeAlias = Literal["levenshtein", "token_sort"]
BleuTokenizer: TypeAlias = Literal["13a", "intl", "char", "zh", "none"]
Smoothing: TypeAlias = Literal["exp", "floor", "add-k", "none"]

_WORDS: Final = {"ascii": re.compile("[a-z0-9]+"), "unicode": re.compile(r"\w+")}
_BLEU_TOKENIZERS: Final = frozenset({"13a", "intl", "char", "zh", "none"})
_SMOOTHINGS: Final = frozenset({"exp", "floor", "add-k", "none"})

Compare: TypeAlias = Callable[[list[str], list[str]], int]
"""How many tokens, or n-grams, two lists share."""


@needs_package("rapidfuzz")
@text_reward
def edit_similarity_reward(
    final_response: str,
    answer: str,
    method: EditMethod = "levenshtein",
    *,
    casefold: bool = False,
    normalise: bool = False,
) -> float:
    """Pays for few edits between the response and the nearest gold: 1 less the share of characters to change.

    Hazards: a wrong digit in a long answer still earns nearly 1, and a denied answer earns what its words do;
    unlike texts of one alphabet earn 0.2 to 0.4. `token_sort` does not see the order of words. The scores of
    rapidfuzz that ignore what one side has more (`partial_ratio`, `token_set_ratio`) pay for lists, and are
    not offered.

    Source: normalised Levenshtein similarity, and the token sort ratio, of the package rapidfuzz, whose
    values these are: every character counts, unless `casefold` or `normalise` (white space, quotes and
    compatible characters) is set.

    Raises:
        RewardDefinitionError: If the method is another one.
        MissingPackageError: If the package `rapidfuzz` is not installed.
    """
    if method not in {"levenshtein", "token_sort"}:
        raise RewardDefinitionError(f"expected the method levenshtein or token_sort, got {method!r}")
    golds, response = read_golds(answer), read_response(final_response, MAX_CHARACTERS)
    if normalise:
        form = TextForm(casefold=casefold)
        golds, response = normalise_golds(golds, form), normalise_text(response, form)
    elif casefold:
        golds, response = [gold.casefold() for gold in golds], response.casefold()
    _check_work(len(response), golds)
    if method == "token_sort":
        similar = load_package("rapidfuzz.fuzz").token_sort_ratio
        return max(float(similar(response, gold)) / 100 for gold in golds)
    similar = load_package("rapidfuzz.distance").Levenshtein.normalized_similarity
    return max(float(similar(response, gold)) for gold in golds)


@text_reward
def rouge_n_reward(
    final_response: str, answer: str, n: int = 1, tokenizer: Tokenizer = "ascii", *, stem: bool = False
) -> RewardResult:
    """Pays the F1 of the n-grams that the response shares with the best gold: ROUGE-1, ROUGE-2 and so on.

    Hazards: the right words in any order earn 1 by ROUGE-1; a copy of the source text earns much of what a
    summary does, and a wrong word in a long answer still leaves most of it: a denied answer earns what its
    words do. `ascii` sees letters a to z and digits only; for other scripts take `unicode`.

    Source: Lin 2004, as the package rouge-score 0.1.2 tokenises and counts. `stem` drops English endings by
    Porter's stemmer as NLTK has it.

    Raises:
        RewardDefinitionError: If an option is illegal.
    """
    if not 1 <= n <= MAX_ORDER:
        raise RewardDefinitionError(f"expected n-grams of 1 to {MAX_ORDER} words, got {n!r}")

    def shared(left: list[str], right: list[str]) -> int:
        return sum((Counter(_ngrams(left, n)) & Counter(_ngrams(right, n))).values())

    return _rouge(final_response, answer, _Words(tokenizer, stem=stem), shared, n)


@needs_package("rapidfuzz")
@text_reward
def rouge_l_reward(
    final_response: str, answer: str, tokenizer: Tokenizer = "ascii", *, stem: bool = False
) -> RewardResult:
    """Pays the F1 of the longest common subsequence of words with the best gold: ROUGE-L.

    Hazards: those of `rouge_n_reward`, but that the order of words counts. Needs the extra `text`.

    Source: Lin 2004, as the package rouge-score 0.1.2 computes `rougeL`; the subsequence by rapidfuzz.

    Raises:
        RewardDefinitionError: If the tokenizer is another one.
        MissingPackageError: If a package is not installed.
    """
    similar = load_package("rapidfuzz.distance").LCSseq.similarity

    def shared(left: list[str], right: list[str]) -> int:
        return int(similar(left, right))

    return _rouge(final_response, answer, _Words(tokenizer, stem=stem), shared, 1)


@needs_package("sacrebleu")
@text_reward
def bleu_reward(
    final_response: str,
    answer: str,
    tokenizer: BleuTokenizer = "13a",
    smoothing: Smoothing = "exp",
    *,
    casefold: bool = False,
) -> RewardResult:
    """Pays the sentence BLEU of the response against all golds together, divided by 100.

    Hazards: BLEU is a figure of a corpus; of one sentence it depends on the smoothing, so compare only what
    has one signature. Texts of fewer than four words use shorter n-grams (effective order). More than 100,000
    characters earn 0. A wrong word in a long answer leaves much of it, and a denied answer earns what its
    words do. Tokenizers that download a model are not offered.

    Source: Papineni et al. 2002, by the package sacrebleu (Post 2018); exponential smoothing of Chen and
    Cherry 2014. Report the `signature` with it.

    Raises:
        RewardDefinitionError: If the tokenizer or the smoothing is another one.
        MissingPackageError: If the package `sacrebleu` is not installed.
    """
    if tokenizer not in _BLEU_TOKENIZERS or smoothing not in _SMOOTHINGS:
        raise RewardDefinitionError(
            f"expected a tokenizer of {', '.join(sorted(_BLEU_TOKENIZERS))} and a smoothing of "
            f"{', '.join(sorted(_SMOOTHINGS))}, got {tokenizer!r} and {smoothing!r}"
        )
    golds, response = read_golds(answer), read_response(final_response, MAX_COUNTED)
    _check_work(len(response), golds)
    metric = load_package("sacrebleu.metrics").BLEU(
        lowercase=casefold, tokenize=tokenizer, smooth_method=smoothing, effective_order=True
    )
    bleu = metric.sentence_score(response, golds)
    extras = {"brevity_penalty": float(bleu.bp), "signature": str(metric.get_signature())}
    return RewardResult(_share(bleu.score), extras=extras)


@needs_package("sacrebleu")
@text_reward
def chrf_reward(
    final_response: str, answer: str, word_order: int = 0, *, casefold: bool = False
) -> RewardResult:
    """Pays the chrF of the response against the best gold, over 100: the F2 of shared character n-grams.

    Hazards: unlike texts of one language earn 0.1 to 0.2, and a wrong word in a long answer leaves most:
    a denied answer earns what its words do. More than 100,000 characters earn 0.

    Source: Popović 2015 and 2017, by the package sacrebleu; `word_order` is 0 for chrF, 2 for chrF++.

    Raises:
        RewardDefinitionError: If the order is not 0, 1 or 2.
        MissingPackageError: If the package `sacrebleu` is not installed.
    """
    if word_order not in {0, 1, 2}:
        raise RewardDefinitionError(f"expected a word order of 0, 1 or 2, got {word_order!r}")
    golds, response = read_golds(answer), read_response(final_response, MAX_COUNTED)
    _check_work(len(response), golds)
    metric = load_package("sacrebleu.metrics").CHRF(word_order=word_order, lowercase=casefold)
    chrf = metric.sentence_score(response, golds)
    return RewardResult(_share(chrf.score), extras={"signature": str(metric.get_signature())})


class _Words:
    """Splits texts into words as rouge-score does."""

    def __init__(self, tokenizer: str, *, stem: bool) -> None:
        if tokenizer not in _WORDS:
            raise RewardDefinitionError(f"expected the tokenizer ascii or unicode, got {tokenizer!r}")
        self._words = _WORDS[tokenizer]
        self._stem = stem

    def of(self, text: str) -> list[str]:
        words: list[str] = self._words.findall(text.lower())
        return [stemmed(word) for word in words] if self._stem else words


def stemmed(word: str) -> str:
    """Return the stem of a word in lower case, as rouge-score does; short words keep their endings."""
    return porter.stem(word) if len(word) > STEMMED_CHARACTERS else word


def _rouge(
    final_response: object, answer: object, words: _Words, shared: Compare, order: int
) -> RewardResult:
    texts, response = read_golds(answer), read_response(final_response, MAX_CHARACTERS)
    _check_work(len(response), texts)
    golds, response_words = [words.of(text) for text in texts], words.of(response)
    if min(map(len, golds)) < order:
        raise BadGoldError(
            f"a gold answer has fewer than {order} words; for other scripts: tokenizer='unicode'"
        )
    scores = [
        count_f1(shared(response_words, gold), len(response_words) - order + 1, len(gold) - order + 1)
        for gold in golds
    ]
    f1, precision, recall = max(scores)
    return RewardResult(f1, extras={"precision": precision, "recall": recall})


def _ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def _check_work(length: int, golds: Sequence[str]) -> None:
    work = sum(map(len, golds))
    if work * COMPARABLE_CHARACTERS > MAX_WORK:
        raise WorkLimitError(f"golds of {work} characters together are too many to compare with")
    if length * work > MAX_WORK:
        raise UnparsedAnswerError(f"an answer of {length} characters is too long for golds of {work}")


def _share(percent: float) -> float:
    return min(1.0, max(0.0, float(percent) / 100))
