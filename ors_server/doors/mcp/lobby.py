"""The lobby, the endpoint that belongs to no session: an agent finds and starts tasks there."""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from secrets import randbelow
from typing import Any

import mcp_types as types

from ors_server.doors.access import withhold
from ors_server.doors.mcp.lobby_tools import (
    LIST_ENVIRONMENTS,
    LIST_TASKS,
    OWN_TOOLS,
    START_EPISODE,
    LobbyTools,
)
from ors_server.doors.mcp.mcp_calls import NO_RESPONSES, InputResponses, McpCalls
from ors_server.doors.mcp.mcp_results import SESSION_KEY, content_of, error_result, text_content
from ors_server.doors.mcp.sdk import (
    Context,
    InMemorySubscriptionBus,
    ListenHandler,
    Result,
    ToolsListChanged,
    is_modern,
)
from ors_server.doors.mcp.session_access import SessionAccess
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.json_texts import read_json_values
from ors_server.model.errors import (
    ForbiddenError,
    OrsServerError,
    SessionInterruptedError,
    SessionNotFoundError,
    UnknownTaskError,
)
from ors_server.model.trajectory import SEEDS
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.tool_arguments import refuse_unknown

THE_TASK = "The task:"
"""After these words and an empty line comes the task's text."""

MAX_CREDENTIALS = 10_000
"""Credentials of which it is known what they play: each visitor of a public server is one."""
MAX_SHOWN_CHARACTERS = 100
"""Characters of a wrong argument that are repeated."""

_KINDS: Mapping[type[Any], str] = {str: "a string", int: "an integer"}

INSTRUCTIONS = (
    f"Environments with tasks to play. Find one with {LIST_ENVIRONMENTS} and {LIST_TASKS}, start it with "
    f"{START_EPISODE}, and pass the session_id that it returns to every tool call of the episode. The "
    "tools of an environment are listed once an episode of it has started: list the tools again then."
)


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """A task by split and index, and the seed that chose it."""

    split: str
    index: int
    seed: int
    is_chosen: bool
    """Whether the server chose the split or the index."""

    @property
    def sentence(self) -> str:
        """The choice in words; empty where the agent named the task."""
        if not self.is_chosen:
            return ""
        return f"The server chose the task: split {self.split!r}, index {self.index}, seed {self.seed}."


class Lobby:
    """Serves the lobby's own tools, and every environment's tools by session id."""

    def __init__(self, access: SessionAccess, calls: McpCalls) -> None:
        self._access = access
        self._sessions = access.sessions
        self._calls = calls
        self._announced_for: object = None
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        """Serves the streams by which clients of the later era learn that the list of tools has changed."""
        self._started: OrderedDict[str | None, set[str]] = OrderedDict()
        """Environments of which each credential has started an episode, the latest last; `None` for callers
        without one."""
        self._versions: list[LobbyTools] = []
        self._own: Mapping[str, Callable[[Context, dict[str, Any]], Awaitable[Result]]] = {
            LIST_ENVIRONMENTS: self._list_environments,
            LIST_TASKS: self._list_tasks,
            START_EPISODE: self._start_episode,
        }

    @property
    def tools(self) -> LobbyTools:
        """The tools of the environments that are served now."""
        if self._announced_for is not self._sessions.environments:
            self._announced_for = self._sessions.environments
            self._versions.insert(0, LobbyTools(self._sessions.environments.values()))
        return self._versions[0]

    def list_tools(self, context: Context) -> list[Result]:
        """List the lobby's own tools and those of the environments that the caller has begun to play.

        The list depends on the credential and the URL alone, never on the connection: clients that open one
        for each call see the same. A server with one environment lists its tools from the beginning, and one
        host of several lists all, because it does not know what the caller has begun at the others.
        """
        if self._access.lists_all(context) or self._lists_all:
            return self.tools.announced
        return self.tools.announced_for(self._started.get(self._access.credential_of(context), set()))

    @property
    def _lists_all(self) -> bool:
        return len(self._sessions.environments) == 1 or not self._sessions.services.options.slot.is_alone

    async def _note_start(self, context: Context, environment: str) -> None:
        """List an environment's tools from now on, and tell the client if they are new to it."""
        credential = self._access.credential_of(context)
        started = self._started.setdefault(credential, set())
        self._started.move_to_end(credential)
        if len(self._started) > MAX_CREDENTIALS:
            self._started.popitem(last=False)
        if environment in started or self._lists_all:
            return
        started.add(environment)
        if is_modern(context):
            await self._bus.publish(ToolsListChanged())
        else:
            # Before the answer of this call, on its stream: not every client keeps another one open.
            await context.session.send_notification(
                types.ToolListChangedNotification(), related_request_id=context.request_id
            )

    def _session_argument(self, tool: str) -> str | None:
        """Return the name of a tool's argument for the session, of this or an earlier version."""
        found = (version.session_argument_of(tool) for version in (self.tools, *self._versions))
        return next((name for name in found if name is not None), None)

    async def call_tool(
        self, context: Context, tool: str, arguments: dict[str, Any], responses: InputResponses = NO_RESPONSES
    ) -> Result:
        """Run a tool of the lobby, or an environment's tool in the session that `arguments` names."""
        own = self._own.get(tool)
        if own is None:
            return await self._call_in_session(context, tool, arguments, responses)
        try:
            schema = _check_names(tool, arguments)
            return await own(context, read_json_values(arguments, schema))
        except _ArgumentError as error:
            return error_result(str(error))
        except OrsServerError as error:
            return error_result(str(withhold(error)))

    async def _call_in_session(
        self, context: Context, tool: str, arguments: dict[str, Any], responses: InputResponses
    ) -> Result:
        argument = self._session_argument(tool)
        if argument is None:
            return error_result(
                refuse_unknown(tool, [announced["name"] for announced in self.tools.announced])
            )
        session_id = arguments.get(argument)
        if not isinstance(session_id, str):
            return error_result(
                f"{tool} needs the argument {argument!r}: pass the session_id that {START_EPISODE} returned"
            )
        rest = {name: value for name, value in arguments.items() if name != argument}
        try:
            await self._access.require_own(context, session_id)
            return await self._calls.call_tool(context, session_id, tool, rest, responses)
        except SessionNotFoundError:
            return error_result(
                f"no episode has the {argument} {session_id!r}; start one with {START_EPISODE}"
            )
        except (ForbiddenError, SessionInterruptedError) as error:
            return error_result(str(error))

    def _environment_argument(self, arguments: Mapping[str, Any]) -> str:
        """Return the name of the environment; without one, that of the only one that is served."""
        names = list(self._sessions.environments)
        if arguments.get("environment") is None:
            if len(names) == 1:
                return names[0]
            raise _ArgumentError(
                f"the argument 'environment' is missing; it is a string, one of {', '.join(names) or 'none'}"
            )
        name: str = _argument(arguments, "environment", str)
        return name

    async def _list_environments(self, _context: Context, _arguments: dict[str, Any]) -> Result:
        lines = [
            f"{name}: {_summary(environment)}" for name, environment in self._sessions.environments.items()
        ]
        listed = [
            {"name": name, "description": _summary(environment)}
            for name, environment in self._sessions.environments.items()
        ]
        return {**_text("\n".join(lines)), "structuredContent": {"environments": listed}}

    async def _list_tasks(self, _context: Context, arguments: dict[str, Any]) -> Result:
        definition = self._sessions.environment(self._environment_argument(arguments))
        lines: list[str] = []
        splits: list[Result] = []
        for split in definition.splits:
            count = await definition.tasks.num_tasks(split.name)
            splits.append({"name": split.name, "type": split.type, "num_tasks": count})
            lines.append(f"{split.name} ({split.type}): {count} tasks, index 0 to {count - 1}")
        return {**_text("\n".join(lines)), "structuredContent": {"splits": splits}}

    async def _start_episode(self, context: Context, arguments: dict[str, Any]) -> Result:
        definition = self._sessions.environment(self._environment_argument(arguments))
        choice = await choose_task(
            definition,
            _optional(arguments, "split", str),
            _natural(arguments, "index"),
            _natural(arguments, "seed", SEEDS),
        )
        request = SessionRequest(
            environment=definition.name, split=choice.split, index=choice.index, seed=choice.seed
        )
        session_id = await self._access.create(context, request)
        blocks = await (await self._sessions.obtain(session_id)).prompt()
        await self._note_start(context, definition.name)
        return {
            "content": _opening(session_id, choice, content_of(blocks)),
            "isError": False,
            "resultType": "complete",
            "_meta": {SESSION_KEY: session_id},
        }


def _summary(definition: EnvironmentDefinition) -> str:
    return definition.description.partition("\n")[0] or "no description"


def _opening(session_id: str, choice: TaskChoice, prompt: list[Result]) -> list[Result]:
    """Put session id and task text into one block, for hosts that show only one; images follow."""
    texts = [part["text"] for part in prompt if part["type"] == "text"]
    handle = f"session_id: {session_id}\nPass this session_id to every tool call of this episode."
    opening = "\n".join(filter(None, (handle, choice.sentence, THE_TASK)))
    rest = [part for part in prompt if part["type"] != "text"]
    return [text_content("\n\n".join([opening, *texts])), *rest]


async def choose_task(
    definition: EnvironmentDefinition, split: str | None, index: int | None, seed: int | None
) -> TaskChoice:
    """Choose what the agent did not name; the same seed chooses the same task.

    Args:
        split: `None` chooses among the splits that have the index.
        index: From 0; `None` chooses one.
        seed: In [0, 2**53); `None` draws one.

    Raises:
        UnknownSplitError: If the environment has no such split.
        UnknownTaskError: If there is no task to choose.
    """
    seed = randbelow(SEEDS) if seed is None else seed
    if split is not None and index is not None:
        return TaskChoice(split, index, seed, is_chosen=False)
    names = [listed.name for listed in definition.splits] if split is None else [split]
    sizes = {name: await definition.tasks.num_tasks(name) for name in names}
    open_splits = [name for name, size in sizes.items() if size > (index or 0)]
    if not open_splits:
        sizes_in_words = ", ".join(f"{name!r} has {size} tasks" for name, size in sizes.items())
        what = "a task" if index is None else f"index {index}"
        raise UnknownTaskError(f"no split of {definition.name!r} has {what}: {sizes_in_words}")
    chance = Random(seed)  # noqa: S311  (a choice that can be repeated, no secret)
    chosen = chance.choice(open_splits)
    position = chance.randrange(sizes[chosen]) if index is None else index
    return TaskChoice(chosen, position, seed, is_chosen=True)


class _ArgumentError(ValueError):
    """An argument of one of the lobby's own tools is missing, unknown, or of the wrong type."""


def _check_names(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of one of the lobby's own tools; `_ArgumentError` for a name that is not in it."""
    schema: dict[str, Any] = next(own for own in OWN_TOOLS if own["name"] == tool)["inputSchema"]
    known = list(schema["properties"])
    unknown = [name for name in arguments if name not in known]
    if unknown:
        takes = f"its arguments are {', '.join(known)}" if known else "it takes none"
        raise _ArgumentError(f"{tool} has no argument {unknown[0]!r}; {takes}")
    return schema


def _argument(arguments: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = arguments.get(name)
    if value is None:
        raise _ArgumentError(f"the argument {name!r} is missing; it is {_KINDS[kind]}")
    if not isinstance(value, kind) or isinstance(value, bool):
        shown = json.dumps(value)[:MAX_SHOWN_CHARACTERS]
        raise _ArgumentError(f"the argument {name!r} must be {_KINDS[kind]}, got {shown}")
    return value


def _optional(arguments: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    return None if arguments.get(name) is None else _argument(arguments, name, kind)


def _natural(arguments: Mapping[str, Any], name: str, end: int | None = None) -> int | None:
    value: int | None = _optional(arguments, name, int)
    if value is not None and (value < 0 or (end is not None and value >= end)):
        below = "" if end is None else f" and below {end}"
        raise _ArgumentError(f"the argument {name!r} must be a number from 0{below}, got {value}")
    return value


def _text(text: str) -> Result:
    return {"content": [text_content(text)], "isError": False, "resultType": "complete"}
