"""The end of a session: everything is stopped, the record closed, the environment torn down, each once.

Author code that ignores its stop delays the answer only briefly; the environment, which that code may still
touch, is torn down when the code has ended, or a longer limit later.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import anyio

from ors_server.authoring.definition import EnvironmentDefinition, Instance
from ors_server.episode import Event, StopReason
from ors_server.errors import OrsServerError, StoreError
from ors_server.logs import get_logger
from ors_server.sessions.book import EpisodeBook
from ors_server.sessions.lifecycle import Setup, tear_down
from ors_server.sessions.own_episode import OwnEpisode
from ors_server.sessions.snapshots import Snapshots
from ors_server.sessions.table import CallTable
from ors_server.sessions.turns import Manner, Turns

log = get_logger("ors_server.session")


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session consists of, as its end needs it."""

    book: EpisodeBook
    definition: EnvironmentDefinition
    instance: Instance
    calls: CallTable
    turns: Turns
    setup: Setup
    own: OwnEpisode
    snapshots: Snapshots


class Ending:
    """Ends one session, once."""

    __slots__ = ("_answered", "_is_recorded", "_parts", "_released", "_services")

    def __init__(self, parts: SessionParts) -> None:
        """Keep what will have to be ended.

        Args:
            parts: Of the session.
        """
        self._parts = parts
        self._services = parts.book.services
        self._answered: anyio.Event | None = None
        self._released = anyio.Event()
        self._is_recorded = False

    @property
    def has_begun(self) -> bool:
        """Whether somebody has ended the session."""
        return self._answered is not None

    @property
    def is_answered(self) -> bool:
        """Whether whoever ended it need not wait any more."""
        return self._answered is not None and self._answered.is_set()

    async def aclose(self, event: Event, reason: StopReason) -> None:
        """End the session; as `Session.aclose`.

        Args:
            event: `DELETE` or `EXPIRE`.
            reason: The stop reason of an episode that was not over yet.
        """
        if self._answered is None:
            self._answered = anyio.Event()
            self._services.spawn(self._run, event, reason, self._answered)
        await self._answered.wait()

    async def until_released(self) -> None:
        """Wait until nothing is left of the session, its environment included."""
        await self._released.wait()

    async def _run(self, event: Event, reason: StopReason, answered: anyio.Event) -> None:
        parts = self._parts
        in_order = (
            partial(parts.book.end, event, reason),
            partial(self._let_code_end, answered),
            self._tear_down,
            parts.own.aclose,
            parts.snapshots.aclose,
            parts.setup.release,
            self._close_record,
        )
        try:
            with anyio.CancelScope(shield=True):
                async with AsyncExitStack() as stack:  # whatever fails, the rest is released all the same
                    stack.callback(self._log_end)
                    for release in reversed(in_order):
                        stack.push_async_callback(self._log_failure, release)
                    await self._stop_everything(self._services.ending_time_limit)
        finally:
            answered.set()
            self._released.set()

    async def _log_failure(self, release: Callable[[], Awaitable[None]]) -> None:
        session_id = self._parts.book.origin.session_id
        try:
            await release()
        except StoreError as error:
            log.warning("episode_not_closed", session_id=session_id, error=str(error))
        except OrsServerError as error:
            log.warning("sandbox_not_closed", session_id=session_id, error=str(error))
        except Exception:  # a defect of ours must not keep what comes after it
            log.exception("session_not_released", session_id=session_id)

    async def _close_record(self) -> None:
        if not self._is_recorded:
            self._is_recorded = True
            await self._parts.book.close()

    async def _tear_down(self) -> None:
        parts = self._parts
        await tear_down(parts.definition, parts.instance, self._services, parts.book.origin.session_id)

    async def _stop_everything(self, limit: float) -> None:
        """Stop calls and setup, waiting so many seconds for code that ignores it."""
        until = anyio.current_time() + limit
        await self._parts.calls.stop(limit)
        await self._parts.setup.stop(until - anyio.current_time())
        with anyio.move_on_after(until - anyio.current_time()):
            await self._until_untouched()

    async def _let_code_end(self, answered: anyio.Event) -> None:
        """Let code that ignored its stop come to its end, while whoever ended the session no longer waits."""
        if self._parts.turns.is_idle and not self._parts.setup.lingers:
            return
        await self._log_failure(self._close_record)
        answered.set()
        with anyio.move_on_after(self._services.stray_time_limit) as scope:
            await self._until_untouched()
        if scope.cancelled_caught:
            session_id = self._parts.book.origin.session_id
            log.warning("stray_code", session_id=session_id, hint="a tool or setup outlives its session")

    async def _until_untouched(self) -> None:
        """Wait until no code of the author's can touch the environment any more."""
        await self._parts.setup.until_gone()
        if not self._parts.turns.is_idle:
            async with self._parts.turns.turn(Manner.EXCLUSIVE):
                pass

    def _log_end(self) -> None:
        state = self._parts.book.standing()
        log.info(
            "episode",
            session_id=self._parts.book.origin.session_id,
            environment=self._parts.definition.name,
            phase=state.phase.value,
            stop_reason=None if state.stop_reason is None else state.stop_reason.value,
            steps=state.steps,
            episode_return=state.episode_return,
            penalty_sum=state.penalty_sum,
        )
