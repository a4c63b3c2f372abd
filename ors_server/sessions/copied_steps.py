"""What an episode's state was after each of its recorded steps, for a copy that may stop half-way."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from ors_server.episode import CallOutcome, EpisodeState, OutcomeKind, Phase, apply_outcome
from ors_server.policy import TOOL_PART, WITHHELD, EpisodePolicy, PenaltyCause
from ors_server.rewards.result_output import numeric_extras
from ors_server.trajectory import EpisodeOrigin, Step, StepStatus

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
    causes = [PenaltyCause(name) for name in step.components if name not in {TOOL_PART, WITHHELD}]
    return CallOutcome(
        kind,
        step.components.get(TOOL_PART),
        causes=tuple(cause for cause in causes if cause is not PenaltyCause.OVERLONG),
        metrics=numeric_extras(step.metadata) if kind is OutcomeKind.COMPLETED else {},
        is_unjudged=step.is_unjudged,
    )
