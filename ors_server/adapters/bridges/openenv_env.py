"""An environment of a server as an OpenEnv `Environment` (openenv 0.4 to 0.10): actions are tool calls.

It is imported where openenv is installed. The sum of the observations' rewards is the server's return.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

from contextlib import ExitStack
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import EnvironmentMetadata, Observation, State

from ors_server.adapters.bridges import ServedEnvironment
from ors_server.adapters.bridges.clients import shared_client
from ors_server.client.blocking import Episode
from ors_server.client.call_result import CallResult
from ors_server.model.errors import InvalidRequestError

_REFUSALS = {"not_found": ToolErrorType.TOOL_NOT_FOUND, "input_validation": ToolErrorType.INVALID_ARGS}


class ResetObservation(Observation):  # type: ignore[misc]  # a class of a package that is not here
    """The beginning of an episode."""

    prompt: str
    tools: list[Tool]
    session_id: str


class OpenEnvEpisode(Environment):  # type: ignore[misc]  # as above
    """One episode after another on a server; `reset` opens the next."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    served: ServedEnvironment
    """Set by the class that `make_class` makes."""

    def __init__(self) -> None:
        super().__init__()
        self._open = ExitStack()
        self._episode: Episode | None = None
        self._steps = 0

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        index: int = 0,
        split: str | None = None,
        **_: Any,
    ) -> ResetObservation:
        """Open the episode of a task; the one before is deleted."""
        self.close()
        request = self.served.request(index, seed)
        request["split"] = split or self.served.split
        if episode_id:
            request["labels"] = {"openenv_episode_id": episode_id}
        client = shared_client(self.served)
        episode = self._episode = self._open.enter_context(client.episode(self.served.environment, **request))
        self._steps = 0
        return ResetObservation(prompt=episode.prompt(), tools=self._tools(), session_id=episode.session_id)

    def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Observation:
        """List the tools, or call one; the reward of an observation is `None` if nothing was judged.

        Before the first `reset`, the tools are those that every session of the environment has.

        Raises:
            UnjudgedError: If a judgement failed, or the episode ended without a reward: the sum of the
                rewards is not a return then.
        """
        del timeout_s
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=self._tools())
        if not isinstance(action, CallToolAction):
            raise InvalidRequestError(
                f"expected a ListToolsAction or a CallToolAction, got {type(action).__name__}"
            )
        self._steps += 1
        result = self._playing().call(action.tool_name, action.arguments)
        if result.is_unjudged:
            # `None` would be taken for a reward of 0 by a trainer that adds up rewards.
            self._playing().summary().check_judged()
        if result.finished:
            self._playing().check().check_valid()
        return _observation(action.tool_name, result)

    @property
    def state(self) -> State:
        """The session's id as `episode_id`, and the number of calls."""
        episode_id = None if self._episode is None else self._episode.session_id
        return State(episode_id=episode_id, step_count=self._steps)

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the environment's name."""
        name = self.served.environment or "default"
        return EnvironmentMetadata(name=name, description=f"{name}, served by ors-server")

    def close(self) -> None:
        """Delete the session; its figures stay readable."""
        self._open.close()

    def _playing(self) -> Episode:
        if self._episode is None:
            raise InvalidRequestError("the episode is not open: call reset() first")
        return self._episode

    def _tools(self) -> list[Tool]:
        if self._episode is None:
            # OpenEnv's clients, such as the taskset of verifiers, list tools before they reset.
            listing = shared_client(self.served).tools(self.served.environment)
        else:
            listing = self._episode.tools()
        nothing = {"type": "object", "properties": {}}
        return [
            Tool(name=tool.name, description=tool.description, input_schema=tool.input_schema or nothing)
            for tool in listing.tools
        ]


def make_class(served: ServedEnvironment) -> type[OpenEnvEpisode]:
    """Return the class of environments that play one served environment."""
    return type("OrsOpenEnv", (OpenEnvEpisode,), {"served": served})


def _observation(tool: str, result: CallResult) -> CallToolObservation:
    error = None
    if result.refusal is not None:
        kind = _REFUSALS.get(result.refusal, ToolErrorType.EXECUTION_ERROR)
        error = ToolError(error_type=kind, message=result.text)
    content = [block.model_dump(exclude_none=True) for block in result.blocks]
    return CallToolObservation(
        tool_name=tool,
        result={"content": content, "is_error": result.is_error},
        error=error,
        reward=result.reward,
        done=result.finished,
    )
