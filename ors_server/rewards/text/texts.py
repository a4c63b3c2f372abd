"""Texts as rewards compare them: golds and responses with bounds, one normal form, the statuses of failures.

Nothing here knows a reward. What cannot be read is raised with one of three errors, which `with_statuses`
makes into results, so that none of them is ever a number that somebody computed.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError

MAX_RESPONSE = 300_000
"""Characters of an answer that are read where that costs more than a comparison; a longer one is wrong."""
MAX_GOLD = 10_000
"""Characters of a gold answer; a longer one is a bad gold."""
MAX_GOLDS = 1_000
"""Gold answers of one task; more are a bad gold."""
MAX_MARKS = 30
"""Combining marks in a row that are put in order (the Stream-Safe Text Format of Unicode Annex 15).

Normalisation sorts each run of marks, in a time that grows with its square.
"""

MAX_GROWING = 2_000
"""Ligatures that stand for words of up to 18 letters, which normalisation takes apart."""

_GROWING = re.compile("[\ufdf0-\ufdfd\u3300-\u33ff]")
_RAISED = re.compile("[⁰¹²³⁴-⁹⁺⁻]+")
_BEFORE_FRACTION = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅟↉])")
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),  # noqa: RUF001  (these signs are meant)
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑−﹣－", "-"),  # noqa: RUF001  (these signs are what it is about)
        "⁄": "/",  # noqa: RUF001  (these signs are what it is about)
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
    """Make what a reward raises about golds, answers and work into results; the least reward is 0.

    Args:
        function: A reward function that raises the three errors above.
    """

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


def read_response(response: object, most: int | None = None) -> str:
    """Return a response.

    Args:
        response: What the agent said.
        most: Characters that it may have; `None` for any number.

    Raises:
        RewardFieldError: If it is no text.
        UnparsedAnswerError: If it is longer: the agent's fault, not a failure to judge.
    """
    if not isinstance(response, str):
        raise RewardFieldError(f"a final response is a text; a {type(response).__name__} came")
    if most is not None and len(response) > most:
        raise UnparsedAnswerError(f"an answer of {len(response)} characters; at most {most} are read")
    return response


def read_golds(answer: object) -> list[str]:
    """Return a task's gold answers, any of which is right.

    Args:
        answer: A text, or a list of texts.

    Raises:
        BadGoldError: If there is none, one is no text or blank, or they are too long or too many.
    """
    golds: Sequence[object] = [answer]
    if isinstance(answer, list | tuple):
        golds = cast("Sequence[object]", answer)
    if not golds or len(golds) > MAX_GOLDS:
        raise BadGoldError(f"a task has 1 to {MAX_GOLDS} gold answers; {len(golds)} came")
    return [_gold(one) for one in golds]


def _gold(value: object) -> str:
    if not isinstance(value, str):
        raise BadGoldError(f"a gold answer is a text; {shown(value)} came")
    if not value.strip():
        raise BadGoldError("a gold answer is blank, so that silence would be right")
    if len(value) > MAX_GOLD:
        raise BadGoldError(f"a gold answer of {len(value)} characters; at most {MAX_GOLD} are read")
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
    """Return a text in a form in which equal texts are the same; no sign is ever dropped.

    Args:
        text: Any text.
        form: Which differences do not count.

    Raises:
        UnparsedAnswerError: If it has more than 30 combining marks in a row, or 2,000 ligatures of words.
    """
    if form.nfkc:
        text = _compatible(text)
    if form.casefold:
        text = _folded(text, with_nfkc=form.nfkc)
    if form.typography:
        text = text.translate(_TYPOGRAPHY)
    return " ".join(text.split()) if form.collapse else text.strip()


def normalise_golds(golds: Sequence[str], form: TextForm = PLAIN_FORM) -> list[str]:
    """Return golds in their normal form.

    Args:
        golds: As `read_golds` gives them.
        form: Which differences do not count.

    Raises:
        BadGoldError: If nothing is left of one, or it is no text that can be normalised.
    """
    try:
        forms = [normalise_text(gold, form) for gold in golds]
    except UnparsedAnswerError as error:
        raise BadGoldError(str(error)) from error
    if not all(forms):
        raise BadGoldError("a gold answer is blank once it is normalised")
    return forms


def shown(value: object) -> str:
    """Return the beginning of a value as a message shows it.

    Args:
        value: Anything; an integer too long to be written is named by its type.
    """
    try:
        return f"{value!r:.80}"
    except ValueError:
        return f"a value of the type {type(value).__name__}"


def _compatible(text: str) -> str:
    if text.isascii():
        return text
    _check_marks(text)
    if len(_GROWING.findall(text)) > MAX_GROWING:
        raise UnparsedAnswerError(f"a text with more than {MAX_GROWING} ligatures of whole words")
    raised = _RAISED.sub(lambda run: f"^{run[0]}", _BEFORE_FRACTION.sub(" ", text))
    return unicodedata.normalize("NFKC", raised)


def _folded(text: str, *, with_nfkc: bool) -> str:
    """Fold the case; with compatible characters as NFKC_Casefold does, so that twice is once."""
    if text.isascii() or not with_nfkc:
        return text.casefold()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", text).casefold())
    return unicodedata.normalize("NFKC", folded.casefold())


def _check_marks(text: str) -> None:
    run = 0
    for letter in text:
        run = run + 1 if unicodedata.category(letter)[0] == "M" else 0
        if run > MAX_MARKS:
            raise UnparsedAnswerError(f"a text with more than {MAX_MARKS} combining marks in a row")
