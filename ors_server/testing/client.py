"""A client that speaks to an engine in this process: what the doors do, without bytes."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ors_server._version import __version__
from ors_server.authoring.definition import Blocks, EnvironmentDefinition
from ors_server.authoring.loading import define, load_environments
from ors_server.clock import Clock
from ors_server.engines.base import Engine
from ors_server.engines.local import EngineOptions, open_local_engine
from ors_server.errors import ClientError
from ors_server.sandboxes.choose import Wanted
from ors_server.sessions.sandboxing import Sandboxes, open_sandboxes
from ors_server.sessions.session_call import Completed, Failure, RefusalReason, Scored
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from ors_server.store.base import EpisodeStore
from ors_server.trajectory import EpisodeSummary, Step
from ors_server.wire import (
    GroupCandidate,
    GroupScore,
    JSONObject,
    Message,
    TextBlock,
    ToolListing,
    ToolOutput,
)


class CallRefusedError(ClientError):
    """A call was not run, and nothing was paid.

    Attributes:
        reason: Unknown tool, invalid arguments, or an episode that is over.
    """

    code = "call_refused"

    def __init__(self, reason: RefusalReason, message: str) -> None:
        """Keep the reason.

        Args:
            reason: Why the call was not run.
            message: The same in words.
        """
        super().__init__(message)
        self.reason = reason


class LocalSession:
    """One session of a local engine."""

    def __init__(self, engine: Engine, session_id: str) -> None:
        """Speak to a session that exists.

        Args:
            engine: Where it lives.
            session_id: Its id.
        """
        self._engine = engine
        self.id = session_id

    async def blocks(self) -> Blocks:
        """Return the prompt's blocks, after setup."""
        return await self._engine.prompt(self.id)

    async def prompt(self) -> str:
        """Return the prompt's text, after setup; pictures are left out."""
        return text_of(await self.blocks())

    async def messages(self) -> list[Message]:
        """Return the prompt as a conversation, after setup."""
        return await self._engine.messages(self.id)

    async def tools(self) -> ToolListing:
        """Return everything that the session offers."""
        return await self._engine.tools(self.id)

    async def call(self, tool: str, /, **arguments: Any) -> ToolOutput:
        """Call a tool and wait for its output.

        Args:
            tool: The tool's name.
            **arguments: As the agent would send them.

        Returns:
            The output, the policy's penalties included. An agent's mistake that the policy charges is an
            output too.

        Raises:
            CallRefusedError: If the call was not run.
            OrsServerError: If it failed through no fault of the agent's.
        """
        return await self.submit(tool, arguments)

    async def submit(self, tool: str, arguments: JSONObject, *, call_id: str | None = None) -> ToolOutput:
        """Call a tool as `call` does, with arguments that need not be a Python name's and an own id.

        Args:
            tool: The tool's name.
            arguments: As the agent would send them.
            call_id: The call's id; the same id never runs twice.

        Raises:
            CallRefusedError: If the call was not run.
            OrsServerError: If it failed through no fault of the agent's.
        """
        call = await self._engine.call(self.id, tool, arguments, call_id=call_id)
        result = await call.wait()
        if isinstance(result, Completed):
            return result.output
        if isinstance(result, Failure):
            raise result.error
        if isinstance(result, Scored):
            raise CallRefusedError(RefusalReason.NOT_FOUND, f"{call_id!r} is the id of a group's scoring")
        raise CallRefusedError(result.reason, result.error)

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> Sequence[GroupScore]:
        """Score rollouts of the session's task against each other.

        Args:
            candidates: The rollouts.

        Raises:
            OrsServerError: If the environment scores no groups, or its scoring failed.
        """
        call = await self._engine.score_group(self.id, list(candidates))
        result = await call.wait()
        if isinstance(result, Failure):
            raise result.error
        return result.scores if isinstance(result, Scored) else ()

    async def fork(self, count: int = 1) -> "list[LocalSession]":
        """Make copies of the session, each of which goes on by itself.

        Args:
            count: How many.

        Raises:
            OrsServerError: If the environment's sessions cannot be copied, or a limit is reached.
        """
        made = await self._engine.fork(self.id, ForkRequest(count))
        return [LocalSession(self._engine, status.origin.session_id) for status in made]

    async def summary(self) -> EpisodeSummary:
        """Return the episode's figures, also after its end."""
        return (await self._engine.status(self.id)).summary

    async def steps(self) -> Sequence[Step]:
        """Return the episode's steps, also after its end."""
        return await self._engine.steps(self.id)

    async def aclose(self) -> None:
        """Delete the session and wait for its teardown."""
        await self._engine.delete(self.id)


class LocalClient:
    """A client of a local engine."""

    def __init__(self, engine: Engine) -> None:
        """Speak to an engine.

        Args:
            engine: Where sessions live.
        """
        self.engine = engine

    async def create(self, order: SessionRequest | None = None, **wishes: Any) -> LocalSession:
        """Make a session.

        Args:
            order: What is wanted.
            **wishes: Or its fields: `split` and `index`, or `task_spec`; `secrets`, `policy`, `toolset`, and
                so on.

        Raises:
            OrsServerError: If the order is wrong or the environment's constructor failed.
        """
        status = await self.engine.create(order or SessionRequest(**wishes))
        return LocalSession(self.engine, status.origin.session_id)


@asynccontextmanager
async def open_environment(
    *environments: type | str | EnvironmentDefinition,
    options: EngineOptions | None = None,
    clock: Clock | None = None,
    store: EpisodeStore | None = None,
    sandbox: Wanted | Sandboxes | None = None,
) -> AsyncGenerator[LocalClient]:
    """Run environments in this process; leaving the context ends all sessions.

    Args:
        *environments: Classes, references as for the command line, or definitions, the default one first.
        options: How the engine works.
        clock: The source of time.
        store: Where the record is kept; memory by default.
        sandbox: Which isolation is wanted for what agents run, or one that was prepared already and is not
            closed here; the strongest that works here by default.

    Raises:
        UnknownEnvironmentError: If a reference leads nowhere.
        EnvironmentDefinitionError: If an environment breaks a rule.
        SandboxUnavailableError: If the isolation that was asked for does not work here.
    """
    definitions = [definition for item in environments for definition in definitions_of(item)]
    options = options or EngineOptions(server_version=__version__)
    async with AsyncExitStack() as stack:
        if isinstance(sandbox, Sandboxes):
            sandboxes = sandbox
        else:
            sandboxes = await stack.enter_async_context(open_sandboxes(definitions, sandbox, clock))
        engine = await stack.enter_async_context(
            open_local_engine(definitions, options, clock=clock, store=store, sandboxes=sandboxes)
        )
        yield LocalClient(engine)


def definitions_of(environment: type | str | EnvironmentDefinition) -> list[EnvironmentDefinition]:
    """Define what may be given as an environment.

    Args:
        environment: A class, a reference, or a definition.
    """
    if isinstance(environment, EnvironmentDefinition):
        return [environment]
    return load_environments([environment]) if isinstance(environment, str) else [define(environment)]


def text_of(blocks: Sequence[Any]) -> str:
    """Return the text of blocks, in order, one paragraph each.

    Args:
        blocks: Any blocks; those that are no text are left out.
    """
    return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
