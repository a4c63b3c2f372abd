"""Checks an episode's transitions against the table of phases, and their end against the summary."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ors_server.episode import TRANSITIONS, EpisodeEvent, Phase
from ors_server.errors import RecordError
from ors_server.recording import TRANSITION
from ors_server.store.sql.column_values import is_edited
from ors_server.trajectory import EpisodeOrigin, EpisodeSummary, Transition

_CLOCK = timedelta(milliseconds=1)
_SESSION_ENDED = frozenset({Phase.DELETED, Phase.EXPIRED})
_TABLE = {(before.value, event.value): after.value for (before, event), after in TRANSITIONS.items()}


@dataclass(slots=True)
class _Standing:
    """The phase after the transitions so far."""

    phase: str | None
    """`None` at the start of a fork: its first transition has no recorded phase before it."""
    stop_reason: str | None = None
    at: datetime | None = None


def check_moves(
    rows: Iterable[Any], origin: EpisodeOrigin, summary: EpisodeSummary, *, is_closed: bool
) -> Iterator[str]:
    """Yield transitions that are missing, out of order, or lead elsewhere than the summary."""
    is_fork = origin.forked_from is not None
    standing = _Standing(None if is_fork else Phase.CREATED.value, at=None if is_fork else origin.created_at)
    count = 0
    for row in rows:
        if row.position != count:
            yield f"transition {count} is missing"
            return
        count += 1
        if is_edited(row.digest, row.body):
            yield f"transition {row.position} was edited"
        try:
            transition = TRANSITION.read(row.body)
        except RecordError as error:
            yield f"transition {row.position}: {error}"
            return
        yield from (f"transition {row.position}: {text}" for text in _follow(standing, transition))
    if is_closed and summary.phase not in _SESSION_ENDED:
        yield f"its session has ended, and the phase is {summary.phase!r}"
    if is_closed and not count:
        yield "all transitions are missing"
    elif standing.phase is None or _may_precede(standing, summary, is_closed=is_closed):
        return
    else:
        state = "final state" if is_closed else "current state"
        yield (
            f"its {state} is {_describe(summary.phase, summary.stop_reason)}, its transitions lead to "
            f"{_describe(standing.phase, standing.stop_reason)}"
        )


def _follow(standing: _Standing, transition: Transition) -> Iterator[str]:
    leads_to = None if standing.phase is None else _TABLE.get((standing.phase, transition.event))
    if standing.phase is not None and (leads_to != transition.phase or leads_to == standing.phase):
        yield (
            f"{transition.event!r} does not lead from {standing.phase} to {transition.phase}: "
            "a transition is missing or changed"
        )
    if standing.stop_reason not in {None, transition.stop_reason}:
        yield f"the stop reason was {standing.stop_reason!r} and became {transition.stop_reason!r}"
    if (transition.stop_reason is None) != (transition.event in {EpisodeEvent.SETUP_DONE, EpisodeEvent.STEP}):
        yield f"{transition.event!r} has the stop reason {transition.stop_reason!r}"
    if standing.at is not None and transition.at < standing.at - _CLOCK:
        yield "it happened before the previous one"
    standing.phase, standing.stop_reason, standing.at = (
        transition.phase,
        transition.stop_reason,
        transition.at,
    )


def _may_precede(standing: _Standing, summary: EpisodeSummary, *, is_closed: bool) -> bool:
    """Return whether the summary may follow: a crash may have lost the transition after the last step."""
    if (standing.phase, standing.stop_reason) == (summary.phase, summary.stop_reason):
        return True
    if is_closed or standing.phase is None:
        return False
    by_step = (
        _TABLE.get((standing.phase, EpisodeEvent.STEP.value)),
        _TABLE.get((standing.phase, EpisodeEvent.END.value)),
    )
    is_first = standing.phase == Phase.PLAYING or summary.steps == 1
    return is_first and standing.phase != summary.phase and summary.phase in by_step


def _describe(phase: str, stop_reason: str | None) -> str:
    return phase if stop_reason is None else f"{phase} ({stop_reason})"
