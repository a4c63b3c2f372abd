"""Serves environments written for the `openreward` package or the `ors-sdk`, unchanged.

Those packages are not imported here: a class is recognised by the module of its base class, its tools by the
marks of their decorators, and every value is converted to one of ours. Behaviour that the packages leave open
(limits, penalties, turns) is ours.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from ors_server.environments.boundary import call_hook, is_async, listed
from ors_server.environments.definition import (
    Blocks,
    EnvironmentDefinition,
    Hooks,
    Instance,
    ToolDefinition,
    ToolsetDefinition,
    make_listing,
)
from ors_server.environments.native import check_group_scores, lifecycle, read_splits
from ors_server.environments.native_tools import merge_tools, terminal_argument
from ors_server.environments.package_versions import packages_of
from ors_server.environments.prompt_blocks import flatten_messages
from ors_server.environments.schema import make_parser, read_signature
from ors_server.environments.tasks import ClassTasks
from ors_server.environments.volatile import read_volatile
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError, ToolOutputError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import GroupCandidate, GroupScore, JSONObject, Message, ToolOutput, ToolSpec

_HOMES = ("openreward.environments", "ors.environment")
"""Modules in which the foreign `Environment` base classes live."""


def foreign_base(cls: type) -> type | None:
    """Return the foreign `Environment` class that a class derives from, or `None`."""
    # Not the class itself, which may be called `Environment`, too.
    for base in cls.__mro__[1:]:
        if base.__name__ == "Environment" and any(base.__module__.startswith(home) for home in _HOMES):
            return base
    return None


def define_foreign(cls: Any, base: type) -> EnvironmentDefinition:
    """Compute the definition of a foreign environment class.

    Raises:
        EnvironmentDefinitionError: If it has no tools, no splits or no prompt.
    """
    tools = _read_tools(cls)
    toolsets = tuple(_define_toolset(toolset) for toolset in getattr(cls, "toolsets", ()) or ())
    everything = merge_tools(cls.__name__, tools, toolsets)
    if not everything:
        raise EnvironmentDefinitionError(
            f"{cls.__name__} has no tools: a tool takes at most one pydantic model "
            "and is annotated -> ToolOutput"
        )
    scores_groups = hasattr(base, "score_group") and _overrides(cls, base, "score_group")
    splits = read_splits(cls)
    return EnvironmentDefinition(
        name=cls.__name__.lower(),
        packages=packages_of(cls),
        # An attribute of that name that is not a list is ignored: such a class does not know ours.
        volatile=read_volatile(cls) if isinstance(getattr(cls, "volatile", None), list | tuple) else (),
        version=str(getattr(cls, "version", "0")),
        description=inspect.cleandoc(cls.__doc__ or ""),
        policy=EpisodePolicy(),
        visibility=None,
        source=cls,
        splits=splits,
        tasks=ClassTasks(cls, base, frozenset(split.name for split in splits)),
        tools=tools,
        toolsets=toolsets,
        session_toolsets={},
        hooks=_hooks(cls, base, scores_groups=scores_groups),
        listing=make_listing(everything, supports_score_group=scores_groups),
    )


def _read_tools(cls: type) -> dict[str, ToolDefinition]:
    definitions: dict[str, ToolDefinition] = {}
    for name in dir(cls):
        function = getattr(cls, name, None)
        if not callable(function) or not getattr(function, "_env_tool", False):
            continue
        definition = _define_tool(function, name, f"{cls.__name__}.{name}")
        if definition is not None:
            definitions[name] = definition
    return definitions


def _define_tool(function: Any, name: str, where: str) -> ToolDefinition | None:
    signature = read_signature(inspect.unwrap(function), where)
    returns = signature.returns
    fits = signature.model is None or signature.takes_model
    if not (fits and inspect.isclass(returns) and returns.__name__ == "ToolOutput"):
        return None
    schema = signature.input_schema()
    is_terminal = bool(getattr(function, "_env_tool_terminal", False))
    exclusive = is_terminal or bool(getattr(function, "_env_tool_exclusive", False))
    return ToolDefinition(
        spec=ToolSpec(name=name, description=(function.__doc__ or "").strip(), input_schema=schema),
        parse=make_parser(None if signature.model is None else signature.model.model_validate, schema),
        bind=_binder(name, takes_model=signature.model is not None),
        to_output=_output_reader(name, returns),
        is_async=is_async(function),
        shared=bool(getattr(function, "_env_tool_shared", True)),
        concurrent=bool(getattr(function, "_env_tool_concurrent", False)) and not exclusive,
        exclusive=exclusive,
        terminal=is_terminal,
        terminal_arg=terminal_argument(signature.model, where) if is_terminal else None,
        arguments_model=signature.model,
    )


def _binder(name: str, *, takes_model: bool) -> Callable[[Any], Callable[[Any, Any], Any]]:
    def bind(owner: Any) -> Callable[[Any, Any], Any]:
        method = getattr(owner, name)
        return (
            (lambda parsed, _context: method(parsed)) if takes_model else (lambda _parsed, _context: method())
        )

    return bind


def _output_reader(name: str, expected: type) -> Callable[[Any], ToolOutput]:
    def to_output(result: Any) -> ToolOutput:
        if not isinstance(result, expected):
            raise ToolOutputError(f"{name!r} returned {type(result).__name__}; expected ToolOutput")
        try:
            return ToolOutput.model_validate(result.model_dump())  # type: ignore[attr-defined]  # a pydantic model of theirs
        except ValidationError as error:
            msg = f"{name!r} returned an illegal ToolOutput: {error.errors(include_url=False)}"
            raise ToolOutputError(msg) from error

    return to_output


def _define_toolset(cls: type) -> ToolsetDefinition:
    def make(instance: Instance) -> Any:
        takes_environment = bool(inspect.signature(cls).parameters)
        return cls(instance) if takes_environment else cls()

    return ToolsetDefinition(make=make, tools=_read_tools(cls))


def _hooks(cls: Any, base: type, *, scores_groups: bool) -> Hooks:
    prompt, messages = _prompt_hooks(cls, base)

    async def make(task_spec: JSONObject, secrets: Mapping[str, str]) -> Instance:
        return await call_hook(partial(cls, task_spec=task_spec, secrets=dict(secrets)))

    async def task_tools(instance: Instance) -> list[ToolSpec | ToolDefinition]:
        listing = await call_hook(instance.list_task_tools)
        return [_convert(ToolSpec, spec) for spec in _plain_list(getattr(listing, "tools", None))]

    async def score_group(instance: Instance, candidates: list[GroupCandidate]) -> list[GroupScore]:
        foreign_type: Any = getattr(inspect.getmodule(base), "GroupCandidate", None)
        foreign: list[Any] = list(candidates)
        if foreign_type is not None:
            foreign = [foreign_type.model_validate(candidate.model_dump()) for candidate in candidates]
        return check_group_scores(
            await call_hook(instance.score_group, foreign), len(candidates), cls.__name__
        )

    return Hooks(
        make=make,
        setup=lifecycle("setup") if _overrides(cls, base, "setup") else None,
        teardown=lifecycle("teardown") if _overrides(cls, base, "teardown") else None,
        prompt=prompt,
        messages=messages,
        task_tools=task_tools if _overrides(cls, base, "list_task_tools") else None,
        score_group=score_group if scores_groups else None,
    )


def _overrides(cls: type, base: type, name: str) -> bool:
    return getattr(cls, name, None) is not getattr(base, name, None)


def _prompt_hooks(
    cls: type, base: type
) -> tuple[Callable[[Instance], Awaitable[Blocks]], Callable[[Instance], Awaitable[list[Message]]]]:
    has_messages = _overrides(cls, base, "get_messages")
    has_prompt = _overrides(cls, base, "get_prompt")

    async def messages(instance: Instance) -> list[Message]:
        if not has_messages:
            return [Message(role="user", blocks=list(await prompt(instance)))]
        return [_convert(Message, item) for item in _plain_list(await call_hook(instance.get_messages))]

    async def prompt(instance: Instance) -> Blocks:
        if not has_prompt:
            return flatten_messages(await messages(instance))
        blocks: Blocks = _convert(
            ToolOutput, {"blocks": _plain_list(await call_hook(instance.get_prompt))}
        ).blocks
        return blocks

    return prompt, messages


def _plain_list(value: Any) -> list[Any]:
    items = listed(value)
    if items is None:
        raise EnvironmentFailedError(f"expected a list from the environment, got {type(value).__name__}")
    return [_plain(item) for item in items]


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value


def _convert(model: Any, value: Any) -> Any:
    try:
        return model.model_validate(_plain(value))
    except ValidationError as error:
        msg = f"the environment gave an illegal {model.__name__}: {error.errors(include_url=False)}"
        raise EnvironmentFailedError(msg) from error
