"""The loop between an episode and an agent that is a function."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.call_result import CallResult
from ors_server.client.session_summary import Summary
from ors_server.errors import ForbiddenError, InvalidRequestError, NotSupportedError
from ors_server.wire import Message, ToolSpec


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent knows when it is asked for its next move."""

    messages: Sequence[Message]
    """The prompt."""
    tools: Sequence[ToolSpec]
    results: Sequence[CallResult]
    """What its moves came to so far, in order."""

    @property
    def last(self) -> CallResult | None:
        """What its latest move came to; `None` before the first one."""
        return self.results[-1] if self.results else None


@dataclass(frozen=True, slots=True)
class Move:
    """The tool call that an agent wants to make."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


Agent: TypeAlias = Callable[[Turn], "Move | Awaitable[Move | None] | None"]
"""Asked for one move after the other; `None` gives the episode up."""


@dataclass(frozen=True, slots=True)
class Played:
    """How a play went."""

    results: Sequence[CallResult]
    episode_return: float
    """The sum of the rewards that this client received."""
    finished: bool
    """Whether the episode came to its end; an agent may also have given up."""
    summary: Summary | None
    """The server's figures, which agree with the sum; `None` where there are none to read."""


async def play(episode: AsyncEpisode, agent: Agent, *, max_calls: int | None = None) -> Played:
    """Let an agent play until the episode is over, it gives up, or it has made enough calls.

    Args:
        episode: An open episode.
        agent: The agent.
        max_calls: Most calls; `None` leaves the limit to the environment.

    Raises:
        SumMismatchError: If the server's figures are not what was received.
        InvalidRequestError: If the agent is no function, or returns something else than a move.
        OrsServerError: If a call failed through no fault of the agent's.
    """
    if not callable(agent):
        raise InvalidRequestError(f"an agent is a function that is given a Turn, not {agent!r:.80}")
    messages, tools = await episode.messages(), (await episode.tools()).tools
    results: list[CallResult] = []
    while not episode.finished and (max_calls is None or len(results) < max_calls):
        wanted = agent(Turn(messages, tools, tuple(results)))
        move = await wanted if inspect.isawaitable(wanted) else wanted
        if move is None:
            break
        if not isinstance(cast("object", move), Move):
            raise InvalidRequestError(f"an agent returns a Move, or None to give up, not {move!r:.80}")
        results.append(await episode.call(move.tool, move.arguments))
    try:
        summary = await episode.check()
    except (NotSupportedError, ForbiddenError):
        summary = None
    return Played(tuple(results), episode.ledger.total, episode.finished, summary)
