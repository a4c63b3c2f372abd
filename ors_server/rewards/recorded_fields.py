"""From a recorded episode to the fields that a reward takes: what the environment's own saw at the end.

A reward that an environment asks when an episode ends sees the steps that were answered, and the call that
ends it as the final response; so does one that is asked later. A record may also be in writing, as a line of
plain trajectory JSON: `{"record": ..., "steps": [...]}`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ors_server.recording import RECORD, STEP
from ors_server.rewards.recorded_trajectory import trajectory_of
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.wire import ImageBlock, TextBlock

ANSWER = "answer"
"""The argument of the last call that is the final response, as it is while an episode is played."""
SUBMIT = "submit"
"""The tool by which nothing is handed in where it is called without an answer."""
COMPLETED = "completed"
"""The stop reason of an episode that a tool ended."""

FINAL_RESPONSE_FROM = "final_response_from"
GROUP = "group"
"""Beside the record and the steps of a row: where its final response is, and which rows it is judged with."""

_NOT_ON_RECORD = frozenset({"context", "output", "rollouts"})
"""Names that mean the episode's own while it is played: a task's field must not pass for them."""
_ANSWERED = frozenset({StepStatus.GRADED, StepStatus.UNGRADED})


@dataclass(frozen=True, slots=True)
class HandedIn:
    """What an agent handed in."""

    text: str
    """The final response; empty if there was none."""
    number: int | None
    """Number of the step that was the handing in, which is no step of the trajectory; `None` if none was."""


def handed_in(record: EpisodeRecord, steps: Sequence[Step], source: str | None = None) -> HandedIn:
    """Find what an agent handed in.

    Without a source it is read off the call by which a tool ended the episode: its argument `answer`; or its
    only argument, if that is text; or, where it has others or none, the text that the tool returned. A
    `submit` without an answer hands in nothing, and so does an episode that no tool ended.

    Args:
        record: The episode.
        steps: All its steps, in order.
        source: `TOOL.ARGUMENT`: the argument of the last call of the tool; or `TOOL`: the text that it gave.
    """
    last = _ending(record, steps)
    number = None if last is None else last.number
    if source is None:
        return HandedIn("" if last is None else _final_response(last), number)
    tool, _, argument = source.partition(".")
    for step in reversed(steps):
        if step.tool == tool and step.status in _ANSWERED and (not argument or argument in step.arguments):
            text = _written(step.arguments[argument]) if argument else _text(step)
            return HandedIn(text, number if step is last else None)
    return HandedIn("", number)


def fields_of_episode(
    record: EpisodeRecord, steps: Sequence[Step], source: str | None = None
) -> dict[str, Any]:
    """Gather what a reward may take of a recorded episode, as `Environment.grade` does while it is played.

    Args:
        record: The episode.
        steps: All its steps, in order.
        source: Where the final response is, as for `handed_in`.

    Returns:
        `trajectory`, `final_response`, `metadata` (the whole task), `step` (the number of the last step), and
        every field of the task by its name. The trajectory's reward is the return before the handing in.
    """
    given = handed_in(record, steps, source)
    shown = [step for step in steps if step.number != given.number]
    task = record.origin.task_spec
    trajectory = trajectory_of(
        record.origin,
        shown,
        replace(record.summary, episode_return=sum((step.reward or 0.0 for step in shown), 0.0)),
        prompt="\n\n".join(block.text for block in record.prompt or () if isinstance(block, TextBlock)),
        final_response=given.text,
    )
    trajectory.metadata = {name: value for name, value in task.items() if name not in _NOT_ON_RECORD}
    own = {
        "trajectory": trajectory,
        "final_response": given.text,
        "metadata": dict(task),
        "step": len(steps),
    }
    return {**trajectory.metadata, **own}


def write_recorded(record: EpisodeRecord, steps: Sequence[Step]) -> dict[str, Any]:
    """Write an episode as far as rewards read it: without pictures, and without what trainers alone read.

    Args:
        record: The episode.
        steps: All its steps, in order.

    Returns:
        A row of JSON types, which `fields_of_row` reads.
    """
    prompt = record.prompt and tuple(block for block in record.prompt if not isinstance(block, ImageBlock))
    lean = [replace(step, blocks=_texts(step), metadata=None) for step in steps]
    return {
        "record": RECORD.as_json(replace(record, prompt=prompt, transitions=())),
        "steps": [STEP.as_json(step) for step in lean],
    }


def is_recorded(row: Mapping[str, Any]) -> bool:
    """Say whether a row is a recorded episode in writing, rather than the fields of a judgement.

    Args:
        row: An object of JSON types.
    """
    record = row.get("record")
    return isinstance(record, Mapping) and "origin" in record and isinstance(row.get("steps"), list)


def fields_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a judgement, whether a row has them by name or is a recorded episode.

    Args:
        row: Fields, which stay as they are; or `record`, `steps`, perhaps `final_response_from`, and further
            fields, which win over those of the episode.

    Raises:
        RecordError: If it is no episode as this server writes it.
        RewardFieldError: If `final_response_from` is no text.
    """
    if not is_recorded(row):
        return dict(row)
    others = {name: value for name, value in row.items() if name not in {"record", "steps", GROUP}}
    source = others.pop(FINAL_RESPONSE_FROM, None)
    if not isinstance(source, str | None):
        raise RewardFieldError(f"{FINAL_RESPONSE_FROM} is TOOL.ARGUMENT or TOOL, not {source!r:.80}")
    record = RECORD.of_json(row["record"])
    steps = [STEP.of_json(step) for step in row["steps"]]
    return {**fields_of_episode(record, steps, source), **others}


def find_in_row(row: Mapping[str, Any], key: str) -> object:
    """Return a row's field by name; of a recorded episode, also one of its origin, or a label.

    Args:
        row: An object of JSON types.
        key: The name.

    Raises:
        KeyError: If there is none.
    """
    if key in row or not is_recorded(row):
        return row[key]
    origin = cast("Mapping[str, Any]", row["record"]["origin"])
    labels = cast("Mapping[str, Any]", origin.get("labels") or {})
    return origin[key] if key in origin else labels[key]


def _ending(record: EpisodeRecord, steps: Sequence[Step]) -> Step | None:
    last = steps[-1] if steps else None
    if last is None or not last.finished or last.status not in _ANSWERED:
        return None
    return last if record.summary.stop_reason == COMPLETED else None


def _final_response(step: Step) -> str:
    arguments = step.arguments
    if ANSWER in arguments:
        return _written(arguments[ANSWER])
    only = next(iter(arguments.values())) if len(arguments) == 1 else None
    if isinstance(only, str):
        return only
    return "" if step.tool == SUBMIT and not arguments else _text(step)


def _written(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _texts(step: Step) -> tuple[TextBlock | ImageBlock, ...]:
    return tuple(block for block in step.blocks if isinstance(block, TextBlock))


def _text(step: Step) -> str:
    return "\n".join(block.text for block in step.blocks if isinstance(block, TextBlock))
