"""Texts as rewards compare them: golds and responses with bounds, one normal form, the statuses of failures.

Text that cannot be read raises one of three errors, which `with_statuses` turns into results, so that none of
them is ever a computed number.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import FunctionReward, RewardFunction, reward
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError

MAX_RESPONSE = 300_000
"""Characters of an answer that are read where that costs more than a comparison; a longer one is wrong."""
MAX_GOLD = 10_000
"""Characters of a gold answer; a longer one is a bad gold."""
MAX_GOLDS = 1_000
"""Gold answers of one task; more are a bad gold."""
MAX_MARKS = 30
"""Combining marks in a row that are put in order (the Stream-Safe Text Format of Unicode Annex 15):
normalisation sorts each run of marks in quadratic time."""
MAX_GROWING = 2_000
"""Ligatures that stand for words of up to 18 letters, which normalisation takes apart."""

_GROWING = re.compile("[\ufdf0-\ufdfd\u3300-\u33ff]")
_RAISED = re.compile("[⁰¹²³⁴-⁹⁺⁻]+")
_BEFORE_FRACTION = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅟↉])")
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),  # noqa: RUF001  (these signs are meant)
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑−﹣－", "-"),  # noqa: RUF001  (these signs are meant)
        "⁄": "/",  # noqa: RUF001  (these signs are meant)
    }
)

Function = TypeVar("Function", bound=Callable[..., Any])


class BadGoldError(ValueError):
    """The task's own answer cannot be read."""


class UnparsedAnswerError(ValueError):
    """The answer cannot be read: the agent's failure."""


class WorkLimitError(ValueError):
    """The judgement would be too much work."""


def with_statuses(function: Function) -> Function:
    """Turn a reward's errors about golds, answers and work into results; the least reward is 0."""

    @wraps(function)
    def judged(*args: Any, **fields: Any) -> Any:
        try:
            return function(*args, **fields)
        except BadGoldError as error:
            return RewardResult.without(RewardStatus.BAD_GOLD, str(error))
        except WorkLimitError as error:
            return RewardResult.without(RewardStatus.LIMIT, str(error))
        except UnparsedAnswerError as error:
            return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason=str(error))

    return cast("Function", judged)


def text_reward(function: RewardFunction) -> FunctionReward:
    """Make a reward from 0 to 1 that reads the answer of a response; `with_statuses` reads its errors."""
    return reward(range=(0.0, 1.0))(reads_answer()(with_statuses(function)))


def read_response(response: object, max_characters: int | None = None) -> str:
    """Return a response; a longer one than `max_characters` is the agent's fault, not a failure to judge."""
    if not isinstance(response, str):
        raise RewardFieldError(f"expected a final response as a text, got a {type(response).__name__}")
    if max_characters is not None and len(response) > max_characters:
        raise UnparsedAnswerError(
            f"the answer has {len(response)} characters; at most {max_characters} are read"
        )
    return response


def read_golds(answer: object) -> list[str]:
    """Return a task's gold answers, a text or a list, any of which is right."""
    golds: Sequence[object] = [answer]
    if isinstance(answer, list | tuple):
        golds = cast("Sequence[object]", answer)
    if not golds or len(golds) > MAX_GOLDS:
        raise BadGoldError(f"expected 1 to {MAX_GOLDS} gold answers, got {len(golds)}")
    return [_gold(gold) for gold in golds]


def _gold(value: object) -> str:
    if not isinstance(value, str):
        raise BadGoldError(f"expected a gold answer as a text, got {shown(value)}")
    if not value.strip():
        raise BadGoldError("a gold answer is blank, so that an empty answer would be right")
    if len(value) > MAX_GOLD:
        raise BadGoldError(f"the gold answer has {len(value)} characters; at most {MAX_GOLD} are read")
    return value


@dataclass(frozen=True, slots=True)
class TextForm:
    """Which differences between two texts do not count."""

    casefold: bool = True
    """Upper and lower case."""
    nfkc: bool = True
    """Compatible characters, such as full-width letters and ligatures; raised digits stay apart."""
    collapse: bool = True
    """Runs of white space within a text; white space around it never counts."""
    typography: bool = True
    """Curly and straight quotes, the minus sign and the hyphen."""


PLAIN_FORM = TextForm()


def normalise_text(text: str, form: TextForm = PLAIN_FORM) -> str:
    """Return a text in a form in which equal texts are the same; no sign is ever dropped."""
    if form.nfkc:
        text = _compatible(text)
    if form.casefold:
        if form.nfkc and not text.isascii():
            # With compatible characters as NFKC_Casefold does, so that folding twice changes nothing more.
            folded = unicodedata.normalize("NFD", text).casefold()
            folded = unicodedata.normalize("NFKC", folded).casefold()
            text = unicodedata.normalize("NFKC", folded)
        else:
            text = text.casefold()
    if form.typography:
        text = text.translate(_TYPOGRAPHY)
    return " ".join(text.split()) if form.collapse else text.strip()


def normalise_golds(golds: Sequence[str], form: TextForm = PLAIN_FORM) -> list[str]:
    """Return golds in their normal form; none of them may be blank."""
    try:
        forms = [normalise_text(gold, form) for gold in golds]
    except UnparsedAnswerError as error:
        raise BadGoldError(str(error)) from error
    if not all(forms):
        raise BadGoldError("a gold answer is blank once it is normalised")
    return forms


def shown(value: object) -> str:
    """Return the beginning of a value as a message shows it; of an integer too long to print, the type."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        return f"a value of the type {type(value).__name__}"


def _compatible(text: str) -> str:
    if text.isascii():
        return text
    run = 0
    for letter in text:
        run = run + 1 if unicodedata.category(letter)[0] == "M" else 0
        if run > MAX_MARKS:
            raise UnparsedAnswerError(f"the text has more than {MAX_MARKS} combining marks in a row")
    if len(_GROWING.findall(text)) > MAX_GROWING:
        raise UnparsedAnswerError(f"the text has more than {MAX_GROWING} ligatures of whole words")
    raised = _RAISED.sub(lambda run: f"^{run[0]}", _BEFORE_FRACTION.sub(" ", text))
    return unicodedata.normalize("NFKC", raised)
