"""Rewards for the final state: its values at declared places."""

from collections.abc import Mapping, Sequence
from typing import Any

from ors_server.model.json_values import (
    JSONValue,
    NotJSONError,
    canonical_hash,
    canonical_text,
    is_array,
    is_object,
)
from ors_server.rewards.define import reward
from ors_server.rewards.reading.option_words import Pays, check_words
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.structures.json_match import FieldVerdict

MAX_PATHS = 1_000
_ABSENT = object()


class BadPathError(ValueError):
    """A path is not a JSON pointer."""


@reward(range=(0.0, 1.0))
def state_match_reward(
    state: JSONValue, answer: JSONValue, paths: Sequence[str], *, start: JSONValue = None, pays: Pays = "all"
) -> RewardResult:
    """Pays if the final state is the goal at the declared paths; other places do not count.

    Hazards: where the goal is the start, doing nothing is paid in full: give `start`, which refuses that.
    With `pays="fraction"` paths whose goal is the start pay for doing nothing: declare only what has to
    change, and what must not change in a reward that gates this one. A change at an undeclared path is free.

    Source: final-state checks of tau-bench (a hash of the database) and of NeMo Gym's workplace assistant;
    paths are JSON pointers (RFC 6901).

    Args:
        answer: The goal: a JSON value with every declared path in it, or the text `sha256:...` that
            `hash_state` returns for one. (Put a goal that is itself text into an object, because text is read
            as a hash.)
        paths: The places that count, at least one; the empty pointer is the whole state. For a value that
            must be gone declare its parent: `/orders`, not `/orders/17`.

    Returns:
        In [0, 1], with `hash` of the final state at the paths and, unless the goal is a hash, `fraction` and
        `paths`, those that are `different` or `missing`. A final state that is not a JSON value is
        `unparsed_answer`. A goal without one of the paths, or equal to the start, is `bad_gold`.
    """
    check_words(pays=(pays, Pays))
    problem = _check_goal(answer, paths, start, pays)
    if problem:
        return RewardResult.without(RewardStatus.BAD_GOLD, problem)
    try:
        came = hash_state(state, paths)
    except NotJSONError as error:
        return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason=f"the final state: {error}")
    if isinstance(answer, str):
        return RewardResult(float(came == answer), extras={"hash": came})
    verdicts = {path: _verdict(_follow_pointer(answer, path), _follow_pointer(state, path)) for path in paths}
    right = sum(verdict == "right" for verdict in verdicts.values()) / len(verdicts)
    wrong = {path: verdict for path, verdict in verdicts.items() if verdict != "right"}
    extras = {"fraction": right, "paths": wrong, "hash": came}
    return RewardResult(right if pays == "fraction" else float(not wrong), extras=extras)


def hash_state(state: JSONValue, paths: Sequence[str]) -> str:
    """Return `sha256:` and the hash of a state's values at some paths, whose order counts."""
    values = [_follow_pointer(state, path) for path in paths]
    return canonical_hash(
        [[path, *([] if value is _ABSENT else [value])] for path, value in zip(paths, values, strict=True)]
    )


def _check_goal(goal: JSONValue, paths: Sequence[str], start: JSONValue, pays: Pays) -> str | None:
    """Return why a goal cannot be used; `None` if it can."""
    if isinstance(paths, str) or not 1 <= len(paths) <= MAX_PATHS:
        return f"expected a list of 1 to {MAX_PATHS} JSON pointers as paths"
    try:
        if isinstance(goal, str):
            return _check_hash(goal, paths, start, pays)
        missing = [path for path in paths if _follow_pointer(goal, path) is _ABSENT]
        if missing:
            return f"the goal has nothing at {missing[0]!r:.80}"
        goal_hash = hash_state(goal, paths)
        if start is not None and goal_hash == hash_state(start, paths):
            return "the goal is the start at every path: doing nothing would be paid"
    except (BadPathError, NotJSONError) as error:
        return str(error)
    return None


def _check_hash(goal: str, paths: Sequence[str], start: JSONValue, pays: Pays) -> str | None:
    digits = goal.removeprefix("sha256:")
    if digits == goal or len(digits) != 64 or set(digits) - set("0123456789abcdef"):  # noqa: PLR2004  (SHA-256)
        return "expected a goal in text form as sha256: and 64 hexadecimal digits"
    if pays == "fraction":
        return "a fraction cannot be computed from a hash"
    is_start = hash_state(start, paths) == goal and start is not None
    return "the goal is the start: doing nothing would be paid" if is_start else None


def _verdict(goal: Any, came: Any) -> FieldVerdict:
    if came is _ABSENT:
        return "missing"
    return "right" if canonical_text(goal) == canonical_text(came) else "different"


def _follow_pointer(value: Any, path: str) -> Any:
    """Follow a JSON pointer; `_ABSENT` if nothing is there."""
    if path and not path.startswith("/"):
        raise BadPathError(f"{path!r:.80} is not a JSON pointer: it must begin with /")
    for part in path.split("/")[1:]:
        value = _member(value, part.replace("~1", "/").replace("~0", "~"))
        if value is _ABSENT:
            break
    return value


def _member(value: Any, name: str) -> Any:
    if is_object(value):
        members: Mapping[str, Any] = value
        return members.get(name, _ABSENT)
    if is_array(value) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(value):  # noqa: PLR2004  (no array has an index of ten digits)
        return value[int(name)]
    return _ABSENT
