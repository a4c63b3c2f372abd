"""Turns a recorded episode into the fields that a reward takes, as the environment's own saw them at its end.

A reward sees the steps that were answered, and the call that ends the episode as the final response. A record
may also be a line of plain trajectory JSON: `{"record": ..., "steps": [...]}`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ors_server.model.recording import RECORD, STEP
from ors_server.model.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.rewards.recorded_trajectory import text_of_step, trajectory_of
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory, read_trajectory
from ors_server.rewards.transcripts.submitted import COMPLETED, submitted_answer, write_answer

FINAL_RESPONSE_FROM = "final_response_from"
GROUP = "group"
"""Further fields of a row with a record: where its final response is, and which rows it is judged with."""

_NOT_ON_RECORD = frozenset({"context", "output", "rollouts"})
"""Fields of a live episode, which a field of the task must not replace."""
_ANSWERED = frozenset({StepStatus.GRADED, StepStatus.UNGRADED})


@dataclass(frozen=True, slots=True)
class SubmittedAnswer:
    """The answer that an agent submitted."""

    text: str
    """The final response; empty if there was none."""
    number: int | None
    """Number of the step that submitted it, which is left out of the trajectory; `None` without a step."""


def find_submitted_answer(
    record: EpisodeRecord, steps: Sequence[Step], source: str | None = None
) -> SubmittedAnswer:
    """Find the answer that an agent submitted.

    Without a source it is read from the call by which a tool ended the episode: its argument `answer`; or its
    only argument, if that is text; or, where it has others or none, the text that the tool returned. A
    `submit` without an answer submits nothing, and so does an episode that no tool ended.

    The source `TOOL.ARGUMENT` is the argument of the last call of the tool; `TOOL` is the text that it
    returned.
    """
    last = _ending(record, steps)
    number = None if last is None else last.number
    if source is None:
        return SubmittedAnswer(
            "" if last is None else (submitted_answer(last.tool, last.arguments, text_of_step(last)) or ""),
            number,
        )
    tool, _, argument = source.partition(".")
    for step in reversed(steps):
        if step.tool == tool and step.status in _ANSWERED and (not argument or argument in step.arguments):
            text = write_answer(step.arguments[argument]) if argument else text_of_step(step)
            return SubmittedAnswer(text, number if step is last else None)
    return SubmittedAnswer("", number)


def fields_of_episode(
    record: EpisodeRecord, steps: Sequence[Step], source: str | None = None
) -> dict[str, Any]:
    """Return what a reward may take of a recorded episode, as `Environment.grade` does while it is played.

    These are `trajectory`, `final_response`, `metadata` (the whole task), `step` (the number of the last
    step), and every field of the task. The trajectory's reward is the return before the answer was submitted.
    """
    submitted = find_submitted_answer(record, steps, source)
    shown = [step for step in steps if step.number != submitted.number]
    task = record.origin.task_spec
    trajectory = trajectory_of(
        record.origin,
        shown,
        replace(record.summary, episode_return=sum((step.reward or 0.0 for step in shown), 0.0)),
        prompt="\n\n".join(block.text for block in record.prompt or () if isinstance(block, TextBlock)),
        final_response=submitted.text,
    )
    trajectory.metadata = {name: value for name, value in task.items() if name not in _NOT_ON_RECORD}
    own = {
        "trajectory": trajectory,
        "final_response": submitted.text,
        "metadata": dict(task),
        "step": len(steps),
    }
    return {**trajectory.metadata, **own}


def write_recorded(record: EpisodeRecord, steps: Sequence[Step]) -> dict[str, Any]:
    """Return an episode as a row that `fields_of_row` reads, without images and fields for trainers only."""
    prompt = record.prompt and tuple(block for block in record.prompt if not isinstance(block, ImageBlock))
    lean = [
        replace(
            step, blocks=tuple(block for block in step.blocks if isinstance(block, TextBlock)), metadata=None
        )
        for step in steps
    ]
    return {
        "record": RECORD.as_json(replace(record, prompt=prompt, transitions=())),
        "steps": [STEP.as_json(step) for step in lean],
    }


def is_recorded(row: Mapping[str, Any]) -> bool:
    """Whether a row is a recorded episode, rather than the fields of a judgement."""
    record = row.get("record")
    return isinstance(record, Mapping) and "origin" in record and isinstance(row.get("steps"), list)


def fields_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a judgement: a row's own, or those of the recorded episode that it is.

    A recorded episode has `record`, `steps`, perhaps `final_response_from`, and fields that replace the
    episode's; a broken one raises `RecordError`.
    """
    if not is_recorded(row):
        return dict(row)
    rest = {name: value for name, value in row.items() if name not in {"record", "steps", GROUP}}
    source = rest.pop(FINAL_RESPONSE_FROM, None)
    if not isinstance(source, str | None):
        raise RewardFieldError(f"{FINAL_RESPONSE_FROM} must be TOOL.ARGUMENT or TOOL, got {source!r:.80}")
    record = RECORD.of_json(row["record"])
    steps = [STEP.of_json(step) for step in row["steps"]]
    return {**fields_of_episode(record, steps, source), **rest}


def read_episode(value: object) -> Trajectory:
    """Read a trajectory in any shape that is known; a line of plain trajectory JSON too.

    Raises:
        RewardFieldError: It is not understood.
        RecordError: The recorded episode is broken.
    """
    row: Any = value
    if isinstance(value, Mapping) and is_recorded(row):
        if (unknown := next((name for name in row if name not in {"record", "steps"}), None)) is not None:
            raise RewardFieldError(
                f"expected only record and steps in a recorded episode, got {unknown!r:.80}"
            )
        recorded: Trajectory = fields_of_row(row)["trajectory"]
        return recorded
    read: Trajectory = read_trajectory(row)
    return read


def find_in_row(row: Mapping[str, Any], key: str) -> object:
    """Return a row's field by name; of a recorded episode, also one of its origin, or a label."""
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
