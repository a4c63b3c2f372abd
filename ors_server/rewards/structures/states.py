"""Rewards for what is there in the end: a state at declared places."""

from collections.abc import Mapping, Sequence
from typing import Any

from ors_server.rewards.define import reward
from ors_server.rewards.reading.json_values import (
    JSONValue,
    NotJSONError,
    canonical_hash,
    canonical_text,
    is_array,
    is_object,
)
from ors_server.rewards.reading.option_words import Pays, check_words
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.structures.json_match import FieldVerdict

MAX_PATHS = 1_000
_ABSENT = object()


class BadPathError(ValueError):
    """A path is no JSON pointer, or leads nowhere."""


@reward(range=(0.0, 1.0))
def state_match_reward(
    state: JSONValue,
    answer: JSONValue,
    paths: Sequence[str],
    *,
    start: JSONValue = None,
    pays: Pays = "all",
) -> RewardResult:
    """Pays if the final state is the goal at the declared paths; what is elsewhere does not count.

    Hazards: where the goal is the start, doing nothing is paid in full: give `start`, which refuses that.
    With `pays="fraction"` paths whose goal is the start pay for doing nothing: declare only what has to
    change, and what must not change in a reward that gates this one. A change at an undeclared path is free.

    Source: final-state checks of tau-bench (a hash of the database) and of NeMo Gym's workplace assistant;
    paths are JSON pointers (RFC 6901).

    Args:
        state: The final state, a JSON value.
        answer: The goal: a JSON value with every declared path in it, or the text `sha256:...` that
            `hash_state` gives of one. (A goal that is a text itself cannot be told from a hash; put it into
            an object.)
        paths: What counts, at least one; the empty pointer is the whole state. What must be gone is declared
            by what it was in: `/orders`, not `/orders/17`.
        start: The state at the start, where it is known.
        pays: `all`: 1 if every path agrees, else 0. `fraction`: the part that agrees; not for a hash.

    Returns:
        In [0, 1], with `hash` of the final state at the paths and, unless the goal is a hash, `fraction` and
        `paths`, those that are `different` or `missing`. A final state that is no JSON value is
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
    verdicts = {path: _verdict(_at(answer, path), _at(state, path)) for path in paths}
    right = sum(verdict == "right" for verdict in verdicts.values()) / len(verdicts)
    wrong = {path: verdict for path, verdict in verdicts.items() if verdict != "right"}
    extras = {"fraction": right, "paths": wrong, "hash": came}
    return RewardResult(right if pays == "fraction" else float(not wrong), extras=extras)


def hash_state(state: JSONValue, paths: Sequence[str]) -> str:
    """Return `sha256:` and the hash of what a state has at some paths; equal states have equal hashes.

    Args:
        state: A JSON value.
        paths: JSON pointers; their order counts.

    Raises:
        NotJSONError: If something at a path is no JSON value.
        BadPathError: If a path is no JSON pointer.
    """
    found = [_at(state, path) for path in paths]
    return canonical_hash(
        [[path, *([] if one is _ABSENT else [one])] for path, one in zip(paths, found, strict=True)]
    )


def _check_goal(goal: JSONValue, paths: Sequence[str], start: JSONValue, pays: Pays) -> str | None:
    """Return why a goal cannot be judged by; `None` if it can."""
    if isinstance(paths, str) or not 1 <= len(paths) <= MAX_PATHS:
        return f"paths are a list of 1 to {MAX_PATHS} JSON pointers"
    try:
        if isinstance(goal, str):
            return _check_hash(goal, paths, start, pays)
        missing = [path for path in paths if _at(goal, path) is _ABSENT]
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
        return "a goal that is a text is sha256: and 64 hexadecimal digits"
    if pays == "fraction":
        return "of a hash no fraction can be told"
    is_start = hash_state(start, paths) == goal and start is not None
    return "the goal is the start: doing nothing would be paid" if is_start else None


def _verdict(goal: Any, came: Any) -> FieldVerdict:
    if came is _ABSENT:
        return "missing"
    return "right" if canonical_text(goal) == canonical_text(came) else "different"


def _at(value: Any, path: str) -> Any:
    """Follow a JSON pointer; what is not there is `_ABSENT`."""
    if path and not path.startswith("/"):
        raise BadPathError(f"{path!r:.80} is no JSON pointer: it begins with /")
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
