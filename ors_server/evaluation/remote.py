"""Plays on a server by its URL: over the Open Reward Standard, or over MCP at the URLs of agents."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlsplit

from ors_server.client.client import AsyncClient
from ors_server.client.connection import Request
from ors_server.client.episode import AsyncEpisode
from ors_server.client.options import ClientOptions
from ors_server.client.orders import Wishes
from ors_server.client.results import OVER
from ors_server.client.summary import Summary
from ors_server.errors import NotSupportedError
from ors_server.evaluation.targets import Actions, Answer, EpisodeFigures, TargetError, TaskOrder
from ors_server.sessions.manager import hash_task
from ors_server.wire import JSONObject, Message, Split, ToolListing

MCP_END = "/mcp"
"""How the URL of an MCP endpoint ends."""


@dataclass(frozen=True, slots=True)
class _About:
    """What a server says of itself and an environment."""

    versions: Mapping[str, str]
    step_limit: int | None = None


class RemoteTarget:
    """An environment of a server that is reached over HTTP."""

    def __init__(
        self, url: str, environment: str, client: AsyncClient, about: "_About", *, by_mcp: bool
    ) -> None:
        """Play on a server; use `open` to find out what it is.

        Args:
            url: What whoever started the run called it.
            environment: Name of the environment.
            client: Reaches the server.
            about: What the server says of itself and the environment.
            by_mcp: Whether calls go over MCP.
        """
        self.name = url
        self.environment = environment
        self.versions = about.versions
        self.step_limit = about.step_limit
        self._client = client
        self._by_mcp = by_mcp

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        environment: str | None = None,
        *,
        api_key: str | None = None,
        options: ClientOptions | None = None,
    ) -> AsyncGenerator[Self]:
        """Find an environment of a server.

        Args:
            url: The server's, for the Open Reward Standard; one that ends in `/mcp`, for MCP.
            environment: Name of the environment; needed where the server has several.
            api_key: A trainer's.
            options: How the server is reached.

        Raises:
            TargetError: If the server has several environments and none is named.
            OrsServerError: If the server cannot be reached or refuses.
        """
        by_mcp = urlsplit(url).path.rstrip("/").endswith(MCP_END)
        root = url.rstrip("/").removesuffix(MCP_END) if by_mcp else url
        async with AsyncClient(root, api_key, options=options) as client:
            if environment is None:
                environment = _only(url, await client.environments())
            yield cls(url, environment, client, await _ask(client, environment), by_mcp=by_mcp)

    async def splits(self) -> Sequence[Split]:
        """Return the environment's splits."""
        return await self._client.splits(self.environment)

    async def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has.

        Args:
            split: Its name.
        """
        return await self._client.num_tasks(split, self.environment)

    @asynccontextmanager
    async def episode(self, order: TaskOrder) -> "AsyncGenerator[RemoteEpisode]":
        """Make an episode; leaving the context ends its session.

        A server that speaks the standard only is told neither seed nor labels, for which the standard has no
        words.

        Args:
            order: What is wanted.

        Raises:
            NotSupportedError: If a policy is wanted that the server cannot be told.
            OrsServerError: As the server answers.
        """
        wishes: Wishes = {"split": order.split, "index": order.index}
        task_hash = ""
        if await self._client.server.is_ours():
            wishes |= {"seed": order.seed, "labels": order.labels, "policy": order.policy}
        else:
            if order.policy:
                wishes |= {"policy": order.policy}
            task_hash = hash_task(await self._client.task(order.split, order.index, self.environment))
        make = self._client.mcp_episode if self._by_mcp else self._client.episode
        async with make(self.environment, **wishes) as played:
            yield RemoteEpisode(played, task_hash, by_mcp=self._by_mcp)

    def knows_actions(self, name: str) -> bool:
        """Know nothing, as `known_actions` does.

        Args:
            name: Of the actions.
        """
        del name
        return False

    async def known_actions(self, name: str, split: str, index: int) -> Actions | None:
        """Know nothing: what earns the most stays with the server's author.

        Args:
            name: Of the actions.
            split: The task's split.
            index: Its place.
        """
        del name, split, index
        return None


class RemoteEpisode:
    """An episode of a server that is reached over HTTP."""

    def __init__(self, played: AsyncEpisode, task_hash: str, *, by_mcp: bool) -> None:
        """Take over an episode that was just made.

        Args:
            played: The client's.
            task_hash: Of the task, where the server will not tell it.
            by_mcp: Whether calls go over MCP, which may keep rewards to itself.
        """
        self._played = played
        self._by_mcp = by_mcp
        self.session_id = played.session_id
        self.episode_id: str | None = None
        self.task_hash = task_hash
        self.hides_rewards = False

    async def messages(self) -> Sequence[Message]:
        """Return the task as a conversation."""
        return await self._played.messages()

    async def tools(self) -> ToolListing:
        """Return everything that the agent may call."""
        return await self._played.tools()

    async def call(self, tool: str, arguments: JSONObject, call_id: str) -> Answer:
        """Call a tool.

        Args:
            tool: Its name.
            arguments: As the agent gave them.
            call_id: The same id never runs twice.
        """
        result = await self._played.call(tool, arguments, call_id=call_id)
        if self._by_mcp and result.step is None and result.refusal != OVER:
            self.hides_rewards = True
        return Answer(tuple(result.blocks), result.reward, result.finished, result.is_error)

    async def figures(self) -> EpisodeFigures:
        """Return the server's figures, or none from a server that keeps none."""
        try:
            summary = await self._played.summary()
        except NotSupportedError:
            return EpisodeFigures(None)
        self.episode_id = summary.episode_id
        self.task_hash = summary.task_hash or self.task_hash
        return _figures(summary)

    async def agent_url(self) -> str:
        """Return the MCP endpoint of the episode.

        Raises:
            TargetError: If the server has none.
        """
        url = self._played.access.get("agent_url")
        if url is None:
            raise TargetError("this server gives no URL to agents, so no program can play on it")
        return url


def _figures(summary: Summary) -> EpisodeFigures:
    return EpisodeFigures(
        episode_return=summary.episode_return,
        steps=summary.steps,
        last_reward=summary.last_reward,
        penalties=summary.penalty_sum,
        failed_steps=summary.failed_steps,
        stop_reason=summary.stop_reason,
        metrics=summary.metrics,
    )


def _only(url: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    raise TargetError(f"{url} serves {', '.join(names) or 'nothing'}; name one of them with --environment")


async def _ask(client: AsyncClient, environment: str) -> _About:
    """Ask a server of ours what it is; others have no words for it."""
    if not await client.server.is_ours():
        return _About({})
    ask = client.server.connection.ask
    versions = {"ors-server": str((await ask(Request("GET", "/_ors/version")))["version"])}
    told = await ask(Request("GET", f"/_ors/environments/{quote(environment, safe='')}"))
    return _About({**versions, "environment": str(told["version"])}, told["policy"].get("step_limit"))
