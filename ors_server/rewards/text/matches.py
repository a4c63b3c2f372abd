"""Rewards that compare a response with gold texts: as a whole, as words in it, by a regular expression.

Source: the match scorers of inspect_ai, ARISE and Search-R1. Unlike those, none pays for a list of guesses:
no sign is dropped ("-5" is not "5", "C++" is not "C"), words end where words and numbers
end, and an answer that also names another choice does not count.

`answer` is a gold, or a list of which any is right; a blank one is a bad gold.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.reading.bounded_pattern import PatternBudget, PatternTimeoutError
from ors_server.rewards.reading.optional_packages import load_package
from ors_server.rewards.requirements import needs_package
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.text.asserted_words import asserted_words, picks_gold
from ors_server.rewards.text.numeric_match import numeric_match_reward
from ors_server.rewards.text.texts import (
    MAX_RESPONSE,
    BadGoldError,
    TextForm,
    UnparsedAnswerError,
    normalise_golds,
    normalise_text,
    read_golds,
    read_response,
    shown,
    text_reward,
)

MAX_RATIO: Final = 20.0
"""Greatest number of words of a response per word of its longest gold."""
MAX_PATTERN: Final = 1_000
"""Characters of a regular expression."""
TIME_LIMIT: Final = 0.25
"""Seconds for one search with a regular expression."""

Match: TypeAlias = Literal["exact", "word", "numeric"]
RegexMode: TypeAlias = Literal["search", "fullmatch"]


@text_reward
def exact_match_reward(final_response: str, answer: str, strip: bool = True) -> float:  # noqa: FBT001, FBT002  (an option of the source's signature)
    """Pays for a response that is a gold answer, character by character; `strip` strips both.

    Hazards: a model that adds a word or a full stop earns nothing; tell it the form, or use
    `normalised_match_reward`. A response of any length is compared.

    Source: the exact match of inspect_ai and ARISE's 1.0.
    """
    response, golds = read_response(final_response), read_golds(answer)
    if strip:
        return float(response.strip() in [gold.strip() for gold in golds])
    return float(response in golds)


@text_reward
def normalised_match_reward(
    final_response: str,
    answer: str,
    *,
    casefold: bool = True,
    nfkc: bool = True,
    collapse: bool = True,
    typography: bool = True,
) -> float:
    """Pays for a response that is a gold answer but for case, spacing, compatible characters and quotes.

    Hazards: upper and lower case are one ("US" is "us") unless `casefold=False`; `TextForm` has all options.
    No punctuation is dropped: "-5" is not "5", "C++" is not "C", and "Paris." is not "Paris". Raised digits
    and fractions stay apart: "10²" is "10^2", not "102".

    Source: SQuAD's exact match (Rajpurkar et al. 2016), without dropping punctuation and articles; Unicode's
    NFKC_Casefold.
    """
    form = TextForm(casefold=casefold, nfkc=nfkc, collapse=collapse, typography=typography)
    golds = normalise_golds(read_golds(answer), form)
    return float(normalise_text(read_response(final_response, MAX_RESPONSE), form) in golds)


@text_reward
def word_match_reward(
    final_response: str,
    answer: str,
    choices: Sequence[str] = (),
    max_ratio: float = MAX_RATIO,
    *,
    casefold: bool = True,
) -> RewardResult:
    """Pays for a short response that has a gold answer in it as whole words, and no other choice.

    Hazards: it cannot distinguish "x Paris y" from "It is Paris". The last text that the response asserts
    counts; a denial in words that the reader of statements does not know is not seen. Without `choices` names
    side by side without a joining word are read as one, so a response may list several; give the choices, or
    use `exact_match_reward`. For numbers prefer `numeric_match_reward`.

    Source: the sub-EM of Search-R1 and inspect_ai's `includes`, with boundaries, a greatest length and
    rejection of lists.

    Args:
        choices: The task's candidates; one that is not a gold earns nothing, and `is_listing` is 1 if it is
            stated with a gold.
        max_ratio: Words of the response per word of the longest gold; a longer response earns nothing.
    """
    form = TextForm(casefold=casefold)
    golds = normalise_golds(read_golds(answer), form)
    wrong = set(normalise_golds(read_golds(list(choices)), form) if choices else []) - set(golds)
    response = read_response(final_response, MAX_RESPONSE)
    if len(normalise_text(response, form).split()) > max_ratio * max(len(gold.split()) for gold in golds):
        return RewardResult(0.0, extras={"is_listing": 0.0})
    is_gold, is_listing = picks_gold(response, golds, wrong, form)
    return RewardResult(float(is_gold), extras={"is_listing": float(is_listing)})


@text_reward
def all_of_match_reward(
    final_response: str,
    answer: Sequence[str],
    choices: Sequence[str] = (),
    *,
    partial: bool = False,
    casefold: bool = True,
) -> RewardResult:
    """Pays for a response that has every gold answer in it as whole words, and no other choice.

    Hazards: without `choices` a response that lists everything earns 1; `partial` pays for a list of which a
    part is right. "Paris or Rome" has both. What the response denies does not count.

    Source: the all-of match of this library; boundaries as in `word_match_reward`.

    `found` is the share of golds that are there, which `partial` pays where not all are.
    """
    form = TextForm(casefold=casefold)
    golds = set(normalise_golds(read_golds(answer), form))
    wrong = set(normalise_golds(read_golds(list(choices)), form) if choices else []) - golds
    stated = asserted_words(read_response(final_response, MAX_RESPONSE), {*golds, *wrong}, form)
    share = len(stated & golds) / len(golds)
    paid = share if partial else float(share == 1.0)
    return RewardResult(0.0 if stated & wrong else paid, extras={"found": share})


@needs_package("regex")
@text_reward
def regex_match_reward(
    final_response: str,
    pattern: str,
    mode: RegexMode = "search",
    time_limit: float = TIME_LIMIT,
    *,
    ignore_case: bool = False,
) -> float:
    r"""Pays for a response that a regular expression is found in, or matches as a whole.

    Hazards: `search` finds a pattern anywhere, so "4" is in "14": write `\b`, or use `fullmatch`. A pattern
    that matches the empty text pays for silence, and is a bad gold. A response over which a search takes
    longer than `time_limit` (processor seconds) is wrong, or else it could choose not to be graded: write
    patterns that do not backtrack. Needs the extra `text`.

    Source: inspect_ai's `pattern`; the `regex` package, which bounds the time of a search.

    Raises:
        RewardDefinitionError: If the mode is another one, or the time limit is not above 0.
        MissingPackageError: If the package `regex` is not installed.
    """
    if mode not in {"search", "fullmatch"} or not time_limit > 0:
        raise RewardDefinitionError(
            f"expected the mode search or fullmatch and a time limit above 0, got {mode!r} and {time_limit!r}"
        )
    response = read_response(final_response, MAX_RESPONSE)
    compiled = _compile_pattern(pattern, ignore_case=ignore_case)
    if _is_found(compiled, "", mode, time_limit, BadGoldError):
        raise BadGoldError("the pattern matches the empty text, so that an empty answer would be right")
    return float(_is_found(compiled, response, mode, time_limit, UnparsedAnswerError))


@reward(range=(0.0, 1.0))
@reads_answer()
def strict_answer_match_reward(final_response: str, answer: str, match: Match = "exact") -> Any:
    """Compares as ARISE's `answer_match_reward`, without its hazards: no 0.7, no 0.5, no substrings.

    Hazards: those of the match that is chosen: `exact_match_reward`, `word_match_reward`,
    `numeric_match_reward`.

    Source: ARISE's reward page, for what it is a strict sibling of.

    Raises:
        RewardDefinitionError: If the match is another one.
    """
    rewards = {"exact": exact_match_reward, "word": word_match_reward, "numeric": numeric_match_reward}
    if match not in rewards:
        raise RewardDefinitionError(f"expected the match exact, word or numeric, got {match!r}")
    return rewards[match].function(final_response, answer, answer_from="raw")  # it is the answer already


def _is_found(compiled: Any, text: str, mode: RegexMode, time_limit: float, blames: type[ValueError]) -> bool:
    try:
        return PatternBudget(time_limit).is_found(compiled, text, mode)
    except PatternTimeoutError as error:
        raise blames(str(error)) from error


def _compile_pattern(pattern: object, *, ignore_case: bool) -> Any:
    regex = load_package("regex")
    if not isinstance(pattern, str) or not pattern or len(pattern) > MAX_PATTERN:
        raise BadGoldError(f"expected a pattern of 1 to {MAX_PATTERN} characters, got {shown(pattern)}")
    try:
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise BadGoldError(f"the pattern is not a valid regular expression: {error}") from error
