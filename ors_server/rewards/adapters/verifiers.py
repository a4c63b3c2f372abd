"""verifiers: an async function whose arguments are filled by name returns a number.

Source: `Rubric` of verifiers 0.1.14 (`prompt`, `completion`, `answer`, `state`, `info`, `task`, and the
columns of the data set) and the scoring of `verifiers.v1` 0.4.0 (`task`, `trace`). Neither can express "not
judged": a reward of this library without a number raises there. Hazard: the rubric of 0.1 catches every
error, logs it, and pays 0; so the error is also put into `state["error"]`, by which such a rollout can be
found and left out. In `verifiers.v1` the error ends the scoring of the trace, which then has no reward.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, cast

from ors_server.rewards.adapters.foreign_functions import (
    accept,
    adapt,
    demand_number,
    name_of,
    own_reward,
    read_number,
    take,
)
from ors_server.rewards.adapters.grouping import evaluate_groups
from ors_server.rewards.adapters.trainer_messages import as_chat, conversation_fields
from ors_server.rewards.batch.batch_scorer import judge_together
from ors_server.rewards.define import Reward
from ors_server.rewards.group import is_group_reward
from ors_server.rewards.result import Range, RewardResult
from ors_server.rewards.reward_errors import NoRewardError

_NAMES = ("prompt", "completion", "answer", "state", "info", "task", "trace")
_REST = inspect.Parameter("fields", inspect.Parameter.VAR_KEYWORD)
_GROUP_NAMES = ("prompts", "completions", "answers", "states", "infos", "tasks")
"""A rubric recognises a function of groups by these plural names."""


def as_verifiers(reward: object) -> Callable[..., Awaitable[Any]]:
    """Make a reward function for a `Rubric`, or for a method of a `verifiers.v1` task.

    All its arguments are optional, by verifiers' names; for a reward of groups they are those of a group, and
    it returns a list. `final_response` is the text of the completion's last message (of a `trace`, its last
    reply); the entries of `info`, of a v1 task's data and of the data set are fields; `ids` are the tokens of
    the rollout's completions, if the state has them, and `length` is their number.

    Raises:
        NoRewardError: From the function, if there is no reward.
    """
    resolved = own_reward(reward)

    async def judge(**named: Any) -> float:
        (result,) = await judge_together(resolved, [_row(named)])
        return _number(result, resolved.name, named.get("state"))

    async def judge_group(**named: Any) -> list[float]:
        lists = {name: named[name] for name in _GROUP_NAMES if named.get(name) is not None}
        size = max(map(len, lists.values()), default=0)
        states: list[Any] = lists.get("states") or [None] * size
        rows = [
            _row({**_columns(states[at]), **{name[:-1]: values[at] for name, values in lists.items()}})
            for at in range(size)
        ]
        results = await evaluate_groups(resolved, rows)
        return [_number(result, resolved.name, state) for result, state in zip(results, states, strict=True)]

    is_of_groups = is_group_reward(resolved)
    wrapped: Any = judge_group if is_of_groups else judge
    wrapped.__name__ = wrapped.__qualname__ = resolved.name
    names, rest = (_GROUP_NAMES, []) if is_of_groups else (_NAMES, [_REST])
    optional = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
    wrapped.__signature__ = inspect.Signature([*optional, *rest])
    return cast("Callable[..., Awaitable[Any]]", wrapped)


def _number(result: RewardResult, name: str, state: object) -> float:
    try:
        return demand_number(result, name)
    except NoRewardError as error:
        if isinstance(state, MutableMapping):
            cast("MutableMapping[str, Any]", state)["error"] = error
        raise


def from_verifiers(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (public name)
) -> Reward:
    """Make a reward of a function for a `Rubric`.

    It takes `final_response` or `completion`, and what the function names. An error of the function is the
    status `error`, and not the 0 that a rubric makes of it.

    Args:
        function: Async or not; it gets those that it names of `prompt` and `completion` (lists of messages),
            `answer`, `info`, `state` (a mapping of all these), `task`, and every other field. A function that
            compares the completions of a group (`completions`, `states`) cannot be used.
        name: The reward's name; the function's by default.
        range: The range that is enforced.
    """
    who = name or name_of(function)

    def arguments(fields: dict[str, Any]) -> dict[str, Any]:
        completion = take(dict(fields), who, "completion", "final_response")
        state: dict[str, Any] = {
            "answer": "",
            "info": {},
            "task": "default",
            **fields,
            "prompt": as_chat(fields.get("prompt", ""), "user"),
            "completion": as_chat(completion, "assistant"),
        }
        return accept(function, {**state, "state": state})

    return adapt(function, arguments, partial(read_number, name=who), name, range)


def _row(named: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {name: value for name, value in named.items() if value is not None}
    trace, info = arguments.pop("trace", None), arguments.get("info")
    columns = {
        **_tokens(arguments.get("state")),
        **(cast("Mapping[str, Any]", info) if isinstance(info, Mapping) else {}),
        **_data(arguments.get("task")),
        **arguments,
    }
    prompt, completion = columns.pop("prompt", None), columns.pop("completion", None)
    if trace is None:
        return conversation_fields(prompt, completion, columns)
    fields = conversation_fields(None, list(trace.messages), columns)
    return {**fields, "prompt": prompt, "final_response": str(trace.last_reply)}


def _columns(state: object) -> Mapping[str, Any]:
    """Return the data set's columns, which a function of groups finds only in the state."""
    columns: Any = cast("Mapping[str, Any]", state).get("input") if isinstance(state, Mapping) else None
    return cast("Mapping[str, Any]", columns) if isinstance(columns, Mapping) else {}


def _tokens(state: object) -> dict[str, Any]:
    """Return the tokens of a rollout's completions, if its state has those of every turn."""
    turns: Any = cast("Mapping[str, Any]", state).get("trajectory") if isinstance(state, Mapping) else None
    listed = cast("Sequence[Any]", turns) if isinstance(turns, list | tuple) else ()
    ids: list[Any] = []
    for turn in listed:
        tokens: Any = cast("Mapping[str, Any]", turn).get("tokens") if isinstance(turn, Mapping) else None
        if not isinstance(tokens, Mapping) or "completion_ids" not in tokens:
            return {}
        ids += cast("Mapping[str, Any]", tokens)["completion_ids"]
    return {"ids": ids, "length": len(ids)} if listed else {}


def _data(task: object) -> Mapping[str, Any]:
    dump: Any = getattr(task, "model_dump", None)  # of verifiers.v1 the task's data, made by pydantic
    return cast("Mapping[str, Any]", dump()) if callable(dump) else {}
