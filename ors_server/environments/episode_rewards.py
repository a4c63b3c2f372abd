"""Computes rewards of an environment's episode: fills parameters by name, makes failures statuses."""

import json
import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import anyio
from pydantic_core import from_json

from ors_server.environments.boundary import AuthorRaisedError, call_author, describe, encodable
from ors_server.environments.call_context import INTERRUPTED, running_call
from ors_server.model.errors import EnvironmentDefinitionError, OrsServerError
from ors_server.model.logs import secret_values
from ors_server.model.policy import EpisodePolicy, RewardRangeError
from ors_server.resources.resource_context import Context
from ors_server.rewards.define import Reward, as_reward
from ors_server.rewards.group import evaluate_group, is_group_reward
from ors_server.rewards.requirements import refuse_missing_packages
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import MissingPackageError, RewardDefinitionError
from ors_server.rewards.reward_trajectory import Trajectory, read_trajectory
from ors_server.rewards.scoring import PROMPT, evaluate, failure, gather_fields
from ors_server.timing.loop_watch import author_code, running_code

OF_THE_EPISODE = frozenset(
    {"trajectory", "final_response", "metadata", "context", "step", "output", "rollouts"}
)
"""Names of the episode's own values; fields of a task with these names are ignored."""
SPARE_TIME = 0.1
"""Share of a call's remaining time that a slow reward must leave for the answer."""
MAX_SPARE_TIME = 1.0
"""Maximum seconds that it must leave."""

FIELDS_MARK = "__ors_fields__"
"""Attribute of an environment that a file declares: the fields that its declaration names."""
_ATTRIBUTE = "_ors_episode"


class OwnEpisode(Protocol):
    """The episode of an instance, as its rewards see it."""

    @property
    def reward(self) -> Reward | None:
        """The class's own reward."""
        ...

    @property
    def policy(self) -> EpisodePolicy:
        """The rules of the episode."""
        ...

    @property
    def context(self) -> Context:
        """The resources that the episode's tools and rewards share."""
        ...

    @property
    def seed(self) -> int:
        """The seed of the episode's random generator."""
        ...

    @property
    def step(self) -> int | None:
        """The number of the running call; `None` outside of calls."""
        ...

    async def prompt_text(self) -> str:
        """Return the texts of the task's prompt, without its images."""
        ...

    async def trajectory(self, final_response: str) -> Trajectory:
        """Return the episode so far: every step that was answered, without the running call."""
        ...


def own_episode(instance: Any) -> OwnEpisode | None:
    """Return the episode that an instance plays, or `None` if it was made outside of a session."""
    episode: OwnEpisode | None = getattr(instance, _ATTRIBUTE, None)
    return episode


def give_episode(instance: Any, episode: OwnEpisode) -> None:
    """Set the episode of an environment's session."""
    vars(instance)[_ATTRIBUTE] = episode  # even if the author's class intercepts attributes


def take_episode(instance: Any) -> None:
    """Remove the episode from an environment whose session has ended."""
    if _ATTRIBUTE in vars(instance):
        del vars(instance)[_ATTRIBUTE]


def read_reward(cls: Any) -> Reward | None:
    """Return the reward of a class, or raise EnvironmentDefinitionError if it is not one."""
    attribute = getattr(cls, "reward", None)
    if attribute is None:
        return None
    where = f"{cls.__name__}.reward"
    try:
        reward = as_reward(attribute)
        required = reward.signature.required
    except Exception as error:
        raise EnvironmentDefinitionError(
            f"{where} must be a reward, a class of one without arguments, or a callable: {describe(error)}"
        ) from error
    if "self" in required:
        raise EnvironmentDefinitionError(
            f"{where} is a method; a reward is a function of fields: write it outside the class and name it, "
            "or compute it in a tool with grade"
        )
    try:
        refuse_missing_packages(reward, {})
    except MissingPackageError as error:
        raise EnvironmentDefinitionError(f"{where}: {error}") from error
    return reward


async def ask_reward(instance: Any, reward: object, fields: Mapping[str, Any]) -> RewardResult:
    """Compute a reward of an instance's episode; every failure is a status of the result.

    Args:
        instance: An environment object; one without a session has only its task and the fields.
        reward: A reward, or `None` for the class's own.
        fields: Further fields; they win.

    Raises:
        RewardDefinitionError: If it is not a reward, or is `None` and the class does not set one.
    """
    with noting_judgement(instance) as note:
        return note(await _ask(instance, reward, fields))


@contextmanager
def noting_judgement(
    instance: Any, mistakes: type[Exception] | tuple[type[Exception], ...] = ()
) -> Generator[Callable[[RewardResult], RewardResult]]:
    """Note in the running call that a judgement has no number, also if it raises or is cancelled.

    Args:
        instance: The environment object; a call of another session is not concerned.
        mistakes: Errors that tell the agent of its mistake, which are not failed judgements.

    Yields:
        A function that notes a result without a number, and returns it; its reason has no secrets.
    """
    episode = own_episode(instance)
    # A reward may be computed outside of a call, in a task that serves another session's call.
    call = running_call.get() if episode is None or episode.step is not None else None

    def note(result: RewardResult) -> RewardResult:
        if result.reason and (reason := secret_values.mask(result.reason)) != result.reason:
            result = replace(result, reason=reason)
        if call is not None and result.reward is None:
            call.note_unjudged(result.status.value, result.reason or "the reward gave no number")
        return result

    if call is not None:
        call.judging += 1
        call.is_judged = True
    try:
        yield note
    except mistakes:
        raise
    # Also a cancellation: a call that is stopped during a judgement must not be paid as if it had none.
    except BaseException as error:
        reason = describe(error) if isinstance(error, Exception) else INTERRUPTED
        note(RewardResult.without(RewardStatus.ERROR, reason))
        raise
    finally:
        if call is not None:
            call.judging -= 1


async def _ask(instance: Any, reward: object, fields: Mapping[str, Any]) -> RewardResult:
    episode = own_episode(instance)
    chosen = _choose(instance, reward, episode)
    try:
        reward_fields = await _gather(chosen, instance, episode, fields)
        with _named(chosen, instance):
            result = await call_author(
                partial(evaluate, chosen, reward_fields, time_limit=_time_limit()), on_loop=True
            )
    except AuthorRaisedError as raised:
        return RewardResult.without(RewardStatus.ERROR, describe(raised.error))
    except Exception as error:  # noqa: BLE001  (a store that is away, a prompt that fails: nothing was judged)
        return failure(error)
    return _recordable(chosen, result)


async def grade_ending(instance: Any, final_response: str, fields: Mapping[str, Any]) -> RewardResult | None:
    """Compute the class's own reward at the end of an episode; `None` without one, or for one of groups.

    A number that the episode's policy would refuse is an error.
    """
    episode = own_episode(instance)
    own = _own_reward(instance, episode)
    if own is None or is_group_reward(own):
        return None
    result = await ask_reward(instance, own, {"final_response": final_response, **fields})
    try:
        if episode is not None:
            episode.policy.admit(result.reward)
    # The agent is not to blame for it: the judgement failed, and nothing is paid.
    except RewardRangeError as error:
        with noting_judgement(instance) as note:
            return note(RewardResult.without(RewardStatus.ERROR, str(error), result.extras))
    return result


async def grade_group(instance: Any, reward: Reward, rollouts: Sequence[object]) -> tuple[RewardResult, ...]:
    """Compute a group reward of rollouts of an instance's task: one result per rollout, in order."""
    episode = own_episode(instance)
    try:
        fields = _task_fields(instance)
        if episode is not None:
            fields |= await _episode_fields(reward, instance, episode)
        judgement = partial(evaluate_group, reward, rollouts, fields, time_limit=_time_limit())
        with _named(reward, instance):
            results: tuple[RewardResult, ...] = await call_author(judgement, on_loop=True)
    except AuthorRaisedError as raised:
        return (RewardResult.without(RewardStatus.ERROR, describe(raised.error)),) * len(rollouts)
    return tuple(_recordable(reward, result) for result in results)


def remaining_call_time() -> float:
    """Return the seconds that the running call has left, less those for its answer; may be infinite."""
    left = anyio.current_effective_deadline() - anyio.current_time()
    return left if math.isinf(left) else max(0.0, left - min(MAX_SPARE_TIME, SPARE_TIME * left))


def _time_limit() -> float | None:
    left = remaining_call_time()
    return None if math.isinf(left) else left


def _named(reward: Reward, instance: Any) -> AbstractContextManager[None]:
    code = author_code.get()
    environment = type(instance).__name__.lower() if code is None else code.environment
    return running_code(environment, f"reward {reward.name!r}")


def _own_reward(instance: Any, episode: OwnEpisode | None) -> Reward | None:
    return read_reward(type(instance)) if episode is None else episode.reward


def _choose(instance: Any, reward: object, episode: OwnEpisode | None) -> Reward:
    if reward is not None:
        return as_reward(reward)
    own = _own_reward(instance, episode)
    if own is None:
        name = type(instance).__name__
        raise RewardDefinitionError(f"{name} has no reward: set {name}.reward, or give one to grade")
    return own


async def _gather(
    reward: Reward, instance: Any, episode: OwnEpisode | None, fields: Mapping[str, Any]
) -> dict[str, Any]:
    reward_fields = _task_fields(instance)
    if episode is None:
        return gather_fields(reward, None, {**reward_fields, **fields})
    reward_fields |= await _episode_fields(reward, instance, episode, fields)
    read = await _read(reward, episode, fields)
    if read is None:
        return {**reward_fields, **fields}
    if "context" in reward_fields:
        episode.context.trajectory = read.messages
    if "trajectory" in fields:
        reward_fields["final_response"] = read.final_response
    return {**reward_fields, **fields, "trajectory": read}


async def _read(reward: Reward, episode: OwnEpisode, fields: Mapping[str, Any]) -> Trajectory | None:
    """Return the trajectory that is given, or the episode's own if the reward takes one."""
    if "trajectory" in fields:
        read: Trajectory = read_trajectory(fields["trajectory"])
        return read
    # Only a reward that takes the trajectory pays for reading the record.
    if not _parameters(reward) & {"trajectory", "context"} and not reward.signature.takes_rest:
        return None
    response = fields.get("final_response", fields.get("outcome"))
    try:
        return await episode.trajectory(encodable(response) if isinstance(response, str) else "")
    except OrsServerError:
        if "trajectory" in _parameters(reward):
            raise
        return None  # the reward may do without it


async def _episode_fields(
    reward: Reward,
    instance: Any,
    episode: OwnEpisode,
    chosen_fields: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    fields: dict[str, Any] = {} if episode.step is None else {"step": episode.step}
    if "context" in _parameters(reward):
        fields["context"] = episode.context
    own: Collection[str] = getattr(instance, FIELDS_MARK, instance.task_spec)
    if PROMPT in _parameters(reward) and PROMPT not in chosen_fields and PROMPT not in own:
        try:
            fields[PROMPT] = await episode.prompt_text()
        except OrsServerError:  # the agent has not read it either
            if PROMPT in reward.signature.required:
                raise
    return fields


def _parameters(reward: Reward) -> frozenset[str]:
    return reward.signature.required | reward.signature.optional


def _task_fields(instance: Any) -> dict[str, Any]:
    task_spec: Mapping[str, Any] = getattr(instance, "task_spec", None) or {}
    fields = {name: value for name, value in task_spec.items() if name not in OF_THE_EPISODE}
    return {**fields, "metadata": dict(task_spec)}


def _recordable(reward: Reward, result: RewardResult) -> RewardResult:
    try:
        # The extras are recorded with the step, as JSON.
        from_json(encodable(json.dumps(dict(result.extras), ensure_ascii=False, allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        return RewardResult.without(
            RewardStatus.ERROR, f"the extras of {reward.name} must be JSON without NaN: {error}"
        )
    return result
