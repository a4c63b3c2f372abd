"""Environments on an OpenEnv server, played through its WebSocket, one connection for each session.

A server lists no tasks: a task is what `reset` gets, by default a seed. An MCP environment's tools stay its
tools; any other action becomes the tool `act`, with the schema that the server states.

The server is not trusted. Its answers have limits of size and depth (`_BOUNDS`), every message has a time
limit, no redirect is followed, and a connection on which an answer is missing is never used again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NotRequired, cast
from urllib.parse import urlsplit

import anyio
import httpx2
from pydantic import with_config
from typing_extensions import TypedDict, override

from ors_server.client.bounded_http import ACCEPTED_CODINGS, AnswerBounds, BrokenAnswerError
from ors_server.client.typed_answers import read_answer, shown_value
from ors_server.environments.environment import Environment
from ors_server.environments.sources import Source, served_name
from ors_server.environments.tool import ToolError, tool_from_schema
from ors_server.model.errors import EnvironmentDefinitionError, MachineryError, UnknownEnvironmentError
from ors_server.model.json_bounds import parse_json
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import JSONObject, Split, ToolOutput
from ors_server.resources.resource_errors import ResourceError, ResourceTimeoutError

SEEDS = 16
"""Tasks of a server whose tasks are not given: the seeds from 0."""
CLOSING_SECONDS = 5.0
"""Seconds that a server may take to close a connection."""
ANSWER_SECONDS = 300.0
"""Seconds that a server may take to answer a message."""
WIDEST = (-1e6, 1e6)
"""Range of rewards: a server states none."""
SCHEMA_SECONDS = 10.0
"""Seconds in which a server must accept a connection, and state its actions."""
_BOUNDS = AnswerBounds(max_bytes=16 << 20, max_stream_bytes=16 << 20, max_values=200_000)
_MAX_MESSAGE = 10_000
"""Characters of a server's message that are repeated."""
_ACT = "act"
_MCP_ACTIONS = frozenset({"Action", "CallToolAction", "ListToolsAction"})
"""Titles of action schemas whose servers take `list_tools` and `call_tool` (openenv 0.4 to 0.10)."""
_AGENTS_FAULTS = frozenset({"VALIDATION_ERROR", "INVALID_JSON"})
_AGENTS_TOOL_FAULTS = frozenset({"tool_not_found", "invalid_args"})


@with_config(strict=True)
class _MessageFields(TypedDict):
    """A message of a server."""

    type: NotRequired[str | None]
    data: NotRequired[JSONObject | None]


@with_config(strict=True)
class _SchemaFields(TypedDict):
    """The fields that are read of `/schema`."""

    action: JSONObject


@with_config(strict=True)
class _ActionFields(TypedDict):
    """The fields that are read of an action's schema, which is a JSON schema."""

    title: NotRequired[str]
    description: NotRequired[str | None]
    properties: NotRequired[dict[str, Any] | None]


@with_config(strict=True)
class _ToolFields(TypedDict):
    """A tool of an MCP environment."""

    name: str
    description: NotRequired[str | None]
    input_schema: NotRequired[JSONObject | None]


@with_config(strict=True)
class _ListingFields(TypedDict):
    """The observation after `list_tools`."""

    tools: list[_ToolFields]


class OpenEnvSession:
    """One connection to a server, whose environment it resets and steps."""

    def __init__(self, url: str, seconds: float = ANSWER_SECONDS) -> None:
        """Open nothing yet; a `url` begins with `ws://` or `wss://`, an answer takes at most `seconds`."""
        self._url = url
        self._seconds = seconds
        self._socket: Any = None
        self._is_lost = False
        """A message was sent and its answer not read; that answer would be mistaken for the next one."""

    async def open(self) -> None:
        """Connect; ResourceError if the server does not accept."""
        from websockets.asyncio.client import connect  # noqa: PLC0415  (an extra)
        from websockets.exceptions import WebSocketException  # noqa: PLC0415  (an extra)

        connecting = connect(
            f"{self._url}/ws",
            max_size=_BOUNDS.max_bytes,
            open_timeout=min(SCHEMA_SECONDS, self._seconds),
            close_timeout=min(CLOSING_SECONDS, self._seconds),
        )
        # The package follows redirects, also to servers that only this machine reaches.
        connecting.process_redirect = lambda exc: exc  # type: ignore[method-assign]
        try:
            self._socket = await connecting
        except (OSError, TimeoutError, WebSocketException, ValueError) as error:
            raise ResourceError(f"the OpenEnv server at {self._url} did not accept: {error}") from error

    async def ask(self, kind: str, data: JSONObject | None = None) -> JSONObject:
        """Send a message and return the data of the answer.

        Raises:
            ToolError: If the server refuses an action's form.
            ResourceError: If the connection is lost, or the server takes too long.
            RuntimeError: If the environment fails.
        """
        from websockets.exceptions import WebSocketException  # noqa: PLC0415  (an extra)

        if self._is_lost:
            raise ResourceError(
                f"the episode on the OpenEnv server at {self._url} was given up during a call that was not "
                "answered; create a new session"
            )
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        # Lost until the answer was read whole: a cancellation or a time limit in between leaves it in the
        # connection.
        self._is_lost = True
        try:
            with anyio.fail_after(self._seconds):
                await self._socket.send(json.dumps(message))
                text = await self._socket.recv(decode=False)
            self._is_lost = False
            answer = read_answer(
                _MessageFields, await parse_json(text, _BOUNDS.max_values), f"its answer to {kind}"
            )
        except TimeoutError as error:
            raise ResourceTimeoutError(
                f"the OpenEnv server at {self._url} did not answer {kind} within {self._seconds:g} seconds"
            ) from error
        except (OSError, WebSocketException) as error:
            raise ResourceError(f"lost the OpenEnv server at {self._url} during {kind}: {error}") from error
        except (ValueError, BrokenAnswerError) as error:
            raise ResourceError(
                f"expected an answer of OpenEnv to {kind} from {self._url}: {error}"
            ) from error
        if answer.get("type") == "error":
            raise _refusal(answer.get("data") or {})
        return answer.get("data") or {}

    async def close(self) -> None:
        """End the connection, if it is open, even if this is cancelled before the server agrees."""
        if self._socket is not None:
            try:
                await self._socket.close()
            finally:
                # A server that does not agree must not keep the connection open.
                self._socket.transport.abort()


class RemoteOpenEnv(Environment):
    """An episode on an OpenEnv server; its rewards are the observations'."""

    policy = EpisodePolicy(reward_range=WIDEST)
    url: ClassVar[str]
    answer_seconds: ClassVar[float] = ANSWER_SECONDS
    tasks: ClassVar[Sequence[JSONObject]]
    """What `reset` gets, for each task."""
    prompts_may_repeat: ClassVar[bool] = True
    """A first observation seldom shows what the seed decides."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Find the task; ValueError if it has no `reset`."""
        super().__init__(task_spec, secrets)
        if not isinstance(task_spec.get("reset"), dict):
            raise ValueError(  # noqa: TRY004  (a value of the task)
                f"expected a task with the arguments of reset, got {task_spec!r:.80}"
            )
        self._session = OpenEnvSession(self.url, self.answer_seconds)
        self._beginning: JSONObject = {}

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train")]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [{"id": f"{cls.name}/{index}", "reset": dict(task)} for index, task in enumerate(cls.tasks)]

    @override
    async def setup(self) -> None:
        await self._session.open()
        self._beginning = await self._session.ask("reset", self.task_spec["reset"])

    @override
    async def teardown(self) -> None:
        await self._session.close()

    @override
    def get_prompt(self) -> str:
        return _text(self._beginning.get("observation"))

    async def step(self, action: JSONObject) -> ToolOutput:
        """Take an action and return its observation."""
        answer = await self._session.ask("step", action)
        observation: Any = answer.get("observation") or {}
        error: Any = cast("JSONObject", observation).get("error") if isinstance(observation, dict) else None
        number, done = _reward_of(answer.get("reward")), answer.get("done")
        if not isinstance(done, bool | None):
            raise ResourceError(
                f"expected `done` of the OpenEnv server as true or false, got {shown_value(done)}"
            )
        # An error with a reward or an end is part of the game; without either, the call did not run.
        if isinstance(error, dict) and number is None and not done:
            refusal = cast("JSONObject", error)
            if str(refusal.get("error_type")) in _AGENTS_TOOL_FAULTS:
                message = refusal.get("message") or "the OpenEnv server refused without a message"
                raise ToolError(f"{message!s:.{_MAX_MESSAGE}}")
        text = _text(observation)
        return ToolOutput.final(text, reward=number) if done else ToolOutput.ongoing(text, reward=number)


def from_openenv(
    url: str, tasks: Sequence[JSONObject] | None = None, *, answer_seconds: float = ANSWER_SECONDS
) -> type[RemoteOpenEnv]:
    """Make the environment of an OpenEnv server that runs, at a `ws`, `wss`, `http` or `https` URL.

    Args:
        tasks: Arguments of `reset`, one mapping for each task; by default the seeds 0 to 15.
        answer_seconds: Seconds that the server may take to answer a message.

    Raises:
        UnknownEnvironmentError: If the URL has another form.
        EnvironmentDefinitionError: If websockets is not installed, or the server does not answer.
    """
    SOURCE.check_installed()
    address = _checked(url)
    members: dict[str, Any] = {
        "__doc__": RemoteOpenEnv.__doc__,
        "__module__": __name__,
        "name": served_name("openenv", urlsplit(address).netloc + urlsplit(address).path.rstrip("/")),
        "url": address,
        "answer_seconds": answer_seconds,
        "tasks": [{"seed": seed} for seed in range(SEEDS)]
        if tasks is None
        else [dict(task) for task in tasks],
    }
    for number, tool in enumerate(_tools(address, min(SCHEMA_SECONDS, answer_seconds))):
        members[f"call_{number}"] = tool_from_schema(_stepper(tool["name"]), **tool)
    return type("OpenEnvTasks", (RemoteOpenEnv,), members)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    schemes = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
    if parts.scheme not in schemes or not parts.netloc:
        raise UnknownEnvironmentError(
            f"openenv/{url}: expected the URL of an OpenEnv server, such as ws://HOST:PORT"
        )
    return parts._replace(scheme=schemes[parts.scheme], query="", fragment="").geturl().rstrip("/")


def _tools(url: str, seconds: float) -> list[JSONObject]:
    """Return the tools for a server's actions."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (only with this source)

    with ThreadPoolExecutor(1) as thread:  # this thread may run an event loop
        return thread.submit(anyio.run, _find_tools, url, seconds).result()


async def _find_tools(url: str, seconds: float) -> list[JSONObject]:
    address = url.replace("ws", "http", 1) + "/schema"
    try:
        with anyio.fail_after(seconds):
            schema = await _read(address)
            action = read_answer(_SchemaFields, schema, f"the answer of {address}")["action"]
            # Checked here, so that a bad schema is reported when the environment is made and not at its first
            # session.
            read_answer(_ActionFields, action, f"the action's schema of {address}")
            return await _list_tools(url, seconds) if action.get("title") in _MCP_ACTIONS else [_act(action)]
    except TimeoutError as error:
        problem = f"it did not answer within {seconds:g} seconds"
        raise EnvironmentDefinitionError(f"openenv/{url}: {problem}") from error
    except httpx2.HTTPError as error:
        raise EnvironmentDefinitionError(
            f"openenv/{url}: expected an OpenEnv server that runs, and {address} did not answer: "
            f"{str(error) or type(error).__name__}; start the server, then try again"
        ) from error
    except (MachineryError, ToolError, RuntimeError) as error:
        raise EnvironmentDefinitionError(f"openenv/{url}: expected an OpenEnv server: {error}") from error


async def _read(address: str) -> Any:
    """Return the JSON at a URL; a redirect is not followed."""
    async with httpx2.AsyncClient(
        headers=ACCEPTED_CODINGS, timeout=SCHEMA_SECONDS, event_hooks={"response": [_BOUNDS.apply]}
    ) as http:
        response = await http.get(address)
    if not response.is_success:
        raise BrokenAnswerError(f"{address} answered with the status {response.status_code}")
    content_type = response.headers.get("content-type", "")
    return await _BOUNDS.parse(response.content, content_type, f"the answer of {address}")


async def _list_tools(url: str, seconds: float) -> list[JSONObject]:
    session = OpenEnvSession(url, seconds)
    try:
        await session.open()
        answer = await session.ask("step", {"type": "list_tools"})
    finally:
        await session.close()
    listing = read_answer(_ListingFields, answer.get("observation") or {}, f"the tools of {url}")
    return [
        {
            "name": tool["name"],
            "description": tool.get("description") or tool["name"],
            "schema": {"type": "object", **(tool.get("input_schema") or {})},
        }
        for tool in listing["tools"]
    ]


def _act(action: JSONObject) -> JSONObject:
    """Return the tool that takes an action; `metadata` is the trainer's, not the agent's."""
    stated = cast("JSONObject", action.get("properties") or {})
    properties = {name: schema for name, schema in stated.items() if name != "metadata"}
    return {
        "name": _ACT,
        "description": action.get("description") or f"Take an action: {action.get('title', 'Action')}.",
        "schema": {**action, "type": "object", "properties": properties},
    }


def _refusal(data: JSONObject) -> Exception:
    code = f"{data.get('code')!s:.100}"
    message = f"{data.get('message') or 'the OpenEnv server refused without a message'!s:.{_MAX_MESSAGE}}"
    # The agent's faults are answered to it, and it may try again; those of the server end the session.
    if code in _AGENTS_FAULTS:
        rows: Any = data.get("errors")
        errors = [_problem(row) for row in cast("Sequence[Any]", rows)] if isinstance(rows, list) else []
        return ToolError("; ".join([message, *errors])[:_MAX_MESSAGE])
    if code in {"CAPACITY_REACHED", "SESSION_ERROR", "FACTORY_ERROR"}:
        return ResourceError(f"the OpenEnv server refused: {message} ({code})")
    return RuntimeError(f"{message} ({code})")


def _problem(row: Any) -> str:
    """Return one of pydantic's errors as text."""
    fields = cast("JSONObject", row) if isinstance(row, dict) else {"msg": row}
    location: Any = fields.get("loc")
    path = ".".join(map(str, cast("Sequence[Any]", location))) if isinstance(location, list) else ""
    return f"{path}: {fields.get('msg')}"


def _reward_of(reward: Any) -> float | None:
    """Return a reward as a number; the protocol allows a bool."""
    if reward is None:
        return None
    if isinstance(reward, int | float) and WIDEST[0] <= reward <= WIDEST[1]:
        return float(reward)
    raise ResourceError(
        f"expected a reward of the OpenEnv server from {WIDEST[0]:g} to {WIDEST[1]:g}, or null, "
        f"got {shown_value(reward)}"
    )


def _stepper(name: str) -> Callable[..., Any]:
    async def call(self: RemoteOpenEnv, arguments: JSONObject) -> ToolOutput:
        if name == _ACT:
            return await self.step(arguments)
        return await self.step({"type": "call_tool", "tool_name": name, "arguments": arguments})

    return call


def _text(observation: Any) -> str:
    """Return an observation as text: its prompt, its only text, the content of a tool's result, or JSON."""
    if not isinstance(observation, dict):
        return "" if observation is None else str(observation)
    mapping = cast("JSONObject", observation)
    # Empty fields say nothing to an agent, and would make JSON of an observation with one text.
    fields = {key: value for key, value in mapping.items() if value not in (None, {}, [])}
    content = _content(fields.get("result"))
    if content is not None:
        return content
    if isinstance(fields.get("prompt"), str):
        return str(fields["prompt"])
    only = next(iter(fields.values())) if len(fields) == 1 else None
    return only if isinstance(only, str) else json.dumps(fields, ensure_ascii=False)


def _content(result: Any) -> str | None:
    """Return the text of an MCP tool's result; `None` for anything else."""
    blocks: Any = cast("JSONObject", result).get("content") if isinstance(result, dict) else None
    if not isinstance(blocks, list) or not blocks:
        return None
    texts = [
        cast("JSONObject", block).get("text")
        for block in cast("Sequence[Any]", blocks)
        if isinstance(block, dict)
    ]
    return "\n".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else None


SOURCE = Source(
    name="openenv",
    requires=("websockets",),
    licence="BSD-3-Clause",
    homepage="https://github.com/huggingface/OpenEnv",
    list_names=lambda: (),
    make=from_openenv,
    is_open=True,
)
"""OpenEnv servers, for the command line."""
