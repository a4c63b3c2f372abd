"""One session: an environment instance, its episode, and every call made on it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from uuid import uuid4

import anyio
import structlog

from ors_server.authoring.client import CallingClient, NoClient
from ors_server.authoring.context import CallContext, ProgressListener
from ors_server.authoring.definition import (
    Blocks,
    EnvironmentDefinition,
    Instance,
    ToolsetDefinition,
)
from ors_server.episode import Event, StopReason
from ors_server.errors import (
    CallCancelledError,
    EnvironmentFailedError,
    NotSupportedError,
    OrsServerError,
    SessionDeletedError,
    ShuttingDownError,
    StoreError,
    UnknownCallError,
)
from ors_server.sessions.book import EpisodeBook
from ors_server.sessions.calls import Call, CallResult, Fault, Refusal, Scored
from ors_server.sessions.order import SessionStatus
from ors_server.sessions.play import Play
from ors_server.sessions.services import Services
from ors_server.sessions.tools import SessionTools
from ors_server.sessions.turns import Manner
from ors_server.visibility import Visibility
from ors_server.wire import GroupCandidate, JSONObject, Message, ToolListing

log = structlog.get_logger("ors_server.session")

NO_CLIENT = NoClient()

AFTER_END_KEPT = 64
"""Refused calls after the end whose answers stay readable; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class ReadResource:
    """A resource's content."""

    uri: str
    mime_type: str
    content: str | bytes


class Session:
    """One play of one task, from creation to deletion."""

    __slots__ = (
        "_after_end",
        "_calls",
        "_closed",
        "_closing",
        "_instance",
        "_last_request",
        "_play",
        "_ready",
        "_running",
        "_services",
        "_setup_error",
        "_setup_scope",
        "_tools",
        "book",
        "definition",
        "visibility",
    )

    def __init__(
        self,
        book: EpisodeBook,
        definition: EnvironmentDefinition,
        instance: Instance,
        services: Services,
        *,
        visibility: Visibility,
        toolset: ToolsetDefinition | None = None,
    ) -> None:
        """Take over an instance that was just made; `start` begins its setup.

        Args:
            book: The episode's book.
            definition: The environment.
            instance: The environment object of this session.
            services: What all sessions share.
            visibility: What an agent sees of rewards.
            toolset: The toolset that the creator asked for.
        """
        self.book = book
        self.definition = definition
        self.visibility = visibility
        self._instance = instance
        self._services = services
        self._tools = SessionTools(definition, instance, toolset)
        self._play = Play(book, self._tools, services, self._why_cancelled)
        self._calls: dict[str, Call] = {}
        self._after_end: list[str] = []
        self._running: set[Call] = set()
        self._ready: anyio.Event | None = None
        self._setup_error: OrsServerError | None = None
        self._setup_scope: anyio.CancelScope | None = None
        self._closing: StopReason | None = None
        self._closed: anyio.Event | None = None
        self._last_request = services.clock.monotonic()

    @property
    def id(self) -> str:
        """The session's id."""
        return self.book.origin.session_id

    @property
    def setup_error(self) -> OrsServerError | None:
        """Why setup failed, if it did."""
        return self._setup_error

    def touch(self) -> None:
        """Note that somebody asked for this session."""
        self._last_request = self._services.clock.monotonic()

    def idle_seconds(self, now: float) -> float:
        """Return how long nobody has asked for this session; a running call or setup counts as being asked for.

        Args:
            now: Seconds from the clock's origin.
        """
        busy = bool(self._running) or self._setup_scope is not None
        return 0.0 if busy else now - self._last_request

    def status(self) -> SessionStatus:
        """Return the session as a trainer sees it."""
        self.book.refusal("")
        return SessionStatus(
            origin=self.book.origin,
            summary=self.book.summary(),
            visibility=self.visibility,
            idle_seconds=self.idle_seconds(self._services.clock.monotonic()),
            running_calls=len(self._running),
            setup_error=None if self._setup_error is None else str(self._setup_error),
        )

    def start(self) -> None:
        """Begin setup in the background; without one the session is ready at once."""
        if self.definition.hooks.setup is None:
            self.book.note(Event.SETUP_DONE)
            return
        self._ready = anyio.Event()
        self._setup_scope = anyio.CancelScope()
        self._services.spawn(self._set_up, self.definition.hooks.setup, self._setup_scope, self._ready)

    async def prompt(self) -> Blocks:
        """Return the prompt, after setup.

        Raises:
            EnvironmentFailedError: If setup or the environment's method failed.
            SessionDeletedError: If the session is deleted meanwhile.
        """
        await self._until_ready()
        return await self.definition.hooks.prompt(self._instance)

    async def messages(self) -> list[Message]:
        """Return the prompt as a conversation, after setup.

        Raises:
            EnvironmentFailedError: If setup or the environment's method failed.
            SessionDeletedError: If the session is deleted meanwhile.
        """
        await self._until_ready()
        return await self.definition.hooks.messages(self._instance)

    async def tools(self) -> ToolListing:
        """Return every tool that this session offers, without waiting for setup.

        Raises:
            EnvironmentFailedError: If setup or the environment's method failed.
        """
        if self._setup_error is not None:
            raise self._setup_error
        return await self._tools.listing()

    async def offered_prompt(
        self, name: str, arguments: Mapping[str, str], client: CallingClient | None = None
    ) -> list[Message]:
        """Render a prompt that the environment offers besides its task, after setup.

        Args:
            name: The prompt's name.
            arguments: Its arguments.
            client: The calling program.

        Raises:
            NotSupportedError: If the environment offers no such prompt.
        """
        offer = self.definition.offers.prompts.get(name)
        if offer is None:
            raise NotSupportedError(f"environment {self.definition.name!r} offers no prompt {name!r}")
        await self._until_ready()
        return await offer.call(self._instance, arguments, self._context("", client))

    async def read_resource(self, uri: str, client: CallingClient | None = None) -> ReadResource:
        """Read a resource that the environment offers, after setup.

        Args:
            uri: The resource's name.
            client: The calling program.

        Raises:
            NotSupportedError: If the environment offers no such resource.
        """
        found = self.definition.offers.find_resource(uri)
        if found is None:
            raise NotSupportedError(f"environment {self.definition.name!r} offers no resource {uri!r}")
        await self._until_ready()
        offer, arguments = found
        content = await offer.read(self._instance, arguments, self._context("", client))
        return ReadResource(uri, offer.mime_type, content)

    def begin(
        self,
        tool: str,
        arguments: JSONObject,
        *,
        call_id: str | None = None,
        listener: ProgressListener | None = None,
        client: CallingClient | None = None,
    ) -> Call:
        """Begin a call, or return the one that has this id already; it runs on whoever leaves.

        Args:
            tool: The tool's name.
            arguments: As the agent sent them.
            call_id: The caller's own id; `None` makes one.
            listener: Told of progress.
            client: The calling program, of which the tool may ask something.

        Raises:
            EnvironmentFailedError: If setup has failed.
        """
        if self._setup_error is not None:
            raise type(self._setup_error)(str(self._setup_error))
        known = None if call_id is None else self._calls.get(call_id)
        call = known or self._enter(Call(call_id or uuid4().hex, tool, arguments, client=client or NO_CLIENT))
        if listener is not None and not call.is_done:
            call.listeners.append(listener)
        if known is None:
            self._services.spawn(self._run, call, self._perform)
        return call

    def begin_scoring(self, candidates: list[GroupCandidate], *, call_id: str | None = None) -> Call:
        """Begin to score a group of rollouts of this session's task; it is no step of the episode.

        Args:
            candidates: The rollouts.
            call_id: The caller's own id; `None` makes one.

        Raises:
            NotSupportedError: If the environment scores no groups.
        """
        hook = self.definition.hooks.score_group
        if hook is None:
            raise NotSupportedError(f"Environment {self.definition.name!r} does not implement score_group")
        known = None if call_id is None else self._calls.get(call_id)
        if known is not None:
            return known

        async def perform(_call: Call) -> CallResult:
            await self._until_ready()
            return Scored(tuple(await hook(self._instance, candidates)))

        call = self._enter(Call(call_id or uuid4().hex, "score_group", {}))
        self._services.spawn(self._run, call, perform)
        return call

    def resume(self, call_id: str) -> Call:
        """Return the call of that id.

        Args:
            call_id: The id.

        Raises:
            UnknownCallError: If this session knows no such call.
        """
        call = self._calls.get(call_id)
        if call is None:
            raise UnknownCallError("unknown task_id")
        return call

    async def aclose(self, event: Event, reason: StopReason) -> None:
        """End the session: stop its calls and its setup, tear the environment down once, close the record.

        Args:
            event: `DELETE` or `EXPIRE`.
            reason: The stop reason of an episode that was not over yet.
        """
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = anyio.Event()
        self._closing = reason
        with anyio.CancelScope(shield=True):
            try:
                await self._stop_everything()
                self.book.note(event, reason)
                await self._tear_down()
                await self.book.close()
            except StoreError as error:
                log.warning("episode_not_closed", session_id=self.id, error=str(error))
            finally:
                self._closed.set()
        self._log_end()

    def _context(self, call_id: str, client: CallingClient | None) -> CallContext:
        step = self.book.state.steps + 1
        return CallContext(self.id, call_id, step, self.book.origin.task_spec, [], client or NO_CLIENT)

    def _enter(self, call: Call) -> Call:
        self._calls[call.id] = call
        self._running.add(call)
        return call

    async def _run(self, call: Call, perform: Callable[[Call], Awaitable[CallResult]]) -> None:
        result: CallResult | None = None
        try:
            with anyio.CancelScope() as scope:
                call.scope = scope
                if self._closing is not None:
                    scope.cancel()
                result = await perform(call)
            result = result or Fault(self._why_cancelled())
        except OrsServerError as error:
            result = Fault(error)
        except Exception:  # the border between a defect of ours and everybody else's calls
            log.exception("call_defect", session_id=self.id, tool=call.tool)
            result = Fault(OrsServerError("the server failed; its log has the details"))
        finally:
            self._running.discard(call)
            call.resolve(result or Fault(ShuttingDownError("the server is shutting down")))
            self.touch()
            self._forget_after_end(call)
            log.debug("call", session_id=self.id, tool=call.tool, call_id=call.id, result=type(result).__name__)

    async def _perform(self, call: Call) -> CallResult:
        await self._until_ready()
        return await self._play.perform(call)

    def _why_cancelled(self) -> OrsServerError:
        if self._closing is not None:
            return SessionDeletedError("Session deleted")
        return CallCancelledError("the call was cancelled")

    def _forget_after_end(self, call: Call) -> None:
        result = call.result
        if isinstance(result, Refusal) and result.step is None:
            self._after_end.append(call.id)
            if len(self._after_end) > AFTER_END_KEPT:
                self._calls.pop(self._after_end.pop(0), None)

    async def _set_up(
        self, hook: Callable[[Instance], Awaitable[None]], scope: anyio.CancelScope, ready: anyio.Event
    ) -> None:
        limit = self.book.policy.setup_time_limit
        try:
            with scope:
                if limit is not None:
                    scope.deadline = anyio.current_time() + limit
                await hook(self._instance)
            if scope.cancelled_caught and self._closing is None:
                self._setup_error = EnvironmentFailedError(f"setup did not end within {limit:g} seconds")
        except OrsServerError as error:
            self._setup_error = error
        finally:
            self._setup_scope = None
            self.touch()
            self._note_setup()
            ready.set()

    def _note_setup(self) -> None:
        if self._setup_error is not None:
            self.book.note(Event.SETUP_FAILED, StopReason.FAILED)
            log.warning("setup_failed", session_id=self.id, exc_info=self._setup_error)
        elif self._closing is None:
            self.book.note(Event.SETUP_DONE)

    async def _until_ready(self) -> None:
        if self._ready is not None and not self._ready.is_set():
            await self._ready.wait()
        if self._closing is not None:
            raise SessionDeletedError("Session deleted")
        if self._setup_error is not None:
            raise type(self._setup_error)(str(self._setup_error))

    async def _stop_everything(self) -> None:
        if self._setup_scope is not None:
            self._setup_scope.cancel()
        for call in list(self._running):
            call.cancel()
        for call in list(self._running):
            await call.wait()
        if self._ready is not None:
            await self._ready.wait()
        with anyio.move_on_after(self._services.stray_time_limit) as scope:
            await self._play.turns.take(Manner.EXCLUSIVE)
        if scope.cancelled_caught:
            log.warning("stray_thread", session_id=self.id, hint="a blocking tool ignores its cancellation")

    async def _tear_down(self) -> None:
        hook = self.definition.hooks.teardown
        if hook is None:
            return
        try:
            with anyio.fail_after(self._services.teardown_time_limit):
                await hook(self._instance)
        except (OrsServerError, TimeoutError) as error:
            log.warning("teardown_failed", session_id=self.id, exc_info=error)

    def _log_end(self) -> None:
        summary = self.book.summary()
        log.info(
            "episode",
            session_id=self.id,
            environment=self.definition.name,
            phase=summary.phase,
            stop_reason=summary.stop_reason,
            steps=summary.steps,
            episode_return=summary.episode_return,
            penalty_sum=summary.penalty_sum,
        )


