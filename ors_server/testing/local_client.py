"""Environments that run in this process for a test, and sessions of them, played by the client."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

from ors_server.app import App, InProcess, open_in_process
from ors_server.authoring.definition import Blocks, EnvironmentDefinition
from ors_server.authoring.loading import define, load_environments
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncOrsEpisode
from ors_server.client.call_result import refusal_of
from ors_server.client.server import SessionPlace
from ors_server.clock import Clock
from ors_server.errors import ClientError
from ors_server.recording import STEP
from ors_server.sandboxes.choose import BackendRequest
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.sandboxing import Sandboxes
from ors_server.sessions.session_call import RefusalReason
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import SessionOptions
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

_REQUESTED = tuple(
    field.name for field in fields(SessionRequest) if field.name not in {"environment", "credential_id"}
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
    """One session of an environment in this process.

    Attributes:
        id: The session's id.
        client: Plays it.
    """

    def __init__(self, client: AsyncClient, place: SessionPlace) -> None:
        """Play a session that exists."""
        self.id = place.session_id
        self.client = client
        self._episode = AsyncOrsEpisode(client.server, place, is_ours=True)

    async def blocks(self) -> Blocks:
        """Return the prompt's blocks, after setup."""
        return await self._episode.blocks()

    async def prompt(self) -> str:
        """Return the prompt's text, after setup; pictures are left out."""
        return text_of(await self.blocks())

    async def messages(self) -> list[Message]:
        """Return the prompt as a conversation, after setup."""
        return await self._episode.messages()

    async def tools(self) -> ToolListing:
        """Return everything that the session offers."""
        return await self._episode.tools()

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
        result = await self._episode.call(tool, arguments, call_id=call_id)
        if result.refusal is None or refusal_of(result.output) is not None:
            return result.output
        raise CallRefusedError(RefusalReason(result.refusal), result.text)

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> Sequence[GroupScore]:
        """Score rollouts of the session's task against each other.

        Args:
            candidates: The rollouts.

        Raises:
            OrsServerError: If the environment scores no groups, or its scoring failed.
        """
        return await self._episode.score_group(candidates)

    async def fork(self, count: int = 1) -> "list[LocalSession]":
        """Make copies of the session, each of which goes on by itself.

        Args:
            count: How many.

        Raises:
            OrsServerError: If the environment's sessions cannot be copied, or a limit is reached.
        """
        return [LocalSession(self.client, place) for place in await self.client.server.fork(self.id, count)]

    async def summary(self) -> EpisodeSummary:
        """Return the episode's figures, also after its end."""
        figures = await self.client.summary(self.id)
        names = [field.name for field in fields(EpisodeSummary)]
        return EpisodeSummary(**{name: getattr(figures, name) for name in names})

    async def steps(self) -> Sequence[Step]:
        """Return the episode's steps, also after its end."""
        return [STEP.of_json(step) for step in await self.client.steps(self.id)]

    async def aclose(self) -> None:
        """Delete the session and wait for its teardown."""
        await self._episode.aclose()


class LocalClient:
    """A client of environments in this process.

    Attributes:
        app: The application that runs them.
        client: Calls it.
    """

    def __init__(self, app: App, client: AsyncClient) -> None:
        """Play on an application that runs."""
        self.app = app
        self.client = client

    @property
    def engine(self) -> SessionManager:
        """What holds the sessions."""
        return self.app.manager

    async def create(self, order: SessionRequest | None = None, **wishes: Any) -> LocalSession:
        """Make a session.

        Args:
            order: The request.
            **wishes: Or its fields: `split` and `index`, or `task_spec`; `secrets`, `policy`, `toolset`, and
                so on.

        Raises:
            OrsServerError: If the request is wrong or the environment's constructor failed.
        """
        request = order or SessionRequest(**wishes)
        given: Any = {name: getattr(request, name) for name in _REQUESTED}
        place = await self.client.server.create(request.environment, given)
        return LocalSession(self.client, place)


@asynccontextmanager
async def open_environment(
    *environments: type | str | EnvironmentDefinition,
    options: SessionOptions | None = None,
    clock: Clock | None = None,
    store: EpisodeStore | None = None,
    sandbox: BackendRequest | Sandboxes | None = None,
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
    in_process = InProcess(options, sandbox)
    async with (
        open_in_process(definitions, in_process, clock=clock, store=store) as app,
        app.client() as client,
    ):
        yield LocalClient(app, client)


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
