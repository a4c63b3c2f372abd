"""The filter of episodes: one table of conditions, from which every reader of filters is made.

The control API's query parameters, the options of commands, the conditions in SQL and the comparison in
memory all follow from `CONDITIONS`. It names attributes and columns as text and imports nothing that a
command's start would have to wait for.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ors_server.model.trajectory import EpisodeRecord, Step


class FilterKind(StrEnum):
    """What the value of a condition is."""

    NAME = "name"
    """A text of at least one character, or several of which one has to fit."""
    NAMES = "names"
    """Texts that all have to fit."""
    MARKS = "marks"
    """Words of `MARKS`, which all have to fit."""
    TEXT = "text"
    """A text that is searched for."""
    POSITION = "position"
    """An integer from 0."""
    PHASE = "phase"
    """One phase or several, as names are; so are stop reasons."""
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
    IS_MISSING = "is missing"
    """Whether the episode has no such value."""
    USES = "uses"
    """A step of the episode names the tool."""
    HAS_KEYS = "has keys"
    """The episode has an entry of each key."""
    IS_MARKED = "is marked"
    """The episode has steps of every kind."""
    CONTAINS = "contains"
    """The text is in the task, the labels, the prompt or a step, in either case of letters."""


MARKS: Mapping[str, str] = MappingProxyType(
    {
        "failed": "failed_steps",
        "refused": "refused_steps",
        "penalty": "penalised_steps",
        "ungraded": "ungraded_steps",
    }
)
"""Kinds of steps that an episode may have, with the figures that count them."""

SEARCHED_EPISODES = 2_000
"""The newest episodes, in which a database searches for a text; the others do not match."""


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

    def holds(self, chosen: Any, record: "EpisodeRecord", steps: "Sequence[Step]") -> bool:
        """Return whether an episode meets it."""
        value: Any = record
        for name in self.attribute.split("."):
            value = None if value is None else getattr(value, name)
        return _COMPARE[self.comparison](value, chosen, record, steps)


def _is_one_of(value: Any, chosen: Any) -> bool:
    return value in chosen if isinstance(chosen, tuple) else bool(value == chosen)


def _contains(text: str, record: "EpisodeRecord", steps: "Sequence[Step]") -> bool:
    from ors_server.model.recording import BLOCKS, ORIGIN, STEP  # noqa: PLC0415  (slow to load)

    bodies = [ORIGIN.write(record.origin)]
    if record.prompt is not None:
        bodies.append(BLOCKS.write(record.prompt))
    bodies += map(STEP.write, steps)
    needle = searched_text(text).encode()
    return any(needle in body.lower() for body in bodies)


def searched_text(text: str) -> str:
    """Return a text as it is in the JSON of a record, in lower-case ASCII letters."""
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return "".join(letter.lower() if letter.isascii() else letter for letter in written)


_COMPARE: "Mapping[FilterComparison, Callable[[Any, Any, EpisodeRecord, Sequence[Step]], bool]]" = {
    FilterComparison.IS: lambda value, chosen, _record, _steps: _is_one_of(value, chosen),
    FilterComparison.AT_LEAST: lambda value, chosen, _record, _steps: value >= chosen,
    FilterComparison.AT_MOST: lambda value, chosen, _record, _steps: value <= chosen,
    FilterComparison.BEFORE: lambda value, chosen, _record, _steps: value < chosen,
    FilterComparison.INCLUDES: lambda value, chosen, _record, _steps: chosen.items() <= value.items(),
    FilterComparison.IS_PRESENT: lambda value, chosen, _record, _steps: bool(value) is chosen,
    FilterComparison.IS_MISSING: lambda value, chosen, _record, _steps: (value is None) is chosen,
    FilterComparison.USES: lambda _value, chosen, _record, steps: any(
        _is_one_of(step.tool, chosen) for step in steps
    ),
    FilterComparison.HAS_KEYS: lambda value, chosen, _record, _steps: {*chosen} <= value.keys(),
    FilterComparison.IS_MARKED: lambda value, chosen, _record, _steps: all(
        getattr(value, MARKS[mark]) for mark in chosen
    ),
    FilterComparison.CONTAINS: lambda _value, chosen, record, steps: _contains(chosen, record, steps),
}


Names: TypeAlias = "str | tuple[str, ...] | None"
"""One name, several of which one has to fit, or no condition."""


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Conditions that an episode must meet; a field that is `None` is not a condition."""

    environment: Names = None
    split: Names = None
    index: int | None = None
    task_hash: Names = None
    session_id: Names = None
    credential_id: Names = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels that the episode must have; it may have others too."""
    has_label: tuple[str, ...] | None = None
    """Keys of labels that the episode must have, with any value."""
    environment_version: Names = None
    server_version: Names = None
    forked_from: Names = None
    """Session of the episode that the episode began as."""
    phase: Names = None
    stop_reason: Names = None
    live: bool | None = None
    """Whether the episode has not ended."""
    tool: Names = None
    """Name of a tool that a step used."""
    has: tuple[str, ...] | None = None
    """Kinds of steps (`MARKS`) that the episode must have."""
    text: str | None = None
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

    def matches(self, record: "EpisodeRecord", steps: "Sequence[Step]") -> bool:
        """Return whether an episode with these steps meets every condition."""
        return all(condition.holds(value, record, steps) for condition, value in self.conditions())


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
        "has_label": Condition(
            FilterKind.NAMES,
            "origin.labels",
            "labels.name",
            "With a label of this key; repeatable.",
            FilterComparison.HAS_KEYS,
            note="Key of a label, whatever its value; given several times, the episode has all of them.",
            metavar="KEY",
        ),
        "environment_version": Condition(
            FilterKind.NAME,
            "origin.environment_version",
            "episodes.environment_version",
            "Of this version of the environment.",
            metavar="VERSION",
        ),
        "server_version": Condition(
            FilterKind.NAME,
            "origin.server_version",
            "episodes.server_version",
            "Played on a server of this version.",
            metavar="VERSION",
        ),
        "forked_from": Condition(
            FilterKind.NAME,
            "origin.forked_from.session_id",
            "episodes.forked_from",
            "That began as a copy of this session.",
            note="Id of the session that the episode began as a copy of.",
            metavar="ID",
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
        "live": Condition(
            FilterKind.TRUTH,
            "summary.stop_reason",
            "standings.stop_reason",
            "That have not ended, or have.",
            FilterComparison.IS_MISSING,
            note="Whether the episode has not ended; its session may be there longer (`closed`).",
            flags="--live/--ended",
            changes=True,
        ),
        "tool": Condition(
            FilterKind.NAME,
            "summary",
            "tool_uses.tool",
            "With a call of this tool.",
            FilterComparison.USES,
            note="Name of a tool that a step called.",
            changes=True,
        ),
        "has": Condition(
            FilterKind.MARKS,
            "summary",
            "standings.failed_steps",
            "With such steps: failed, refused, penalty or ungraded; repeatable.",
            FilterComparison.IS_MARKED,
            note="Kind of steps that the episode has; given several times, it has all of them.",
            metavar="KIND",
            changes=True,
        ),
        "text": Condition(
            FilterKind.TEXT,
            "origin",
            "episodes.body",
            f"With this text in task, labels, prompt or steps, among the newest {SEARCHED_EPISODES:,}.",
            FilterComparison.CONTAINS,
            note=f"Text in the task, the labels, the prompt or a step, in either case; the newest "
            f"{SEARCHED_EPISODES:,} episodes on record are searched, and long texts kept as blobs are not.",
            metavar="TEXT",
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

REPEATABLE = frozenset(
    {FilterKind.NAME, FilterKind.NAMES, FilterKind.MARKS, FilterKind.PHASE, FilterKind.STOP_REASON}
    | {FilterKind.LABELS}
)
"""Kinds of conditions whose parameters and options may be given several times."""

ALL = EpisodeFilter()
"""No condition."""
