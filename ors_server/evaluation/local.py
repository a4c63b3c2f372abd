"""Plays in this process: an engine of one's own, or one that is there already."""

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread

from ors_server._version import __version__
from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.authoring.loading import define, load_environments
from ors_server.clock import Clock
from ors_server.engines.base import Engine
from ors_server.engines.local import EngineOptions, open_local_engine
from ors_server.errors import UnknownEnvironmentError
from ors_server.evaluation.targets import Actions, Answer, EpisodeFigures, TargetError, TaskOrder
from ors_server.sandboxes.choose import Wanted
from ors_server.sessions.quotas import SessionLimits
from ors_server.sessions.sandboxing import Sandboxes, open_sandboxes
from ors_server.sessions.session_call import Completed, Failure, Refusal, RefusalReason
from ors_server.sessions.session_request import SessionRequest, SessionStatus
from ors_server.store.base import EpisodeStore
from ors_server.wire import JSONObject, Message, Split, TextBlock, ToolListing

IDLE_SECONDS = 7 * 24 * 3600.0
"""Seconds after which a session without calls expires: a model may think for long, and a run ends its own."""


class LocalTarget:
    """An environment of an engine in this process."""

    def __init__(
        self,
        engine: Engine,
        definition: EnvironmentDefinition,
        name: str,
        agent_url: Callable[[str], str] | None = None,
    ) -> None:
        """Play on an engine.

        Args:
            engine: Where sessions live.
            definition: The environment, one of the engine's.
            name: What whoever started the run called it.
            agent_url: Makes the MCP endpoint of a session, given its id, if the engine is served.
        """
        self.name = name
        self._engine = engine
        self._definition = definition
        self._agent_url = agent_url

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return self._definition.name

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the server, the environment, and the packages that it declares."""
        own = {"ors-server": __version__, "environment": self._definition.version}
        return {**self._definition.packages, **own}

    @property
    def step_limit(self) -> int | None:
        """Steps after which the environment ends an episode."""
        return self._definition.policy.step_limit

    async def splits(self) -> Sequence[Split]:
        """Return the environment's splits."""
        return self._definition.splits

    async def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has.

        Args:
            split: Its name.
        """
        return await self._definition.tasks.num_tasks(split)

    @asynccontextmanager
    async def episode(self, order: TaskOrder) -> "AsyncGenerator[LocalEpisode]":
        """Make an episode; leaving the context ends its session.

        Args:
            order: What is wanted.
        """
        status = await self._engine.create(
            SessionRequest(
                environment=self._definition.name,
                split=order.split,
                index=order.index,
                seed=order.seed,
                labels=order.labels,
                policy=order.policy,
            )
        )
        episode = LocalEpisode(self._engine, status, self._agent_url)
        try:
            yield episode
        finally:
            with anyio.CancelScope(shield=True):
                await self._engine.delete(episode.session_id)

    def knows_actions(self, name: str) -> bool:
        """Say whether the class has a method of that name.

        Args:
            name: `gold_actions` or `blank_actions`.
        """
        return callable(getattr(self._definition.source, name, None))

    async def known_actions(self, name: str, split: str, index: int) -> Actions | None:
        """Return what the class's method of that name knows for a task.

        Args:
            name: `gold_actions` or `blank_actions`.
            split: The task's split.
            index: Its place.
        """
        method: Any = getattr(self._definition.source, name, None)
        if not callable(method):
            return None
        task = await self._definition.tasks.get_task(split, index)
        found: Any = await anyio.to_thread.run_sync(method, task)
        return [(tool, dict(arguments)) for tool, arguments in (await _awaited(found))]


class LocalEpisode:
    """An episode of an engine in this process."""

    def __init__(
        self, engine: Engine, status: SessionStatus, agent_url: Callable[[str], str] | None = None
    ) -> None:
        """Take over a session that was just made.

        Args:
            engine: Where it lives.
            status: What the engine said of it.
            agent_url: Makes the MCP endpoint of a session.
        """
        self._engine = engine
        self.session_id = status.origin.session_id
        self.episode_id = status.origin.episode_id
        self.task_hash = status.origin.task_hash
        self.hides_rewards = False
        self._agent_url = agent_url

    async def messages(self) -> Sequence[Message]:
        """Return the task as a conversation."""
        return await self._engine.messages(self.session_id)

    async def tools(self) -> ToolListing:
        """Return everything that the agent may call."""
        return await self._engine.tools(self.session_id)

    async def call(self, tool: str, arguments: JSONObject, call_id: str) -> Answer:
        """Call a tool.

        Args:
            tool: Its name.
            arguments: As the agent gave them.
            call_id: The same id never runs twice.
        """
        call = await self._engine.call(self.session_id, tool, arguments, call_id=call_id)
        result = await call.wait()
        if isinstance(result, Completed):
            output = result.output
            return Answer(tuple(output.blocks), output.reward, output.finished, result.is_error)
        if isinstance(result, Failure):
            raise result.error
        if isinstance(result, Refusal):
            is_over = result.reason is RefusalReason.EPISODE_FINISHED
            return Answer((TextBlock(text=result.error),), finished=is_over, is_error=True)
        raise TargetError(f"{call_id!r} is the id of a group's scoring, not of a call")

    async def figures(self) -> EpisodeFigures:
        """Return the figures so far; the final ones after the session's end."""
        return EpisodeFigures.of((await self._engine.status(self.session_id)).summary)

    async def agent_url(self) -> str:
        """Return the MCP endpoint of the episode.

        Raises:
            TargetError: If the engine is not served.
        """
        if self._agent_url is None:
            raise TargetError(
                "this engine is not served, so no program can play on it; use `ors-server eval`"
            )
        return self._agent_url(self.session_id)


@asynccontextmanager
async def open_local_target(
    environment: type | str | EnvironmentDefinition,
    *,
    name: str | None = None,
    store: EpisodeStore | None = None,
    clock: Clock | None = None,
    sandbox: Wanted | Sandboxes | None = None,
) -> AsyncGenerator[LocalTarget]:
    """Run an environment in this process to be evaluated; leaving the context ends all sessions.

    Args:
        environment: A class, a reference as for the command line, or a definition.
        name: What whoever starts the run calls it; the reference, or the environment's name, by default.
        store: Where episodes are recorded, and closed in the end; memory by default.
        clock: The source of time.
        sandbox: Which isolation is wanted for what agents run, or one that is prepared already and not closed
            here; the strongest that works here by default.

    Raises:
        UnknownEnvironmentError: If a reference leads nowhere, or to several environments.
        EnvironmentDefinitionError: If the environment breaks a rule.
        SandboxUnavailableError: If the isolation that was asked for does not work here.
    """
    definition = choose_definition(environment)
    async with AsyncExitStack() as stack:
        if isinstance(sandbox, Sandboxes):
            sandboxes = sandbox
        else:
            sandboxes = await stack.enter_async_context(open_sandboxes([definition], sandbox, clock))
        options = EngineOptions(limits=SessionLimits(idle_seconds=IDLE_SECONDS), server_version=__version__)
        engine = await stack.enter_async_context(
            open_local_engine([definition], options, clock=clock, store=store, sandboxes=sandboxes)
        )
        called = environment if isinstance(environment, str) else definition.name
        yield LocalTarget(engine, definition, name or called)


def choose_definition(
    environment: type | str | EnvironmentDefinition, name: str | None = None
) -> EnvironmentDefinition:
    """Define the one environment that is meant.

    Args:
        environment: A class, a reference, or a definition.
        name: Which one of those that a reference leads to; not needed where it leads to one.

    Raises:
        UnknownEnvironmentError: If there is none of that name, or several and no name.
        EnvironmentDefinitionError: If it breaks a rule.
    """
    if isinstance(environment, EnvironmentDefinition):
        return environment
    found = load_environments([environment]) if isinstance(environment, str) else [define(environment)]
    wanted = [one for one in found if name is None or one.name == name.lower()]
    if len(wanted) == 1:
        return wanted[0]
    names = ", ".join(one.name for one in found)
    raise UnknownEnvironmentError(f"{environment} leads to {names}; name one of them with --environment")


async def _awaited(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found
