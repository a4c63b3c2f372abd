"""Rewards for the tool calls of an episode: its messages' `tool_calls`, or else its steps.

Golds of the Berkeley Function Calling Leaderboard as golds of `tool_call_match_reward`. Pure.

Source: the possible answers and the checker of syntax trees of the leaderboard, version 3: each call is one
name to its arguments, each argument a list of the accepted values, in which "" means that it may be left out;
the values of an object that is an argument are such lists too.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final, Literal, TypeAlias, cast

from ors_server.model.json_values import NotJSONError, canonical_text, is_array, is_object
from ors_server.rewards.define import reward
from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.reading.option_words import Pays, check_words
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.structures.call_match import (
    BadCallsError,
    CallReport,
    CallRules,
    TooManyArgumentsError,
    pair_calls,
    read_gold_calls,
    read_made,
)
from ors_server.rewards.structures.episode_calls import ToolCall, read_calls

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
        raise BadCallsError(
            "expected a possible answer as a list of calls, each of one name to its arguments"
        )
    return [_call(entry) for entry in listed]


def loosen(value: Any) -> Any:
    """Return a value without what the leaderboard ignores in texts: case, spaces, some marks, quotes."""
    if isinstance(value, str):
        return _IGNORED.sub("", value).lower().replace("'", '"')
    if is_array(value):
        return [loosen(item) for item in value]
    if is_object(value):
        return {key: loosen(item) for key, item in value.items()}
    return value


def loosen_name(name: str) -> str:
    """Return a function's name as models may have to write it: with underscores where it has dots."""
    return name.replace(".", "_")


def _call(value: object) -> dict[str, Any]:
    call: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    if len(call) != 1 or not is_object(next(iter(call.values()))):
        raise BadCallsError(f"expected a call as one name to an object of its arguments, got {value!r:.80}")
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
        raise BadCallsError(f"{name}: expected {key} as a list of the accepted values, got {values!r:.80}")
    shapes = [shape for value in values for shape in _shapes(name, value)]
    if len(shapes) > MAX_SHAPES:
        raise BadCallsError(f"{name}: {key} has more than {MAX_SHAPES} shapes")
    return shapes


def _shapes(name: str, value: Any) -> list[Any]:
    """Return every value that one of the leaderboard's stands for."""
    if is_object(value):
        parts = [_parts(name, key, choices) for key, choices in value.items()]
        _check_shapes(name, parts)
        return [
            {key: shape for pair in chosen if pair is not None for key, shape in [pair]}
            for chosen in product(*parts)
        ]
    if is_array(value) and any(is_object(item) for item in value):
        parts = [_shapes(name, item) for item in value]
        _check_shapes(name, parts)
        return [list(chosen) for chosen in product(*parts)]
    return [value]


def _parts(name: str, key: str, choices: object) -> list[tuple[str, Any] | None]:
    listed: Any = choices if is_array(choices) else [choices]
    parts: list[tuple[str, Any] | None] = [
        (key, shape) for choice in listed for shape in _shapes(name, choice)
    ]
    return [*parts, None] if is_array(choices) and _LEFT_OUT in listed else parts


def _check_shapes(name: str, parts: Sequence[Sequence[Any]]) -> None:
    count = 1
    for part in parts:
        count *= max(1, len(part))
        if count > MAX_SHAPES:
            raise BadCallsError(f"{name}: an argument has more than {MAX_SHAPES} shapes")


MAX_CALLS = 500
"""Calls of an agent's that are compared; an episode with more matches no gold."""
MAX_REPORTED = 50

Strictness: TypeAlias = Literal["exact", "lenient"]
Extra: TypeAlias = Literal["refused", "allowed"]
"""Whether calls in addition to the gold ones spoil the match."""


@reward(range=(0.0, 1.0))
def tool_call_match_reward(
    trajectory: Trajectory,
    answer: Any,
    *,
    ordered: bool = False,
    extra: Extra = "refused",
    tolerance: Mapping[str, float] | float = 0.0,
    pays: Pays = "all",
    **rest: Any,
) -> RewardResult:
    """Pays if the gold calls were made, with the right arguments.

    Hazards: the effects of the calls are not looked at, and another way to the goal earns nothing. An empty
    gold pays for doing nothing. `extra="allowed"` with `pays="fraction"` pays for trying everything.

    Source: the comparison of syntax trees of the Berkeley Function Calling Leaderboard (several accepted
    values, arguments that may be left out, batches without an order) and the `{name, arguments}` of the xLAM
    function-calling data. Stricter than the leaderboard: values are compared as JSON (1 is 1.0, 1 is not "1",
    true is not 1), and texts exactly, case and marks included; `strictness="lenient"` compares texts and
    names as the leaderboard does. `from_bfcl` turns its possible answers into golds.

    Args:
        answer: The calls, as objects with `name` and `arguments`, or their JSON text. `alternatives` gives
            other values by argument, `optional` lists arguments that may be left out.
        ordered: Whether the calls must come in the gold's order.
        tolerance: Greatest absolute difference of numbers: one for all, or by argument.
        pays: `fraction` pays the part of the gold calls that was made; where extra calls are refused, of the
            gold or of the made ones, whichever are more numerous.
        **rest: `strictness`, `exact` or `lenient`: in texts neither case nor spaces nor the marks `,./-_*^`
            count, and both kinds of quotes are one; in a function's name a dot is an underscore.

    Returns:
        In [0, 1], with `matched`, `wanted`, `made`, the names of `missing` and `extra` calls, and
        `wrong_arguments`: those of a missing call that was made with others. A gold that is not a list of
        calls, or an empty one to which extra calls are allowed, is `bad_gold`.
    """
    strictness: Strictness = rest.get("strictness", "exact")
    check_words(extra=(extra, Extra), pays=(pays, Pays), strictness=(strictness, Strictness))
    change, name = (loosen, loosen_name) if strictness == "lenient" else (None, str)
    rules = CallRules(_tolerance(tolerance), name)
    try:
        gold = read_gold_calls(parse_json(answer, exact=True) if isinstance(answer, str) else answer, change)
    except (BadCallsError, JSONTextError) as error:
        return RewardResult.without(RewardStatus.BAD_GOLD, str(error))
    if not gold and extra == "allowed":
        return RewardResult.without(RewardStatus.BAD_GOLD, "every episode matches a gold without calls")
    calls = read_calls(trajectory)
    if len(calls) > MAX_CALLS:
        reason = f"{len(calls)} calls were made; an episode with more than {MAX_CALLS} matches nothing"
        return RewardResult(0.0, extras={"made": len(calls)}, reason=reason)
    try:
        report = pair_calls(gold, read_made(calls, change), rules, is_ordered=ordered)
    except TooManyArgumentsError as error:
        return RewardResult(0.0, extras={"made": len(calls)}, reason=str(error))
    return RewardResult(_paid(report, extra, pays), extras=_extras(report, rules))


@reward(range=(0.0, 1.0))
def distinct_tool_use_reward(
    trajectory: Trajectory,
    *,
    wanted_calls: int = 2,
    counted_tools: Sequence[str] | None = None,
    by: Literal["call", "tool"] = "call",
) -> RewardResult:
    """Pays for useful tool calls that differ, up to a number of them: n of k pay n/k, more pay 1.

    A call is useful if it did not fail, its result is not blank, and no call before it had the same arguments
    or the same result. With `by="tool"` each tool counts once; `counted_tools` names those that count.

    Hazard: whether the calls served the task is not known. Gate it by a right answer (`GatedReward`), as one
    gates every bonus.

    Source: the tool bonuses of AgentFly and rLLM, which pay for the number of calls, without what makes those
    farmable.

    Raises:
        RewardFieldError: If `wanted_calls` is below 1, or `counted_tools` is not a list.
    """
    check_words(by=(by, Literal["call", "tool"]))
    if isinstance(wanted_calls, bool) or wanted_calls < 1:
        raise RewardFieldError(f"expected wanted_calls of at least 1, got {wanted_calls!r}")
    if isinstance(counted_tools, str):
        raise RewardFieldError(f"expected counted_tools as a list of names, got {counted_tools!r:.80}")
    calls = [call for call in read_calls(trajectory) if counted_tools is None or call.name in counted_tools]
    useful_calls = _find_useful(calls)
    useful = len({call.name for call in useful_calls}) if by == "tool" else len(useful_calls)
    return RewardResult(min(1.0, useful / wanted_calls), extras={"useful": useful, "made": len(calls)})


def _tolerance(value: Mapping[str, float] | float) -> Mapping[str, float] | float:
    limits = list(value.values()) if isinstance(value, Mapping) else [value]
    for limit in limits:
        if not 0 <= limit < float("inf"):
            raise RewardFieldError(f"expected a finite tolerance of at least 0, got {limit!r}")
    return value


def _paid(report: CallReport, extra: Extra, pays: Pays) -> float:
    allowed = extra == "allowed"
    if pays == "all":
        return float(not report.missing and (allowed or not report.extra))
    among = len(report.gold) if allowed else max(len(report.gold), len(report.calls))
    return len(report.pairs) / among if among else 1.0


def _extras(report: CallReport, rules: CallRules) -> dict[str, Any]:
    return {
        "matched": len(report.pairs),
        "wanted": len(report.gold),
        "made": len(report.calls),
        "missing": [expected.name for expected in report.missing][:MAX_REPORTED],
        "extra": [call.call.name for call in report.extra][:MAX_REPORTED],
        "wrong_arguments": _find_wrong_arguments(report, rules),
    }


def _find_wrong_arguments(report: CallReport, rules: CallRules) -> list[dict[str, Any]]:
    """Names, for each missing call, the wrong arguments of the nearest extra call of its name."""
    wrong: list[dict[str, Any]] = []
    for gold in report.missing[:MAX_REPORTED]:
        near = [
            call for call in report.extra if call.call.name == gold.name and call.call.arguments is not None
        ]
        if near:
            lists = (rules.wrong_arguments(gold, call) for call in near)
            wrong.append({"name": gold.name, "arguments": min(lists, key=len)[:MAX_REPORTED]})
    return wrong


def _find_useful(calls: Sequence[ToolCall]) -> list[ToolCall]:
    seen: set[str] = set()
    useful: list[ToolCall] = []
    for call in calls:
        result = " ".join((call.result or "").split())
        if call.failed or not result or call.arguments is None:
            continue
        try:
            request = canonical_text([call.name, dict(call.arguments)])
        except NotJSONError:
            continue
        marks = {f"asked {_hash(request)}", f"got {_hash(result)}"}
        if not marks & seen:
            useful.append(call)
        seen |= marks
    return useful


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
