"""What failed in an ended episode, at which stage, and what that means for its return: one table.

The words are those of trainers and harnesses that mask failed rollouts. A kind is a value of a closed
vocabulary, so that it can be a label of a metric. Everything is derived from an episode's figures: the record
has no column of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from ors_server.model.errors import Blame, OrsServerError
from ors_server.model.trajectory import EpisodeSummary


class FailureStage(StrEnum):
    """When in an episode's life something failed."""

    ADMISSION = "admission"
    """The session was requested."""
    SETUP = "setup"
    """The environment was set up."""
    AGENT = "agent"
    """The agent played."""
    GRADING = "grading"
    """A step or the episode was judged."""
    CLEANUP = "cleanup"
    """The session was removed."""


class FailureKind(StrEnum):
    """What failed; every ended episode has exactly one."""

    NONE = "none"
    """Nothing: the episode ended by its own rules, and its return is whole."""
    REFUSED = "refused"
    """The server refused to create the session, and will refuse it again."""
    NO_CAPACITY = "no_capacity"
    """The server could not create the session now: no capacity, or it was out of reach."""
    SETUP_FAILED = "setup_failed"
    """The environment's setup failed."""
    NOT_STARTED = "not_started"
    """The session was removed before its setup had ended."""
    ENVIRONMENT_FAILED = "environment_failed"
    """The environment's own code failed in a way that ended the episode."""
    STEP_FAILED = "step_failed"
    """The environment's own code failed in a step, and the episode continued."""
    INTERRUPTED = "interrupted"
    """The server was killed, and no later one could take the session up."""
    JUDGEMENT_FAILED = "judgement_failed"
    """The judgement of a step failed, so that the return lacks a part."""
    UNGRADED = "ungraded"
    """The environment ended the episode without a reward."""
    ABANDONED = "abandoned"
    """The client deleted the session before the episode had ended."""
    EXPIRED = "expired"
    """The session was idle for too long."""
    SERVER_STOPPED = "server_stopped"
    """The server stopped while the episode was open."""


@dataclass(frozen=True, slots=True)
class EpisodeFailure:
    """What failed in an episode, and what that means for its return."""

    kind: FailureKind
    stage: FailureStage | None
    """`None` if nothing failed."""
    terminal: bool
    """Whether it ended the episode."""
    retry: bool
    """Whether playing the task again may succeed without a change."""
    grade: bool
    """Whether there is play that can be judged, also later."""
    valid: bool
    """Whether the return may be trained on."""


FAILURES: Mapping[FailureKind, EpisodeFailure] = MappingProxyType(
    {
        kind: EpisodeFailure(kind, stage, terminal, retry, grade, valid=kind is FailureKind.NONE)
        for kind, stage, terminal, retry, grade in (
            (FailureKind.NONE, None, False, False, True),
            (FailureKind.REFUSED, FailureStage.ADMISSION, True, False, False),
            (FailureKind.NO_CAPACITY, FailureStage.ADMISSION, True, True, False),
            (FailureKind.SETUP_FAILED, FailureStage.SETUP, True, True, False),
            (FailureKind.NOT_STARTED, FailureStage.SETUP, True, True, False),
            (FailureKind.ENVIRONMENT_FAILED, FailureStage.AGENT, True, True, False),
            (FailureKind.STEP_FAILED, FailureStage.AGENT, False, True, True),
            (FailureKind.INTERRUPTED, FailureStage.AGENT, True, True, True),
            (FailureKind.JUDGEMENT_FAILED, FailureStage.GRADING, False, True, True),
            (FailureKind.UNGRADED, FailureStage.GRADING, True, False, True),
            (FailureKind.ABANDONED, FailureStage.CLEANUP, True, True, True),
            (FailureKind.EXPIRED, FailureStage.CLEANUP, True, True, True),
            (FailureKind.SERVER_STOPPED, FailureStage.CLEANUP, True, True, True),
        )
    }
)
"""Every kind: stage, and whether it is terminal, may be retried, and leaves play that can be graded."""

_REMOVALS = {
    "deleted": FailureKind.ABANDONED,
    "expired": FailureKind.EXPIRED,
    "shutdown": FailureKind.SERVER_STOPPED,
    "interrupted": FailureKind.INTERRUPTED,
}
"""The kinds by the stop reason of an episode that did not end by its own rules."""


def failure_of(summary: EpisodeSummary) -> EpisodeFailure | None:
    """Return what failed in an episode; `None` if it has not ended."""
    if summary.stop_reason is None:
        return None
    return FAILURES[_kind_of(summary)]


def failure_of_creation(error: OrsServerError) -> EpisodeFailure:
    """Return what failed where a session could not be created or set up."""
    if error.blame is Blame.AUTHOR:
        return FAILURES[FailureKind.SETUP_FAILED]
    refused = error.blame is Blame.CLIENT
    return FAILURES[FailureKind.REFUSED if refused else FailureKind.NO_CAPACITY]


def _kind_of(summary: EpisodeSummary) -> FailureKind:
    """Return the kind of an ended episode: the earliest stage counts, then what spoils the return."""
    has_failed = summary.stop_reason == "failed"
    if summary.started_at is None and not summary.steps:
        return FailureKind.SETUP_FAILED if has_failed else FailureKind.NOT_STARTED
    if summary.unjudged_steps:
        return FailureKind.JUDGEMENT_FAILED
    if has_failed:
        return FailureKind.ENVIRONMENT_FAILED
    if summary.failed_steps:
        return FailureKind.STEP_FAILED
    removal = _REMOVALS.get(summary.stop_reason or "")
    if removal is not None:
        return removal
    is_ungraded = summary.stop_reason == "completed" and summary.last_reward is None
    return FailureKind.UNGRADED if is_ungraded else FailureKind.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSummary(EpisodeSummary):
    """The figures of an episode as the server states them: with what failed."""

    failure: EpisodeFailure | None = None
    """What failed; `None` while the episode has not ended."""

    @classmethod
    def of(cls, summary: EpisodeSummary) -> Self:
        """Add what failed to an episode's figures."""
        return cls(**_figures(summary), failure=failure_of(summary))

    def unstated(self) -> EpisodeSummary:
        """Return the figures alone, as the record has them."""
        return EpisodeSummary(**_figures(self))


def _figures(summary: EpisodeSummary) -> dict[str, Any]:
    return {figure.name: getattr(summary, figure.name) for figure in fields(EpisodeSummary)}
