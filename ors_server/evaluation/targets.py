"""Where a run plays: an environment of a server or of this process, through the same client."""

import inspect
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

import anyio.to_thread

from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.client_options import ClientOptions
from ors_server.client.connection import HttpRequest
from ors_server.client.episode_request import EpisodeRequest
from ors_server.client.typed_answers import EnvironmentFields, VersionFields, read_answer
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import ClientError
from ors_server.model.recording import task_digest
from ors_server.model.wire import JSONObject, Split

Actions: TypeAlias = Sequence[tuple[str, JSONObject]]
"""Tool calls, as (name, arguments) in order."""
MAX_TASKS_PER_REQUEST = 100
MCP_SUFFIX = "/mcp"
"""The end of an MCP endpoint's URL."""


class TargetError(ClientError):
    """A target cannot do what was requested."""

    code = "target"


@dataclass(frozen=True)
class Target:
    """Where a run plays; made by `open_local_target` or `open_server_target`."""

    name: str
    """The reference or URL with which the run was started."""
    environment: str
    client: AsyncClient
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name, as far as they are known: `ors-server`, `environment`, `python`."""
    step_limit: int | None = None
    """Steps after which the environment ends an episode; `None` without a limit, or if it is not known."""
    uses_mcp: bool = False
    """Whether calls go over MCP, where the server may hide rewards."""
    definition: EnvironmentDefinition | None = None
    """The environment's definition, if it runs in this process."""
    gives_urls: bool = True
    """Whether programs can reach the URLs of episodes."""

    async def splits(self) -> Sequence[Split]:
        """Return the environment's splits."""
        return await self.client.splits(self.environment)

    async def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has."""
        return await self.client.num_tasks(split, self.environment)

    async def task_hashes(self, split: str, indices: Sequence[int]) -> Mapping[int, str]:
        """Return the hashes of tasks by their indices."""
        hashes: dict[int, str] = {}
        # Neighbouring indices are requested together: one request per task would take long for many tasks.
        for start in sorted(indices):
            if start in hashes:
                continue
            stop = start + 1
            while stop - start < MAX_TASKS_PER_REQUEST and stop in indices:
                stop += 1
            tasks = await self.client.tasks(split, start, stop, environment=self.environment)
            hashes |= {index: task_digest(task) for index, task in enumerate(tasks, start)}
        return hashes

    @asynccontextmanager
    async def episode(
        self, split: str, index: int, *, seed: int, labels: Mapping[str, str], policy: Mapping[str, Any]
    ) -> AsyncGenerator[AsyncEpisode]:
        """Make an episode, whose setup may still be running; leaving the context ends its session.

        A server that speaks the standard only gets neither seed nor labels, which the standard lacks.

        Raises:
            NotSupportedError: If there are policy overrides, and the server takes none.
            OrsServerError: As the server answers.
        """
        request: EpisodeRequest = {"split": split, "index": index}
        task_hash = ""
        if await self.client.server.is_ours():
            request |= {"seed": seed, "labels": labels, "policy": policy}
        else:
            if policy:
                request |= {"policy": policy}
            # A standard server has no record with the task's hash, so that it is computed from the task
            # itself.
            task_hash = task_digest(await self.client.task(split, index, self.environment))
        make = self.client.mcp_episode if self.uses_mcp else self.client.episode
        async with make(self.environment, **request) as episode:
            episode.place = replace(episode.place, task_hash=episode.place.task_hash or task_hash)
            yield episode

    def knows_actions(self, name: str) -> bool:
        """Return whether the environment's class is here and has the method, such as `gold_actions`."""
        return self.definition is not None and callable(getattr(self.definition.source, name, None))

    async def known_actions(self, name: str, split: str, index: int) -> Actions | None:
        """Return what a method of `knows_actions` returns for a task, which may be `None`."""
        if self.definition is None or not self.knows_actions(name):
            return None
        task = await self.definition.tasks.get_task(split, index)
        outcome: Any = await anyio.to_thread.run_sync(getattr(self.definition.source, name), task)
        actions: Any = await outcome if inspect.isawaitable(outcome) else outcome
        return None if actions is None else [(tool, dict(arguments)) for tool, arguments in actions]


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
        environment: Needed where the server has several.
        api_key: A trainer's.

    Raises:
        TargetError: If the server has several environments and none is named.
        OrsServerError: If the server cannot be reached or refuses.
    """
    uses_mcp = urlsplit(url).path.rstrip("/").endswith(MCP_SUFFIX)
    root = url.rstrip("/").removesuffix(MCP_SUFFIX) if uses_mcp else url
    async with AsyncClient(root, api_key, options=options) as client:
        if environment is None:
            names = await client.environments()
            if len(names) != 1:
                raise TargetError(
                    f"{url} serves {', '.join(names) or 'nothing'}; name one of them with --environment"
                )
            environment = names[0]
        versions, step_limit = await _read_server_facts(client, environment)
        yield Target(url, environment, client, versions, step_limit, uses_mcp)


async def _read_server_facts(client: AsyncClient, environment: str) -> tuple[Mapping[str, str], int | None]:
    """Return versions and step limit from an ors-server; other servers do not send them."""
    if not await client.server.is_ours():
        return {}, None
    ask = client.server.connection.ask
    version = read_answer(VersionFields, await ask(HttpRequest("GET", "/_ors/version")), "/_ors/version")
    path = f"/_ors/environments/{quote(environment, safe='')}"
    fields = read_answer(EnvironmentFields, await ask(HttpRequest("GET", path)), f"the answer of GET {path}")
    versions = {"ors-server": version["version"], "environment": fields["version"]}
    return versions, fields["policy"].get("step_limit")
