"""Moves and records one episode: each step is written to the store before its call is answered.

A fork copies steps one by one, each with the state after it, so that a copy that stops half-way has the
figures of the steps that it has.

A time limit of an episode is the session's. While two calls run side by side and only one of them waits for
the server, the session plays; `SessionClock` waives only what all of them wait together, and once, however
many they are.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any

import anyio

from ors_server.environments.boundary import encodable
from ors_server.model.episode import (
    LIVE,
    PLAYABLE,
    CallOutcome,
    EpisodeEvent,
    EpisodeState,
    OutcomeKind,
    Phase,
    StepReward,
    StopReason,
    apply_outcome,
    lapse,
    move,
    remaining_time,
)
from ors_server.model.errors import OrsServerError, StoreError
from ors_server.model.model_turn import MODEL_TURN
from ors_server.model.policy import TOOL_COMPONENT, WITHHELD, EpisodePolicy, PenaltyCause
from ors_server.model.trajectory import (
    REWARD_REASON,
    REWARD_STATUS,
    USER_TURNS,
    EpisodeOrigin,
    EpisodeSummary,
    Incident,
    IncidentKind,
    Step,
    StepStatus,
    Transition,
    UserTurn,
    summarise,
    wall_time,
)
from ors_server.model.wire import JSONObject
from ors_server.rewards.result_output import numeric_extras
from ors_server.sessions.activity import ActivityFeed
from ors_server.sessions.call_meters import CallMeters
from ors_server.sessions.quiet_store import QuietStore
from ors_server.sessions.session_call import Call, CallResult, Completed, Failure, Refusal, RefusalReason
from ors_server.sessions.session_services import Services, run_whole
from ors_server.sessions.tool_arguments import CheckedOutput, make_error_output, recordable, shown_name
from ors_server.timing.call_clock import CallClock
from ors_server.timing.loop_watch import LoopWatch

_KINDS = {
    StepStatus.REFUSED: OutcomeKind.INVALID_CALL,
    StepStatus.FAILED: OutcomeKind.FAULT,
    StepStatus.CANCELLED: OutcomeKind.CANCELLED,
}
_BY_CODE = {kind.value: kind for kind in (OutcomeKind.TOOL_ERROR, OutcomeKind.TIMEOUT, OutcomeKind.FORBIDDEN)}


def states_of(
    origin: EpisodeOrigin, policy: EpisodePolicy, final: EpisodeState, steps: Sequence[Step]
) -> Iterator[EpisodeState]:
    """Yield the state before the first step and after each one, the last being `final`.

    Args:
        final: The state after all steps, in which the episode can be played.
    """
    if final.started_at is None:
        raise AssertionError("an episode that was copied has begun")
    state = EpisodeState(final.created_at, Phase.READY, started_at=final.started_at, waived=final.waived)
    yield state if steps else final
    for step in steps[:-1]:
        ended = step.started_at + timedelta(seconds=step.duration) - origin.created_at
        state, _ = apply_outcome(state, policy, _outcome_of(step), final.started_at)
        state = state._replace(last_call_at=final.created_at + ended.total_seconds())
        yield state
    if steps:
        yield final


def _outcome_of(step: Step) -> CallOutcome:
    kind = _KINDS.get(step.status) or _BY_CODE.get(step.error_code or "", OutcomeKind.COMPLETED)
    causes = [PenaltyCause(name) for name in step.components if name not in {TOOL_COMPONENT, WITHHELD}]
    return CallOutcome(
        kind,
        step.components.get(TOOL_COMPONENT),
        causes=tuple(cause for cause in causes if cause is not PenaltyCause.OVERLONG),
        metrics=numeric_extras(step.metadata) if kind is OutcomeKind.COMPLETED else {},
        is_unjudged=step.is_unjudged,
    )


class SessionClock:
    """Seconds that count against no time limit of the episode; asked before each change of a call's clock."""

    __slots__ = ("_calls", "_late_before_s", "_since", "_waived", "_watch")

    def __init__(self, watch: LoopWatch) -> None:
        self._watch = watch
        self._calls: dict[CallClock, None] = {}
        self._since = self._late_before_s = self._waived = 0.0

    @property
    def waived_s(self) -> float:
        """Seconds that the calls waited so far, at least 0."""
        self.count_up()
        return max(0.0, self._waived)

    def start_from(self, waived_s: float) -> None:
        """Continue where another session was."""
        self._waived = waived_s

    def enter(self, clock: CallClock) -> None:
        """Count a call that begins to run."""
        self.count_up()
        clock.before_change = self.count_up
        clock.on_hold = self._hold
        self._calls[clock] = None

    def leave(self, clock: CallClock) -> None:
        """Count a call no more."""
        self.count_up()
        clock.before_change = clock.on_hold = None
        del self._calls[clock]

    def count_up(self) -> None:
        """Count up to now: until the first of the calls went on, all of them waited."""
        now = self._watch.now()
        late = self._watch.late_until(now)
        if self._calls:
            played_from = min(
                (clock.counts_from(now, late) for clock in self._calls), key=lambda moment: moment[0]
            )
            if played_from[0] < self._since:
                played_from = self._since, self._late_before_s
            self._waived += played_from[0] - self._since + late - played_from[1]
        self._since, self._late_before_s = now, late

    def _hold(self, seconds: float) -> None:
        """Take back seconds for which the loop was late because a call's own code held it."""
        self._waived -= seconds


EPISODE_KEY = "episode"
"""Key of an output's metadata under which the server states the episode's state, over any author's."""

_STATE_SIZE = 2_048
"""Bytes that the description of an episode's state takes in memory, roughly."""

_NO_SHIELD = nullcontext()


def describe_state(state: EpisodeState, policy: EpisodePolicy, now: float) -> dict[str, Any]:
    """Describe an episode's state after its latest step.

    Returns:
        `step`, `return`, `withheld` (earned and charged, and not paid yet), `penalty_sum`, `penalties` by
        cause, `unjudged_steps` (steps whose judgement failed), `steps_remaining` and `time_remaining`
        (seconds; `None` without a limit), and `stop_reason`.
    """
    left = None if policy.time_limit is None else remaining_time(state, policy, now)
    penalties = state.penalties
    return {
        "step": state.steps,
        "return": state.episode_return,
        "withheld": state.withheld or 0.0,
        "penalty_sum": state.penalty_sum if penalties else 0.0,
        "penalties": {cause.value: amount for cause, amount in penalties.items()} if penalties else {},
        "unjudged_steps": state.unjudged_steps,
        "steps_remaining": None if policy.step_limit is None else max(0, policy.step_limit - state.steps),
        "time_remaining": None if left is None else round(left, 3),
        "stop_reason": None if state.stop_reason is None else state.stop_reason.value,
    }


_STATUS = {
    OutcomeKind.INVALID_CALL: StepStatus.REFUSED,
    OutcomeKind.FAULT: StepStatus.FAILED,
    OutcomeKind.CANCELLED: StepStatus.CANCELLED,
}


@dataclass(slots=True)
class EndedCall:
    """How one call ended, before its step is counted."""

    outcome: CallOutcome
    started: float
    """Seconds from the clock's origin."""
    output: CheckedOutput | None = None
    """Content for the agent."""
    refusal: Refusal | None = None
    """Why the call was not run."""
    error: OrsServerError | None = None
    """The fault of the author, or the cancellation."""
    user_turns: Sequence[UserTurn] = ()
    """What the call sent to the simulated user, with the answers."""
    unjudged: tuple[str, str] | None = None
    """Status and reason of a judgement of the call that failed."""

    @property
    def size(self) -> int | None:
        """Bytes that the output takes in memory, roughly; `None` where they were not counted."""
        output = self.output
        if output is None or output.size is None or self.user_turns or self.unjudged is not None:
            return None
        return output.size + _STATE_SIZE


@dataclass(slots=True)
class _PendingStep:
    """A counted call on its way to the store."""

    call: Call
    """The call that a repeat of its id refers to."""
    step: Step
    state: EpisodeState
    """The state after the step."""
    result: CallResult


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class EpisodeRecorder:
    """Keeps an episode's state and its record in step."""

    origin: EpisodeOrigin
    policy: EpisodePolicy
    services: Services
    state: EpisodeState = field(init=False)
    _recording: asyncio.Lock | None = field(default=None, init=False)
    unwritten: list[_PendingStep] = field(default_factory=list[_PendingStep], init=False)
    """Counted calls that the store would not take yet, in step order."""
    _summed: tuple[EpisodeState, EpisodeSummary] | None = field(default=None, init=False)
    """The state that was summed up last, and its figures; several writes of a state follow each other."""
    _is_lost: bool = field(default=False, init=False)
    """Whether the environment cannot continue."""
    _clock: SessionClock | None = field(default=None, init=False)
    """`None` in an episode without a time limit, which needs none."""
    playing: dict[Call, float] = field(default_factory=dict[Call, float], init=False)
    """Calls that run and will count."""
    _call_counted: asyncio.Event | None = field(default=None, init=False)
    """Is set when one of them was counted."""
    has_stopped_writing: bool = field(default=False, init=False)
    """Whether nothing is written any more, although the episode continues."""
    restored_to_step: int | None = field(default=None, init=False)
    """Number of the step after which a snapshot was taken that was restored since the last step."""

    def __post_init__(self) -> None:
        self.state = EpisodeState(created_at=self.now)
        if self.policy.time_limit is not None:
            self._clock = SessionClock(self.services.watch)

    @property
    def now(self) -> float:
        """Seconds from the clock's origin."""
        return self.services.clock.monotonic()

    @property
    def remaining_time(self) -> float | None:
        """Seconds of play that are left; `None` without a limit."""
        if self._clock is None:
            return None
        return remaining_time(self.state, self.policy, self._played_until(self.state, self._clock))

    def begin(self, call: Call, clock: CallClock) -> int:
        """Have a call run that will count: until it does, the episode is not over because its time is.

        `record` or `leave` ends that.

        Returns:
            The number that its step will have, if calls end as they began.
        """
        latest = self._latest if self.unwritten else self.state
        services = self.services
        self.playing[call] = services.clock.monotonic()
        if services.feed.readers:
            services.feed.begin_call(self.origin, services.clock.now(), call.id, call.tool, call.arguments)
        if self._clock is not None:
            self._clock.enter(clock)
        return latest.steps + len(self.playing)

    def stop_clock(self, clock: CallClock) -> None:
        """End the time of a call that was answered by its tool, in an episode with a time limit."""
        if self._clock is not None:
            self._clock.leave(clock)

    def leave(self, call: Call) -> None:
        """Note that a call has been counted, or never will be."""
        self.playing.pop(call, None)
        call_counted, self._call_counted = self._call_counted, None
        if call_counted is not None:
            call_counted.set()

    async def open(self) -> None:
        """Write the episode's origin."""
        try:
            await self.services.store.open(self.origin)
        except StoreError as error:
            self.services.health.fail(error)
            raise
        self.services.health.failure = None
        if self.services.feed.readers:
            self.services.feed.open(self.origin)

    async def open_fork(self, state: EpisodeState, steps: Sequence[Step]) -> None:
        """Open an episode that continues where another one was.

        The state and the record are those of the steps that were copied, if the store fails half-way.
        """
        self._start_clock_from(state)
        states = states_of(self.origin, self.policy, state, steps)
        async with self._one_at_a_time():  # so that an end comes after it
            self.state = next(states)
            await self.open()
            for step, after in zip(steps, states, strict=True):
                await self.services.store.append(
                    self.origin.episode_id, step, partial(summarise, self.origin, after)
                )
                self.state = after

    def resume_from(self, state: EpisodeState, services: Services) -> None:
        """Continue from a state on record, and write what happens from now on."""
        self._start_clock_from(state)
        self.state, self.services = state, services

    def _start_clock_from(self, state: EpisodeState) -> None:
        if self._clock is not None:
            self._clock.start_from(state.waived)

    async def record_restore(self, step: int) -> None:
        """Write that the session is restored to the snapshot of a step, which no later server can repeat."""
        text = f"the session was restored to its snapshot of step {step}"
        incident = Incident(IncidentKind.RESTORED, self.services.clock.now(), text, (self.state.steps,))
        await self.services.store.record_incident(self.origin.episode_id, incident)

    async def stop_writing(self) -> None:
        """Write what waits to be written, and nothing from now on: the record stays as it is, and open."""
        async with self._one_at_a_time():
            with suppress(StoreError):
                await self._write()
            self.services = replace(
                self.services, store=QuietStore(), meters=CallMeters(), feed=ActivityFeed()
            )
            self.has_stopped_writing = True

    def apply_event(self, event: EpisodeEvent, reason: StopReason | None = None) -> None:
        """Move the episode by something that is not a step; one whose time was up ended at that moment."""
        self._change_state(move(self.current_state(), event, self.now, reason), event)

    async def fail(self) -> None:
        """End an episode whose environment cannot continue, unless it is over.

        Steps that wait to be written come first; until then every call is refused, and the episode continues.
        """
        self._is_lost = True
        with suppress(StoreError):
            await self._write_in_turn()

    def current_state(self) -> EpisodeState:
        """Return the state as of now, which is over if the time is up; changes nothing."""
        return self._lapse(self.state)

    def _lapse(self, state: EpisodeState) -> EpisodeState:
        if self._clock is None:
            return state
        return lapse(state, self.policy, self._played_until(state, self._clock))

    @property
    def is_playable(self) -> bool:
        """Whether a call may run now: the episode continues, and nothing must be written or decided first."""
        if self.unwritten or self._is_lost or self.state.phase not in PLAYABLE:
            return False
        return self._clock is None or not self._lapse(self.state).is_over

    @property
    def is_deciding(self) -> bool:
        """Whether the time is up, and a call that began in time still runs."""
        if self._clock is None or not self.playing:
            return False
        return not self.state.is_over and self.current_state().is_over

    async def until_decided(self) -> None:
        """Wait while the time is up and calls that began in time are not counted yet."""
        while self.is_deciding:
            if self._call_counted is None:
                self._call_counted = asyncio.Event()
            await self._call_counted.wait()

    @property
    def snapshot_state(self) -> EpisodeState:
        """The state from which a copy of the episode continues, while no call runs."""
        return self.state if self._clock is None else self.state._replace(waived=self._clock.waived_s)

    def refusal(self, tool: str) -> Refusal | None:
        """Say why no call may run now, or `None` if one may."""
        state = self.current_state()
        if self._is_lost and not state.is_over:
            state = move(state, EpisodeEvent.BREAK, self.now, StopReason.FAILED)
        if not state.is_over:
            return None
        return Refusal(RefusalReason.EPISODE_FINISHED, f"{shown_name(tool)} was not run: {_ending(state)}")

    async def record(self, call: Call, entry: EndedCall) -> CallResult:
        """Count one call: move the state, write the step, and return the result.

        Returns:
            The call's result. If the episode ended while the call ran, or the call was answered because its
            session ends, the result is discarded and nothing is paid.

        Raises:
            StoreError: If the step could not be written; then the state has not moved, and the step is
                pending: it waits for `write_pending`, and `summary` counts it.
        """
        if call.result is not None:  # its caller has received the error of the session's end
            return _discarded(call, "its session is being ended")
        call.scope, call.is_sealed = None, True  # a cancellation from now on comes too late
        with anyio.CancelScope(shield=True) if call.is_cancelled else _NO_SHIELD:
            async with self._recording or self._one_at_a_time():
                before = self.state
                if self.unwritten:
                    with suppress(StoreError):  # the step goes behind those that the store would not take
                        await self._write()
                    before = self._latest
                if call not in self.playing:
                    before = self._lapse(before)
                if before.phase not in LIVE:
                    await self._write()
                    return _discarded(call, _ending(before))
                now = self.services.clock.monotonic()
                outcome = entry.outcome
                if self._clock is not None:
                    outcome = outcome._replace(waived=self._clock.waived_s - before.waived)
                state, charge = apply_outcome(before, self.policy, outcome, now)
                step = self._step(call, entry, charge, state, now)
                if entry.error is not None:
                    result: CallResult = Failure(entry.error, step.number)
                elif entry.refusal is not None and step.answer_metadata is None:
                    result = Refusal(entry.refusal.reason, entry.refusal.error, step.number)
                else:
                    result = Completed(step, entry.size if call.model_turn is None else None)
                pending = _PendingStep(call.repeats or call, step, state, result)
                self.unwritten.append(pending)
                call.model_turn = None  # the step has it
                self.leave(call)
                try:
                    await self._write()
                except StoreError as error:
                    raise _pending(error, pending) from error
                return result

    async def write_pending(self, call: Call | None = None) -> CallResult | None:
        """Write the steps that the store would not take, so that no tool runs before they are on record.

        Returns:
            The result of the step that was written, if `call` repeats its call.

        Raises:
            StoreError: If the store still fails.
        """
        first = None if call is None else call.repeats or call
        if self.unwritten:
            try:
                # In another task: a caller may be cancelled after the store has taken a step and before it
                # returns, and a shielded scope holds off neither a timeout of asyncio nor `Task.cancel`.
                with anyio.CancelScope(shield=True):
                    await run_whole(self.services.spawn, self._write_in_turn)
            except StoreError as error:
                pending = next((pending for pending in self.unwritten if pending.call is first), None)
                if pending is not None:
                    raise _pending(error, pending) from error
                raise
        return None if first is None or first.is_unwritten else first.result

    async def end(self, event: EpisodeEvent, reason: StopReason) -> None:
        """Move an episode whose session is ending, after its last step was written if that is possible.

        It waits for a step that is being written. Steps that the store would not take are not written later.
        """
        async with self._one_at_a_time():
            try:
                with suppress(StoreError):  # closing the record says so
                    await self._write()
            finally:
                self.apply_event(event, reason)

    async def close(self) -> None:
        """Write the final figures."""
        if self.unwritten:
            raise StoreError(f"step {self.unwritten[0].step.number} could not be written before the end")
        summary = self.summary()
        await self.services.store.close(self.origin.episode_id, summary)
        if self.services.feed.readers:
            self.services.feed.close(self.origin, self.services.clock.now(), summary)
        meters = self.services.meters
        meters.of(self.origin.environment).count_end(summary)
        meters.count_run(self.origin.labels.get("run"))

    def summary(self) -> EpisodeSummary:
        """Return the current figures, with the steps that wait to be written.

        An episode whose time is up is stated to be over once no call runs that will still count.
        """
        return self._sum_up(self._latest if self.playing else self._lapse(self._latest))

    @property
    def pending_calls(self) -> Sequence[Call]:
        """The calls that ran and whose steps wait to be written, in step order."""
        return [pending.call for pending in self.unwritten]

    @property
    def _latest(self) -> EpisodeState:
        """The state after the last step that was played, written or not; one that is over stays."""
        return self.state if not self.unwritten or self.state.is_over else self.unwritten[-1].state

    def has_run(self, call: Call) -> bool:
        """Whether a call whose step could not be written has run, so that a repeat only asks for its step."""
        return not call.is_unwritten or self.is_pending(call)

    def is_pending(self, call: Call) -> bool:
        """Whether the step of a call waits to be written."""
        return any(pending.call is call for pending in self.unwritten)

    def _played_until(self, state: EpisodeState, clock: SessionClock) -> float:
        """Now, less what the calls have waited for the server since a state."""
        return self.now - (clock.waived_s - state.waived)

    def _one_at_a_time(self) -> asyncio.Lock:
        """Return the lock that is held while a step is recorded; an idle session needs no lock."""
        if self._recording is None:  # anyio's costs four times as much, and each call takes it
            self._recording = asyncio.Lock()
        return self._recording

    async def _write_in_turn(self) -> None:
        async with self._one_at_a_time():
            await self._write()

    async def _write(self) -> None:
        store, health = self.services.store, self.services.health
        meters, environment = self.services.meters, self.origin.environment
        counts = meters.environments.get(environment) or meters.of(environment)
        while self.unwritten and self.state.phase in LIVE:
            pending = self.unwritten[0]
            began = perf_counter()
            try:
                await store.append(
                    self.origin.episode_id, pending.step, partial(summarise, self.origin, pending.state)
                )
            except StoreError as error:
                health.fail(error)
                raise
            except Exception:
                self.unwritten.clear()  # a defect would only happen again
                raise
            health.failure = None
            counts.count_step(pending.step, perf_counter() - began)
            if self.services.feed.readers:
                summary, now = self._sum_up(pending.state), self.services.clock.now()
                self.services.feed.record_step(self.origin, now, pending.step, summary)
            del self.unwritten[0]
            self._mark_written(pending)
        if self._is_lost and not self.current_state().is_over:
            self.apply_event(EpisodeEvent.BREAK, StopReason.FAILED)

    def _mark_written(self, pending: _PendingStep) -> None:
        if pending.call.result is not None and pending.call.is_unwritten:
            pending.call.result = pending.result
        self.restored_to_step = None
        if pending.state.phase is not self.state.phase:
            self._change_state(
                pending.state, EpisodeEvent.END if pending.state.is_over else EpisodeEvent.STEP
            )
        self.state = pending.state

    def _change_state(self, state: EpisodeState, event: EpisodeEvent) -> None:
        self.state = state
        transition = Transition(
            event=event.value,
            phase=state.phase.value,
            stop_reason=None if state.stop_reason is None else state.stop_reason.value,
            at=wall_time(self.origin, state, self.now),
        )
        self.services.store.record_transition(self.origin.episode_id, transition, self._sum_up(state))

    def _step(
        self, call: Call, entry: EndedCall, charge: StepReward, state: EpisodeState, now: float
    ) -> Step:
        output: CheckedOutput | None = entry.output
        error: str | None = None
        error_code: str | None = None
        if entry.outcome.kind is not OutcomeKind.COMPLETED:
            output = _output_of(entry, charge)
            error, error_code = _error_of(entry)
        status = _STATUS.get(entry.outcome.kind)
        if status is None:
            status = StepStatus.UNGRADED if charge.earned is None else StepStatus.GRADED
        return Step(
            number=charge.number,
            call_id=call.id,
            tool=call.tool if call.tool.isascii() else encodable(call.tool),
            arguments=call.arguments if call.has_plain_arguments else recordable(call.arguments),
            status=status,
            blocks=() if output is None else tuple(output.blocks),
            reward=charge.reward,
            components=charge.components,
            finished=charge.finished,
            error=error,
            error_code=error_code,
            metadata=self._metadata(call, output, entry, charge, state, now),
            started_at=self.origin.created_at + timedelta(0, entry.started - self.state.created_at),
            duration=now - entry.started,
        )

    def _metadata(
        self,
        call: Call,
        output: CheckedOutput | None,
        entry: EndedCall,
        charge: StepReward,
        state: EpisodeState,
        now: float,
    ) -> JSONObject | None:
        """Return the output's metadata, the episode's state, and what else the record has of the call."""
        facts: JSONObject = {} if call.model_turn is None else {MODEL_TURN: call.model_turn}
        if entry.user_turns:
            facts[USER_TURNS] = [
                asdict(turn) | {"message": encodable(turn.message), "reply": encodable(turn.reply)}
                for turn in entry.user_turns
            ]
        if entry.unjudged is not None:
            status, reason = entry.unjudged
            facts[REWARD_STATUS], facts[REWARD_REASON] = status, encodable(reason)
        if output is None:
            return facts or None
        stated = describe_state(state, self.policy, now)
        stated["components"] = dict(charge.components)
        if entry.refusal is not None:
            stated["refused"] = entry.refusal.reason.value
        if self.restored_to_step is not None:
            stated["restored_to_step"] = self.restored_to_step
        return {**(output.metadata or {}), **facts, EPISODE_KEY: stated}

    def _sum_up(self, state: EpisodeState) -> EpisodeSummary:
        summed = self._summed
        if summed is None or summed[0] is not state:
            summed = self._summed = state, summarise(self.origin, state)
        return summed[1]


def _pending(error: StoreError, pending: _PendingStep) -> StoreError:
    call, number = pending.call, pending.step.number
    return StoreError(
        f"{error}; {shown_name(call.tool)} has run and its step {number} waits to be written: ask again "
        f"under the call id {call.id!r}, which runs nothing",
        pending_call=call.id,
    )


def _discarded(call: Call, reason: str) -> Refusal:
    return Refusal(
        RefusalReason.EPISODE_FINISHED, f"the result of {shown_name(call.tool)} was discarded: {reason}"
    )


def _ending(state: EpisodeState) -> str:
    if state.stop_reason is StopReason.COMPLETED:
        return (
            "the episode has finished (a tool returned finished=True), so no further tool calls are accepted."
        )
    return f"the episode is over ({state.stop_reason}), so no further tool calls are accepted."


def _output_of(entry: EndedCall, charge: StepReward) -> CheckedOutput | None:
    """Return what the agent gets; `None` for a call that failed, or was refused and not charged."""
    if entry.error is not None:
        return None
    if entry.refusal is None:
        return entry.output or CheckedOutput([])
    if charge.earned is None and not charge.finished:
        return None
    return make_error_output(entry.refusal.error, entry.refusal.reason)


def _error_of(entry: EndedCall) -> tuple[str | None, str | None]:
    """Return why a call failed or was refused, in words and as a code; twice `None` for one that did not."""
    if entry.error is not None:
        return encodable(str(entry.error)), entry.error.code
    if entry.refusal is not None:
        return entry.refusal.error, entry.refusal.reason.value
    output = entry.output
    text = (
        None if output is None else "\n".join(block.text for block in output.blocks if block.type == "text")
    )
    return text, entry.outcome.kind.value
