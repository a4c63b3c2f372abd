"""The record itself: as lines that lose nothing, and as two flat tables."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ors_server.export.conversation import result_of, text_of
from ors_server.export.episodes import describe, is_played_out, judged_return
from ors_server.export.wide_integers import KEY, with_texts
from ors_server.model.recording import RECORD, STEP
from ors_server.model.trajectory import FIGURES, STEP_COUNTS, STEP_MAXIMA, EpisodeRecord, Step
from ors_server.model.wire import JSONObject


def plain_row(record: EpisodeRecord, steps: Sequence[Step]) -> JSONObject:
    """Return the whole record, as `ors_server.model.recording` writes it and reads it back.

    Where it has integers of more than 64 bits, they are texts, and `wide_integers` has their places.
    """
    row, places = with_texts(
        {"record": RECORD.as_json(record), "steps": [STEP.as_json(step) for step in steps]}
    )
    return {**row, KEY: places} if places else row


def episode_rows(record: EpisodeRecord, steps: Sequence[Step]) -> Iterable[JSONObject]:
    """Return an episode as the one row that it has in the table of episodes."""
    origin, summary = record.origin, record.summary
    about = describe(record, steps)
    yield {
        **{name: about[name] for name in ("episode_id", "environment", "split", "index", "task_hash")},
        **{name: about[name] for name in ("image", "seed")},
        "session_id": origin.session_id,
        "environment_version": origin.environment_version,
        "task_spec": _text(origin.task_spec),
        "labels": _text(origin.labels),
        "phase": summary.phase,
        "stop_reason": summary.stop_reason,
        "is_played_out": is_played_out(summary),
        "is_closed": record.is_closed,
        "steps": summary.steps,
        "return": judged_return(summary),
        "withheld": summary.withheld,
        "penalty_sum": summary.penalty_sum,
        "rewards": about["rewards"],
        **{name: about[name] for name in STEP_COUNTS},
        **{name: getattr(summary, name) for name in STEP_MAXIMA if FIGURES[name].is_column},
        "created_at": summary.created_at,
        "finished_at": summary.finished_at,
        "prompt": None if record.prompt is None else text_of(record.prompt),
    }


def step_rows(record: EpisodeRecord, steps: Sequence[Step]) -> Iterable[JSONObject]:
    """Return an episode's steps as rows of the table of steps."""
    for step in steps:
        yield {
            "episode_id": record.origin.episode_id,
            "number": step.number,
            "call_id": step.call_id,
            "tool": step.tool,
            "arguments": _text(step.arguments),
            "status": step.status.value,
            "result": text_of(result_of(step)),
            "reward": step.reward,
            "earned": step.earned,
            "components": _text(step.components),
            "finished": step.finished,
            "error_code": step.error_code,
            "metadata": None if step.metadata is None else _text(step.metadata),
            "started_at": step.started_at,
            "duration": step.duration,
        }


def _text(value: Any) -> str:
    return json.dumps(value if isinstance(value, dict) else dict(value), ensure_ascii=False)
