"""TRL: a reward function takes columns, which are lists, and returns one number or `None` per completion.

Source: `GRPOTrainer` of TRL 1.16. `None` means that a completion was not judged; the trainer leaves it out of
the mean. An argument that is not a list as long as the completions (the trainer's state, its logging
functions) belongs to the whole batch and is not passed to the reward.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ors_server.rewards.adapters.foreign_functions import (
    accept,
    adapt,
    name_of,
    own_reward,
    read_number,
    take,
)
from ors_server.rewards.adapters.grouping import evaluate_groups, score_groups
from ors_server.rewards.adapters.trainer_messages import as_chat, conversation_fields
from ors_server.rewards.batch.batch_scorer import judge_together
from ors_server.rewards.define import Reward
from ors_server.rewards.group import is_group_reward
from ors_server.rewards.metrics import summarise_extras
from ors_server.rewards.result import Range, RewardResult
from ors_server.rewards.reward_errors import RewardValueError
from ors_server.rewards.scoring import score

TRLReward = Callable[..., Any]
"""`f(prompts, completions, **columns) -> list[float | None]`, or a coroutine function of the same."""

TOKENS = "completion_ids"
"""The trainer's name for the tokens of the completions."""


def as_trl(
    reward: object, *, columns: Mapping[str, str] | None = None, fields: Mapping[str, Any] | None = None
) -> TRLReward:
    """Make a reward function for `GRPOTrainer` and its relatives; it returns `None` where there is no reward.

    Its name is the reward's. An async reward becomes an async function, which judges all completions at once.
    `log_metric` gets mean, greatest and least of the extras and the share of each status, and `log_extra` the
    reasons of what was not judged, where the trainer offers them.

    Args:
        reward: A reward, or its name, with which the function can be pickled for the trainer's processes.
            `final_response` is the text of the completion's last message, `prompt` and `completion` are
            unchanged, `ids` are the completion's tokens, `length` is their number, and every column of the
            data set is a field. A reward of groups gets the completions with the same prompt and the same
            columns as a group.
        columns: Maps columns of the data set to fields, such as `{"solution": "answer"}`; others keep their
            names. A column that is named here wins over `ids` and `length`.
        fields: Fields of every judgement, such as `{"max_len": 1024}`; they win over columns.
    """
    resolved = own_reward(reward)
    kind = _LaterJudge if resolved.is_async else _Judge
    return kind(reward, dict(columns or {}), dict(fields or {}))


class _Judge:
    """A reward function as an object, so that the trainer's processes can be sent it as a pickle."""

    def __init__(self, reward: object, columns: Mapping[str, str], fields: Mapping[str, Any]) -> None:
        self._arguments = (reward, columns, fields)
        self._reward = own_reward(reward)
        self._columns = columns
        self._fields = fields
        self.__name__ = self.__qualname__ = self._reward.name
        self.__doc__ = self._reward.function.__doc__

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._arguments)

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> Any:
        rows = self._rows(prompts, completions, columns)
        if is_group_reward(self._reward):
            return self._numbers(score_groups(self._reward, rows), columns)
        return self._numbers([score(self._reward, None, **row) for row in rows], columns)

    def _rows(
        self, prompts: Sequence[Any], completions: Sequence[Any], dataset_columns: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        columns: dict[str, Sequence[Any]] = {}
        for name, values in dataset_columns.items():
            if isinstance(values, list | tuple) and len(cast("Sequence[Any]", values)) == len(completions):
                columns[self._columns.get(name, name)] = cast("Sequence[Any]", values)
        token_counts = _tokens(dataset_columns.get(TOKENS), len(completions))
        for name in set(token_counts) - set(self._columns.values()):
            columns[name] = token_counts[name]
        return [
            conversation_fields(
                prompt, completion, {**{name: column[at] for name, column in columns.items()}, **self._fields}
            )
            for at, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
        ]

    def _numbers(self, results: Sequence[RewardResult], columns: Mapping[str, Any]) -> list[float | None]:
        log_metric: Any = columns.get("log_metric")
        if callable(log_metric):
            for name, value in _metrics(results).items():
                log_metric(name, value)
        log_extra: Any = columns.get("log_extra")
        if callable(log_extra) and any(result.reason for result in results):
            log_extra(f"{self.__name__} reason", [result.reason or "" for result in results])
        return [result.reward for result in results]


class _LaterJudge(_Judge):
    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> Any:
        rows = self._rows(prompts, completions, columns)
        if is_group_reward(self._reward):
            return self._numbers(await evaluate_groups(self._reward, rows), columns)
        return self._numbers(await judge_together(self._reward, rows), columns)


def from_trl(
    function: TRLReward,
    *,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (public name)
    conversational: bool = True,
) -> Reward:
    """Make a reward of a TRL reward function, which gets one completion at a time.

    It takes `final_response` or `completion`, `prompt`, and every column that the function names. `None` and
    NaN are the status `error`, with no number.

    Args:
        function: Such as those in `trl.rewards`; one that compares completions with one another cannot be
            used.
        name: The reward's name; the function's by default.
        range: The range that is enforced.
        conversational: Whether it takes completions as lists of messages, as most do, or as texts.
    """
    who = name or name_of(function)

    def arguments(fields: dict[str, Any]) -> dict[str, Any]:
        prompt, completion = fields.pop("prompt", ""), take(fields, who, "completion", "final_response")
        if conversational:
            completion = as_chat(completion, "assistant")
            prompt = as_chat(prompt, "user")
        columns = {name: [value] for name, value in fields.items()}
        return accept(function, {"prompts": [prompt], "completions": [completion], **columns})

    def read(returned: Any) -> RewardResult:
        numbers = list(returned)
        if len(numbers) != 1:
            raise RewardValueError(f"expected one reward for one completion from {who}, got {len(numbers)}")
        return read_number(numbers[0], who)

    return adapt(function, arguments, read, name, range)


def _tokens(ids: Any, size: int) -> dict[str, list[Any]]:
    if not isinstance(ids, list | tuple) or len(cast("Sequence[Any]", ids)) != size:
        return {}
    listed = [list(ids_of_completion) for ids_of_completion in cast("Sequence[Any]", ids)]
    return {"ids": listed, "length": [len(ids_of_completion) for ids_of_completion in listed]}


def _metrics(results: Sequence[RewardResult]) -> dict[str, float]:
    metrics = summarise_extras(results)
    for status in {result.status for result in results}:
        count = sum(1 for result in results if result.status is status)
        metrics[f"reward_status/{status.value}"] = count / len(results)
    return metrics
