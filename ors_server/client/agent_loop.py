"""The loop between an episode and an agent that is a function."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.call_result import CallResult
from ors_server.client.session_summary import Summary
from ors_server.model.errors import ForbiddenError, InvalidRequestError, NotSupportedError
from ors_server.model.wire import Message, ToolSpec


@dataclass(frozen=True, slots=True)
class Turn:
    """The information that an agent has before its next move."""

    messages: Sequence[Message]
    """The prompt."""
    tools: Sequence[ToolSpec]
    """The tools of the session, in the order of the server."""
    results: Sequence[CallResult]
    """The results of its moves so far, in order."""

    @property
    def last(self) -> CallResult | None:
        """The result of its latest move; `None` before the first one."""
        return self.results[-1] if self.results else None


@dataclass(frozen=True, slots=True)
class Move:
    """The next tool call of an agent."""

    tool: str
    """The tool's name."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The tool's arguments, by name."""


Agent: TypeAlias = Callable[[Turn], "Move | Awaitable[Move | None] | None"]
"""Returns the next move, or `None` to give up the episode."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a played episode."""

    results: Sequence[CallResult]
    """The result of each call, in order."""
    episode_return: float | None
    """The sum of the rewards that this client received; `None` if a judgement of the episode failed."""
    finished: bool
    """Whether the episode ended; otherwise the agent gave up, or reached the limit on calls."""
    summary: Summary | None
    """The server's figures, which agree with the sum; `None` if they cannot be read."""


async def play(episode: AsyncEpisode, agent: Agent, *, max_calls: int | None = None) -> Played:
    """Let an agent play until the episode is over, it gives up, or it has made `max_calls` calls.

    Args:
        max_calls: Number of calls, from 0; `None` without a limit.

    Raises:
        SumMismatchError: If the server's figures differ from the received rewards.
        InvalidRequestError: If the agent is not a function, or returns something other than a move.
        OrsServerError: If a call failed, and the agent is not to blame.
    """
    if not callable(agent):
        raise InvalidRequestError(f"expected an agent that is a function of a Turn, got {agent!r:.80}")
    messages, tools = await episode.messages(), (await episode.tools()).tools
    results: list[CallResult] = []
    while not episode.finished and (max_calls is None or len(results) < max_calls):
        answer = agent(Turn(messages, tools, tuple(results)))
        move = await answer if inspect.isawaitable(answer) else answer
        if move is None:
            break
        if not isinstance(cast("object", move), Move):
            raise InvalidRequestError(f"expected a Move from the agent, or None to give up, got {move!r:.80}")
        results.append(await episode.call(move.tool, move.arguments))
    try:
        summary = await episode.check()
    except (NotSupportedError, ForbiddenError):
        summary = None
    is_judged = not any(result.is_unjudged for result in results) and (
        summary is None or not summary.unjudged_steps
    )
    total = episode.ledger.total if is_judged else None
    return Played(tuple(results), total, episode.finished, summary)
