"""Environments in this process, and their sessions, for tests."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

from ors_server.app import App, InProcess, open_in_process
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncOrsEpisode
from ors_server.client.call_result import CallResult, refusal_of
from ors_server.client.server import SessionPlace
from ors_server.environments.definition import Blocks, EnvironmentDefinition
from ors_server.environments.loading import definitions_of
from ors_server.model.clock import Clock
from ors_server.model.errors import ClientError
from ors_server.model.recording import STEP
from ors_server.model.trajectory import EpisodeSummary, Step
from ors_server.model.wire import (
    GroupCandidate,
    GroupScore,
    JSONObject,
    Message,
    TextBlock,
    ToolListing,
    ToolOutput,
)
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sandboxes.choose import BackendRequest
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_call import RefusalReason
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import Sandboxes, SessionOptions
from ors_server.store.base import EpisodeStore

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
        super().__init__(message)
        self.reason = reason


class LocalSession:
    """One session of an environment in this process.

    Attributes:
        id: The session's id.
        client: The client that plays it.
    """

    def __init__(self, client: AsyncClient, location: SessionPlace) -> None:
        """Play a session that exists."""
        self.id = location.session_id
        self.client = client
        self._episode = AsyncOrsEpisode(client.server, location, is_ours=True)

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
        """Return the tools of the session."""
        return await self._episode.tools()

    async def call(self, tool: str, /, **arguments: Any) -> ToolOutput:
        """Call a tool and return its output, with the policy's penalties; a charged mistake is an output too.

        Raises:
            CallRefusedError: If the call was not run.
            OrsServerError: If the call failed, and the agent is not to blame.
        """
        return await self.submit(tool, arguments)

    async def submit(self, tool: str, arguments: JSONObject, *, call_id: str | None = None) -> ToolOutput:
        """Call a tool as `call` does, with any names of arguments and an id, which never runs twice."""
        return output_of(await self._episode.call(tool, arguments, call_id=call_id))

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> Sequence[GroupScore]:
        """Score rollouts of the session's task against each other."""
        return await self._episode.score_group(candidates)

    async def fork(self, count: int = 1) -> "list[LocalSession]":
        """Copy the session.

        Args:
            count: Number of copies, at least 1.
        """
        return [
            LocalSession(self.client, location) for location in await self.client.server.fork(self.id, count)
        ]

    async def summary(self) -> EpisodeSummary:
        """Return the episode's figures, also after its end."""
        return figures_of(await self.client.summary(self.id))

    async def steps(self) -> Sequence[Step]:
        """Return the episode's steps, also after its end."""
        return steps_of(await self.client.steps(self.id))

    async def aclose(self) -> None:
        """Delete the session and wait for its teardown."""
        await self._episode.aclose()


class LocalClient:
    """A client of environments in this process.

    Attributes:
        app: The application that runs them.
        client: The client that calls it.
    """

    def __init__(self, app: App, client: AsyncClient) -> None:
        """Play on an application that runs."""
        self.app = app
        self.client = client

    @property
    def engine(self) -> SessionManager:
        """The manager of the sessions."""
        return self.app.manager

    async def create(self, request: SessionRequest | None = None, **requested: Any) -> LocalSession:
        """Create a session from a request, or from its fields, such as `split` and `index`."""
        request = request or SessionRequest(**requested)
        body: Any = {name: getattr(request, name) for name in _REQUESTED}
        location = await self.client.server.create(request.environment, body)
        return LocalSession(self.client, location)


@asynccontextmanager
async def open_environment(
    *environments: type | str | EnvironmentDefinition,
    options: SessionOptions | None = None,
    clock: Clock | None = None,
    store: EpisodeStore | None = None,
    sandbox: BackendRequest | Sandboxes | None = None,
    resources: ResourcePool | None = None,
) -> AsyncGenerator[LocalClient]:
    """Run environments in this process; leaving the context ends all sessions.

    Args:
        *environments: Classes, references as for the command line, or definitions, the default one first.
        store: Where episodes are recorded; memory by default.
        sandbox: The isolation of agents' commands, or prepared sandboxes, which are not closed here; the
            strongest isolation that works by default.
        resources: What sessions share, such as worker processes, not closed here; their own by default.

    Raises:
        UnknownEnvironmentError: If a reference is unknown.
        EnvironmentDefinitionError: If an environment breaks a rule.
        SandboxUnavailableError: If the requested isolation does not work here.
    """
    definitions = [definition for item in environments for definition in definitions_of(item)]
    in_process = InProcess(options, sandbox, resources)
    async with (
        open_in_process(definitions, in_process, clock=clock, store=store) as app,
        app.client() as client,
    ):
        yield LocalClient(app, client)


def output_of(result: CallResult) -> ToolOutput:
    """Return the output of a call, or raise `CallRefusedError` if it was neither run nor charged."""
    if result.refusal is None or refusal_of(result.output) is not None:
        return result.output
    raise CallRefusedError(RefusalReason(result.refusal), result.text)


def figures_of(summary: EpisodeSummary) -> EpisodeSummary:
    """Return the figures of a client's summary, as the record has them."""
    return EpisodeSummary(**{field.name: getattr(summary, field.name) for field in fields(EpisodeSummary)})


def steps_of(steps: Sequence[JSONObject]) -> list[Step]:
    """Return the steps of a client, as the record has them."""
    return [STEP.of_json(step) for step in steps]


def text_of(blocks: Sequence[Any]) -> str:
    """Return the texts of blocks as paragraphs; other blocks are left out."""
    return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
