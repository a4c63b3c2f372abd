"""The book of one episode: its standing, moved only here, and written to the store before anybody is told."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import anyio

from ors_server.call_clock import CallClock
from ors_server.episode import (
    Charge,
    EpisodeState,
    Event,
    Metric,
    Outcome,
    OutcomeKind,
    StopReason,
    lapse,
    move,
    remaining_time,
    settle,
)
from ors_server.errors import OrsServerError, StoreError
from ors_server.policy import EpisodePolicy
from ors_server.sessions.arguments import recordable
from ors_server.sessions.calls import Call, CallResult, Completed, Fault, Refusal, RefusalReason
from ors_server.sessions.output import EPISODE_KEY, state_episode, tell_agent
from ors_server.sessions.services import Services
from ors_server.trajectory import EpisodeOrigin, EpisodeSummary, Step, StepStatus, Transition
from ors_server.wire import ToolOutput

_STATUS = {
    OutcomeKind.INVALID_CALL: StepStatus.REFUSED,
    OutcomeKind.FAULT: StepStatus.FAILED,
    OutcomeKind.CANCELLED: StepStatus.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One call that is to be counted."""

    outcome: Outcome
    started: float
    """Seconds from the clock's origin."""
    output: ToolOutput | None = None
    """Content for the agent."""
    refusal: Refusal | None = None
    """Why the call was not run."""
    error: OrsServerError | None = None
    """The fault that is nobody's but the author's or the caller's."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A counted call on its way to the store."""

    call: Call
    step: Step
    state: EpisodeState
    """The standing after the step."""
    result: CallResult


class EpisodeBook:
    """Keeps an episode's standing and its record in step."""

    __slots__ = ("_counting", "_unwritten", "clocks", "origin", "policy", "services", "state", "went_back_to")

    def __init__(self, origin: EpisodeOrigin, policy: EpisodePolicy, services: Services) -> None:
        """Open an episode that is still being set up.

        Args:
            origin: Where it comes from.
            policy: Its rules.
            services: The clock and the store.
        """
        self.origin = origin
        self.policy = policy
        self.services = services
        self._counting = anyio.Lock(fast_acquire=True)
        self._unwritten: _Page | None = None
        self.state = EpisodeState(created_at=services.clock.monotonic())
        self.clocks: set[CallClock] = set()
        """Of the calls that run."""
        self.went_back_to: int | None = None
        """Number of the step after which a snapshot was taken that was restored since the last step."""

    @property
    def now(self) -> float:
        """Seconds from the clock's origin."""
        return self.services.clock.monotonic()

    @property
    def remaining_time(self) -> float | None:
        """Seconds of play that are left; `None` without a limit."""
        if self.policy.time_limit is None:
            return None
        return remaining_time(self.state, self.policy, self._played_until)

    async def open(self) -> None:
        """Write the episode's origin.

        Raises:
            StoreError: If the store failed.
        """
        await self.services.store.open(self.origin)

    async def go_on(self, state: EpisodeState, steps: Sequence[Step]) -> None:
        """Open an episode that goes on from where another one stood.

        Args:
            state: The standing to begin with.
            steps: The other's steps up to there, in order.

        Raises:
            StoreError: If the store failed.
        """
        self.state = state
        await self.open()
        summary = self._summarise(state)
        for step in steps:
            await self.services.store.append(self.origin.episode_id, step, summary)

    def note(self, event: Event, reason: StopReason | None = None) -> None:
        """Move the episode by something that is not a step; one whose time was up ended at that moment.

        Args:
            event: What happened.
            reason: Why the episode ended, for events that end it.
        """
        self._turn(move(self.standing(), event, self.now, reason), event)

    def fail(self) -> None:
        """End an episode whose environment cannot go on, unless it is over."""
        if not self.standing().is_over:
            self.note(Event.BREAK, StopReason.FAILED)

    def standing(self) -> EpisodeState:
        """Return the episode as it stands now; looking changes nothing, though its time may be up."""
        if self.policy.time_limit is None:
            return self.state
        return lapse(self.state, self.policy, self._played_until)

    def refusal(self, tool: str) -> Refusal | None:
        """Say why no call may run now, or `None` if one may.

        Args:
            tool: The tool that is asked for.
        """
        standing = self.standing()
        if not standing.is_over:
            return None
        return Refusal(RefusalReason.EPISODE_FINISHED, f"{tool!r} was not run: {_ending(standing)}")

    async def count(self, call: Call, entry: Entry) -> CallResult:
        """Count one call: move the standing, write the step, and say what its caller is told.

        Args:
            call: The call.
            entry: What came of it.

        Returns:
            The call's result. If the episode ended while the call ran, the result is discarded and nothing is
            paid.

        Raises:
            StoreError: If the step could not be written; then the standing has not moved, and the step waits
                for `catch_up`.
        """
        with call.seal():
            async with self._counting:
                await self._write()
                if self.state.is_over:
                    text = f"the result of {call.tool!r} was discarded: {_ending(self.state)}"
                    return Refusal(RefusalReason.EPISODE_FINISHED, text)
                now = self.now
                state, charge = settle(self.state, self.policy, entry.outcome, now)
                result = self._result(entry, charge, state, now)
                self._unwritten = _Page(call, self._step(call, entry, charge, result, now), state, result)
                await self._write()
                return result

    async def catch_up(self, call: Call | None = None) -> CallResult | None:
        """Write the step that the store would not take, so that no tool runs before what it did is on record.

        Args:
            call: A call that is about to run, if one is.

        Returns:
            The result of the step that was written, if it is this very call's, asked for again.

        Raises:
            StoreError: If the store still fails.
        """
        if self._unwritten is None:
            return None
        page: _Page | None = None
        with anyio.CancelScope(shield=True):
            async with self._counting:
                page = await self._write()
        return page.result if page is not None and call is not None and page.call.id == call.id else None

    async def end(self, event: Event, reason: StopReason) -> None:
        """Move an episode whose session is ending, after its last step was written if that is possible.

        Args:
            event: What ends it.
            reason: Why, if it was not over yet.
        """
        with suppress(StoreError):  # closing the record tries once more, and says so
            await self._write()
        self.note(event, reason)

    async def close(self) -> None:
        """Write the final figures.

        Raises:
            StoreError: If the store failed.
        """
        if self._unwritten is not None:
            raise StoreError(f"step {self._unwritten.step.number} could not be written before the end")
        await self.services.store.close(self.origin.episode_id, self.summary())

    def summary(self) -> EpisodeSummary:
        """Return the authoritative figures as they stand."""
        return self._summarise(self.standing())

    @property
    def _played_until(self) -> float:
        """Now, less what the calls that run have waited for the server."""
        now = self.now
        return now - max(clock.waived_s for clock in self.clocks) if self.clocks else now

    async def _write(self) -> _Page | None:
        page = self._unwritten
        if page is None:
            return None
        try:
            await self.services.store.append(self.origin.episode_id, page.step, self._summarise(page.state))
        except StoreError:
            raise
        except Exception:
            self._unwritten = None  # a defect would only happen again
            raise
        self._unwritten = None
        if page.call.is_unwritten:
            page.call.mend(page.result)
        self.went_back_to = None
        if page.state.phase is not self.state.phase:
            self._turn(page.state, Event.END if page.state.is_over else Event.STEP)
        self.state = page.state
        return page

    def _turn(self, state: EpisodeState, event: Event) -> None:
        self.state = state
        transition = Transition(
            event=event.value,
            phase=state.phase.value,
            stop_reason=None if state.stop_reason is None else state.stop_reason.value,
            at=self._wall(self.now),
        )
        self.services.store.note(self.origin.episode_id, transition, self._summarise(state))

    def _result(self, entry: Entry, charge: Charge, state: EpisodeState, now: float) -> CallResult:
        if entry.error is not None:
            return Fault(entry.error)
        output = entry.output
        if entry.refusal is not None:
            if charge.earned is None and not charge.finished:
                return Refusal(entry.refusal.reason, entry.refusal.error, charge.number)
            output = tell_agent(entry.refusal.error, entry.refusal.reason)
        stated = state_episode(output or ToolOutput(), charge, state, self.policy, now)
        if self.went_back_to is not None and stated.metadata is not None:
            stated.metadata[EPISODE_KEY]["restored_to_step"] = self.went_back_to
        return Completed(stated, charge.number, is_error=entry.outcome.kind is not OutcomeKind.COMPLETED)

    def _step(self, call: Call, entry: Entry, charge: Charge, result: CallResult, now: float) -> Step:
        output = result.output if isinstance(result, Completed) else None
        status = _STATUS.get(entry.outcome.kind)
        if status is None:
            status = StepStatus.UNGRADED if charge.earned is None else StepStatus.GRADED
        return Step(
            number=charge.number,
            call_id=call.id,
            tool=call.tool,
            arguments=recordable(call.arguments),
            status=status,
            blocks=() if output is None else tuple(output.blocks),
            reward=charge.reward,
            components=charge.components,
            finished=charge.finished,
            error=_error_text(entry),
            error_code=_error_code(entry),
            metadata=None if output is None else output.metadata,
            started_at=self._wall(entry.started),
            duration=now - entry.started,
        )

    def _summarise(self, state: EpisodeState) -> EpisodeSummary:
        return EpisodeSummary(
            phase=state.phase.value,
            steps=state.steps,
            episode_return=state.episode_return,
            withheld=state.held or 0.0,
            reward_sum=state.reward_sum,
            penalty_sum=state.penalty_sum,
            penalties={cause.value: amount for cause, amount in state.penalties.items()},
            discounted_return=state.discounted_return,
            last_reward=state.last_reward,
            best_reward=state.best_reward,
            ungraded_steps=state.ungraded_steps,
            failed_steps=state.failed_steps,
            stop_reason=None if state.stop_reason is None else state.stop_reason.value,
            created_at=self.origin.created_at,
            started_at=self._wall_or_none(state.started_at),
            last_call_at=self._wall_or_none(state.last_call_at),
            finished_at=self._wall_or_none(state.finished_at),
            metrics=describe_metrics(state.metrics),
        )

    def _wall(self, moment: float) -> datetime:
        return self.origin.created_at + timedelta(seconds=moment - self.state.created_at)

    def _wall_or_none(self, moment: float | None) -> datetime | None:
        return None if moment is None else self._wall(moment)


def describe_metrics(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Write metrics out under the names that AgentFly logs them by: `reward_extra/KEY/mean`, `max`, `min`.

    Args:
        metrics: By name.
    """
    return {
        f"reward_extra/{key}/{figure}": value
        for key, metric in metrics.items()
        for figure, value in (("mean", metric.mean), ("max", metric.greatest), ("min", metric.least))
    }


def _ending(state: EpisodeState) -> str:
    if state.stop_reason is StopReason.COMPLETED:
        return (
            "the episode has finished (a tool returned finished=True), so no further tool calls are accepted."
        )
    return f"the episode is over ({state.stop_reason}), so no further tool calls are accepted."


def _error_text(entry: Entry) -> str | None:
    if entry.error is not None:
        return str(entry.error)
    if entry.refusal is not None:
        return entry.refusal.error
    if entry.outcome.kind is OutcomeKind.COMPLETED or entry.output is None:
        return None
    return "\n".join(block.text for block in entry.output.blocks if block.type == "text")


def _error_code(entry: Entry) -> str | None:
    if entry.error is not None:
        return entry.error.code
    if entry.refusal is not None:
        return entry.refusal.reason.value
    return None if entry.outcome.kind is OutcomeKind.COMPLETED else entry.outcome.kind.value
