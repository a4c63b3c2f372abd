"""The clients of the OpenEnv door: each plays one episode after another, and may reconnect to its episode."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ors_server.doors.http.websocket import WebSocket
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.tasks import no_task
from ors_server.model.episode import Phase
from ors_server.model.errors import (
    CapacityError,
    InvalidRequestError,
    OrsServerError,
    SessionNotFoundError,
    ToolFailedError,
    UnknownTaskError,
)
from ors_server.model.trajectory import REWARD_REASON, Step
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock, ToolSpec
from ors_server.sessions.key_limits import VISITOR_PREFIX
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session import Session
from ors_server.sessions.session_call import Completed, Failure, Refusal, RefusalReason
from ors_server.sessions.session_request import SessionRequest

RESERVED = frozenset({"reset", "step", "state", "close"})
"""Names that OpenEnv keeps for itself; tools of these names are called `tool_NAME` here."""
PREFIX = "tool_"
EPISODE_ID_LABEL = "openenv_episode_id"
"""Label of a session: the id that the client gave its episode."""
MAX_CLIENTS = 20_000
"""Maximum number of clients that are remembered, connected or not."""
MAX_VISITOR_CLIENTS = 64
"""Maximum number of clients of one address of a public server."""
NO_PARAMETERS: JSONObject = {"type": "object", "properties": {}}
_ERROR_TYPES = {
    RefusalReason.NOT_FOUND.value: "tool_not_found",
    RefusalReason.INPUT_VALIDATION.value: "invalid_args",
    "timeout": "timeout",
}
"""OpenEnv's kinds of errors by our codes; every other code is `execution_error`."""


@dataclass(slots=True)
class OpenEnvClient:
    """One client and its current episode; it outlives the connection."""

    definition: EnvironmentDefinition
    credential_id: str | None
    labels: Mapping[str, str]
    id: str = ""
    """In the format of a session id; empty if the client cannot reconnect."""
    session_id: str | None = None
    """Of the episode that is played; `None` before the first reset."""
    episode_id: str | None = None
    """As the client named it; the session's id by default."""
    # As this client saw the episode's calls; kept here because the session may expire before the client asks.
    steps: int = 0
    last_reward: float | None = None
    """Of the newest completed call; a refused call leaves it."""
    done: bool = False
    socket: WebSocket | None = None
    """The connection that plays the episode now."""
    used_at: float = 0.0
    """Seconds from the origin of the server's clock."""

    def state(self) -> JSONObject:
        """Return OpenEnv's state, and the reward and `done`, which a call over JSON-RPC has no fields for."""
        return {
            "episode_id": self.episode_id or self.session_id,
            "step_count": self.steps,
            "session_id": self.session_id,
            "last_reward": self.last_reward,
            "done": self.done,
        }


class OpenEnvClients:
    """All clients, by their own ids and by the ids of their current sessions."""

    def __init__(self, sessions: SessionManager, idle_seconds: float) -> None:
        self._sessions = sessions
        self._idle_seconds = idle_seconds
        self._clients: dict[str, OpenEnvClient] = {}

    @property
    def now(self) -> float:
        """Seconds from the origin of the server's clock."""
        return self._sessions.services.clock.monotonic()

    def open(
        self, definition: EnvironmentDefinition, credential_id: str | None, labels: Mapping[str, str]
    ) -> OpenEnvClient:
        """Add a new client.

        Raises:
            CapacityError: If there are too many.
        """
        is_visitor = credential_id is not None and credential_id.startswith(VISITOR_PREFIX)
        if is_visitor or len(self._clients) >= MAX_CLIENTS:
            oldest = self.now - self._idle_seconds
            for client in [client for client in self._clients.values() if client.socket is None]:
                if client.used_at < oldest:  # its session has expired as well
                    del self._clients[client.id]
        if is_visitor:
            own = sum(client.credential_id == credential_id for client in self._clients.values())
            if own >= MAX_VISITOR_CLIENTS:
                raise CapacityError(
                    f"{own} clients of your address are known: send openenv/session/close for one",
                    retry_after=5,
                )
        if len(self._clients) >= MAX_CLIENTS:
            raise CapacityError(
                f"{MAX_CLIENTS} clients are connected already: end a session or repeat the request later",
                retry_after=5,
            )
        # In the format of a session id, so that the front routes it to this host.
        own_id = self._sessions.services.options.slot.draw_session_id()
        client = OpenEnvClient(definition, credential_id, labels, own_id, used_at=self.now)
        self._clients[client.id] = client
        return client

    async def find(
        self, client_id: str, definition: EnvironmentDefinition, credential_id: str | None
    ) -> OpenEnvClient:
        """Return a client by its id or by that of its session.

        A session that is known, but its client is not, gets one: this server rebuilt it after a restart.

        Raises:
            SessionNotFoundError: If no client has the id, or it has another credential or environment.
            OrsServerError: If the session expired, cannot be rebuilt, or is on another host.
        """
        client = self._clients.get(client_id)
        if client is None:
            client = next(
                (client for client in self._clients.values() if client.session_id == client_id), None
            )
        if client is None:
            client = await self._add_rebuilt(client_id, definition, credential_id)
        if client is None or client.definition is not definition or client.credential_id != credential_id:
            raise SessionNotFoundError(
                f"unknown session_id {client_id!r}: send reset without it to begin one"
            )
        client.used_at = self.now
        return client

    async def _add_rebuilt(
        self, session_id: str, definition: EnvironmentDefinition, credential_id: str | None
    ) -> OpenEnvClient | None:
        """Add a client for a live session of this environment and credential; `None` without one."""
        try:
            session = await self._sessions.obtain(session_id)
        except SessionNotFoundError:
            return None
        origin, figures = session.recorder.origin, session.recorder.summary()
        if session.definition is not definition or origin.credential_id != credential_id:
            return None
        client = self.open(definition, credential_id, origin.labels)
        client.session_id, client.episode_id = session_id, origin.labels.get(EPISODE_ID_LABEL)
        client.steps, client.last_reward = figures.steps, figures.last_reward
        client.done = figures.phase == Phase.FINISHED
        return client

    async def close(self, client: OpenEnvClient) -> None:
        """End the episode of a client and forget the client."""
        self._clients.pop(client.id, None)
        await self._end(client)

    async def _end(self, client: OpenEnvClient) -> None:
        session_id, client.session_id = client.session_id, None
        if session_id is not None:
            await self._sessions.delete(session_id)

    async def reset(self, client: OpenEnvClient, data: Mapping[str, Any]) -> JSONObject:
        """Begin the next episode, which ends the one before; return its first observation.

        Args:
            client: The client that plays.
            data: `seed`, `episode_id`, and the task as `split` and `index` or as `task_id`. Other fields are
                ignored, because an environment of OpenEnv may define more.
        """
        split, index = await self._task_of(client.definition, data)
        seed, episode_id = data.get("seed"), data.get("episode_id")
        if seed is not None and (
            not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**53
        ):
            raise InvalidRequestError(f"expected a seed from 0 to 2**53 - 1, got {seed!r:.80}")
        if episode_id is not None and not isinstance(episode_id, str):
            raise InvalidRequestError(f"expected an episode_id that is a string, got {episode_id!r:.80}")
        await self._end(client)
        id_label = {} if episode_id is None else {EPISODE_ID_LABEL: episode_id[:200]}
        status = await self._sessions.create(
            SessionRequest(
                environment=client.definition.name,
                split=split,
                index=index,
                seed=seed,
                credential_id=client.credential_id,
                labels={**client.labels, **id_label},
            )
        )
        client.session_id, client.episode_id = status.origin.session_id, episode_id
        client.steps, client.last_reward, client.done, client.used_at = 0, None, False, self.now
        blocks = await self._session(client).prompt()
        observation: JSONObject = {
            "prompt": "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock)),
            "session_id": client.session_id,
        }
        if any(isinstance(block, ImageBlock) for block in blocks):
            observation["content"] = _content(blocks)
        return {"observation": observation, "reward": None, "done": False, "metadata": {}}

    async def _task_of(self, definition: EnvironmentDefinition, data: Mapping[str, Any]) -> tuple[str, int]:
        split: object = data.get("split")
        index: object = data.get("index")
        task_id = data.get("task_id")
        if task_id is not None:
            task_split, _, number = str(task_id).rpartition("/")
            if not task_split or not number.isdecimal():
                raise InvalidRequestError(f"expected a task_id in the form SPLIT/INDEX, got {task_id!r:.80}")
            for key, stated, of_id in (("split", split, task_split), ("index", index, int(number))):
                if stated is not None and stated != of_id:
                    raise InvalidRequestError(
                        f"{key} {stated!r:.80} contradicts task_id {task_id!r:.80}: leave one of them out"
                    )
            split, index = task_split, int(number)
        if split is None:
            split = next((split.name for split in definition.splits if split.type == "train"), None)
            split = split or definition.splits[0].name
        if not isinstance(split, str):
            raise InvalidRequestError(f"expected a split's name, got {split!r:.80}")
        index = 0 if index is None else index
        if not isinstance(index, int) or isinstance(index, bool):
            raise InvalidRequestError(f"expected a task's index, got {index!r:.80}")
        if index < 0:  # `get_task` counts such an index from the end
            raise UnknownTaskError(no_task(split, index, await definition.tasks.num_tasks(split)))
        return split, index

    def _session(self, client: OpenEnvClient) -> Session:
        if client.session_id is None:
            raise InvalidRequestError("the episode is not open: send reset first")
        return self._sessions.find(client.session_id)

    async def tools(self, client: OpenEnvClient) -> list[JSONObject]:
        """Return the tools of the episode; before the first reset, those of the environment."""
        listing = client.definition.listing
        if client.session_id is not None:
            listing = await self._session(client).tools()
        return [_describe(tool) for tool in listing.tools]

    async def step(self, client: OpenEnvClient, action: Mapping[str, Any]) -> JSONObject:
        """Take an action: list the tools, or call one; return the observation.

        Raises:
            InvalidRequestError: If no episode is open, or the action is malformed.
            OrsServerError: If the call failed through no fault of the agent's, or its judgement failed: a
                trainer would take a missing reward for 0.
        """
        kind = action.get("type", "call_tool" if "tool_name" in action else None)
        if kind == "list_tools":
            observation: JSONObject = {"tools": await self.tools(client), "metadata": {}}
            return {"observation": observation, "reward": None, "done": client.done, "metadata": {}}
        if kind != "call_tool":
            raise InvalidRequestError(
                f"expected an action of the type call_tool or list_tools, got {kind!r:.80}"
            )
        tool, arguments = action.get("tool_name"), action.get("arguments", {})
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            raise InvalidRequestError("expected tool_name to be a string, and arguments to be an object")
        return await self.call(client, tool, cast("JSONObject", arguments))

    async def call(self, client: OpenEnvClient, tool: str, arguments: JSONObject) -> JSONObject:
        """Call a tool and return the observation. Raises as `step` does."""
        session = self._session(client)
        client.used_at = self.now
        name = tool.removeprefix(PREFIX) if tool.removeprefix(PREFIX) in RESERVED else tool
        result = await (await session.call(name, arguments)).wait()
        client.used_at = self.now
        if isinstance(result, Failure):
            raise result.error
        if isinstance(result, Refusal):
            if result.reason is RefusalReason.EPISODE_FINISHED:
                client.done = True
            else:
                client.steps += 1
            kind = _ERROR_TYPES.get(result.reason.value, "execution_error")
            return self._observe(client, tool, None, (kind, result.error))
        if not isinstance(result, Completed):
            raise OrsServerError(f"unexpected result of a tool call: {type(result).__name__}")
        step = result.recorded
        client.steps, client.last_reward, client.done = client.steps + 1, step.reward, step.finished
        if step.is_unjudged:
            reason = (step.metadata or {}).get(REWARD_REASON)
            raise ToolFailedError(f"the judgement of {tool!r} failed, so that there is no reward: {reason}")
        error = None
        if step.error_code is not None:
            error = _ERROR_TYPES.get(step.error_code, "execution_error"), step.error or ""
        return self._observe(client, tool, step, error)

    def _observe(
        self, client: OpenEnvClient, tool: str, step: Step | None, error: tuple[str, str] | None
    ) -> JSONObject:
        blocks = () if step is None else step.blocks
        text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
        result = {
            "content": _content(blocks),
            "structured_content": None,
            "data": text if error is None else None,
            "is_error": error is not None,
        }
        return {
            "observation": {
                "tool_name": tool,
                "result": result,
                "error": None if error is None else {"error_type": error[0], "message": error[1]},
                "metadata": {},
            },
            "reward": None if step is None else step.reward,
            "done": client.done,
            "metadata": {},
        }


def _describe(tool: ToolSpec) -> JSONObject:
    name = f"{PREFIX}{tool.name}" if tool.name in RESERVED else tool.name
    return {
        "name": name,
        "description": tool.description,
        "input_schema": tool.input_schema or NO_PARAMETERS,
    }


def _content(blocks: Any) -> list[JSONObject]:
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, TextBlock)
        else {"type": "image", "data": block.data, "mimeType": block.mimeType}
        for block in blocks
    ]


# What `/schema` answers, after openenv 0.10: calls and lists of tools, their observations, the state.
ACTION: dict[str, Any] = {
    "title": "Action",
    "type": "object",
    "properties": {
        "type": {"enum": ["call_tool", "list_tools"]},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
        "metadata": {"type": "object"},
    },
    "required": ["type"],
}
OBSERVATION: dict[str, Any] = {
    "title": "Observation",
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "Of a reset: the task."},
        "session_id": {"type": "string", "description": "Of a reset: the session, to connect to it again."},
        "tool_name": {"type": "string"},
        "result": {
            "type": "object",
            "properties": {
                "content": {"type": "array", "items": {"type": "object"}},
                "structured_content": {"type": ["object", "null"]},
                "data": {},
                "is_error": {"type": "boolean"},
            },
        },
        "error": {
            "type": ["object", "null"],
            "properties": {"error_type": {"type": "string"}, "message": {"type": "string"}},
        },
        "tools": {"type": "array", "items": {"type": "object"}},
        "reward": {"type": ["number", "null"], "description": "Null where nothing was judged."},
        "done": {"type": "boolean"},
        "metadata": {"type": "object"},
    },
}
STATE: dict[str, Any] = {
    "title": "State",
    "type": "object",
    "properties": {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer", "minimum": 0},
        "session_id": {"type": ["string", "null"]},
        "last_reward": {"type": ["number", "null"]},
        "done": {"type": "boolean"},
    },
}
