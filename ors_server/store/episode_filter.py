"""The filter of episodes: one table of conditions, from which every reader of filters is made.

The control API's query parameters, the options of commands, the conditions in SQL and the comparison in
memory all follow from `CONDITIONS`. It names attributes and columns as text and imports nothing that a
command's start would have to wait for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ors_server.model.trajectory import EpisodeRecord


class FilterKind(StrEnum):
    """What the value of a condition is."""

    NAME = "name"
    """A text of at least one character."""
    POSITION = "position"
    """An integer from 0."""
    PHASE = "phase"
    STOP_REASON = "stop_reason"
    LABELS = "labels"
    """Texts by key; written `KEY=VALUE`."""
    TIME = "time"
    NUMBER = "number"
    """A finite number."""
    TRUTH = "truth"


class FilterComparison(StrEnum):
    """How an episode's value is compared with that of a condition."""

    IS = "is"
    AT_LEAST = "at least"
    AT_MOST = "at most"
    BEFORE = "before"
    INCLUDES = "includes"
    """The episode has each of the condition's entries, and may have more."""
    IS_PRESENT = "is present"
    """Whether the episode has such a value: one that is neither missing nor zero."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One field of `EpisodeFilter`: what it compares, and how queries and commands name it."""

    kind: FilterKind
    attribute: str
    """Path of the compared attribute from an `EpisodeRecord`."""
    column: str
    """Table and column of the same value."""
    help: str
    """The help text of the command line's option: which episodes."""
    comparison: FilterComparison = FilterComparison.IS
    note: str = ""
    """The description of the control API's parameter; empty where its name says it all."""
    parameter: str | None = None
    """Name of the control API's parameter, where it is not the field's."""
    option: str | None = None
    """Name of the command line's option, where it is not the parameter's."""
    metavar: str | None = None
    flags: str | None = None
    """For a truth: both flags."""
    changes: bool = False
    """Whether an episode may begin or cease to meet it."""

    def holds(self, wanted: Any, record: "EpisodeRecord") -> bool:
        """Return whether an episode meets it."""
        value: Any = attrgetter(self.attribute)(record)
        match self.comparison:
            case FilterComparison.IS:
                return bool(value == wanted)
            case FilterComparison.AT_LEAST:
                return bool(value >= wanted)
            case FilterComparison.AT_MOST:
                return bool(value <= wanted)
            case FilterComparison.BEFORE:
                return bool(value < wanted)
            case FilterComparison.INCLUDES:
                return all(value.get(key) == text for key, text in wanted.items())
            case FilterComparison.IS_PRESENT:
                return bool(value) is wanted


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Conditions that an episode must meet; a field that is `None` is no condition."""

    environment: str | None = None
    split: str | None = None
    index: int | None = None
    task_hash: str | None = None
    session_id: str | None = None
    credential_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels that the episode must have; it may have others too."""
    phase: str | None = None
    stop_reason: str | None = None
    since: datetime | None = None
    """Created at this time or later."""
    until: datetime | None = None
    """Created before this time."""
    min_return: float | None = None
    max_return: float | None = None
    """Both inclusive."""
    closed: bool | None = None
    """Whether the episode's session has ended."""
    unjudged: bool | None = None
    """Whether the judgement of a step failed."""

    def conditions(self) -> "list[tuple[Condition, Any]]":
        """Return the conditions that are set, with their values, in the order of the table."""
        values = ((condition, getattr(self, name)) for name, condition in CONDITIONS.items())
        return [(condition, value) for condition, value in values if value is not None and value != {}]

    def matches(self, record: "EpisodeRecord") -> bool:
        """Return whether an episode meets every condition."""
        return all(condition.holds(value, record) for condition, value in self.conditions())


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "environment": Condition(
            FilterKind.NAME,
            "origin.environment",
            "episodes.environment",
            "Of this environment.",
            note="The environment's name, as it is recorded.",
        ),
        "split": Condition(FilterKind.NAME, "origin.split", "episodes.split", "Of this split."),
        "index": Condition(
            FilterKind.POSITION, "origin.index", "episodes.task_index", "Of the task at this position."
        ),
        "task_hash": Condition(
            FilterKind.NAME,
            "origin.task_hash",
            "episodes.task_hash",
            "Of the task with this hash.",
            note="SHA-256 of the task's canonical JSON.",
            metavar="HASH",
        ),
        "session_id": Condition(
            FilterKind.NAME,
            "origin.session_id",
            "episodes.session_id",
            "Of sessions with this id.",
            option="session",
            metavar="ID",
        ),
        "credential_id": Condition(
            FilterKind.NAME,
            "origin.credential_id",
            "episodes.credential_id",
            "Whose session this key created.",
            note="Id of the key that created the session.",
            parameter="credential",
            metavar="ID",
        ),
        "labels": Condition(
            FilterKind.LABELS,
            "origin.labels",
            "labels.value",
            "With this label; repeatable.",
            FilterComparison.INCLUDES,
            note="`KEY=VALUE`; given several times, the episode has all of them.",
            parameter="label",
            metavar="KEY=VALUE",
        ),
        "phase": Condition(
            FilterKind.PHASE,
            "summary.phase",
            "standings.phase",
            "In this phase, e.g. finished.",
            metavar="PHASE",
            changes=True,
        ),
        "stop_reason": Condition(
            FilterKind.STOP_REASON,
            "summary.stop_reason",
            "standings.stop_reason",
            "That ended for this reason, e.g. completed.",
            metavar="REASON",
            changes=True,
        ),
        "since": Condition(
            FilterKind.TIME,
            "origin.created_at",
            "episodes.created_at",
            "Created then or later: ISO 8601, UTC by default, or 90m, 2h, 7d ago.",
            FilterComparison.AT_LEAST,
            note="Created then or later; an ISO 8601 time with its offset.",
            metavar="TIME",
            changes=True,
        ),
        "until": Condition(
            FilterKind.TIME,
            "origin.created_at",
            "episodes.created_at",
            "Created before.",
            FilterComparison.BEFORE,
            note="Created before.",
            metavar="TIME",
            changes=True,
        ),
        "min_return": Condition(
            FilterKind.NUMBER,
            "summary.episode_return",
            "standings.episode_return",
            "With this return or a greater one.",
            FilterComparison.AT_LEAST,
            changes=True,
        ),
        "max_return": Condition(
            FilterKind.NUMBER,
            "summary.episode_return",
            "standings.episode_return",
            "With this return or a smaller one.",
            FilterComparison.AT_MOST,
            note="Both inclusive.",
            changes=True,
        ),
        "closed": Condition(
            FilterKind.TRUTH,
            "is_closed",
            "standings.closed_at",
            "Whose session is gone, or is still there.",
            FilterComparison.IS_PRESENT,
            note="Whether the session is gone.",
            flags="--closed/--open",
            changes=True,
        ),
        "unjudged": Condition(
            FilterKind.TRUTH,
            "summary.unjudged_steps",
            "standings.unjudged_steps",
            "With a step whose judgement failed, or without one.",
            FilterComparison.IS_PRESENT,
            note="Whether the judgement of a step failed.",
            flags="--unjudged/--judged",
            changes=True,
        ),
    }
)
"""Every field of `EpisodeFilter` by name."""

PARAMETERS: Mapping[str, str] = MappingProxyType(
    {name: condition.parameter or name for name, condition in CONDITIONS.items()}
)
"""The control API's parameter of each field of `EpisodeFilter`."""

ALL = EpisodeFilter()
"""No condition."""
