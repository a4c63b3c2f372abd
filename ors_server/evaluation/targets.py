"""Where a run plays: an environment of a server or of this process, and its episodes, by the same client."""

import inspect
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

import anyio.to_thread

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.call_result import OVER
from ors_server.client.client_options import ClientOptions
from ors_server.client.connection import Request
from ors_server.client.episode_request import EpisodeRequest
from ors_server.client.session_summary import Summary
from ors_server.errors import ClientError, NotSupportedError
from ors_server.sessions.manager import hash_task
from ors_server.wire import ImageBlock, JSONObject, Message, Split, TextBlock, ToolListing

Blocks: TypeAlias = Sequence[TextBlock | ImageBlock]
Actions: TypeAlias = Sequence[tuple[str, JSONObject]]
"""Tool calls, as (name, arguments) in order."""
ENDINGS = frozenset({"completed", "step_limit", "time_limit", "blocked"})
"""Stop reasons with which an environment, or its policy, ends an episode that was played."""


MCP_END = "/mcp"
"""How the URL of an MCP endpoint ends."""


class TargetError(ClientError):
    """A target cannot do what is asked of it, or contradicts itself."""

    code = "target"


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A wish for an episode."""

    split: str
    index: int
    attempt: int
    """Number of the attempt at the task, from 1."""
    seed: int
    """For the environment's chances, in [0, 2**53); a target that cannot pass it on leaves it out."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Overrides of the environment's policy, by field name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to, as the agent is told."""

    blocks: tuple[TextBlock | ImageBlock, ...]
    reward: float | None = None
    """What the step paid; for the harness, not for the agent."""
    finished: bool = False
    """Whether the episode is over."""
    is_error: bool = False
    """Whether the blocks tell of a mistake of the agent's."""

    @property
    def text(self) -> str:
        """The text of the blocks, one paragraph each."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))


@dataclass(frozen=True, slots=True)
class EpisodeFigures:
    """An episode's figures, as its server counts them."""

    episode_return: float | None
    """Sum of the rewards; `None` where the server keeps it to itself."""
    steps: int | None = None
    """Calls that were counted; `None` likewise."""
    last_reward: float | None = None
    penalties: float = 0.0
    failed_steps: int = 0
    """Calls in which the environment's own code failed."""
    stop_reason: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(cls, summary: Summary) -> "EpisodeFigures":
        """Take them from the server's summary."""
        return cls(
            episode_return=summary.episode_return,
            steps=summary.steps,
            last_reward=summary.last_reward,
            penalties=summary.penalty_sum,
            failed_steps=summary.failed_steps,
            stop_reason=summary.stop_reason,
            metrics=summary.metrics,
        )

    @property
    def is_finished(self) -> bool:
        """Whether the environment or its policy ended the episode."""
        return self.stop_reason in ENDINGS


class TargetEpisode:
    """An episode at a target. Its methods raise `OrsServerError` for failures that are not the agent's."""

    def __init__(self, played: AsyncEpisode, *, task_hash: str, by_mcp: bool, gives_urls: bool) -> None:
        """Play an episode that was just made.

        Args:
            played: The client's.
            task_hash: Of the task; empty where nobody knows.
            by_mcp: Whether calls go over MCP, which may keep rewards to itself.
            gives_urls: Whether programs can reach the episode's URL.
        """
        self._played = played
        self._by_mcp = by_mcp
        self._gives_urls = gives_urls
        self.session_id = played.session_id
        self.episode_id = played.place.episode_id
        """The record's id, if the target tells."""
        self.task_hash = played.place.task_hash or task_hash
        """SHA-256 of the task's canonical JSON, hexadecimal; empty where nobody knows."""
        self.hides_rewards = False
        """Whether a reward was kept from whoever plays here; the figures tell them all the same."""

    async def messages(self) -> Sequence[Message]:
        """Return the task as a conversation: at least one message, often one of the user's."""
        return await self._played.messages()

    async def tools(self) -> ToolListing:
        """Return everything that the agent may call."""
        return await self._played.tools()

    async def call(self, tool: str, arguments: JSONObject, call_id: str) -> Answer:
        """Call a tool; the same call id never runs twice."""
        result = await self._played.call(tool, arguments, call_id=call_id)
        if self._by_mcp and result.step is None and result.refusal != OVER:
            self.hides_rewards = True
        return Answer(tuple(result.blocks), result.reward, result.finished, result.is_error)

    async def figures(self) -> EpisodeFigures:
        """Return the figures so far, or the final ones; empty from a server that keeps none."""
        try:
            summary = await self._played.summary()
        except NotSupportedError:
            return EpisodeFigures(None)
        self.episode_id = summary.episode_id
        self.task_hash = summary.task_hash or self.task_hash
        return EpisodeFigures.of(summary)

    async def agent_url(self) -> str:
        """Return an MCP endpoint that plays this episode and needs no credential.

        Raises:
            TargetError: If the target has none.
        """
        url = self._played.access.get("agent_url")
        if not self._gives_urls:
            raise TargetError(
                "this environment is not served, so no program can play it; use `ors-server eval`"
            )
        if url is None:
            raise TargetError("this server gives no URL to agents, so no program can play on it")
        return url


@dataclass(frozen=True)
class Target:
    """Where a run plays; made by `open_local_target` or `open_server_target`."""

    name: str
    """What whoever started the run called it: a reference or a URL."""
    environment: str
    """Name of the environment that is played."""
    client: AsyncClient
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Versions by name, as far as they are known: `ors-server`, `environment`, `python`."""
    step_limit: int | None = None
    """Steps after which the environment ends an episode; `None` where it does not, or nobody tells."""
    by_mcp: bool = False
    """Whether calls go over MCP."""
    source: EnvironmentDefinition | None = None
    """The environment's definition, if it runs in this process."""
    gives_urls: bool = True
    """Whether programs can reach the URLs of episodes."""

    async def splits(self) -> Sequence[Split]:
        """Return the environment's splits."""
        return await self.client.splits(self.environment)

    async def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has."""
        return await self.client.num_tasks(split, self.environment)

    @asynccontextmanager
    async def episode(self, order: TaskOrder) -> AsyncGenerator[TargetEpisode]:
        """Make an episode, whose setup may still go on; leaving the context ends its session.

        A server that speaks the standard only is told neither seed nor labels, for which the standard has no
        words.

        Raises:
            NotSupportedError: If a policy is wanted that the server cannot be told.
            OrsServerError: As the server answers.
        """
        request: EpisodeRequest = {"split": order.split, "index": order.index}
        task_hash = ""
        if await self.client.server.is_ours():
            request |= {"seed": order.seed, "labels": order.labels, "policy": order.policy}
        else:
            if order.policy:
                request |= {"policy": order.policy}
            task_hash = hash_task(await self.client.task(order.split, order.index, self.environment))
        make = self.client.mcp_episode if self.by_mcp else self.client.episode
        async with make(self.environment, **request) as played:
            yield TargetEpisode(played, task_hash=task_hash, by_mcp=self.by_mcp, gives_urls=self.gives_urls)

    def knows_actions(self, name: str) -> bool:
        """Say whether the environment's class is here and has a method of that name.

        Args:
            name: `gold_actions` for those that earn the most, `blank_actions` for the least.
        """
        return self.source is not None and callable(getattr(self.source.source, name, None))

    async def known_actions(self, name: str, split: str, index: int) -> Actions | None:
        """Return calls that the environment's author knows for a task, or `None` if nobody here knows them.

        Args:
            name: As for `knows_actions`.
            split: The task's split.
            index: Its place.
        """
        if self.source is None or not self.knows_actions(name):
            return None
        task = await self.source.tasks.get_task(split, index)
        found: Any = await anyio.to_thread.run_sync(getattr(self.source.source, name), task)
        actions: Any = await found if inspect.isawaitable(found) else found
        return [(tool, dict(arguments)) for tool, arguments in actions]


@asynccontextmanager
async def open_server_target(
    url: str,
    environment: str | None = None,
    *,
    api_key: str | None = None,
    options: ClientOptions | None = None,
) -> AsyncGenerator[Target]:
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
        versions, step_limit = await _ask(client, environment)
        yield Target(url, environment, client, versions, step_limit, by_mcp)


def _only(url: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    raise TargetError(f"{url} serves {', '.join(names) or 'nothing'}; name one of them with --environment")


async def _ask(client: AsyncClient, environment: str) -> tuple[Mapping[str, str], int | None]:
    """Return versions and step limit from a server of ours; others have no words for them."""
    if not await client.server.is_ours():
        return {}, None
    ask = client.server.connection.ask
    versions = {"ors-server": str((await ask(Request("GET", "/_ors/version")))["version"])}
    told = await ask(Request("GET", f"/_ors/environments/{quote(environment, safe='')}"))
    return {**versions, "environment": str(told["version"])}, told["policy"].get("step_limit")
