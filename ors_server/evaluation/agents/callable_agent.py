"""Any Python callable as an agent: async, or not, and then in a thread of its own."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio.from_thread
import anyio.to_thread

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport, AgentSettingsError
from ors_server.evaluation.targets import Answer
from ors_server.importing import import_file
from ors_server.wire import JSONObject, ToolListing


class BlockingAgentSession:
    """A session for code that is not async; used in the thread in which the callable runs."""

    def __init__(self, session: AgentSession) -> None:
        """Speak to a session from another thread.

        Args:
            session: The session.
        """
        self._session = session
        self.split = session.split
        self.index = session.index
        self.attempt = session.attempt
        self.seed = session.seed
        self.rng = session.rng
        self.log = session.log

    @property
    def is_over(self) -> bool:
        """Whether the episode is over."""
        return self._session.is_over

    def prompt(self) -> str:
        """Return the task's text; pictures are left out."""
        return anyio.from_thread.run(self._session.prompt)

    def tools(self) -> ToolListing:
        """Return everything that may be called."""
        return anyio.from_thread.run(self._session.tools)

    def call(self, tool: str, arguments: JSONObject | None = None) -> Answer:
        """Call a tool.

        Args:
            tool: Its name.
            arguments: Its arguments.

        Raises:
            BudgetSpentError: If the attempt has no call left.
            OrsServerError: If the call failed through no fault of the agent's.
        """
        return anyio.from_thread.run(self._session.call, tool, arguments)

    def spend(
        self, tokens_in: int | None = None, tokens_out: int | None = None, cost: float | None = None
    ) -> None:
        """Count what a model used.

        Args:
            tokens_in: Tokens that it read.
            tokens_out: Tokens that it wrote.
            cost: What they cost.

        Raises:
            BudgetSpentError: If the attempt has used up more than it was given.
        """
        self._session.spend(tokens_in, tokens_out, cost)


class CallableAgent:
    """A callable: `async def f(session)`, or `def f(session)`, which is given a `BlockingAgentSession`."""

    plays_outside = False

    def __init__(
        self, function: Callable[..., Any], name: str, options: Mapping[str, Any] | None = None
    ) -> None:
        """Take a callable.

        Args:
            function: It returns nothing, or an `AgentReport`.
            name: What the record calls it.
            options: Further keyword arguments for it.
        """
        self._function = function
        self._name = name
        self._options = dict(options or {})
        called = getattr(function, "__call__", function)  # noqa: B004  (an object may have an async one)
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)

    def describe(self) -> JSONObject:
        """Return the callable's place and options."""
        return {"kind": "callable", "name": self._name, "options": dict(self._options)}

    async def play(self, session: AgentSession) -> AgentReport:
        """Let the callable play.

        A callable that is not async cannot be stopped while it computes: where the time is up it is left
        behind, and its next call fails.


        Raises:
            AgentError: If it returns something else than a report.
        """
        if self._is_async:
            report = await self._function(session, **self._options)
        else:
            work = BlockingAgentSession(session)
            report = await anyio.to_thread.run_sync(
                lambda: self._function(work, **self._options), abandon_on_cancel=True
            )
        if report is None:
            return AgentReport()
        if not isinstance(report, AgentReport):
            raise AgentError(
                f"{self._name} returned {type(report).__name__}; an agent returns nothing or an AgentReport"
            )
        return report

    async def aclose(self) -> None:
        """Nothing is held."""


def find_callable(place: str) -> Callable[..., Any]:
    """Return what stands at `module:name` or `file.py:name`.

    Args:
        place: Where it is.

    Raises:
        AgentSettingsError: If nothing callable is there.
    """
    module, _, name = place.rpartition(":")
    try:
        found: Any = _file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, OSError, SyntaxError, ValueError) as error:
        raise AgentSettingsError(f"no agent is at {place!r}: {error}") from error
    if not callable(found):
        raise AgentSettingsError(f"{place!r} is a {type(found).__name__}; an agent is a callable")
    return found  # type: ignore[no-any-return]  # anybody's


def _file(path: Path) -> ModuleType:
    file = path.resolve()
    return import_file(file, f"ors_server_agent_file_{sha256(str(file).encode()).hexdigest()[:16]}")
