"""An open episode, over the Open Reward Standard or MCP, with a ledger of every received reward."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from typing_extensions import override

from ors_server.client.call_arguments import check_arguments, check_call_id, new_call_id
from ors_server.client.call_result import OVER, CallResult, read_blocks, read_known, text_of
from ors_server.client.call_streams import ToolCaller
from ors_server.client.client_errors import ClosedError, SumMismatchError
from ors_server.client.connection import Connection
from ors_server.client.ledger import Ledger, Receipt
from ors_server.client.server import MODEL_TURNS, Server, SessionPlace
from ors_server.client.session_summary import Summary
from ors_server.client.typed_answers import LISTED, read_answer
from ors_server.model.errors import (
    Blame,
    ClientError,
    NotSupportedError,
    OrsServerError,
    SessionDeletedError,
    SessionNotFoundError,
)
from ors_server.model.logs import get_logger
from ors_server.model.model_turn import ModelTurn, check_model_turn
from ors_server.model.wire import Block, GroupCandidate, GroupScore, JSONObject, Message, ToolListing

log = get_logger("ors_server.client")


class AsyncEpisode(ABC):
    """An episode that this client plays; its `ledger` has the received rewards, call by call."""

    def __init__(self, place: SessionPlace, ledger: Ledger | None = None) -> None:
        """Play a session; the ledger continues one, if there is one."""
        self.place = place
        self.ledger = ledger or Ledger()
        self._final: Summary | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.place.session_id

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return self.place.environment

    @property
    def access(self) -> Mapping[str, str]:
        """`agent_url`, `mcp_url` and `agent_token`, for an agent that plays; empty from other servers."""
        return self.place.access

    @property
    def finished(self) -> bool:
        """Whether an answer has reported the end of the episode."""
        return self.ledger.finished

    async def prompt(self) -> str:
        """Return the prompt's text, after setup; images are left out."""
        return text_of(await self.blocks())

    @abstractmethod
    async def blocks(self) -> list[Block]:
        """Return the prompt's blocks, after setup."""

    @abstractmethod
    async def messages(self) -> list[Message]:
        """Return the prompt as a conversation, after setup; one user message by default."""

    @abstractmethod
    async def tools(self) -> ToolListing:
        """Return the tools of the session."""

    @abstractmethod
    async def summary(self) -> Summary:
        """Return the server's figures, also after the end; `NotSupportedError` if it has no summary."""

    @abstractmethod
    async def _send(
        self, call_id: str, tool: str, arguments: JSONObject, model_turn: JSONObject | None
    ) -> CallResult:
        """Make one call, which runs at most once."""

    @abstractmethod
    async def _ping(self) -> None:
        """Keep the session alive."""

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str | None = None,
        model_turn: ModelTurn | Mapping[str, Any] | None = None,
    ) -> CallResult:
        """Call a tool, and add its reward to the ledger.

        The call runs at most once and is paid once, also if a connection breaks. A refused call is a result.

        Args:
            call_id: Your own id for the call; random by default. An ors-server answers the same id from its
                record.
            model_turn: What the model wrote before the call, which an ors-server keeps with the step; other
                servers do not get it.

        Raises:
            InvalidRequestError: If the arguments are not a mapping from names to JSON values, or the turn
                cannot be recorded.
            CallTimeoutError: If the client's own time limit is over; the call may still run.
            CallLostError: If the answer is lost, and a repetition could run the call twice.
            OrsServerError: If the call failed, and the agent is not to blame.
        """
        own_id = check_call_id(call_id) or new_call_id()
        checked = check_arguments(tool, arguments)
        turn = None if model_turn is None else check_model_turn(model_turn)
        # Before the call is sent: if its answer is lost, the server may have counted the step.
        self.ledger.expect(own_id)
        try:
            result = await self._send(own_id, tool, checked, turn)
        except OrsServerError as error:
            if error.blame is Blame.AUTHOR:
                self.ledger.note(Receipt(own_id, is_failure=True))
            raise
        self.ledger.note(
            Receipt(
                own_id,
                reward=result.reward,
                finished=result.finished,
                step=result.step,
                is_step=result.refusal != OVER,
            )
        )
        return result

    async def check(self) -> Summary:
        """Compare the received rewards with the server's figures, and return the figures.

        Raises:
            SumMismatchError: If the sums are not the same float, or steps or end differ.
            NotSupportedError: If the server has no figures.
        """
        summary = await self.summary()
        try:
            self.ledger.check(summary)
        except SumMismatchError:
            # Only now, because reading all steps costs a request per page; the second check raises with the
            # names of the foreign steps.
            foreign_steps: Sequence[str] | None = None
            with suppress(OrsServerError):  # the record cannot be read from here
                foreign_steps = self.ledger.name_strangers(await self.steps())
            self.ledger.check(summary, foreign_steps)
            raise
        return summary

    async def steps(self) -> Sequence[JSONObject]:
        """Return the server's record of every step, of any client, in order; also after the end.

        Raises:
            NotSupportedError: If the server keeps none that can be read from here.
            ForbiddenError: If the credential may not read it.
        """
        raise NotSupportedError("steps can only be read from an ors-server, with a trainer's key")

    async def keep_alive(self, connection: Connection) -> None:
        """Ping the session until it has ended."""
        while True:
            await connection.clock.sleep(connection.patience.ping_seconds)
            try:
                await self._ping()
            except (SessionNotFoundError, SessionDeletedError, ClosedError):
                return
            except OrsServerError as error:
                log.warning("ping_failed", session_id=self.session_id, error=str(error))


class AsyncOrsEpisode(AsyncEpisode):
    """An episode that is played over the Open Reward Standard."""

    def __init__(
        self, server: Server, place: SessionPlace, *, is_ours: bool, ledger: Ledger | None = None
    ) -> None:
        """Play a session; `is_ours` says that the server is an ors-server."""
        super().__init__(place, ledger)
        self._server = server
        self._is_ours = is_ours
        self._caller = ToolCaller(
            server.connection, place.environment, place.session_id, knows_call_ids=is_ours
        )

    @override
    async def blocks(self) -> list[Block]:
        return list(read_blocks(await self._about("prompt")))

    @override
    async def messages(self) -> list[Message]:
        try:
            answer = await self._about("messages")
        except ClientError:
            if self._is_ours:
                raise
            return [Message(role="user", blocks=[*await self.blocks()])]
        return [read_known(Message, message) for message in read_answer(LISTED, answer, "the prompt")]

    @override
    async def tools(self) -> ToolListing:
        return read_known(ToolListing, await self._about("task_tools"))

    @override
    async def summary(self) -> Summary:
        if self._final is not None:
            return self._final
        if not self._is_ours:
            raise NotSupportedError(
                "this server has only the Open Reward Standard, which has no summary of an episode; "
                "the ledger has the rewards that this client received"
            )
        return Summary.of(await self._server.status(self.session_id))

    @override
    async def _send(
        self, call_id: str, tool: str, arguments: JSONObject, model_turn: JSONObject | None
    ) -> CallResult:
        # Another server, or an older one of ours, would refuse the unknown field.
        attached = model_turn if MODEL_TURNS in self._server.features else None
        return await self._caller.call(call_id, tool, arguments, attached)

    @override
    async def steps(self) -> Sequence[JSONObject]:
        if not self._is_ours:
            return await super().steps()
        return await self._server.all_steps(self.session_id)

    @override
    async def _ping(self) -> None:
        await self._server.ping(self.session_id)

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> list[GroupScore]:
        """Score rollouts of the session's task against each other; this is not a step of the episode.

        Raises:
            NotSupportedError: If the environment scores no groups.
            EnvironmentFailedError: If its scoring failed.
        """
        return await self._caller.score_group(candidates)

    async def aclose(self) -> None:
        """Delete the session after its teardown; the summary stays readable."""
        answer = await self._server.delete(self.session_id)
        if answer is not None:
            self._final = Summary.of(answer)

    async def _about(self, endpoint: str) -> Any:
        return await self._server.about(self.environment, endpoint, session_id=self.session_id)


@asynccontextmanager
async def kept_open(
    episode: AsyncEpisode, connection: Connection, close: Sequence[Any]
) -> AsyncGenerator[None]:
    """Ping an episode's session, and call the `close` functions when the body ends or is cancelled."""
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(episode.keep_alive, connection)
            try:
                yield
            except Exception as error:  # noqa: BLE001  (raised below, outside the group)
                failure = error
            # The pings end before the session is deleted, so none of them finds it missing.
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(connection.patience.closing_seconds, shield=True):
            for step in close:
                try:
                    await step()
                except OrsServerError as error:
                    log.warning("close_failed", session_id=episode.session_id, error=str(error))
    if failure is not None:
        raise failure
