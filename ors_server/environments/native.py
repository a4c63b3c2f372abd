"""Loads an `Environment` class: checks it, and computes its definition."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from ors_server.environments.attributes import check_attributes
from ors_server.environments.boundary import call_hook, describe, describe_authors, encodable, listed
from ors_server.environments.definition import (
    Blocks,
    EnvironmentDefinition,
    GroupScorer,
    Hooks,
    Instance,
    Lifecycle,
    ToolDefinition,
    ToolsetDefinition,
    make_listing,
)
from ors_server.environments.environment import Environment
from ors_server.environments.episode_rewards import grade_group, read_reward
from ors_server.environments.marked_members import marked_members
from ors_server.environments.native_tools import define_task_tool, define_toolset, merge_tools, read_tools
from ors_server.environments.offers import read_offers
from ors_server.environments.package_versions import packages_of
from ors_server.environments.prompt_blocks import flatten_messages
from ors_server.environments.source_places import name_with_location
from ors_server.environments.tasks import ClassTasks
from ors_server.environments.tool import MARK, ToolMarks, Toolset
from ors_server.environments.toolset_names import find_toolset
from ors_server.environments.volatile import read_volatile
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.model.visibility import Visibility
from ors_server.model.wire import (
    GroupCandidate,
    GroupScore,
    ImageBlock,
    JSONObject,
    Message,
    Split,
    TextBlock,
    ToolSpec,
    as_blocks,
    named_split,
)
from ors_server.resources.resource_errors import MissingRequirementError
from ors_server.rewards.define import Reward
from ors_server.rewards.group import takes_group
from ors_server.rewards.result_output import describe_result
from ors_server.sandboxes.base import Limits
from ors_server.timing.workers import LingeringThread


def define_native(cls: type[Environment]) -> EnvironmentDefinition:
    """Compute the definition of an `Environment` class."""
    check_attributes(cls)
    tools = read_tools(cls)
    where = name_with_location(cls.__name__, cls)
    toolsets = tuple(_take_toolset(cls, item) for item in cls.toolsets)
    session_toolsets = {name: _take_toolset(cls, item) for name, item in cls.session_toolsets.items()}
    everything = merge_tools(cls.__name__, tools, toolsets)
    if not everything:
        raise EnvironmentDefinitionError(f"{where} has no tools; mark at least one method with @tool")
    if not (_overrides(cls, "get_prompt") or _overrides(cls, "get_messages")):
        raise EnvironmentDefinitionError(f"{where} must define get_prompt or get_messages")
    if _overrides(cls, "save_state") != _overrides(cls, "load_state"):
        raise EnvironmentDefinitionError(f"{where} must define save_state and load_state together")
    reward = read_reward(cls)
    score_group = _group_scorer(cls, reward)
    splits = read_splits(cls)
    return EnvironmentDefinition(
        name=cls.name or cls.__name__.lower(),
        packages=packages_of(cls),
        volatile=read_volatile(cls),
        version=cls.version,
        description=inspect.cleandoc(cls.__doc__ or ""),
        policy=cls.policy,
        visibility=None if cls.visibility is None else Visibility(cls.visibility),
        source=cls,
        splits=splits,
        tasks=ClassTasks(cls, Environment, frozenset(split.name for split in splits)),
        tools=tools,
        toolsets=toolsets,
        session_toolsets=session_toolsets,
        hooks=_hooks(cls, reward, score_group),
        listing=make_listing(everything, supports_score_group=score_group is not None),
        offers=read_offers(cls),
        sandbox=_sandbox_of(cls, toolsets),
        reward=reward,
        return_range=cls.return_range,
        is_recoverable=cls.recoverable,
    )


def is_incomplete(cls: type[Environment]) -> bool:
    """Return whether a class lacks splits, a prompt, or tools: a base for others, or a mistake."""
    has_prompt = _overrides(cls, "get_prompt") or _overrides(cls, "get_messages")
    has_tools = bool(cls.toolsets or any(True for _ in marked_members(cls, MARK, ToolMarks)))
    return not (has_tools and has_prompt and _overrides(cls, "list_splits"))


def _take_toolset(cls: type[Environment], item: type[Toolset] | str) -> ToolsetDefinition:
    toolset = find_toolset(item, name_with_location(cls.__name__, cls))
    toolset.check_environment(cls)
    return define_toolset(toolset)


def _sandbox_of(cls: type[Environment], toolsets: Sequence[ToolsetDefinition]) -> Limits | None:
    if cls.sandbox_limits is not None:
        return cls.sandbox_limits
    needs_sandbox = cls.sandbox_image is not None or any(toolset.needs_sandbox for toolset in toolsets)
    return Limits() if needs_sandbox else None


def read_splits(cls: Any) -> tuple[Split, ...]:
    """Read and check the splits of a class.

    Raises:
        EnvironmentDefinitionError: If there are none, two share a name, or the method fails.
    """
    where = name_with_location(f"{cls.__name__}.list_splits", cls.list_splits)
    try:
        raw = cls.list_splits()
    except NotImplementedError as error:
        where = name_with_location(cls.__name__, cls)
        raise EnvironmentDefinitionError(
            f'{where} must define list_splits, for instance as a class method that returns ["train", "test"]'
        ) from error
    except MissingRequirementError as error:
        raise EnvironmentDefinitionError(f"{cls.name or cls.__name__}: {error}") from error
    except Exception as error:
        raise EnvironmentDefinitionError(f"{where} failed: {describe_authors(error)}") from error
    if inspect.isawaitable(raw):
        if inspect.iscoroutine(raw):
            # Otherwise Python warns of a coroutine that was never awaited.
            raw.close()
        msg = f"{where} must not be async: it is read once, when the class is loaded"
        raise EnvironmentDefinitionError(msg)
    items = listed(raw)
    if items is None:
        raise EnvironmentDefinitionError(f"{where} must return a list of splits, got {type(raw).__name__}")
    splits = tuple(_check_split(item, where) for item in items)
    names = [split.name for split in splits]
    if not names or len(set(names)) < len(names):
        msg = f"{where} must give at least one split and each name once, got {names}"
        raise EnvironmentDefinitionError(msg)
    return splits


def _check_split(item: Any, where: str) -> Split:
    if isinstance(item, str):
        return named_split(item)
    try:
        return Split.model_validate(item.model_dump() if isinstance(item, BaseModel) else item)
    except ValidationError as error:
        msg = f"{where} gave {item!r:.80}, which is not a split: {describe(error)}"
        raise EnvironmentDefinitionError(msg) from error


def _overrides(cls: type, name: str) -> bool:
    return inspect.getattr_static(cls, name) is not inspect.getattr_static(Environment, name)


def _hooks(cls: type[Environment], reward: Reward | None, score_group: GroupScorer | None) -> Hooks:
    has_messages = _overrides(cls, "get_messages")
    has_prompt = _overrides(cls, "get_prompt")
    has_init = _overrides(cls, "__init__")

    async def make(task_spec: JSONObject, secrets: Mapping[str, str]) -> Instance:
        _prepare(reward, task_spec)
        # The base class's constructor is quick and cannot fail, so it needs no thread.
        if not has_init:
            return cls(task_spec, secrets)
        return await call_hook(cls, task_spec, secrets)

    async def messages(instance: Instance) -> list[Message]:
        if not has_messages:
            return [Message(role="user", blocks=list(await prompt(instance)))]
        items = listed(await call_hook(instance.get_messages))
        if items is None or not all(isinstance(item, Message) for item in items):
            raise EnvironmentFailedError(f"{cls.__name__}.get_messages must return Message objects")
        return items

    async def prompt(instance: Instance) -> Blocks:
        if not has_prompt:
            return flatten_messages(await messages(instance))
        return _check_prompt(await call_hook(instance.get_prompt), cls.__name__)

    return Hooks(
        make=make,
        setup=lifecycle("setup") if _overrides(cls, "setup") else None,
        teardown=lifecycle("teardown") if _overrides(cls, "teardown") else None,
        prompt=prompt,
        messages=messages,
        task_tools=_task_tools(cls) if _overrides(cls, "list_task_tools") else None,
        score_group=score_group,
        save=_save_state if _overrides(cls, "save_state") else None,
        load=_load_state if _overrides(cls, "save_state") else None,
        has_constructor=has_init or _overrides(cls, "__new__"),
    )


def _prepare(reward: Reward | None, task_spec: JSONObject) -> None:
    if reward is None:
        return
    try:
        reward.prepare(task_spec)
    except Exception as error:
        raise EnvironmentFailedError(f"{reward.name}.prepare failed: {describe_authors(error)}") from error


def _group_scorer(cls: type[Environment], reward: Reward | None) -> GroupScorer | None:
    async def by_method(instance: Instance, candidates: list[GroupCandidate]) -> list[GroupScore]:
        return check_group_scores(
            await call_hook(instance.score_group, candidates), len(candidates), cls.__name__
        )

    if _overrides(cls, "score_group"):
        return by_method
    if reward is None or not takes_group(reward):
        return None

    async def by_reward(instance: Instance, candidates: list[GroupCandidate]) -> list[GroupScore]:
        results = await grade_group(instance, reward, candidates)
        scores: list[GroupScore] = []
        for position, result in enumerate(results):
            if result.reward is None:  # a failure is not a score
                raise EnvironmentFailedError(
                    f"{cls.__name__}.reward did not judge candidate {position} ({result.status.value}): "
                    f"{result.reason}"
                )
            scores.append(GroupScore(reward=result.reward, metadata=describe_result(result) or None))
        return scores

    return by_reward


async def _save_state(instance: Environment) -> JSONObject:
    state = await call_hook(instance.save_state)
    try:
        return copy_state(state)
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"{type(instance).__name__}.save_state must return a JSON object: {error}"
        raise EnvironmentFailedError(msg) from error


async def _load_state(instance: Environment, state: JSONObject) -> None:
    await call_hook(instance.load_state, copy_state(state))


def copy_state(state: Any) -> JSONObject:
    """Return a copy of an instance's state.

    Raises:
        TypeError: If it is not a JSON object.
        ValueError: If it holds NaN or an infinity.
    """
    # Through text, so that the copy shares no object with the instance.
    copied = json.loads(json.dumps(state, allow_nan=False))
    if not isinstance(copied, dict):
        raise TypeError(f"it returned a {type(state).__name__}")
    return cast("JSONObject", copied)


def lifecycle(name: str) -> Lifecycle:
    """Return the hook that calls an instance's `setup` or `teardown`."""

    async def run(instance: Instance, thread: LingeringThread) -> None:
        await call_hook(getattr(instance, name), thread=thread)

    return run


def _task_tools(cls: type[Environment]) -> Callable[[Instance], Awaitable[list[ToolSpec | ToolDefinition]]]:
    named = {name: tool.spec for name, tool in read_tools(cls).items() if not tool.shared}

    async def task_tools(instance: Instance) -> list[ToolSpec | ToolDefinition]:
        task_tools = await call_hook(instance.list_task_tools)
        items = listed(task_tools)
        if items is None:
            kind = type(task_tools).__name__
            msg = f"{cls.__name__}.list_task_tools must return a list of tool names, got {kind}"
            raise EnvironmentFailedError(msg)
        unknown = [item for item in items if isinstance(item, str) and item not in named]
        if unknown:
            msg = f"{cls.__name__}.list_task_tools names {unknown}: no methods marked @tool(shared=False)"
            raise EnvironmentFailedError(msg)
        return [named[item] if isinstance(item, str) else define_task_tool(cls, item) for item in items]

    return task_tools


def _check_prompt(result: Any, where: str) -> Blocks:
    items = [result] if isinstance(result, str) else listed(result)
    if items is None or not all(isinstance(item, str | TextBlock | ImageBlock) for item in items):
        kind = type(result).__name__
        msg = f"{where}.get_prompt must return text or a list of text and image blocks, got {kind}"
        raise EnvironmentFailedError(msg)
    return as_blocks([encodable(item) if isinstance(item, str) else item for item in items])


def check_group_scores(result: Any, expected: int, where: str) -> list[GroupScore]:
    """Check what `score_group` returned.

    Raises:
        EnvironmentFailedError: If the count differs, a score is not a finite number, or its metadata is not
            JSON.
    """
    try:
        scores = [
            GroupScore(reward=item)
            if isinstance(item, int | float)
            else GroupScore.model_validate(item.model_dump())
            for item in result
        ]
        json.dumps([score.metadata for score in scores], allow_nan=False)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # pydantic's is a ValueError
        msg = f"{where}.score_group gave something that is not a list of finite scores: {error}"
        raise EnvironmentFailedError(msg) from error
    if len(scores) != expected:
        msg = f"{where}.score_group gave {len(scores)} scores for {expected} candidates"
        raise EnvironmentFailedError(msg)
    return scores
