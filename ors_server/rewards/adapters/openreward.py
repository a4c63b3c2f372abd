"""Environments of the `openreward` package and of the `ors-sdk`: rewards are in tools' outputs.

Source: the reward page of the Open Reward Standard, and `openreward` 0.1.167. In a tool's output, no reward
is `null`. A group's score must have a number: a reward of this library without one raises there, as the
package demands.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast

from ors_server.rewards.adapters.foreign_functions import (
    accept,
    adapt,
    demand_number,
    name_of,
    own_reward,
    read_number,
)
from ors_server.rewards.adapters.trainer_messages import conversation_fields
from ors_server.rewards.batch.batch_scorer import judge_together
from ors_server.rewards.define import Reward
from ors_server.rewards.group import evaluate_group, is_group_reward
from ors_server.rewards.reading.plain_json import plain
from ors_server.rewards.result import Range, RewardResult
from ors_server.rewards.reward_errors import RewardValueError

Package: TypeAlias = Literal["openreward.environments", "ors", "ors_server"]
"""The package of `ToolOutput` and `TextBlock`."""


def as_openreward(
    reward: object, *, package: Package = "openreward.environments"
) -> Callable[..., Awaitable[Any]]:
    """Make an async function that judges and returns a tool's output, which ends the episode.

    Its keywords are the reward's fields, and `text`, which the agent reads (by default only whether the
    answer could be judged). The output's reward is `None` if nothing was judged; its metadata are the extras,
    `reward_status`, and `reward_reason` if there is one.

    Raises:
        ImportError: If the package is not installed.
    """
    toolkit: Any = import_module(package)
    resolved = own_reward(reward)

    async def judge(*, text: str | None = None, **fields: Any) -> Any:
        (result,) = await judge_together(resolved, [fields])
        default = "The answer was judged." if result.reward is not None else "The answer could not be judged."
        block = toolkit.TextBlock(text=default if text is None else text)
        return toolkit.ToolOutput(
            blocks=[block], metadata=_metadata(result), reward=result.reward, finished=True
        )

    return judge


def as_score_group(
    reward: object, *, package: Package = "openreward.environments"
) -> Callable[..., Awaitable[list[Any]]]:
    """Make a method `score_group` of an environment: an async function of the environment and its candidates.

    A reward of groups compares the candidates; any other judges each by itself. `final_response` is the text
    of a candidate's last message, `trajectory` its messages, and the task's entries are fields.

    Raises:
        ImportError: If the package is not installed.
        NoRewardError: From the function, if there is no reward for a candidate.
    """
    toolkit: Any = import_module(package)
    resolved = own_reward(reward)

    async def score_group(self: Any, candidates: Sequence[Any]) -> list[Any]:
        task = dict(self.task_spec or {})
        rows = [
            conversation_fields(
                None,
                [
                    {"role": str(message.role), "blocks": list(map(_as_block, message.blocks))}
                    for message in candidate.messages
                ],
                task,
            )
            for candidate in candidates
        ]
        if is_group_reward(resolved):
            trajectories = [row["trajectory"] for row in rows]
            results = list(await evaluate_group(resolved, trajectories, task))
        else:
            results = await judge_together(resolved, rows)
        return [
            toolkit.GroupScore(reward=demand_number(result, resolved.name), metadata=_metadata(result))
            for result in results
        ]

    return score_group


def from_openreward(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (public name)
) -> Reward:
    """Make a reward of a function that returns a tool's output, a group's score, or a number.

    The output's metadata are extras; an output without a reward is the status `error`.

    Args:
        function: Async or not; its parameters are fields. A tool of an environment takes one object: pass
            `lambda answer: environment.submit(Answer(answer=answer))`.
        name: The reward's name; the function's by default.
        range: The range that is enforced.
    """
    who = name or name_of(function)

    def read(raw: Any) -> RewardResult:
        if raw is None or isinstance(raw, int | float):
            return read_number(raw, who)
        output = getattr(raw, "root", raw)  # what the package makes of a call
        output = getattr(output, "output", output)
        if not hasattr(output, "reward"):
            raise RewardValueError(
                f"expected a number or an object with a reward from {who}, got a {type(raw).__name__}"
            )
        extras: Mapping[str, Any] = output.metadata or {}
        return read_number(output.reward, who).with_extras(dict(extras))

    return adapt(function, partial(accept, function), read, name, range)


def _metadata(result: RewardResult) -> dict[str, Any]:
    shown = {**plain(dict(result.extras)), "reward_status": result.status.value}
    return shown if result.reason is None else {**shown, "reward_reason": result.reason}


def _as_block(block: Any) -> dict[str, Any]:
    dump: Any = getattr(block, "model_dump", None)
    if dump is not None:
        return cast("dict[str, Any]", dump())
    written: dict[str, Any] = dict(block.__dict__)
    inner: Any = written.get("blocks")  # of a tool's result
    return written if inner is None else {**written, "blocks": list(map(_as_block, inner))}
