"""Environments of the `openreward` package and of the `ors-sdk`: rewards stand in tools' outputs.

Source: the reward page of the Open Reward Standard, and `openreward` 0.1.167. In a tool's output, no reward
is `null`. A score of a group has no such word: a reward of ours without a number raises there, which the
package asks for.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast

from ors_server.rewards.adapters.conversation import conversation_fields
from ors_server.rewards.adapters.foreign import adapt, demand_number, name_of, own_reward, read_number
from ors_server.rewards.batch.scoring import judge_together
from ors_server.rewards.define import Reward
from ors_server.rewards.group import evaluate_group, is_group_reward
from ors_server.rewards.reading.plain_json import plain
from ors_server.rewards.result import Range, RewardResult
from ors_server.rewards.reward_errors import RewardValueError
from ors_server.rewards.reward_trajectory import Message

Package: TypeAlias = Literal["openreward.environments", "ors", "ors_server"]
"""Where `ToolOutput` and `TextBlock` are taken from."""


def as_openreward(
    reward: object, *, package: Package = "openreward.environments"
) -> Callable[..., Awaitable[Any]]:
    """Make a function that judges and gives a tool's output, to end an episode with.

    Args:
        reward: A reward of ours, or its name.
        package: Whose tool output it gives.

    Returns:
        An async function. Its keywords are the reward's fields, and `text`, what the agent is told (by
        default whether something could be judged, and not what). The output is finished; its reward is `None`
        where there is none; the metadata have the extras, `reward_status`, and `reward_reason` where there is
        one.

    Raises:
        ImportError: If the package is not installed.
    """
    theirs: Any = import_module(package)
    asked = own_reward(reward)

    async def judge(*, text: str | None = None, **fields: Any) -> Any:
        (result,) = await judge_together(asked, [fields])
        told = "The answer was judged." if result.reward is not None else "The answer could not be judged."
        block = theirs.TextBlock(text=told if text is None else text)
        return theirs.ToolOutput(
            blocks=[block], metadata=_metadata(result), reward=result.reward, finished=True
        )

    return judge


def as_score_group(
    reward: object, *, package: Package = "openreward.environments"
) -> Callable[..., Awaitable[list[Any]]]:
    """Make a method `score_group` of an environment, which judges each candidate.

    A reward of groups compares the candidates; any other judges each by itself.

    Args:
        reward: A reward of ours, or its name. In it, `final_response` is the text of a candidate's last
            message, `trajectory` is its messages, and the task's entries are fields.
        package: Whose `GroupScore` it gives.

    Returns:
        An async function of the environment and the candidates, to be set on its class.

    Raises:
        ImportError: If the package is not installed.
        NoRewardError: From the function, if there is no reward for one of them.
    """
    theirs: Any = import_module(package)
    asked = own_reward(reward)

    async def score_group(self: Any, candidates: Sequence[Any]) -> list[Any]:
        task = dict(self.task_spec or {})
        rows = [conversation_fields(None, [_said(one) for one in each.messages], task) for each in candidates]
        if is_group_reward(asked):
            judged = [row["trajectory"] for row in rows]
            results = list(await evaluate_group(asked, judged, task))
        else:
            results = await judge_together(asked, rows)
        return [
            theirs.GroupScore(reward=demand_number(result, asked.name), metadata=_metadata(result))
            for result in results
        ]

    return score_group


def from_openreward(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (the word that it is)
) -> Reward:
    """Make a reward of what gives a tool's output, a group's score, or a number.

    Args:
        function: Async or not; its parameters are fields. A tool of an environment takes one object: hand
            over `lambda answer: environment.submit(Answer(answer=answer))`.
        name: The reward's name; the function's by default.
        range: The range that is enforced.

    Returns:
        A reward. The output's metadata are extras; an output without a reward is the status `error`.
    """
    who = name or name_of(function)
    parameters = inspect.signature(function).parameters.values()
    takes_rest = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    names = {one.name for one in parameters}

    def arguments(fields: dict[str, Any]) -> dict[str, Any]:
        return fields if takes_rest else {key: value for key, value in fields.items() if key in names}

    def read(given: Any) -> RewardResult:
        if given is None or isinstance(given, int | float):
            return read_number(given, who)
        output = getattr(given, "root", given)  # what the package makes of a call
        output = getattr(output, "output", output)
        if not hasattr(output, "reward"):
            raise RewardValueError(f"{who} gave a {type(given).__name__}, which has no reward")
        extras: Mapping[str, Any] = output.metadata or {}
        return read_number(output.reward, who).with_extras(dict(extras))

    return adapt(function, arguments, read, name, range)


def _metadata(result: RewardResult) -> dict[str, Any]:
    shown = {**plain(dict(result.extras)), "reward_status": result.status.value}
    return shown if result.reason is None else {**shown, "reward_reason": result.reason}


def _said(message: Any) -> Message:
    texts = [block.text for block in message.blocks if getattr(block, "type", None) == "text"]
    return cast("Message", {"role": str(message.role), "content": "\n".join(texts)})
