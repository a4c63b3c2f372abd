"""The decorators that make a method a tool, and the errors for an agent's mistakes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, overload

from ors_server.environments.episode_rewards import ask_reward
from ors_server.environments.marked_members import read_mark
from ors_server.model.wire import JSONObject
from ors_server.rewards.result import RewardResult

MARK = "__ors_tool__"
"""Attribute under which a method carries its marks."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ToolMarks:
    """The options that the decorators set."""

    is_tool: bool = False
    terminal: bool = False
    shared: bool = True
    concurrent: bool = False
    exclusive: bool = False
    time_limit: float | None = None
    name: str | None = None
    description: str | None = None
    """Instead of the docstring."""
    schema: JSONObject | None = None
    """Instead of the signature: the function takes the arguments as one JSON object."""


class ToolError(Exception):
    """The tool cannot do what the agent requested.

    The agent sees the text, the episode continues, and the policy may charge its tool-error penalty.
    """


class ForbiddenActionError(ToolError):
    """The agent did something that the environment forbids.

    The policy charges its penalty for forbidden actions and may end the episode.
    """


@overload
def tool(function: _Function) -> _Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    shared: bool = True,
    concurrent: bool = False,
    exclusive: bool = False,
    time_limit: float | None = None,
) -> Callable[[_Function], _Function]: ...
def tool(
    function: _Function | None = None,
    *,
    name: str | None = None,
    shared: bool = True,
    concurrent: bool = False,
    exclusive: bool = False,
    time_limit: float | None = None,
) -> _Function | Callable[[_Function], _Function]:
    """Make a method of an environment or toolset a tool.

    Its parameters are plain typed ones or one pydantic model, and optionally one `CallContext`. It returns a
    `ToolOutput`, or a string that becomes one text block. The docstring is the description, its `Args:`
    section describes the parameters. A method that is not async runs in a worker thread.

    Args:
        name: The tool's name; the method's by default. Matches `[A-Za-z0-9_-]{1,64}`.
        shared: Whether every task has it; otherwise only those whose `list_task_tools` names it.
        concurrent: Whether it may run at the same time as other calls of the session.
        exclusive: Whether it runs alone: after earlier calls and before later ones; for tools that grade.
        time_limit: Seconds that one call may take, at most the policy's; `None` leaves it to the policy.

    Raises:
        ValueError: If `concurrent` and `exclusive` are both set, or the time limit is not positive.
        TypeError: If it decorates something other than a method.
    """
    if function is not None:
        _check_target(function)
    if concurrent and exclusive:
        raise ValueError("a tool is concurrent or exclusive, not both")
    if time_limit is not None and time_limit <= 0:
        raise ValueError(f"time_limit must be a positive number of seconds, got {time_limit}")

    def mark(target: _Function) -> _Function:
        _check_target(target)
        # `@terminal` may have been applied first.
        before = marks_of(target)
        setattr(
            target,
            MARK,
            replace(
                before,
                is_tool=True,
                name=name,
                shared=shared,
                concurrent=concurrent,
                exclusive=exclusive or before.terminal,
                time_limit=time_limit,
            ),
        )
        return target

    return mark if function is None else mark(function)


def terminal(function: _Function) -> _Function:
    """Make a tool the terminal one: it receives the assistant's final message, and agents do not see it.

    Use it together with `@tool`, in either order. The tool takes one parameter, the message, or none.
    """
    setattr(function, MARK, replace(marks_of(function), terminal=True, exclusive=True))
    return function


def marks_of(function: object) -> ToolMarks:
    """Return the marks of a function; unmarked ones get the defaults."""
    return read_mark(function, MARK, ToolMarks) or ToolMarks()


def _check_target(target: object) -> None:
    if isinstance(target, str):
        raise TypeError(f"@tool takes its options by name: write @tool(name={target!r})")
    if isinstance(target, type) or not (callable(target) or isinstance(target, classmethod)):
        kind = type(target).__name__
        raise TypeError(f"@tool decorates a method, got a {kind}")


def tool_from_schema(
    function: _Function,
    *,
    name: str,
    description: str,
    schema: JSONObject,
    shared: bool = True,
    concurrent: bool = False,
) -> _Function:
    """Make a tool whose parameters are a JSON Schema, known only when the program runs.

    Set the result as an attribute of an environment's class, for instance in a function that makes classes,
    or return it from `list_task_tools` for a tool that only one task has.

    Args:
        function: A function of (self, arguments), with arguments that fit the schema as a JSON object; it may
            also take a `CallContext`, and returns a `ToolOutput` or a string.
        schema: JSON Schema (draft 2020-12) of an object.
    """
    _check_target(function)
    marks = ToolMarks(
        is_tool=True, name=name, description=description, schema=schema, shared=shared, concurrent=concurrent
    )
    setattr(function, MARK, marks)
    return function


class Toolset:
    """Tools that several environments share; an environment names the class in `toolsets`.

    One instance is made per session, with the environment's instance.
    """

    needs_sandbox: ClassVar[bool] = False
    """Whether every session that has the toolset gets a sandbox."""

    @classmethod
    def check_environment(cls, environment: type) -> None:
        """Raise `EnvironmentDefinitionError` if the toolset cannot serve an environment's class."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    async def grade(self, reward: object = None, /, **fields: Any) -> RewardResult:
        """Ask a reward about the episode so far, as `Environment.grade` does."""
        return await ask_reward(self.environment, reward, fields)
