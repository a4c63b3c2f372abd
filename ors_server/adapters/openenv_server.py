"""Environments on an OpenEnv server, played through its WebSocket, one connection for each session.

A server lists no tasks: a task is what `reset` gets, by default a seed. An MCP environment's tools stay its
tools; any other action becomes the tool `act`, with the schema that the server states.
"""

import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import anyio
from typing_extensions import override

from ors_server.authoring.environment import Environment
from ors_server.authoring.sources import Source, served_name
from ors_server.authoring.tool import ToolError, tool_from_schema
from ors_server.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.policy import EpisodePolicy
from ors_server.resources.resource_errors import ResourceError, ResourceTimeoutError
from ors_server.wire import JSONObject, Split, ToolOutput

SEEDS = 16
"""Tasks of a server whose tasks are not given: the seeds from 0."""
ANSWER_SECONDS = 300.0
"""Seconds that a server may take to answer a message."""
WIDEST = (-1e6, 1e6)
"""Range of rewards: a server states none."""
_SCHEMA_SECONDS = 10.0
_MOST_BYTES = 16 << 20
_ACT = "act"
_MCP_ACTIONS = frozenset({"Action", "CallToolAction", "ListToolsAction"})
"""Titles of action schemas whose servers take `list_tools` and `call_tool` (openenv-core 0.3.0)."""
_AGENTS_FAULTS = frozenset({"VALIDATION_ERROR", "INVALID_JSON"})
_AGENTS_TOOL_FAULTS = frozenset({"tool_not_found", "invalid_args"})


class OpenEnvSession:
    """One connection to a server, whose environment it resets and steps."""

    def __init__(self, url: str) -> None:
        """Open nothing yet; a `url` begins with `ws://` or `wss://`."""
        self._url = url
        self._socket: Any = None
        self._is_lost = False
        """A message was sent, and its answer not read: it would be taken for the next message's."""

    async def open(self) -> None:
        """Connect; ResourceError if the server does not accept."""
        from websockets.asyncio.client import connect  # noqa: PLC0415  (an extra)
        from websockets.exceptions import WebSocketException  # noqa: PLC0415

        try:
            self._socket = await connect(
                f"{self._url}/ws", max_size=_MOST_BYTES, open_timeout=_SCHEMA_SECONDS
            )
        except (OSError, TimeoutError, WebSocketException) as error:
            raise ResourceError(f"the OpenEnv server at {self._url} did not accept: {error}") from error

    async def ask(self, kind: str, data: JSONObject | None = None) -> JSONObject:
        """Send a message and return the data of the answer.

        Raises:
            ToolError: If the server refuses an action's form.
            ResourceError: If the connection is lost, or the server takes too long.
            RuntimeError: If the environment fails.
        """
        from websockets.exceptions import WebSocketException  # noqa: PLC0415

        if self._is_lost:
            raise ResourceError(
                f"the episode on the OpenEnv server at {self._url} was given up during a call that was not "
                "answered; create a new session"
            )
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        self._is_lost = True
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                await self._socket.send(json.dumps(message))
                answer = json.loads(await self._socket.recv())
            self._is_lost = False
        except TimeoutError as error:
            raise ResourceTimeoutError(
                f"the OpenEnv server at {self._url} did not answer {kind} within {ANSWER_SECONDS:g} seconds"
            ) from error
        except (OSError, WebSocketException, ValueError) as error:
            raise ResourceError(f"lost the OpenEnv server at {self._url} during {kind}: {error}") from error
        if answer.get("type") == "error":
            raise _refusal(answer.get("data") or {})
        return cast("JSONObject", answer.get("data") or {})

    async def close(self) -> None:
        """Close the connection, if it is open."""
        if self._socket is not None:
            await self._socket.close()


class RemoteOpenEnv(Environment):
    """An episode on an OpenEnv server; its rewards are the observations'."""

    policy = EpisodePolicy(reward_range=WIDEST)
    url: ClassVar[str]
    tasks: ClassVar[Sequence[JSONObject]]
    """What `reset` gets, for each task."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Find the task; ValueError if it has no `reset`."""
        super().__init__(task_spec, secrets)
        if not isinstance(task_spec.get("reset"), dict):
            raise ValueError(  # noqa: TRY004  (a value of the task)
                f"expected a task with the arguments of reset, came {task_spec!r:.80}"
            )
        self._session = OpenEnvSession(self.url)
        self._beginning: JSONObject = {}

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train")]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [{"id": f"{cls.name}/{place}", "reset": dict(task)} for place, task in enumerate(cls.tasks)]

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
        error: Any = observation.get("error")
        reward: Any = answer.get("reward")
        number = None if reward is None else float(reward)
        if isinstance(error, dict) and number is None and not answer.get("done"):
            found = cast("JSONObject", error)
            if found.get("error_type") in _AGENTS_TOOL_FAULTS:
                raise ToolError(str(found.get("message")))
        text = _text(observation)
        return (
            ToolOutput.final(text, reward=number)
            if answer.get("done")
            else ToolOutput.ongoing(text, reward=number)
        )


def from_openenv(url: str, tasks: Sequence[JSONObject] | None = None) -> type[RemoteOpenEnv]:
    """Make the environment of an OpenEnv server that runs, at a `ws`, `wss`, `http` or `https` URL.

    Args:
        tasks: Arguments of `reset`, one mapping for each task; by default the seeds 0 to 15.

    Raises:
        UnknownEnvironmentError: If the URL has another form.
        EnvironmentDefinitionError: If websockets is not installed, or the server does not answer.
    """
    SOURCE.check_installed()
    place = _checked(url)
    members: dict[str, Any] = {
        "__doc__": RemoteOpenEnv.__doc__,
        "__module__": __name__,
        "name": served_name("openenv", urlsplit(place).netloc + urlsplit(place).path.rstrip("/")),
        "url": place,
        "tasks": [{"seed": seed} for seed in range(SEEDS)]
        if tasks is None
        else [dict(task) for task in tasks],
    }
    for number, each in enumerate(_tools(place)):
        members[f"call_{number}"] = tool_from_schema(_stepper(each["name"]), **each)
    return type("OpenEnvTasks", (RemoteOpenEnv,), members)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    schemes = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
    if parts.scheme not in schemes or not parts.netloc:
        raise UnknownEnvironmentError(
            f"openenv/{url}: expected the URL of an OpenEnv server, such as ws://HOST:PORT"
        )
    return parts._replace(scheme=schemes[parts.scheme], query="", fragment="").geturl().rstrip("/")


def _tools(url: str) -> list[JSONObject]:
    """Return the tools that a server's actions mean."""
    schema = _read(url.replace("ws", "http", 1) + "/schema", url)
    action = schema.get("action")
    if not isinstance(action, dict):
        raise EnvironmentDefinitionError(
            f"openenv/{url}: expected the schema of an action at /schema, came none"
        )
    found = cast("JSONObject", action)
    if found.get("title") not in _MCP_ACTIONS:
        return [_act(found)]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(1) as thread:  # this thread may run an event loop
        return thread.submit(anyio.run, _list_tools, url).result()


async def _list_tools(url: str) -> list[JSONObject]:
    session = OpenEnvSession(url)
    try:
        await session.open()
        answer = await session.ask("step", {"type": "list_tools"})
    except ResourceError as error:
        raise EnvironmentDefinitionError(f"openenv/{url}: {error}") from error
    finally:
        await session.close()
    observation: Any = answer.get("observation") or {}
    return [
        {
            "name": each["name"],
            "description": each.get("description") or each["name"],
            "schema": {"type": "object", **(each.get("input_schema") or {})},
        }
        for each in observation.get("tools", ())
    ]


def _act(action: JSONObject) -> JSONObject:
    """Return the tool that takes an action; `metadata` is the trainer's, not the agent's."""
    properties = {name: one for name, one in action.get("properties", {}).items() if name != "metadata"}
    return {
        "name": _ACT,
        "description": action.get("description") or f"Take an action: {action.get('title', 'Action')}.",
        "schema": {**action, "type": "object", "properties": properties},
    }


def _read(address: str, url: str) -> JSONObject:
    try:
        with urllib.request.urlopen(address, timeout=_SCHEMA_SECONDS) as response:  # noqa: S310  (http)
            return cast("JSONObject", json.load(response))
    except (OSError, ValueError) as error:
        raise EnvironmentDefinitionError(
            f"openenv/{url}: expected an OpenEnv server that runs, and {address} did not answer: {error}; "
            "start the server, then try again"
        ) from error


def _refusal(data: JSONObject) -> Exception:
    code, message = data.get("code"), str(data.get("message"))
    if code in _AGENTS_FAULTS:
        errors = [
            f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg')}" for one in data.get("errors") or ()
        ]
        return ToolError("; ".join([message, *errors]))
    if code in {"CAPACITY_REACHED", "SESSION_ERROR", "FACTORY_ERROR"}:
        return ResourceError(f"the OpenEnv server refused: {message} ({code})")
    return RuntimeError(f"{message} ({code})")


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
    given = cast("JSONObject", observation)
    fields = {key: value for key, value in given.items() if value not in (None, {}, [])}
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
        cast("JSONObject", one).get("text") for one in cast("Sequence[Any]", blocks) if isinstance(one, dict)
    ]
    return "\n".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else None


SOURCE = Source(
    name="openenv",
    requires=("websockets",),
    licence="BSD-3-Clause",
    homepage="https://github.com/meta-pytorch/OpenEnv",
    list_names=lambda: (),
    make=from_openenv,
    is_open=True,
)
"""OpenEnv servers, for the command line."""
