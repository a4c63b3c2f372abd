"""What rows of a record have in columns besides their bodies; `store verify` compares both."""

from typing import Any

from ors_server.model.clock import to_microseconds
from ors_server.model.trajectory import (
    STEP_COUNTS,
    EpisodeNote,
    EpisodeOrigin,
    EpisodeSummary,
    Step,
    result_of,
    seconds_of,
)
from ors_server.store.aggregates import AGENT_LABEL, RUN_LABEL
from ors_server.store.sql.column_values import as_bigint, as_search_text, without_nul


def _optional(text: str | None) -> str | None:
    return None if text is None else as_search_text(text)


def episode_columns(origin: EpisodeOrigin) -> tuple[Any, ...]:
    """Return the values of the columns of `episodes` but key, body and digest, in order."""
    return (
        origin.episode_id,
        as_search_text(origin.session_id),
        to_microseconds(origin.created_at),
        as_search_text(origin.environment),
        _optional(origin.split),
        as_bigint(origin.index),
        origin.task_hash,
        _optional(origin.credential_id),
        as_search_text(origin.environment_version),
        as_search_text(origin.server_version),
        None if origin.forked_from is None else as_search_text(origin.forked_from.session_id),
        as_search_text(origin.labels.get(RUN_LABEL, "")),
        as_search_text(origin.labels.get(AGENT_LABEL, "")),
    )


def label_columns(origin: EpisodeOrigin) -> dict[str, str]:
    """Return the names and values of an episode's rows in `labels`."""
    return {as_search_text(name): as_search_text(value) for name, value in origin.labels.items()}


STANDING_COLUMNS = (
    *("phase", "stop_reason", "steps", "episode_return"),
    *STEP_COUNTS,
    *("result", "duration"),
)
"""The columns of `standings` that follow from the summary, in order."""


def standing_columns(summary: EpisodeSummary) -> tuple[Any, ...]:
    """Return the values of `STANDING_COLUMNS`."""
    return (
        summary.phase,
        summary.stop_reason,
        summary.steps,
        summary.episode_return,
        *(getattr(summary, name) for name in STEP_COUNTS),
        result_of(summary).value,
        seconds_of(summary),
    )


STEP_COLUMNS = ("reward", "tool", "status", "blame", "started_at", "duration")
"""The columns of `steps` that follow from the step, in order."""


def step_columns(step: Step) -> tuple[Any, ...]:
    """Return the values of `STEP_COLUMNS`; each step passes here before its call is answered."""
    return (
        step.reward,
        as_search_text(step.tool),
        step.status.value,
        step.blame,
        to_microseconds(step.started_at),
        step.duration,
    )


def note_columns(note: EpisodeNote) -> tuple[Any, ...]:
    """Return the values of the columns of `notes` but its id and episode, in order."""
    return (
        as_search_text(note.author),
        to_microseconds(note.at),
        without_nul(note.text),
        _optional(note.verdict),
        note.step,
    )
