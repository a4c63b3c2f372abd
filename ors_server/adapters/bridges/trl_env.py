"""An environment of a server as an environment of TRL's trainers: tools are methods, and it owns its reward.

TRL makes an instance for each rollout, offers its public methods to the model as tools, and asks `get_reward`
at the end. The reward is the return in the server's record, whenever the server pays. This module imports
nothing of TRL, which reads the class by its names.
"""

# pyright: reportPrivateUsage=false
# TRL offers every method without an underscore as a tool; functions outside of the class use the others.

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from contextlib import ExitStack
from types import GenericAlias
from typing import Any, ClassVar, cast

from ors_server.adapters.bridges import ServedEnvironment
from ors_server.adapters.bridges.clients import shared_client
from ors_server.client.blocking import Episode
from ors_server.client.client_errors import SumMismatchError
from ors_server.client.session_summary import Summary
from ors_server.model.errors import InvalidRequestError, OrsServerError
from ors_server.model.failures import failure_of_creation
from ors_server.model.wire import JSONObject, ToolSpec

_log = logging.getLogger(__name__)

NO_TEXT = "(no output)"
"""Replaces a result without text."""
NOT_OPENED = "The environment is not available."
"""Replaces the prompt of an episode that could not be opened; such a rollout has no reward."""
OVER = "The episode is over; this call did not run."
_RESERVED = frozenset({"reset", "get_reward", "rows"})
"""Names that the class has itself."""
_TYPES: dict[object, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class TrlEpisode:
    """One rollout after another on a server; `reset` opens the next episode."""

    served: ClassVar[ServedEnvironment]
    """Set by the class that `make_class` makes."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._open = ExitStack()
        self._episode: Episode | None = None
        self._failure: str | None = None
        self._turn = asyncio.Lock()
        """Keeps the calls of one turn in their order: TRL starts async ones at the same time."""

    def reset(self, index: int = 0, split: str | None = None, seed: int | None = None, **_: Any) -> str:
        """Open the episode of a task, whose position is in the row; the prompt follows the row's.

        Raises:
            OrsServerError: If the server refuses it, and would do so again.
        """
        self._close()
        request = self.served.request(index, seed)
        request["split"] = split or self.served.split
        client = shared_client(self.served)
        self._failure = None
        try:
            self._episode = self._open.enter_context(client.episode(self.served.environment, **request))
            return self._episode.prompt()
        except OrsServerError as error:
            failure = failure_of_creation(error)
            if not failure.retry:
                raise
            # The run continues without this rollout, as it does if the environment fails later.
            self._failure = f"{failure.kind}: {error}"
            return NOT_OPENED

    @classmethod
    def rows(cls, num_tasks: int | None = None, **columns: Any) -> list[dict[str, Any]]:
        """Return a row for each task of the split, without its content: `Dataset.from_list(rows)`.

        Args:
            num_tasks: Number of tasks, from the first one; all by default.
            **columns: Added to every row, such as `environment="math"`, the key of one of several factories.
        """
        served = cls.served
        count = shared_client(served).num_tasks(served.split, served.environment)
        # Each row needs a prompt, whose last message TRL continues with that of the episode.
        return [
            {"prompt": [{"role": "user", "content": ""}], "index": index, "split": served.split, **columns}
            for index in range(count if num_tasks is None else min(count, num_tasks))
        ]

    def _reward(self) -> float | None:
        """Return the return in the server's record, delete the session, and log why there is no return."""
        episode, reason = self._episode, self._failure
        if episode is None:
            if reason is None:
                raise InvalidRequestError("the episode is not open: call reset() first")
            _log.warning("a rollout without a session is left out of its group: %s", reason)
            return None
        summary: Summary | None = None
        try:
            summary = episode.check()
            self._close()
        except SumMismatchError:
            raise
        except OrsServerError as error:
            reason = reason or str(error)
        if summary is not None:
            reason = reason or summary.why_invalid
            if reason is None:
                return summary.episode_return
        _log.warning("a rollout of session %s is left out of its group: %s", episode.session_id, reason)
        return None

    def _call(self, tool: str, arguments: JSONObject) -> str:
        """Call a tool, and return what the model is to read."""
        episode = self._episode
        if self._failure is not None:
            return OVER
        if episode is None:
            raise InvalidRequestError("the episode is not open: call reset() first")
        if episode.finished:
            return OVER
        try:
            return episode.call(tool, arguments).text or NO_TEXT
        except OrsServerError as error:
            # TRL would show the error to the model and train on what was earned before.
            self._failure = str(error)
            raise

    def _close(self) -> None:
        """Delete the session; its figures stay readable."""
        self._open.close()
        self._episode = None


def make_class(served: ServedEnvironment, *, is_async: bool) -> type[TrlEpisode]:
    """Return the class of environments that play one served environment; its tools are those of the server.

    Raises:
        InvalidRequestError: If a tool's name cannot be a method's.
    """
    members: dict[str, Any] = {"served": served, "get_reward": _get_reward_async if is_async else _get_reward}
    for tool in shared_client(served).tools(served.environment).tools:
        if not tool.name.isidentifier() or tool.name.startswith("_") or tool.name in _RESERVED:
            raise InvalidRequestError(
                f"expected tools whose names a method of TRL's environment can have, got {tool.name!r}"
            )
        members[tool.name] = _method(tool, is_async=is_async)
    name = "".join(part.title() for part in (served.environment or "default").split("_"))
    return type(f"Ors{name}", (TrlEpisode,), members)


def _get_reward(self: TrlEpisode) -> float | None:
    """Return the return in the server's record; `None` leaves the rollout out of its group."""
    return self._reward()


async def _get_reward_async(self: TrlEpisode) -> float | None:
    """Return the return in the server's record; `None` leaves the rollout out of its group."""
    return await asyncio.to_thread(self._reward)


def _method(tool: ToolSpec, *, is_async: bool) -> Callable[..., Any]:
    """Return a tool as a method, whose signature and docstring are the tool's schema for TRL."""
    name = tool.name
    if is_async:

        async def call_async(self: TrlEpisode, **arguments: Any) -> str:
            async with self._turn:
                return await asyncio.to_thread(self._call, name, arguments)

        method: Any = call_async
    else:

        def call(self: TrlEpisode, **arguments: Any) -> str:
            return self._call(name, arguments)

        method = call
    schema: JSONObject = tool.input_schema or {}
    properties = cast("dict[str, JSONObject]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    # Parameters without a default come first.
    names = sorted(properties, key=lambda parameter: parameter not in required)
    hints = {parameter: _hint(properties[parameter]) for parameter in names}
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = inspect.Signature(
        [
            me,
            *(
                inspect.Parameter(
                    parameter,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if parameter in required else None,
                    annotation=hints[parameter],
                )
                for parameter in names
            ),
        ],
        return_annotation=str,
    )
    method.__annotations__ = {**hints, "return": str}
    method.__name__ = method.__qualname__ = name
    lines = "".join(
        f"\n    {parameter}: {_described(parameter, properties[parameter])}" for parameter in names
    )
    method.__doc__ = f"{tool.description or name}\n\nArgs:{lines}" if names else tool.description or name
    return cast("Callable[..., Any]", method)


def _hint(schema: JSONObject) -> Any:
    """Return the Python type for a parameter's schema, as far as TRL's schemas can say it."""
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        item: Any = _hint(cast("JSONObject", schema["items"]))
        return GenericAlias(list, item)
    if isinstance(kind, str):
        return _TYPES.get(kind, str)
    alternatives = cast("list[JSONObject]", schema.get("anyOf") or schema.get("oneOf") or [])
    named = [part for part in alternatives if part.get("type") not in {None, "null"}]
    return _hint(named[0]) if named else str


def _described(parameter: str, schema: JSONObject) -> str:
    # A docstring has one line for each parameter.
    text = " ".join(str(schema.get("description") or schema.get("title") or parameter).split())
    return f"{text} (choices: {json.dumps(schema['enum'])})" if schema.get("enum") else text
