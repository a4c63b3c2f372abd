"""Decides what the clause around a name makes of it: a part, a goal, a neighbour. Pure."""

from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.option_phrases import (
    is_choice_of_others,
    is_compared,
    is_only_a_part,
    is_only_done_there,
    is_part_of_place,
    is_related,
    is_too_much,
)
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.sentences import TextToken, Value, classes_in

_FORMER: Final = ("my first", "my original", "my initial", "my earlier", "my previous")
_DISTANCES: Final = words_of(
    "miles mile km kilometres kilometers across away far upstream downstream inland hours minutes outskirts "
    "suburb vicinity"
)
_INCLUDING: Final = words_of("include includes included including")
_DEPARTURES: Final = (
    *("came", "come", "hail", "sail", "depart", "left", "start", "set", "originat", "stem", "travel", "flew"),
    *("writ", "wrote", "sent", "post", "report", "mov", "relocat", "transfer", "return", "went", "ship"),
    *("was", "is", "were", "fled", "flee", "led", "lead"),
)
_KINDS: Final = words_of("city town capital village port place settlement")
_VERBAL: Final = frozenset({"copula", "answer", "first_person", "confirm", "result", "epistemic", "harmless"})
_ONLY: Final = words_of("just only merely simply even")
_REST: Final = words_of("other others else rest remaining alternatives everything")
_PLACING: Final = frozenset({"in", "at"})


def limited(value: Value, left: Sequence[TextToken], right: Sequence[TextToken]) -> Polarity | None:
    """Return what a name is that its clause restricts, or picks from others."""
    before, words = {token.word for token in left}, [token.word for token in right]
    last = left[-1] if left else None
    is_open = value.polarity in (Polarity.ASSERTED, Polarity.INTERMEDIATE)
    is_own = any(token.word.startswith(_FORMER) and "answer" in token.classes for token in left)
    is_selected = value.is_weak and last is not None and last.word in ("only", "but only")
    is_goal = last is not None and last.word in ("from", "to") and value is value.clause.values[-1]
    is_goal = is_goal and any(map(_is_departure, left[:-1]))
    if value.polarity is Polarity.INTERMEDIATE and (is_selected or is_goal):
        return Polarity.ASSERTED  # "only Riga has a harbour", "the letter came from Riga"
    if not is_open:
        return None
    rules = (
        (is_own and "was" in before, Polarity.RETRACTED),  # "my first choice was Riga"
        (
            len(words) > 1 and words[0] in _ONLY and not right[1].classes & {"confirm", "copula", "answer"},
            Polarity.INTERMEDIATE,  # "Riga merely hosted the talks"
        ),
        (_is_picked_for_rejection(right), Polarity.DENIED),
        (bool(before & _DISTANCES) and last is not None and last.word in ("from", "of"), Polarity.BOUNDED),
        (bool(before & _INCLUDING) and not classes_in(left) & {"answer", "copula"}, Polarity.INTERMEDIATE),
        (_is_noun_phrase(left, right) or is_only_a_part(right), Polarity.INTERMEDIATE),
        (is_part_of_place(value, left, right) or is_only_done_there(left), Polarity.INTERMEDIATE),
        (value.token.end - value.token.start > 2 and is_related(left, right), Polarity.INTERMEDIATE),  # noqa: PLR2004  (a name, not a letter)
        (is_too_much(right), Polarity.DENIED),
        (is_compared(left), Polarity.BOUNDED),
        (is_choice_of_others(right), Polarity.QUOTED),
    )
    return next((polarity for holds, polarity in rules if holds), None)


def _is_departure(word: TextToken) -> bool:
    return word.word.startswith(_DEPARTURES) or (word.word.endswith("ed") and not word.classes)


def _is_picked_for_rejection(right: Sequence[TextToken]) -> bool:
    """Whether a predicate picks a name to reject it: "is the first that I would eliminate"."""
    if not right or "copula" not in right[0].classes:
        return False
    at = next((index for index, token in enumerate(right) if "reject" in token.classes), 0)
    is_refused = any(token.word == "last" for token in right[:4]) and "would" in classes_in(right)
    is_rejected = any(
        "first_person" in token.classes or token.word == "you" for token in right[max(0, at - 4) : at]
    )
    spares = any(_opening(token) in _REST for token in right[at + 1 : at + 4])
    return is_refused or (is_rejected and not spares and "negative" not in classes_in(right[:at]))


def _is_noun_phrase(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a name only says more about a thing: "a train leaving Riga"."""
    if len(left) < 3 or right or left[0].word not in ("a", "an"):  # noqa: PLR2004  ("a", a noun and its participle)
        return False
    is_joined = left[-1].word in _PLACING or left[-1].word.endswith("ing")
    has_verb = any(token.classes & _VERBAL or token.word.endswith("ed") for token in left[:-1])
    return is_joined and not has_verb and not any(token.word in _KINDS for token in left)


def _opening(word: TextToken) -> str:
    return word.word.partition(" ")[0]
