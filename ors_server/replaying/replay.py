"""Repeats the calls of a recorded episode in a new session, and compares the results.

Calls are made one after another, in the order of the record. Left out are calls that were withdrawn or that
the machinery failed. A restored snapshot ends the comparison, and questions of a tool to its caller are not
answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ors_server.model.errors import AuthorError, EnvironmentFailedError, OrsServerError
from ors_server.model.recording import task_digest
from ors_server.model.trajectory import Step, StepStatus
from ors_server.replaying.normalising import Normaliser
from ors_server.replaying.recorded_episode import (
    TIMEOUT,
    RecordedEpisode,
    is_ended_by_time,
    is_machinery,
    overlapping,
    recorded_user_turns,
    restored_to,
    why_not_comparable,
)
from ors_server.replaying.replay_result import EpisodeReplay, StepReplay, StepVerdict
from ors_server.replaying.replay_session import ReplaySession
from ors_server.replaying.stage import Stage
from ors_server.replaying.step_comparison import (
    ReplayDifference,
    compare_blocks,
    compare_origins,
    compare_steps,
)


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What a replay needs besides the record."""

    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets by name, which no record has."""
    volatile: tuple[str, ...] = ()
    """Regular expressions of what may differ, besides the environment's."""


async def replay_episode(
    episode: RecordedEpisode, stage: Stage, request: ReplayRequest | None = None
) -> EpisodeReplay:
    """Play an episode again in a new session, and compare; failures are part of the result."""
    request = request or ReplayRequest()
    origin = episode.record.origin
    notes = _notes_of(episode)
    if task_digest(origin.task_spec) != origin.task_hash:
        return EpisodeReplay(origin, notes=notes, failure="the record's task does not have the record's hash")
    try:
        turns = recorded_user_turns(episode.steps)
        async with stage.open(origin, request.secrets, turns) as session:
            played = await _play(episode, session, request.volatile)
            about = (*notes, *session.notes, *compare_origins(origin, session.origin))
            return replace(played, notes=(*about, *played.notes))
    except EnvironmentFailedError as error:
        return EpisodeReplay(origin, notes=notes, differences=_compare_setup(episode, str(error)))
    except OrsServerError as error:
        return EpisodeReplay(origin, notes=notes, failure=str(error))


async def replay_steps(
    steps: Sequence[Step], session: ReplaySession, normaliser: Normaliser
) -> tuple[StepReplay, ...]:
    """Repeat recorded calls, in order, in a session at the same state, which stays open.

    Raises:
        AuthorError: If the session's setup failed.
    """
    run = _ReplayRun(session, normaliser)
    return tuple([await run.take(step) for step in steps])


@dataclass(slots=True)
class _ReplayRun:
    """A replay in progress."""

    session: ReplaySession
    normaliser: Normaliser
    ended: str | None = None
    """Why no further call is made."""
    is_uncertain: bool = False
    """Whether a call with unknown effects was left out."""

    async def take(self, step: Step) -> StepReplay:
        """Repeat one step's call, if it can be compared."""
        restored = restored_to(step)
        if restored is not None and self.ended is None:
            self.ended = (
                f"before step {step.number} the session was restored to its snapshot of step {restored}, "
                "which calls alone do not repeat"
            )
        if self.ended is not None:
            return _result(step, StepVerdict.UNPLAYED, self.ended)
        why = why_not_comparable(step)
        if why is not None:
            self.is_uncertain = True
            return _result(step, StepVerdict.SKIPPED, why)
        if is_ended_by_time(step):
            return _result(
                step, StepVerdict.SKIPPED, "the episode's time was up with it, and a replay is faster"
            )
        try:
            now = await self.session.call(step)
        except AuthorError:
            raise
        except OrsServerError as error:
            self.ended = f"the place of the replay failed step {step.number}: {error}"
            return _result(step, StepVerdict.UNPLAYED, self.ended)
        return self._compare(step, now)

    def _compare(self, step: Step, now: Step | None) -> StepReplay:
        if now is None:
            self.ended = f"the replayed episode was over before step {step.number}"
            return self._judge(
                step, (ReplayDifference("status", step.status.value, "not run: the episode is over"),)
            )
        if now.status is StepStatus.FAILED and is_machinery(now.error_code):
            self.ended = f"the machinery failed step {step.number} here ({now.error_code}): {now.error}"
            return _result(step, StepVerdict.UNPLAYED, self.ended)
        return self._judge(step, compare_steps(step, now, self.normaliser))

    def _judge(self, step: Step, differences: tuple[ReplayDifference, ...]) -> StepReplay:
        if not differences:
            return _result(step, StepVerdict.SAME)
        verdict = StepVerdict.UNCERTAIN if self.is_uncertain else StepVerdict.DIFFERENT
        return replace(_result(step, verdict), differences=differences)


async def _play(episode: RecordedEpisode, session: ReplaySession, volatile: tuple[str, ...]) -> EpisodeReplay:
    record = episode.record
    ids = (record.origin.session_id, session.origin.session_id)
    normaliser = Normaliser((*session.volatile, *volatile), ids)
    differences: tuple[ReplayDifference, ...] = ()
    try:
        if record.prompt is not None:
            differences = compare_blocks("prompt", record.prompt, await session.prompt(), normaliser)
        elif episode.has_failed_setup:
            await session.prompt()  # which waits for setup
        if episode.has_failed_setup:
            differences = (ReplayDifference("setup", "failed", "done"),)
        return EpisodeReplay(
            record.origin, await replay_steps(episode.steps, session, normaliser), differences
        )
    except AuthorError as error:
        setup = await session.setup_error()
        failed = f"failed: {error}"
        if setup is not None:
            differences = _compare_setup(episode, setup)
        else:
            differences = (ReplayDifference("prompt", normaliser.blocks(record.prompt or ()), failed),)
        steps = tuple(_result(step, StepVerdict.UNPLAYED, failed) for step in episode.steps)
        return EpisodeReplay(record.origin, steps, differences)


def _compare_setup(episode: RecordedEpisode, error: str) -> tuple[ReplayDifference, ...]:
    return () if episode.has_failed_setup else (ReplayDifference("setup", "done", f"failed: {error}"),)


def _notes_of(episode: RecordedEpisode) -> tuple[str, ...]:
    notes: list[str] = []
    fork = episode.record.origin.forked_from
    if fork is not None:
        notes.append(
            f"it is a fork of session {fork.session_id} after step {fork.steps}; it was replayed from the "
            "beginning, shared steps included"
        )
    together = overlapping(episode.steps)
    if together:
        which = ", ".join(map(str, together))
        notes.append(
            f"calls ran at the same time (steps {which} began before the one before ended); they were "
            "replayed one after another, in the order of the record"
        )
    late = [str(step.number) for step in episode.steps if step.error_code == TIMEOUT]
    if late:
        notes.append(f"steps that ran out of time were given the same time again: {', '.join(late)}")
    if not episode.record.is_closed:
        notes.append("the episode was still going on when its record was read")
    return tuple(notes)


def _result(step: Step, verdict: StepVerdict, why: str | None = None) -> StepReplay:
    return StepReplay(step.number, step.tool, step.arguments, verdict, why=why)
