"""Which of the calls that were wanted were made: names, arguments, tolerance, order. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias, cast

from ors_server.rewards.reading.json_values import (
    NotJSONError,
    canonical_text,
    exact_number,
    is_array,
    is_object,
)
from ors_server.rewards.structures.episode_calls import ToolCall

MAX_ARGUMENT_CHARACTERS = 1_000_000
"""Characters of all arguments of an episode's calls."""
MAX_WANTED = 100
"""Calls that a gold may have."""


Change: TypeAlias = Callable[[Any], Any]
"""What is done with a value before it is compared."""


class BadCallsError(ValueError):
    """A gold is no list of calls; the message says why."""


class TooManyArgumentsError(Exception):
    """Calls have arguments that are too long to be compared."""


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A call that should be made."""

    name: str
    arguments: Mapping[str, tuple[Any, ...]]
    """Name to the values that will do, at least one."""
    optional: frozenset[str]
    """Names of arguments that may be left out."""
    texts: Mapping[str, frozenset[str]]
    """The same by one text for each value that all equal values have."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that was made, with one text for each argument that all equal values have."""

    call: ToolCall
    texts: Mapping[str, str]


def read_made(calls: Sequence[ToolCall], change: Change | None = None) -> list[MadeCall]:
    """Prepare the calls of an episode; those whose arguments are no JSON object are given none and no name.

    Args:
        calls: In order.
        change: Made with every argument before it is compared.

    Raises:
        TooManyArgumentsError: If all arguments together have more than 1,000,000 characters.
    """
    made: list[MadeCall] = []
    size = 0
    for call in calls:
        try:
            arguments = {
                name: change(value) if change else value for name, value in (call.arguments or {}).items()
            }
            texts = {name: canonical_text(value) for name, value in arguments.items()}
        except NotJSONError:
            call, texts = replace(call, arguments=None), {}  # noqa: PLW2901  (what it counts as)
        size += sum(map(len, texts.values()))
        if size > MAX_ARGUMENT_CHARACTERS:
            raise TooManyArgumentsError(
                f"the calls' arguments have more than {MAX_ARGUMENT_CHARACTERS} characters"
            )
        made.append(MadeCall(call, texts))
    return made


@dataclass(frozen=True, slots=True)
class CallRules:
    """How calls are compared."""

    tolerance: Mapping[str, float] | float = 0.0
    """How far a number may be off, absolutely; of all arguments, or by argument."""
    name: Callable[[str], str] = str
    """What of the functions' names is compared."""

    def wrong_arguments(self, wanted: WantedCall, made: MadeCall) -> list[str]:
        """Return the names of a call's arguments that are wrong, missing or too many.

        Args:
            wanted: What is right.
            made: What was called, by the same name.
        """
        names = {*wanted.arguments, *made.texts}
        return sorted(name for name in names if not self._is_right(wanted, made, name))

    def _is_right(self, wanted: WantedCall, made: MadeCall, name: str) -> bool:
        if name not in made.texts or made.call.arguments is None:
            return name in wanted.optional
        if made.texts[name] in wanted.texts.get(name, ()):
            return True
        allowed = self.tolerance.get(name, 0.0) if isinstance(self.tolerance, Mapping) else self.tolerance
        given = made.call.arguments[name]
        return allowed > 0 and any(_is_near(one, given, allowed) for one in wanted.arguments.get(name, ()))


def _is_near(wanted: Any, given: Any, allowed: float) -> bool:
    """Return whether numbers, or arrays with numbers in them, differ by no more than is allowed."""
    first, second = exact_number(wanted), exact_number(given)
    if first is not None and second is not None:
        return abs(first - second) <= Decimal(repr(float(allowed)))
    if is_array(wanted) and is_array(given):
        return len(wanted) == len(given) and all(
            _is_near(one, other, allowed) for one, other in zip(wanted, given, strict=True)
        )
    return type(wanted) is type(given) and canonical_text(wanted) == canonical_text(given)


def read_wanted(answer: Any, change: Change | None = None) -> list[WantedCall]:
    """Read a gold: a list of calls, or one.

    Args:
        answer: Objects with `name` and `arguments`; `alternatives`, argument to a list of other values that
            will do; `optional`, a list of arguments that may be left out.
        change: Made with every value before it is compared.

    Raises:
        BadCallsError: If it is none.
    """
    listed: Any = [answer] if isinstance(answer, Mapping) else answer
    if not is_array(listed) or len(listed) > MAX_WANTED:
        raise BadCallsError(
            f"the gold is a list of up to {MAX_WANTED} calls, objects with name and arguments"
        )
    return [_wanted(one, change) for one in listed]


def _wanted(value: Any, change: Change | None) -> WantedCall:
    if not isinstance(value, Mapping):
        raise BadCallsError(f"a call is an object with name and arguments, not {value!r:.80}")
    call = cast("Mapping[str, Any]", value)
    name: Any = call.get("name")
    arguments: Any = call.get("arguments", {})
    others: Any = call.get("alternatives", {})
    optional: Any = call.get("optional", ())
    unknown = sorted(set(call) - {"name", "arguments", "alternatives", "optional"})
    if not isinstance(name, str) or not name or unknown:
        raise BadCallsError(
            f"a call has name, arguments, alternatives and optional; {sorted(call)!r:.200} came"
        )
    if not (is_object(arguments) and is_object(others) and is_array(optional)):
        raise BadCallsError(f"{name}: arguments and alternatives are objects, optional is a list")
    if not all(is_array(others[key]) for key in others):
        raise BadCallsError(f"{name}: alternatives are lists of values")
    accepted: dict[str, tuple[Any, ...]] = {key: (arguments[key],) for key in arguments}
    for key in others:
        accepted[key] = (*accepted.get(key, ()), *others[key])
    if not all(accepted.values()) or not set(optional) <= set(accepted):
        raise BadCallsError(f"{name}: an argument without any value that will do")
    try:
        texts = {
            key: frozenset(canonical_text(change(value) if change else value) for value in values)
            for key, values in accepted.items()
        }
    except NotJSONError as error:
        raise BadCallsError(f"{name}: {error}") from None
    return WantedCall(name, accepted, frozenset(optional), texts)


@dataclass(frozen=True, slots=True)
class CallReport:
    """Which calls were made as they were wanted."""

    wanted: Sequence[WantedCall]
    made: Sequence[MadeCall]
    pairs: Mapping[int, int]
    """Number of a wanted call to the number of the call that is it."""

    @property
    def missing(self) -> list[WantedCall]:
        """The wanted calls that were not made."""
        return [one for index, one in enumerate(self.wanted) if index not in self.pairs]

    @property
    def extra(self) -> list[MadeCall]:
        """The calls that were not wanted."""
        used = set(self.pairs.values())
        return [one for index, one in enumerate(self.made) if index not in used]


def pair_calls(
    wanted: Sequence[WantedCall], made: Sequence[MadeCall], rules: CallRules, *, is_ordered: bool
) -> CallReport:
    """Pair wanted calls with those that were made, as many as can be.

    Args:
        wanted: In order.
        made: In order.
        rules: How they are compared.
        is_ordered: Whether calls count only in the order in which they are wanted; others may stand between.
    """
    fits = [[number for number, call in enumerate(made) if _fits(one, call, rules)] for one in wanted]
    pairs = _in_order(fits, len(made)) if is_ordered else _most_pairs(fits)
    return CallReport(wanted, made, pairs)


def _fits(wanted: WantedCall, made: MadeCall, rules: CallRules) -> bool:
    if rules.name(made.call.name) != rules.name(wanted.name) or made.call.arguments is None:
        return False
    return not rules.wrong_arguments(wanted, made)


def _most_pairs(fits: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a largest pairing (Kuhn's augmenting paths): no choice of one call costs another its partner."""
    owner: dict[int, int] = {}

    def find(one: int, tried: set[int]) -> bool:
        for number in fits[one]:
            if number not in tried:
                tried.add(number)
                if number not in owner or find(owner[number], tried):
                    owner[number] = one
                    return True
        return False

    for index in range(len(fits)):
        find(index, set())
    return {one: number for number, one in owner.items()}


def _in_order(fits: Sequence[Sequence[int]], count: int) -> dict[int, int]:
    """Return a longest pairing in which both orders agree (longest common subsequence)."""
    sets = [set(numbers) for numbers in fits]
    best = [[0] * (count + 1) for _ in range(len(fits) + 1)]
    for one in range(len(fits) - 1, -1, -1):
        for number in range(count - 1, -1, -1):
            taken = 1 + best[one + 1][number + 1] if number in sets[one] else 0
            best[one][number] = max(taken, best[one + 1][number], best[one][number + 1])
    pairs: dict[int, int] = {}
    one = number = 0
    while one < len(fits) and number < count:
        if number in sets[one] and best[one][number] == 1 + best[one + 1][number + 1]:
            pairs[one] = number
            one, number = one + 1, number + 1
        elif best[one + 1][number] >= best[one][number + 1]:
            one += 1
        else:
            number += 1
    return pairs
