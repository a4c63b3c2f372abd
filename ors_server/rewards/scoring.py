"""Evaluates rewards: alone, outside a server, or for one. A failure is a status, never a number.

What holds: an exception of a reward becomes a result (only `calculate_reward` lets it through, as AgentFly
does); the one error that escapes is that of something that is not a reward. A trajectory that was judged has
the reward and the metrics of its last result.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio

from ors_server.model.errors import OrsServerError
from ors_server.rewards.define import Reward, as_reward
from ors_server.rewards.recorded_fields import fields_of_row, read_episode
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import (
    OUTCOME_CHARACTERS,
    Trajectory,
    fields_of_trajectory,
    question_of,
    read_trajectory,
)
from ors_server.rewards.signature import ALIASES
from ors_server.rewards.transcripts.conversation import ReadMessages
from ors_server.rewards.transcripts.rows import find_row_form
from ors_server.rewards.transcripts.turns import ASSISTANT
from ors_server.timing.workers import LingeringThread, current_workers

Result = TypeVar("Result")

MAX_REASON = 2_000
"""Characters of an error's message that are kept."""

PROMPT = "prompt"
"""The field with the text of the task, as the agent received it."""
_QUESTIONS = ("question", "problem")
"""Fields of data sets that hold the question of a task."""
_TRAJECTORY_FIELDS = ("task", "steps", "metadata", "messages")
_RESPONSES = frozenset({"final_response", "outcome"})
_EPISODE_FIELDS = frozenset({*_TRAJECTORY_FIELDS, *_RESPONSES})
_EVIDENCE_FIELDS = frozenset({*_RESPONSES, "steps", "messages", "success", "expected", "expected_output"})
"""Fields that say something of what the agent did, or of how it ended."""


def score(reward: object, trajectory: object = None, /, **fields: Any) -> RewardResult:
    """Evaluate a reward, outside any event loop.

    Args:
        reward: A reward, a class of one, or any callable whose parameters are fields.
        trajectory: A `Trajectory`, whose `reward` and `metrics` are filled in; a mapping with ARISE's fields;
            a list of messages, or a row that holds one, in any shape that is known (`transcripts`).
        **fields: Everything else that the reward may take, by name: `final_response`, `answer`, and so on.

    Returns:
        The result. A reward that raised, or returned no legal number, has the status `error` and no number;
        so has one whose fields cannot be read.

    Raises:
        RewardDefinitionError: It is not a reward.
    """
    resolved = as_reward(reward)
    try:
        gathered = gather_fields(resolved, trajectory, fields)
    except Exception as error:  # noqa: BLE001  (a trajectory of any shape may come: nothing was judged)
        return failure(error)
    # A new event loop: `score` is called outside of any.
    if resolved.is_async:
        return anyio.run(partial(evaluate, resolved, gathered))
    return _store_on_trajectory(gathered, _judge_now(resolved, gathered))


async def evaluate(
    reward: object, fields: Mapping[str, Any], *, time_limit: float | None = None
) -> RewardResult:
    """Evaluate a reward within an event loop; a reward that is not async runs in a worker thread.

    In a server it waits for a thread in turn with the blocking tools of its environment, within their share.

    Args:
        reward: As for `score`.
        fields: All known fields by name. The `reward` and `metrics` of a `Trajectory` among them are filled
            in.
        time_limit: Seconds from its start after which the result is a `limit`; a thread that still runs is
            left behind.

    Returns:
        The result. A reward that raised, or returned no legal number, has the status `error` and no number.

    Raises:
        RewardDefinitionError: It is not a reward.
    """
    resolved = as_reward(reward)
    try:
        # The permit is taken before the time limit starts: waiting for a thread is the machine's time, not
        # the reward's.
        permit = None if resolved.is_async else await current_workers().take()
        with anyio.move_on_after(time_limit):
            if permit is None:
                raw = resolved.judge(fields)
            else:
                raw = await current_workers().run(partial(resolved.judge, fields), LingeringThread(), permit)
            # Within the limit: what the reward returned may still have to be awaited.
            return _store_on_trajectory(fields, await _read_raw(resolved, raw))
    except Exception as error:  # noqa: BLE001  (any exception of a reward is a failure to judge)
        return _store_on_trajectory(fields, failure(error))
    late = RewardResult.without(
        RewardStatus.LIMIT, f"{resolved.name} did not judge within {time_limit:g} seconds"
    )
    return _store_on_trajectory(fields, late)


async def calculate_reward(reward: object, /, **fields: Any) -> RewardResult | None:
    """Evaluate a reward as AgentFly's function of that name does: its errors are raised.

    Args:
        reward: As for `score`; `None` for an agent without one, which has no result.
        **fields: As for `evaluate`.

    Raises:
        RewardError: It is not a reward, a required field is missing, or it returned no legal number.
    """
    if reward is None:
        return None
    resolved = as_reward(reward)
    gathered = gather_fields(resolved, None, fields)
    return _store_on_trajectory(gathered, await _read_raw(resolved, resolved.judge(gathered)))


async def gather_in_order(calls: Iterable[Callable[[], Awaitable[Result]]]) -> list[Result]:
    """Await calls at the same time; the results are in the order of the calls."""
    results: dict[int, Result] = {}

    async def await_call(index: int, call: Callable[[], Awaitable[Result]]) -> None:
        results[index] = await call()

    async with anyio.create_task_group() as tasks:
        for index, call in enumerate(calls):
            tasks.start_soon(await_call, index, call)
    return [results[index] for index in sorted(results)]


def failure(error: Exception) -> RewardResult:
    """Return the result of a reward that raised an error."""
    # Bounded, since reasons are stored with every result.
    text = str(error)[:MAX_REASON]
    named = text if isinstance(error, OrsServerError) else f"{type(error).__name__}: {text}".rstrip(": ")
    cost: Mapping[str, Any] | None = getattr(error, "extras", None)  # where an error says what was spent
    return RewardResult.without(RewardStatus.ERROR, named or type(error).__name__, cost)


def gather_fields(reward: Reward, trajectory: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields that the reward may take.

    A reward that takes a trajectory where none was given gets one made of the fields: `task`, `steps`,
    `metadata`, the final response as `outcome`, and every other field as metadata. One that takes the final
    response where only a trajectory was given gets it from there. Fields that are a recorded episode
    (`record` and `steps`), or a row that holds a conversation (`messages`, `prompt` and `completion`, and so
    on), are read as one. Fields next to a conversation become its metadata. A reward that takes the
    `prompt`, where that field is missing, gets what the user says in the conversation, or else the field
    `question` or `problem`.

    Raises:
        RewardFieldError: Something of the episode is not understood, or nothing says what the agent did.
    """
    named = fields_of_row(fields)
    if trajectory is None:
        trajectory = named.pop("trajectory", None)
    taken = reward.signature.required | reward.signature.optional
    # A separate final response makes other columns of a row plain fields, even if they look like a
    # conversation.
    row = None if named.keys() & {*_RESPONSES, "steps"} else find_row_form(named)
    # Only for a reward that looks at the episode: others take `prompt` and `completion` as they are.
    if trajectory is None and row is not None and taken & {"trajectory", *_RESPONSES, *ALIASES}:
        trajectory = {name: value for name, value in named.items() if name in row.keys.read}
    if trajectory is not None:
        read = read_episode(trajectory)
        if not isinstance(trajectory, Trajectory):
            _refuse_without_a_turn(read, named)
            skipped = row.keys.read if row is not None else frozenset[str]()
            rest = {name: value for name, value in named.items() if name not in _EPISODE_FIELDS | skipped}
            read.metadata = {**rest, **read.metadata}
            read.task = read.task or str(named.get("task", ""))
        # Fields that were passed win over those that the trajectory implies.
        named = {**fields_of_trajectory(read), **named, "trajectory": read}
    elif "trajectory" in taken:
        named["trajectory"] = _make_trajectory(named, is_required="trajectory" in reward.signature.required)
    # After everything else: the prompt may come from the conversation that was just read.
    if PROMPT in taken and named.get(PROMPT) is None:
        trajectory = named.get("trajectory")
        question = question_of(trajectory) if isinstance(trajectory, Trajectory) else ""
        texts = (named.get(name) for name in _QUESTIONS)
        question = question or next((text for text in texts if isinstance(text, str)), "")
        if question:
            named[PROMPT] = question
    return named


def _refuse_without_a_turn(read: Trajectory, fields: Mapping[str, Any]) -> None:
    """Refuse a conversation in which the agent did nothing, unless its final response is a field."""
    if not isinstance(read.messages, ReadMessages) or fields.keys() & {*_RESPONSES, "prediction"}:
        return
    if not read.steps and all(message["role"] != ASSISTANT for message in read.messages.played):
        raise RewardFieldError(
            "expected a conversation with a message of the assistant, or the field final_response: "
            "nothing says what the agent did"
        )


def _make_trajectory(fields: Mapping[str, Any], *, is_required: bool) -> Trajectory:
    outcome = fields.get("final_response", fields.get("outcome", ""))
    if not isinstance(outcome, str):
        raise RewardFieldError(f"expected a final response as a string, got {outcome!r:.80}")
    parts = {name: fields[name] for name in _TRAJECTORY_FIELDS if name in fields}
    reported: Mapping[str, Any] = parts.pop("metadata", None) or {}
    rest = {name: value for name, value in fields.items() if name not in _EPISODE_FIELDS}
    metadata = {**rest, **reported}
    # An empty trajectory would be graded as an agent that did nothing.
    if is_required and not {*fields, *reported} & _EVIDENCE_FIELDS:
        raise RewardFieldError(
            "expected a trajectory, or some of the fields final_response, steps, messages, success and "
            f"expected, got {', '.join(fields) or 'nothing'}: nothing says what the agent did"
        )
    trajectory: Trajectory = read_trajectory(
        {**parts, "metadata": metadata, "outcome": outcome[:OUTCOME_CHARACTERS], "full_outcome": outcome}
    )
    return trajectory


def _judge_now(reward: Reward, fields: Mapping[str, Any]) -> RewardResult:
    try:
        raw = reward.judge(fields)
        # A reward that is not async may still return an awaitable.
        return anyio.run(_read_raw, reward, raw) if inspect.isawaitable(raw) else reward.read(raw)
    except Exception as error:  # noqa: BLE001  (any exception of a reward is a failure to judge)
        return failure(error)


def _store_on_trajectory(fields: Mapping[str, Any], result: RewardResult) -> RewardResult:
    """Put a result on the trajectory that was judged, as both packages' pages show it."""
    trajectory = fields.get("trajectory")
    if isinstance(trajectory, Trajectory):
        trajectory.reward = result.reward
        trajectory.metrics = dict(result.extras)
    return result


async def _read_raw(reward: Reward, raw: object) -> RewardResult:
    """Return the result of a raw judgement; a reward that is not async may return an awaitable, too."""
    return reward.read(await raw if inspect.isawaitable(raw) else raw)
