"""The end of a session: everything is stopped, the record closed, the environment torn down, each once.

Author code that ignores its stop delays the answer only briefly; the environment, which that code may still
touch, is torn down when the code has ended, or a longer limit later.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import anyio

from ors_server.environments.definition import EnvironmentDefinition, Instance
from ors_server.model.episode import EpisodeEvent, StopReason
from ors_server.model.errors import OrsServerError, SessionDeletedError, ShuttingDownError, StoreError
from ors_server.model.logs import get_logger
from ors_server.sessions.call_runner import CallRunner, MakeError
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.lifecycle import Setup, tear_down
from ors_server.sessions.reward_view import RewardView
from ors_server.sessions.session_call import Concurrency
from ors_server.sessions.snapshots import Snapshots
from ors_server.timing.call_clock import make_scope

log = get_logger("ors_server.session")

Release: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session consists of, as its end needs it."""

    recorder: EpisodeRecorder
    definition: EnvironmentDefinition
    instance: Instance
    runner: CallRunner
    setup: Setup
    reward_view: RewardView
    snapshots: Snapshots | None


class SessionEnding:
    """Ends a session once, in the background; it continues if the caller disconnects."""

    __slots__ = ("_is_recorded", "_make_error", "_on_end", "_parts", "_services", "answered", "released")

    def __init__(
        self,
        parts: SessionParts,
        event: EpisodeEvent,
        reason: StopReason,
        *,
        server_stops: bool,
        on_end: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._on_end = on_end
        self._services = parts.recorder.services
        self.answered = asyncio.Event()
        """Set when the request to end the session can be answered."""
        self.released = asyncio.Event()
        """Set when nothing is left of the session, its environment included."""
        self._is_recorded = False
        self._make_error: MakeError = partial(SessionDeletedError, "Session deleted")
        if server_stops:
            self._make_error = partial(ShuttingDownError, "the server is shutting down")
        parts.runner.end(self._make_error)
        self._services.spawn(self._run, event, reason)

    async def _run(self, event: EpisodeEvent, reason: StopReason) -> None:
        parts = self._parts
        session_id = parts.recorder.origin.session_id
        in_order: tuple[Release, ...] = (
            self._stop_everything,
            partial(parts.recorder.end, event, reason),
            self._wait_for_code,
            partial(tear_down, parts.definition, parts.instance, self._services, session_id),
            parts.reward_view.aclose,
            *(() if parts.snapshots is None else (parts.snapshots.aclose,)),
            parts.setup.release,
            self._close_record,
            self._log_end,
        )
        try:
            with make_scope(shield=True):
                await self._release_all(in_order)
        finally:
            self.released.set()
            self._answer()

    def _answer(self) -> None:
        """Answer the requests that wait for the end, and have the session taken out, once."""
        if not self.answered.is_set():
            self.answered.set()
            # The callback holds the session, which holds this.
            on_end, self._on_end = self._on_end, lambda: None
            on_end()

    async def _release_all(self, in_order: Sequence[Release]) -> None:
        """Release one after another; a failure does not keep the rest from being released."""
        for position, release in enumerate(in_order):
            try:
                await release()
            except Exception as error:  # noqa: BLE001  (a defect of ours must not keep what comes after it)
                self._log_failure(error)
            except BaseException:
                await self._release_all(in_order[position + 1 :])
                raise

    def _log_failure(self, error: Exception) -> None:
        session_id = self._parts.recorder.origin.session_id
        if isinstance(error, StoreError):
            log.warning("episode_not_closed", session_id=session_id, error=str(error))
        elif isinstance(error, OrsServerError):
            log.warning("sandbox_not_closed", session_id=session_id, error=str(error))
        else:
            log.error("session_not_released", session_id=session_id, exc_info=error)

    async def _close_record(self) -> None:
        if not self._is_recorded:
            self._is_recorded = True
            await self._parts.recorder.close()

    async def _stop_everything(self) -> None:
        """Stop calls and setup, waiting a while for code that ignores it."""
        limit = self._services.options.ending_time_limit
        until = time.monotonic() + limit
        await self._parts.runner.calls.stop(limit, self._make_error)
        self._parts.setup.abandon()
        if self._is_code_running:
            with make_scope(deadline=until):
                await self._until_code_ended()

    @property
    def _is_code_running(self) -> bool:
        """Whether code of the author's may still touch the environment."""
        return not self._parts.runner.turns.is_idle or self._parts.setup.lingers

    async def _wait_for_code(self) -> None:
        """Answer the request, then wait for code that ignored its cancellation."""
        if not self._is_code_running:
            return
        await self._release_all((self._close_record,))
        self._answer()
        with anyio.move_on_after(self._services.options.lingering_time_limit) as scope:
            await self._until_code_ended()
        if scope.cancelled_caught:
            session_id = self._parts.recorder.origin.session_id
            log.warning(
                "author_code_outlives_session",
                session_id=session_id,
                hint="a tool or setup outlives its session",
            )

    async def _until_code_ended(self) -> None:
        """Wait until no code of the author's can touch the environment any more."""
        await self._parts.setup.until_gone()
        if not self._parts.runner.turns.is_idle:
            await self._parts.runner.turns.acquire(Concurrency.EXCLUSIVE)
            self._parts.runner.turns.release(Concurrency.EXCLUSIVE)

    async def _log_end(self) -> None:
        if self._parts.recorder.has_stopped_writing:
            session_id = self._parts.recorder.origin.session_id
            log.info("session_suspended", session_id=session_id, environment=self._parts.definition.name)
            return
        state = self._parts.recorder.current_state()
        log.info(
            "episode",
            session_id=self._parts.recorder.origin.session_id,
            environment=self._parts.definition.name,
            phase=state.phase.value,
            stop_reason=None if state.stop_reason is None else state.stop_reason.value,
            steps=state.steps,
            episode_return=state.episode_return,
            penalty_sum=state.penalty_sum,
            unjudged_steps=state.unjudged_steps,
        )
