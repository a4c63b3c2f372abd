r"""A reward for multiple choice: which of the task's choices a response picks.

Three places are read: the last `\boxed{...}`, the last "Answer: ...", and the whole response. A letter inside
a sentence never counts, so the article "A" is no choice, and a list of letters picks none.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.errors import RewardDefinitionError
from ors_server.rewards.text.matches import found_words
from ors_server.rewards.text.texts import (
    MAX_GOLD,
    MAX_RESPONSE,
    BadGoldError,
    UnparsedAnswerError,
    normalise_golds,
    normalise_text,
    read_response,
    shown,
    with_statuses,
)

ChoiceMode: TypeAlias = Literal["any", "boxed", "answer", "fullmatch"]
Choices: TypeAlias = Mapping[str, str]
"""Label to normalised text."""

MAX_CHOICES: Final = 26
_MODES: Final = frozenset({"any", "boxed", "answer", "fullmatch"})
_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s{0,4}\{")
_CUE: Final = re.compile(
    r"(?<![^\W_])answer(?:(?:\s{1,4}is)?\s{0,4}:|\s{1,4}is)[^\S\n]{0,4}([^\n]*)", re.IGNORECASE
)
_DRESS: Final = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox)\s{0,4}|[{}$*`]|\\[ ,;:!()]")
_EMPHASISED: Final = re.compile(r"_[^_]+_")
_LED: Final = re.compile(r"\(?([A-Za-z0-9]{1,4})(?:\)|\s?[.:,;](?=\s|$)|(?=\s[-–—]\s))[).:]?")  # noqa: RUF001
_OTHER: Final = re.compile(r"(?<!\w)\(?([A-Za-z0-9]{1,4})[).:](?!\w)")
_JOINER: Final = re.compile(r"[\s,;/&|]*(?:(?:and|or)\b\s*)?\(?([A-Za-z0-9]{1,4})(?![\w'])")


@reward(range=(0.0, 1.0))
@reads_answer()
@with_statuses
def multiple_choice_reward(
    final_response: str, answer: str, choices: Sequence[str] | Mapping[str, str], mode: ChoiceMode = "any"
) -> float:
    r"""Pays for picking the right one of the task's choices, by its letter or its text.

    Hazards: without a box or "Answer:" the whole response must be the letter or the text; tell the model the
    form. Of several boxes or answers the last counts, and a place that names several choices picks none.
    Guessing earns 1 in the number of choices. More than 100,000 characters are a `limit`.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts where there is one.

    Source: the `mcqa` environment of NeMo Gym, with the choices taken from the task.

    Args:
        final_response: The response.
        answer: The right choice: its label, its text, or its index from 0.
        choices: The choices' texts in order, labelled A, B, C and so on, or label to text; 2 to 26.
        mode: Where to look: `boxed`, `answer` ("Answer: B"), `fullmatch`, or `any`: the first of these three
            that is there.

    Returns:
        0 or 1.

    Raises:
        RewardDefinitionError: If the mode is another one.
    """
    if mode not in _MODES:
        raise RewardDefinitionError(f"a mode is one of {', '.join(sorted(_MODES))}; {mode!r} came")
    labelled = read_choices(choices)
    gold = _gold_label(answer, labelled)
    place = _place(read_response(final_response, MAX_RESPONSE), mode)
    picked = None if place is None else pick(place, labelled)
    if picked is None:
        raise UnparsedAnswerError("the response picks none of the choices")
    return float(picked == gold)


def read_choices(choices: object) -> Choices:
    """Read a task's choices.

    Args:
        choices: Texts in order, or label to text.

    Returns:
        Label, in upper case, to text in its normal form.

    Raises:
        BadGoldError: If they are not 2 to 26 different texts.
    """
    told = shown(choices)
    if isinstance(choices, Mapping):
        given = {
            str(key).strip().upper(): text for key, text in cast("Mapping[object, Any]", choices).items()
        }
    elif isinstance(choices, list | tuple):
        texts = cast("Sequence[Any]", choices)
        given = {chr(ord("A") + index): text for index, text in enumerate(texts[: MAX_CHOICES + 1])}
    else:
        given = {}
    if not 1 < len(given) <= MAX_CHOICES or not all(
        isinstance(text, str) and len(text) <= MAX_GOLD for text in given.values()
    ):
        raise BadGoldError(f"choices are 2 to {MAX_CHOICES} texts; {told} came")
    forms = normalise_golds(list(given.values()))
    if len(set(forms)) < len(forms):
        raise BadGoldError("two choices are the same")
    return dict(zip(given, forms, strict=True))


def pick(text: str, choices: Choices) -> str | None:
    """Tell which choice a place picks; `None` if it picks none, or several.

    Args:
        text: What stands in the place.
        choices: As `read_choices` gives them.
    """
    bare = " ".join(_DRESS.sub(" ", text).split())
    bare = bare[1:-1] if _EMPHASISED.fullmatch(bare) else bare
    alone = bare.rstrip(". ").strip("()[] ").rstrip(".: ").upper()
    if alone in choices:
        return alone
    form = normalise_text(bare)
    by_text = [label for label, choice in choices.items() if form in {choice, f"{choice}."}]
    if by_text:
        return by_text[0]
    return _led(bare, choices)


def _led(text: str, choices: Choices) -> str | None:
    """Read a label with something behind it: "B. Paris", "(B) because"; never "A dog", nor "A, B"."""
    found = _LED.match(text)
    label = found[1].upper() if found is not None else ""
    if found is None or label not in choices:
        return None
    rest = text[found.end() :]
    form = normalise_text(rest)
    if not form.startswith(choices[label]) and (found[1] != label or _lists(rest, choices)):
        return None
    if any(other[1] in choices for other in _OTHER.finditer(rest)):
        return None
    return label if found_words(form, set(choices.values())) <= {choices[label]} else None


def _lists(rest: str, choices: Choices) -> bool:
    listed = _JOINER.match(rest)
    return listed is not None and listed[1] in choices


def _place(response: str, mode: ChoiceMode) -> str | None:
    if mode in {"any", "boxed"} and (box := _last_box(response)) is not None:
        return box
    if mode in {"any", "answer"} and (cues := _CUE.findall(response)):
        return str(cues[-1])
    return response.strip() if mode in {"any", "fullmatch"} else None


def _last_box(response: str) -> str | None:
    starts = [found.end() for found in _BOX.finditer(response)]
    return _until_closed(response, starts[-1]) if starts else None


def _until_closed(text: str, start: int) -> str | None:
    depth = 1
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start:index]
    return None


def _gold_label(answer: object, choices: Choices) -> str:
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(choices):
        return list(choices)[answer]
    found: set[str] = set()
    if isinstance(answer, str) and len(answer) <= MAX_GOLD:
        text = answer.strip()
        found = {label for label in choices if label == text.strip("().").upper()}
        found |= {label for label, choice in choices.items() if choice == _form_of_gold(text)}
    if len(found) != 1:
        raise BadGoldError(
            f"the answer is the label, the text or the index of one choice; {shown(answer)} came"
        )
    return found.pop()


def _form_of_gold(text: str) -> str:
    try:
        return normalise_text(text)
    except UnparsedAnswerError as error:
        raise BadGoldError(str(error)) from error
