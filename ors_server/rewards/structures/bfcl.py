"""Golds of the Berkeley Function Calling Leaderboard as golds of `tool_call_match_reward`. Pure.

Source: the possible answers and the checker of syntax trees of the leaderboard, version 3: each call is one
name to its arguments, each argument a list of the accepted values, in which "" means that it may be left out;
the values of an object that is an argument are such lists too.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final, cast

from ors_server.json_values import is_array, is_object
from ors_server.rewards.structures.call_match import BadCallsError

MAX_SHAPES: Final = 200
"""Shapes of one argument: ways to choose a value for each key of the objects in it."""
_IGNORED: Final = re.compile(r"[ ,./\-_*^]")
"""Ignored in texts (the leaderboard's `standardize_string`)."""
_LEFT_OUT: Final = ""


def from_bfcl(ground_truth: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """Turn the list under `ground_truth`, or one call of it, into a gold of `tool_call_match_reward`.

    An empty list demands no call, as in the categories of irrelevance. Raises `BadCallsError` for another
    form, and for an argument of more than 200 shapes.
    """
    listed: Any = [ground_truth] if isinstance(ground_truth, Mapping) else ground_truth
    if not is_array(listed):
        raise BadCallsError("a possible answer is a list of calls, each one name to its arguments")
    return [_call(one) for one in listed]


def loosen(value: Any) -> Any:
    """Return a value without what the leaderboard ignores in texts: case, spaces, some marks, quotes."""
    if isinstance(value, str):
        return _IGNORED.sub("", value).lower().replace("'", '"')
    if is_array(value):
        return [loosen(one) for one in value]
    if is_object(value):
        return {key: loosen(one) for key, one in value.items()}
    return value


def loosen_name(name: str) -> str:
    """Return a function's name as models may have to write it: with underscores where it has dots."""
    return name.replace(".", "_")


def _call(value: object) -> dict[str, Any]:
    call: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    if len(call) != 1 or not is_object(next(iter(call.values()))):
        raise BadCallsError(f"a call is one name to an object of its arguments, not {value!r:.80}")
    ((name, arguments),) = call.items()
    choices = {key: _values(name, key, values) for key, values in arguments.items()}
    return {
        "name": name,
        "arguments": {},
        "alternatives": choices,
        "optional": sorted(key for key, values in arguments.items() if _LEFT_OUT in values),
    }


def _values(name: str, key: str, values: Any) -> list[Any]:
    if not is_array(values) or not values:
        raise BadCallsError(f"{name}: {key} is a list of the accepted values, not {values!r:.80}")
    shapes = [shape for value in values for shape in _shapes(name, value)]
    if len(shapes) > MAX_SHAPES:
        raise BadCallsError(f"{name}: {key} has more than {MAX_SHAPES} shapes")
    return shapes


def _shapes(name: str, value: Any) -> list[Any]:
    """Return every value that one of the leaderboard's stands for."""
    if is_object(value):
        parts = [_parts(name, key, choices) for key, choices in value.items()]
        _bound(name, parts)
        return [
            {key: one for pair in chosen if pair is not None for key, one in [pair]}
            for chosen in product(*parts)
        ]
    if is_array(value) and any(is_object(one) for one in value):
        parts = [_shapes(name, one) for one in value]
        _bound(name, parts)
        return [list(chosen) for chosen in product(*parts)]
    return [value]


def _parts(name: str, key: str, choices: object) -> list[tuple[str, Any] | None]:
    listed: Any = choices if is_array(choices) else [choices]
    found: list[tuple[str, Any] | None] = [(key, shape) for one in listed for shape in _shapes(name, one)]
    return [*found, None] if is_array(choices) and _LEFT_OUT in listed else found


def _bound(name: str, parts: Sequence[Sequence[Any]]) -> None:
    count = 1
    for part in parts:
        count *= max(1, len(part))
        if count > MAX_SHAPES:
            raise BadCallsError(f"{name}: an argument has more than {MAX_SHAPES} shapes")
