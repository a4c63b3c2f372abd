"""Which of the gold calls were made: names, arguments, tolerance, order. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias, cast

from ors_server.model.json_values import (
    NotJSONError,
    canonical_text,
    exact_number,
    is_array,
    is_object,
)
from ors_server.rewards.structures.episode_calls import ToolCall

MAX_ARGUMENT_CHARACTERS = 1_000_000
"""Characters of all arguments of an episode's calls."""
MAX_GOLD_CALLS = 100
"""Calls that a gold may have."""

Change: TypeAlias = Callable[[Any], Any]
"""Applied to each value before it is compared."""


class BadCallsError(ValueError):
    """A gold is not a list of calls; the message says why."""


class TooManyArgumentsError(Exception):
    """Calls have arguments that are too long to be compared."""


@dataclass(frozen=True, slots=True)
class GoldCall:
    """A call that should be made."""

    name: str
    arguments: Mapping[str, tuple[Any, ...]]
    """Name to the accepted values, at least one."""
    optional: frozenset[str]
    """Names of arguments that may be left out."""
    texts: Mapping[str, frozenset[str]]
    """Name to the canonical texts of the accepted values."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that was made, with the canonical text of each argument."""

    call: ToolCall
    texts: Mapping[str, str]


def read_made(calls: Sequence[ToolCall], change: Change | None = None) -> list[MadeCall]:
    """Prepare an episode's calls; one whose arguments are not a JSON object matches no gold call."""
    read: list[MadeCall] = []
    size = 0
    for call in calls:
        try:
            arguments = {
                name: change(value) if change else value for name, value in (call.arguments or {}).items()
            }
            texts = {name: canonical_text(value) for name, value in arguments.items()}
        except NotJSONError:
            call, texts = replace(call, arguments=None), {}  # noqa: PLW2901  (what it counts as)
        # Summed over all calls, since each is compared with every gold call.
        size += sum(map(len, texts.values()))
        if size > MAX_ARGUMENT_CHARACTERS:
            raise TooManyArgumentsError(
                f"the calls' arguments have more than {MAX_ARGUMENT_CHARACTERS} characters"
            )
        read.append(MadeCall(call, texts))
    return read


@dataclass(frozen=True, slots=True)
class CallRules:
    """How calls are compared."""

    tolerance: Mapping[str, float] | float = 0.0
    """Greatest absolute difference of numbers: for all arguments, or by argument."""
    name: Callable[[str], str] = str
    """Returns the part of a function's name that is compared."""

    def wrong_arguments(self, gold: GoldCall, call: MadeCall) -> list[str]:
        """Return the names of arguments that are wrong, missing or too many, in a call of the right name."""
        names = {*gold.arguments, *call.texts}
        return sorted(name for name in names if not self._is_right(gold, call, name))

    def _is_right(self, gold: GoldCall, call: MadeCall, name: str) -> bool:
        if name not in call.texts or call.call.arguments is None:
            return name in gold.optional
        # Equal texts are the common case, and need no numbers.
        if call.texts[name] in gold.texts.get(name, ()):
            return True
        allowed = self.tolerance.get(name, 0.0) if isinstance(self.tolerance, Mapping) else self.tolerance
        argument = call.call.arguments[name]
        return allowed > 0 and any(
            _is_near(value, argument, allowed) for value in gold.arguments.get(name, ())
        )


def _is_near(gold: Any, answer: Any, allowed: float) -> bool:
    """Whether numbers, or arrays with numbers in them, differ by no more than is allowed."""
    first, second = exact_number(gold), exact_number(answer)
    if first is not None and second is not None:
        # `repr` first: the decimal 0.1, not the float nearest to it.
        return abs(first - second) <= Decimal(repr(float(allowed)))
    if is_array(gold) and is_array(answer):
        return len(gold) == len(answer) and all(
            _is_near(gold_item, answer_item, allowed)
            for gold_item, answer_item in zip(gold, answer, strict=True)
        )
    return type(gold) is type(answer) and canonical_text(gold) == canonical_text(answer)


def read_gold_calls(answer: Any, change: Change | None = None) -> list[GoldCall]:
    """Read a gold: a list of calls, or one.

    A call has `name` and `arguments`; `alternatives` lists other accepted values by argument, `optional` the
    arguments that may be left out. `change` is applied to every value.
    """
    listed: Any = [answer] if isinstance(answer, Mapping) else answer
    if not is_array(listed) or len(listed) > MAX_GOLD_CALLS:
        raise BadCallsError(
            f"expected a gold of up to {MAX_GOLD_CALLS} calls, objects with name and arguments"
        )
    return [_gold_call(entry, change) for entry in listed]


def _gold_call(value: Any, change: Change | None) -> GoldCall:
    if not isinstance(value, Mapping):
        raise BadCallsError(f"expected a call as an object with name and arguments, got {value!r:.80}")
    call = cast("Mapping[str, Any]", value)
    name: Any = call.get("name")
    arguments: Any = call.get("arguments", {})
    alternatives: Any = call.get("alternatives", {})
    optional: Any = call.get("optional", ())
    unknown = sorted(set(call) - {"name", "arguments", "alternatives", "optional"})
    if not isinstance(name, str) or not name or unknown:
        raise BadCallsError(
            f"expected only name, arguments, alternatives and optional in a call, got {sorted(call)!r:.200}"
        )
    if not (is_object(arguments) and is_object(alternatives) and is_array(optional)):
        raise BadCallsError(f"{name}: expected arguments and alternatives as objects, and optional as a list")
    if not all(is_array(alternatives[key]) for key in alternatives):
        raise BadCallsError(f"{name}: expected alternatives as lists of values")
    accepted: dict[str, tuple[Any, ...]] = {key: (arguments[key],) for key in arguments}
    # An argument that only `alternatives` lists is demanded as well.
    for key in alternatives:
        accepted[key] = (*accepted.get(key, ()), *alternatives[key])
    if not all(accepted.values()) or not set(optional) <= set(accepted):
        raise BadCallsError(f"{name}: an argument has no accepted value")
    try:
        texts = {
            key: frozenset(canonical_text(change(value) if change else value) for value in values)
            for key, values in accepted.items()
        }
    except NotJSONError as error:
        raise BadCallsError(f"{name}: {error}") from None
    return GoldCall(name, accepted, frozenset(optional), texts)


@dataclass(frozen=True, slots=True)
class CallReport:
    """Which calls were made as the gold demands."""

    gold: Sequence[GoldCall]
    calls: Sequence[MadeCall]
    pairs: Mapping[int, int]
    """Number of a gold call to the number of the call that is it."""

    @property
    def missing(self) -> list[GoldCall]:
        """The gold calls that were not made."""
        return [expected for index, expected in enumerate(self.gold) if index not in self.pairs]

    @property
    def extra(self) -> list[MadeCall]:
        """The calls that no gold call matches."""
        used = set(self.pairs.values())
        return [call for index, call in enumerate(self.calls) if index not in used]


def pair_calls(
    gold: Sequence[GoldCall], calls: Sequence[MadeCall], rules: CallRules, *, is_ordered: bool
) -> CallReport:
    """Pairs as many gold calls as possible with those that were made, perhaps in the gold's order only."""
    fits = [
        [number for number, call in enumerate(calls) if _fits(expected, call, rules)] for expected in gold
    ]
    # Without an order a greedy choice could take the call that another gold call needs.
    pairs = _in_order(fits, len(calls)) if is_ordered else _most_pairs(fits)
    return CallReport(gold, calls, pairs)


def _fits(gold: GoldCall, call: MadeCall, rules: CallRules) -> bool:
    if rules.name(call.call.name) != rules.name(gold.name) or call.call.arguments is None:
        return False
    return not rules.wrong_arguments(gold, call)


def _most_pairs(fits: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a largest pairing (Kuhn's augmenting paths); the order of the calls does not matter."""
    owner: dict[int, int] = {}

    def find(row: int, tried: set[int]) -> bool:
        for number in fits[row]:
            if number not in tried:
                tried.add(number)
                if number not in owner or find(owner[number], tried):
                    owner[number] = row
                    return True
        return False

    for index in range(len(fits)):
        find(index, set())
    return {row: number for number, row in owner.items()}


def _in_order(fits: Sequence[Sequence[int]], count: int) -> dict[int, int]:
    """Return a longest pairing in which both orders agree (longest common subsequence)."""
    sets = [set(numbers) for numbers in fits]
    best = [[0] * (count + 1) for _ in range(len(fits) + 1)]
    for row in range(len(fits) - 1, -1, -1):
        for number in range(count - 1, -1, -1):
            taken = 1 + best[row + 1][number + 1] if number in sets[row] else 0
            best[row][number] = max(taken, best[row + 1][number], best[row][number + 1])
    pairs: dict[int, int] = {}
    row = number = 0
    while row < len(fits) and number < count:
        if number in sets[row] and best[row][number] == 1 + best[row + 1][number + 1]:
            pairs[row] = number
            row, number = row + 1, number + 1
        elif best[row + 1][number] >= best[row][number + 1]:
            row += 1
        else:
            number += 1
    return pairs
