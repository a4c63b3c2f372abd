r"""A reward for multiple choice: which of the task's choices a response picks.

The final statement of the response decides (`ors_server.rewards.text.stated_choices`). A letter inside a
sentence never counts, so the article "A" is not a choice; a denied choice and a list of choices pick none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.text.stated_choices import (
    Choices,
    boxed_choice,
    cued_choice,
    stated_choice,
    whole_choice,
)
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
MAX_CHOICES: Final = 26
_MODES: Final = frozenset({"any", "boxed", "answer", "fullmatch"})


@reward(range=(0.0, 1.0))
@reads_answer("text")
@with_statuses
def multiple_choice_reward(
    final_response: str, answer: str, choices: Sequence[str] | Mapping[str, str], mode: ChoiceMode = "any"
) -> float:
    """Pays for picking the right one of the task's choices, by its letter or its text.

    Hazards: sentences can be read in many ways, so tell the model the form. Of several statements the last
    counts, and one that names several choices picks none. Guessing earns 1 in the number of choices.

    Reads: the text (`answer_from`): reasoning is cut. The last asserted statement that names an answer wins:
    a box, an `<answer>` element, "Answer: B", "the correct option is B", "I choose B", "B is correct"; where
    these are missing, the last choice that a sentence asserts ("B fits better than C"). Statements side
    by side that differ, a list, a denied choice ("C is not correct"), a question, what others choose and the
    article ("A rectangle") pick none.

    Source: the `mcqa` environment of NeMo Gym, with the choices taken from the task.

    Args:
        answer: The right choice: its label, its text, or its index from 0.
        choices: 2 to 26 texts in order, labelled A, B, C and so on, or label to text.
        mode: Where to look: `boxed` (the last box), `answer` ("Answer: B", an `<answer>` element),
            `fullmatch` (the whole response is the choice), or `any` of these and the others above.

    Raises:
        RewardDefinitionError: If the mode is another one.
    """
    if mode not in _MODES:
        raise RewardDefinitionError(f"expected a mode of {', '.join(sorted(_MODES))}, got {mode!r}")
    labelled = read_choices(choices)
    gold = _gold_label(answer, labelled)
    picked = _PICKS[mode](read_response(final_response, MAX_RESPONSE), labelled)
    if picked is None:
        raise UnparsedAnswerError("the response picks none of the choices")
    return float(picked == gold)


def read_choices(choices: object) -> Choices:
    """Read 2 to 26 different choices as label in upper case to normalised text."""
    given_choices = shown(choices)
    if isinstance(choices, Mapping):
        texts_by_label = {
            str(key).strip().upper(): text for key, text in cast("Mapping[object, Any]", choices).items()
        }
    elif isinstance(choices, list | tuple):
        texts = cast("Sequence[Any]", choices)
        texts_by_label = {chr(ord("A") + index): text for index, text in enumerate(texts[: MAX_CHOICES + 1])}
    else:
        texts_by_label = {}
    if not 1 < len(texts_by_label) <= MAX_CHOICES or not all(
        isinstance(text, str) and len(text) <= MAX_GOLD for text in texts_by_label.values()
    ):
        raise BadGoldError(f"expected 2 to {MAX_CHOICES} texts as choices, got {given_choices}")
    forms = normalise_golds(list(texts_by_label.values()))
    if len(set(forms)) < len(forms):
        raise BadGoldError("two choices are the same")
    return dict(zip(texts_by_label, forms, strict=True))


_PICKS: Final[Mapping[ChoiceMode, Callable[[str, Choices], str | None]]] = {
    "any": stated_choice,
    "boxed": boxed_choice,
    "answer": cued_choice,
    "fullmatch": whole_choice,
}


def _gold_label(answer: object, choices: Choices) -> str:
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(choices):
        return list(choices)[answer]
    labels: set[str] = set()
    if isinstance(answer, str) and len(answer) <= MAX_GOLD:
        text = answer.strip()
        try:
            form = normalise_text(text)
        except UnparsedAnswerError as error:
            raise BadGoldError(str(error)) from error
        labels = {label for label in choices if label == text.strip("().").upper()}
        labels |= {label for label, choice in choices.items() if choice == form}
    if len(labels) != 1:
        raise BadGoldError(
            f"expected the answer as the label, the text or the index of one choice, got {shown(answer)}"
        )
    return labels.pop()
