"""A Python callable as an agent: async, or not, and then in a separate thread."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio.to_thread

from ors_server.environments.boundary import describe_authors
from ors_server.evaluation.agent_session import AgentSession, BlockingAgentSession
from ors_server.evaluation.agents.base import (
    SOURCE,
    AgentError,
    AgentReport,
    AgentSettingsError,
    InSessionAgent,
)
from ors_server.files.importing import import_file
from ors_server.model.wire import JSONObject

SOURCE_DIGITS = 12
"""Hexadecimal digits of the hash of a file."""


class CallableAgent(InSessionAgent):
    """`async def f(session)` with an `AgentSession`, or `def f(session)` with a `BlockingAgentSession`."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        options: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> None:
        """Take a callable that returns `None` or an `AgentReport`, and further keyword arguments for it.

        `source` identifies the version of its code: a run continues with the same one only.
        """
        self._function = function
        self._name = name
        self._options = dict(options or {})
        self._source = source
        called = getattr(function, "__call__", function)  # noqa: B004  (an object may have an async one)
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)

    def describe(self) -> JSONObject:
        """Return the callable's name and options, and the version of its code where it is known."""
        described: JSONObject = {"kind": "callable", "name": self._name, "options": dict(self._options)}
        return described if self._source is None else {**described, SOURCE: self._source}

    async def play(self, session: AgentSession) -> AgentReport:
        """Call the callable; raises `AgentError` if it returns neither `None` nor a report.

        A callable that is not async cannot be stopped while it computes: when the time is up, the attempt
        ends without it, and its next call fails.
        """
        if self._is_async:
            report = await self._function(session, **self._options)
        else:
            blocking = BlockingAgentSession(session)
            report = await anyio.to_thread.run_sync(
                lambda: self._function(blocking, **self._options), abandon_on_cancel=True
            )
        if report is None:
            return AgentReport()
        if not isinstance(report, AgentReport):
            raise AgentError(
                f"{self._name} returned {type(report).__name__}; an agent returns nothing or an AgentReport"
            )
        return report


def find_callable(reference: str) -> Callable[..., Any]:
    """Return the callable at `module:name` or `file.py:name`; raises `AgentSettingsError` without one."""
    module, _, name = reference.rpartition(":")
    path = Path(module)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise AgentSettingsError(f"cannot load the agent {reference!r}: there is no file {module}")
    try:
        target: Any = _file(path) if is_file else importlib.import_module(module)
    except (Exception, SystemExit) as error:  # the agent's own code, which may raise anything
        raise AgentSettingsError(
            f"cannot load the agent {reference!r}: importing {module} failed: {describe_authors(error)}"
        ) from error
    defined = _names_of_functions(target)
    try:
        for part in name.split("."):
            target = getattr(target, part)
    except AttributeError as error:
        near = get_close_matches(name, defined, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        has = f"It defines {', '.join(defined)}" if defined else "It defines no function"
        raise AgentSettingsError(
            f"cannot load the agent {reference!r}: {module} has no {name!r}{hint}{'' if near else '.'} {has}"
        ) from error
    if not callable(target):
        raise AgentSettingsError(f"{reference!r} is a {type(target).__name__}; an agent is a callable")
    return target  # type: ignore[no-any-return]  # its signature is checked when it is called


def _names_of_functions(module: ModuleType) -> list[str]:
    """Return the names of the callables that a module itself defines, in their order."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    ]


def source_of(function: object) -> str | None:
    """Return the first digits of the hash of the file that defines a callable; `None` without a file."""
    definition = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    try:
        file = inspect.getsourcefile(inspect.unwrap(definition))
        return None if file is None else sha256(Path(file).read_bytes()).hexdigest()[:SOURCE_DIGITS]
    except (OSError, TypeError, ValueError):
        return None


def _file(path: Path) -> ModuleType:
    file = path.resolve()
    # A name by the path's hash: two files of one name must not replace each other in `sys.modules`.
    return import_file(file, f"ors_server_agent_file_{sha256(str(file).encode()).hexdigest()[:16]}")
