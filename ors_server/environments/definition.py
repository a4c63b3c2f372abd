"""An environment as the server uses it, computed once from its class."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel

from ors_server.environments.call_context import CallContext
from ors_server.environments.offers import Offers
from ors_server.model.policy import EpisodePolicy
from ors_server.model.visibility import Visibility
from ors_server.model.wire import (
    GroupCandidate,
    GroupScore,
    ImageBlock,
    JSONObject,
    Message,
    Split,
    TerminalToolSpec,
    TextBlock,
    ToolListing,
    ToolOutput,
    ToolSpec,
)
from ors_server.rewards.define import Reward
from ors_server.sandboxes.base import Limits
from ors_server.timing.workers import LingeringThread

Blocks: TypeAlias = list[TextBlock | ImageBlock]
Instance: TypeAlias = Any
"""An environment object of one session, native or foreign."""


Lifecycle: TypeAlias = Callable[[Instance, LingeringThread], Awaitable[None]]
"""Setup or teardown of an instance; the second argument receives the worker thread of a blocking one."""

GroupScorer: TypeAlias = Callable[[Instance, list[GroupCandidate]], Awaitable[list[GroupScore]]]
"""Scores the rollouts of one task."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the server uses it."""

    spec: ToolSpec
    parse: Callable[[JSONObject], Any]
    """Turns the agent's arguments into what `bind`'s function takes; raises pydantic's `ValidationError`."""
    bind: Callable[[Any], Callable[[Any, CallContext], Any]]
    """Given the object that has the method, returns a function of (parsed arguments, context)."""
    to_output: Callable[[Any], ToolOutput]
    """Turns what the tool returned into a `ToolOutput`; raises `ToolOutputError`."""
    is_async: bool
    returns_output: bool = False
    """Whether it may return a `ToolOutput`, so that `to_output` changes none."""
    shared: bool = True
    concurrent: bool = False
    exclusive: bool = False
    time_limit: float | None = None
    terminal: bool = False
    terminal_arg: str | None = None
    arguments_model: type[BaseModel] | None = None
    where: str = ""
    """Its name in errors: `Class.method (file.py:12)`."""

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.spec.name


class TaskSource(Protocol):
    """Reads an environment's tasks; every method checks the split and raises our errors."""

    async def list_tasks(self, split: str) -> list[JSONObject]:
        """Return all tasks of a split."""
        ...

    async def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has."""
        ...

    async def get_task(self, split: str, index: int) -> JSONObject:
        """Return one task; negative indices count from the end."""
        ...

    async def get_task_range(self, split: str, start: int | None, stop: int | None) -> list[JSONObject]:
        """Return a slice of a split's tasks."""
        ...


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions that the server calls on an instance.

    Each is awaited, and may raise `EnvironmentFailedError`.
    """

    make: Callable[[JSONObject, Mapping[str, str]], Awaitable[Instance]]
    setup: Lifecycle | None
    """`None` when the class does not override it, so that a session is ready at once."""
    teardown: Lifecycle | None
    prompt: Callable[[Instance], Awaitable[Blocks]]
    messages: Callable[[Instance], Awaitable[list[Message]]]
    task_tools: Callable[[Instance], Awaitable[list[ToolSpec | ToolDefinition]]] | None
    """The task's own tools, in order: announcements of the class's, or whole ones that only the task has;
    `None` when the class names none."""
    score_group: GroupScorer | None
    save: Callable[[Instance], Awaitable[JSONObject]] | None = None
    """Returns the instance's state; `None` when it cannot be copied."""
    load: Callable[[Instance, JSONObject], Awaitable[None]] | None = None
    """Restores a state that `save` returned."""
    has_constructor: bool = True
    """Whether `make` runs the author's code, which may take time."""


@dataclass(frozen=True, slots=True)
class ToolsetDefinition:
    """A toolset as the server uses it."""

    make: Callable[[Instance], Any]
    tools: Mapping[str, ToolDefinition]
    needs_sandbox: bool = False


@dataclass(frozen=True, slots=True)
class EnvironmentDefinition:
    """An environment as the server uses it."""

    name: str
    version: str
    description: str
    policy: EpisodePolicy
    visibility: Visibility | None
    source: type
    """The author's class."""
    splits: tuple[Split, ...]
    tasks: TaskSource
    tools: Mapping[str, ToolDefinition]
    """The class's own tools by name, shared and task-specific ones, in order of definition."""
    toolsets: tuple[ToolsetDefinition, ...]
    session_toolsets: Mapping[str, ToolsetDefinition]
    hooks: Hooks
    listing: ToolListing = field(repr=False)
    """The answer of `/tools`."""
    offers: Offers = field(default_factory=Offers)
    """Prompts and resources besides the tools."""
    sandbox: Limits | None = None
    """Limits of every session's sandbox; `None` for sessions without one."""
    reward: Reward | None = None
    """The class's own reward; one object for all sessions."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Versions of Python and of the distribution that carries the class."""
    volatile: tuple[str, ...] = ()
    """Regular expressions of text that may differ between two plays of the same calls."""
    return_range: tuple[float, float] | None = None
    """Lowest and highest return of an episode, if the class declares them."""
    is_recoverable: bool = True
    """Whether the calls of a session may be played again to rebuild it."""

    def sandbox_for(self, toolset: ToolsetDefinition | None) -> Limits | None:
        """Return the limits of a session's sandbox; `None` if the session does not need one."""
        if self.sandbox is None and toolset is not None and toolset.needs_sandbox:
            return Limits()
        return self.sandbox

    @property
    def may_need_sandbox(self) -> bool:
        """Whether some session of the environment needs a sandbox."""
        return self.sandbox is not None or any(
            toolset.needs_sandbox for toolset in self.session_toolsets.values()
        )

    def split_type(self, name: str) -> str | None:
        """Return the type of a split, or `None` if there is no such split."""
        return next((split.type for split in self.splits if split.name == name), None)


def make_listing(tools: Mapping[str, ToolDefinition], *, supports_score_group: bool) -> ToolListing:
    """Announce the shared tools, and the terminal one apart, which agents do not see."""
    terminal = next((tool for tool in tools.values() if tool.terminal), None)
    return ToolListing(
        tools=[tool.spec for tool in tools.values() if tool.shared and not tool.terminal],
        terminal_tool=None if terminal is None else announce_terminal(terminal),
        supports_score_group=supports_score_group,
    )


def announce_terminal(tool: ToolDefinition) -> TerminalToolSpec:
    """Announce a terminal tool."""
    return TerminalToolSpec(name=tool.name, arg=tool.terminal_arg, description=tool.spec.description)
