"""ROUGE-Lsum of a summary, and the BLEU of a whole corpus."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ors_server.rewards.qa import count_f1
from ors_server.rewards.reading.optional_packages import load_package
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardDefinitionError, RewardFieldError
from ors_server.rewards.text.overlap import BleuTokenizer, Smoothing, stemmed
from ors_server.rewards.text.texts import BadGoldError, read_golds, read_response, text_reward

MAX_GOLD_WORDS: Final = 2_000
"""Words of one gold summary."""
MAX_CELLS: Final = 4_000_000
"""Words of a response times those of all golds."""
_WORD: Final = re.compile("[a-z0-9]+")

Sentences = list[list[str]]


@text_reward
def rouge_lsum_reward(final_response: str, answer: str, *, stem: bool = False) -> RewardResult:
    """Pays the F1 of what the lines of a summary share with those of the best gold: ROUGE-Lsum.

    Each line of the gold is compared with every line of the response, and its words that are in some longest
    common subsequence count, each once. Put one sentence on a line. A gold has 1 to 2,000 words.

    Hazards: those of `rouge_l_reward`. Only letters a to z and digits make words. A response whose words
    times those of the golds are more than 4,000,000 earns 0.

    Source: Lin 2004, section 3.2, as the package rouge-score 0.1.2 computes `rougeLsum`.
    """
    golds = [_sentences(text, stem=stem) for text in read_golds(answer)]
    sizes = [sum(map(len, gold)) for gold in golds]
    if min(sizes) < 1 or max(sizes) > MAX_GOLD_WORDS:
        raise BadGoldError(
            f"expected a gold summary of 1 to {MAX_GOLD_WORDS} words of letters a to z and digits"
        )
    sentences = _sentences(read_response(final_response), stem=stem)
    if sum(map(len, sentences)) * sum(sizes) > MAX_CELLS:
        return RewardResult(0.0, reason="the response is far too long for a summary of the gold's length")
    f1, precision, recall = max(_compare(gold, sentences) for gold in golds)
    return RewardResult(f1, extras={"precision": precision, "recall": recall})


@dataclass(frozen=True, slots=True)
class CorpusBleu:
    """The BLEU of a corpus."""

    score: float
    """BLEU in [0, 1]: the usual number divided by 100."""
    brevity_penalty: float
    precisions: tuple[float, ...]
    """Precisions of 1-grams to 4-grams, in [0, 1]."""
    signature: str
    """sacrebleu's signature, to be reported with the score."""


def corpus_bleu(
    responses: Sequence[str],
    golds: Sequence[str | Sequence[str]],
    tokenizer: BleuTokenizer = "13a",
    smoothing: Smoothing = "exp",
    *,
    casefold: bool = False,
) -> CorpusBleu:
    """Compute the BLEU of a corpus: n-grams are counted over all responses before anything is divided.

    It is not a mean of sentences' BLEU, so it is not a reward of one response; report it together with
    `bleu_reward`. `golds` has a reference, or a list of references, for each response.

    Source: Papineni et al. 2002, by the package sacrebleu (Post 2018).
    """
    lists = [[gold] if isinstance(gold, str) else list(gold) for gold in golds]
    if not responses or len(lists) != len(responses) or not all(lists):
        raise RewardFieldError(
            f"expected responses, and at least one gold for each, got {len(responses)} and {len(lists)}"
        )
    try:
        metric = load_package("sacrebleu.metrics").BLEU(
            lowercase=casefold, tokenize=tokenizer, smooth_method=smoothing
        )
    except (AssertionError, ValueError, KeyError) as error:
        raise RewardDefinitionError(f"unknown tokenizer or smoothing: {error}") from error
    column_count = max(map(len, lists))
    columns = [
        [
            golds_of_response[column] if column < len(golds_of_response) else None
            for golds_of_response in lists
        ]
        for column in range(column_count)
    ]
    bleu = metric.corpus_score(list(responses), columns)
    return CorpusBleu(
        score=min(1.0, float(bleu.score) / 100),
        brevity_penalty=float(bleu.bp),
        precisions=tuple(float(precision) / 100 for precision in bleu.precisions),
        signature=str(metric.get_signature()),
    )


def _sentences(text: str, *, stem: bool) -> Sentences:
    lines = [words for line in text.lower().split("\n") if (words := _WORD.findall(line))]
    return [[stemmed(word) for word in words] for words in lines] if stem else lines


def _compare(gold: Sentences, sentences: Sentences) -> tuple[float, float, float]:
    left = Counter(word for line in gold for word in line)
    right = Counter(word for line in sentences for word in line)
    total, given_words = left.total(), right.total()
    hits = 0
    for line in gold:
        matched = sorted(set[int]().union(*(_subsequence(line, other) for other in sentences)))
        for word in (line[index] for index in matched):
            if left[word] > 0 and right[word] > 0:
                hits += 1
                left[word] -= 1
                right[word] -= 1
    return count_f1(hits, given_words, total)


def _subsequence(gold: Sequence[str], response: Sequence[str]) -> list[int]:
    """Return the places in the gold of a longest common subsequence; of several, that of rouge-score."""
    table = [[0] * (len(response) + 1)]
    for word in gold:
        above = table[-1]
        row = [0]
        for column, other in enumerate(response):
            row.append(above[column] + 1 if word == other else max(above[column + 1], row[column]))
        table.append(row)
    matched: list[int] = []
    i, j = len(gold), len(response)
    while i and j:
        if gold[i - 1] == response[j - 1]:
            i, j = i - 1, j - 1
            matched.append(i)
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return matched
