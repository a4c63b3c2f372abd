"""The tools of one session: its environment's, its toolsets', its task's."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ors_server.environments.boundary import call_hook
from ors_server.environments.call_context import CallContext
from ors_server.environments.definition import (
    EnvironmentDefinition,
    Instance,
    ToolDefinition,
    ToolsetDefinition,
    announce_terminal,
)
from ors_server.model.wire import ToolListing, ToolSpec
from ors_server.sessions.session_call import Concurrency
from ors_server.timing.loop_watch import AuthorCode, running_code


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A tool of one session, bound to its object."""

    definition: ToolDefinition
    function: Callable[[Any, CallContext], Any]
    """Takes the validated arguments and the call."""
    code: AuthorCode
    """Its name for the event loop's watch."""
    concurrency: Concurrency


@dataclass(slots=True, eq=False, repr=False)
class SessionTools:
    """Finds a session's tools by name; later sources hide earlier ones of the same name."""

    _definition: EnvironmentDefinition
    _instance: Instance
    _session_toolset: ToolsetDefinition | None
    _making: asyncio.Lock | None = field(default=None, init=False)
    _owners: dict[int, Any] = field(default_factory=dict[int, Any], init=False)
    bound: dict[str, BoundTool] = field(default_factory=dict[str, BoundTool], init=False)
    """The tools that `find` has returned, by name."""
    _task_specs: list[ToolSpec] | None = field(default=None, init=False)
    _task_tools: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition], init=False)
    _listing: ToolListing | None = field(default=None, init=False)

    async def find(self, name: str) -> BoundTool | None:
        """Return the tool of that name that this session offers, or `None`, and bind it to its object."""
        found = self._lookup(name)
        if found is None:
            await self._specs()
            if name not in self._task_tools:
                return None
            found = self._task_tools[name], None
        tool, toolset = found
        if not tool.shared and name not in {spec.name for spec in await self._specs()}:
            return None
        if name not in self.bound:
            function = tool.bind(await self._owner(toolset))
            code = AuthorCode(self._definition.name, f"tool {name!r}")
            concurrency = Concurrency.CONCURRENT if tool.concurrent else Concurrency.SERIAL
            if tool.exclusive:
                concurrency = Concurrency.EXCLUSIVE
            self.bound[name] = BoundTool(tool, function, code, concurrency)
        return self.bound[name]

    async def listing(self) -> ToolListing:
        """Return the announcement of everything that this session offers; task tools last."""
        if self._listing is None:
            self._listing = await self._compile()
        return self._listing

    async def _compile(self) -> ToolListing:
        base = self._definition.listing
        specs = {spec.name: spec for spec in (*base.tools, *await self._specs())}
        terminal = base.terminal_tool
        if self._session_toolset is not None:
            for tool in self._session_toolset.tools.values():
                specs.pop(tool.name, None)
                if tool.terminal:
                    terminal = announce_terminal(tool)
                else:
                    specs[tool.name] = tool.spec
        if terminal is not None:
            specs.pop(terminal.name, None)
        return base.model_copy(update={"tools": list(specs.values()), "terminal_tool": terminal})

    async def _specs(self) -> list[ToolSpec]:
        hook = self._definition.hooks.task_tools
        if self._task_specs is None and hook is not None:
            async with self._one_at_a_time():
                if self._task_specs is None:
                    own = await hook(self._instance)
                    self._task_tools = {tool.name: tool for tool in own if isinstance(tool, ToolDefinition)}
                    self._task_specs = [tool if isinstance(tool, ToolSpec) else tool.spec for tool in own]
        return self._task_specs or []

    def _one_at_a_time(self) -> asyncio.Lock:
        """Return the lock that is held while an author's code makes tools; an idle session needs no lock."""
        self._making = self._making or asyncio.Lock()
        return self._making

    def _lookup(self, name: str) -> tuple[ToolDefinition, ToolsetDefinition | None] | None:
        if self._session_toolset is not None and name in self._session_toolset.tools:
            return self._session_toolset.tools[name], self._session_toolset
        if name in self._definition.tools:
            return self._definition.tools[name], None
        for toolset in self._definition.toolsets:
            if name in toolset.tools:
                return toolset.tools[name], toolset
        return None

    async def _owner(self, toolset: ToolsetDefinition | None) -> Any:
        if toolset is None:
            return self._instance
        key = id(toolset)
        async with self._one_at_a_time():
            if key not in self._owners:
                with running_code(self._definition.name, "a toolset", is_urgent=True):
                    self._owners[key] = await call_hook(toolset.make, self._instance)
        return self._owners[key]
