"""A trajectory as rewards read it: ARISE's field names, and all messages.

ARISE cuts outcomes at 1,000 characters and results at 500. The fields of its names are cut in the same way
where a trajectory is built from a record; `final_response` and `full_result` hold the whole.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.transcripts.conversation import AnsweredCall, ReadMessages, ReadTranscript
from ors_server.rewards.transcripts.own_exports import ReadRow, read_messages
from ors_server.rewards.transcripts.rows import find_row_form, is_message, read_listed, read_row
from ors_server.rewards.transcripts.shapes import read_conversation
from ors_server.rewards.transcripts.text_calls import read_text_calls
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    USER,
    Message,
    TranscriptError,
    as_list,
    as_object,
    key_table,
    show,
    text_of,
    unexpected_error,
)

OUTCOME_CHARACTERS = 1000
"""Characters of the final response that `outcome` keeps (ARISE's documentation of `Trajectory`)."""
RESULT_CHARACTERS = 500
"""Characters of a tool's result that `Step.result` keeps (ARISE's documentation of `Step`)."""

UNKNOWN_LATENCY = math.nan
"""Milliseconds of a step whose duration nothing says: a transcript has no times."""


@dataclass
class Step:
    """One tool call; fields by ARISE's names."""

    observation: str = ""
    """What the agent saw before it."""
    reasoning: str = ""
    """The agent's reasoning before it."""
    action: str = ""
    """Name of the tool."""
    action_input: Any = field(default_factory=dict[str, Any])
    """The arguments."""
    result: str = ""
    """What the tool returned, at most 500 characters."""
    error: str | None = None
    """Why the call failed; `None` or empty if it did not."""
    latency_ms: float = 0.0
    """Milliseconds."""
    full_result: str | None = None
    """The whole of what the tool returned; `None` where only `result` is known."""
    reward: float | None = None
    """The step's reward, penalties included; `None` when nothing was judged."""

    @property
    def whole_result(self) -> str:
        """The result as far as it is known."""
        return self.result if self.full_result is None else self.full_result


@dataclass
class Trajectory:
    """One episode; fields by ARISE's names. As a sequence it is that of its messages."""

    task: str = ""
    """The task as the agent received it."""
    steps: list[Step] = field(default_factory=list[Step])
    """Every tool call, in order."""
    outcome: str = ""
    """The final response, at most 1,000 characters."""
    reward: float | None = 0.0
    """The return of a recorded episode; after `score`, what the reward gave, `None` if that was no number."""
    skill_library_version: int = 0
    """A field of ARISE, which no reward here reads."""
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    """UTC; when the trajectory was made."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the process that ran it reports: `success`, `expected`, `expected_output`, the task's fields."""
    full_outcome: str | None = None
    """The whole final response; `None` where only `outcome` is known."""
    messages: Sequence[Message] = ()
    """The conversation, where there was one."""
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    """The extras of the last reward's result (AgentFly's name for them)."""

    @property
    def final_response(self) -> str:
        """The final response as far as it is known."""
        return self.outcome if self.full_outcome is None else self.full_outcome

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]

    def __bool__(self) -> bool:
        """A trajectory is true, even an empty one."""
        return True


def read_trajectory(value: object) -> Any:
    """Read a trajectory in any shape that is known.

    These are a `Trajectory`, whose messages are read if they were not; a mapping with its fields; a list of
    messages in the shapes of `transcripts.shapes`; and a row that holds a conversation, of
    `transcripts.rows`.

    Raises:
        RewardFieldError: It is not one of these, or it has a key, role or type that is not understood, which
            the message names.
    """
    if isinstance(value, Trajectory):
        return _complete_from_messages(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return from_row(read_listed(cast("Sequence[object]", value)))
    if hasattr(value, "model_dump") or hasattr(value, "keys"):
        return _from_mapping(as_object(value, "trajectory"))
    raise RewardFieldError(
        f"expected a trajectory as an object, a row or a list of messages, got {show(value)}"
    )


def fields_of_trajectory(trajectory: Trajectory) -> dict[str, Any]:
    """Return the fields that a trajectory fills: itself, the final response, and its metadata by name."""
    return {
        **trajectory.metadata,
        "trajectory": trajectory,
        "final_response": trajectory.final_response,
        "metadata": trajectory.metadata,
    }


def from_messages(messages: object, prompt: object = None) -> Trajectory:
    """Read a trajectory from a conversation in any shape; `prompt` precedes the agent's part.

    Each call that the agent made is a step, and so is each result without a call.

    Raises:
        RewardFieldError: A shape, a role, a type or a key is not understood.
    """
    return from_row(ReadRow(read_conversation(messages, prompt)))


def text_of_prompt(prompt: object) -> str:
    """Return the text of a prompt, without images: a text, or what the user says in messages of any shape.

    Raises:
        RewardFieldError: It is neither, or a shape, a role, a type or a key is not understood.
    """
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return _text_of_user(read_conversation(None, prompt).messages)


def question_of(trajectory: Trajectory) -> str:
    """Return what the user says in a trajectory's conversation; without a conversation its task."""
    return _text_of_user(trajectory.messages) or trajectory.task


def _text_of_user(messages: Sequence[Message]) -> str:
    return "\n\n".join(filter(None, (text_of(message) for message in messages if message["role"] == USER)))


def from_row(row: ReadRow) -> Trajectory:
    """Return a row that was read as a trajectory."""
    messages = row.conversation.messages
    outcome = last_message(messages) if row.final_response is None else row.final_response
    return Trajectory(
        task=next((text_of(message) for message in messages if message["role"] == USER), ""),
        steps=_steps(row.conversation),
        outcome=outcome[:OUTCOME_CHARACTERS],
        full_outcome=outcome,
        messages=messages,
        metadata=dict(row.metadata),
    )


def from_response(response: str) -> Trajectory:
    """Return a final response alone as a trajectory; calls that are written in it are its messages' calls.

    Raises:
        RewardFieldError: A call is written in it as text and cannot be read.
    """
    return _complete_from_messages(Trajectory(outcome=response[:OUTCOME_CHARACTERS], full_outcome=response))


def played_messages(trajectory: Trajectory) -> Sequence[Message]:
    """Return the messages of an episode without those of a separate prompt."""
    messages = trajectory.messages
    return messages.played if isinstance(messages, ReadMessages) else messages


def is_conversation(value: object) -> bool:
    """Whether a value is a list of messages, in a shape that is known or not."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(entry, Mapping) for entry in cast("Sequence[object]", value))


def last_message(messages: Sequence[Message]) -> str:
    """Return the text of the assistant's last message; empty without such a message."""
    return next((text_of(message) for message in reversed(messages) if message.get("role") == ASSISTANT), "")


_STEP = key_table("a step", " ".join(Step.__dataclass_fields__))
_TRAJECTORY = key_table("a trajectory", " ".join(Trajectory.__dataclass_fields__))
_SIGNALS = frozenset({"success", "expected", "expected_output", "answer"})
"""What a process reports of an episode; its place is the metadata."""


def _from_mapping(value: Mapping[str, Any]) -> Trajectory:
    if not value:
        raise unexpected_error("trajectory", "object", "{}", _TRAJECTORY.read)
    if not value.keys() <= _TRAJECTORY.read:
        return _from_foreign(value)
    entries = dict(value)
    steps = as_list(entries.pop("steps", None) or (), "trajectory: steps")
    if "timestamp" in entries and not isinstance(entries["timestamp"], datetime):
        entries["timestamp"] = datetime.fromisoformat(str(entries["timestamp"]))
    metadata = entries.get("metadata")
    if not isinstance({} if metadata is None else metadata, Mapping):
        raise RewardFieldError(f"expected a trajectory's metadata as an object, got {show(metadata)}")
    entries["metadata"] = dict(cast("Mapping[str, Any]", metadata or {}))
    entries["messages"] = entries.get("messages") or ()
    return _complete_from_messages(
        Trajectory(**entries, steps=[_step(step, at) for at, step in enumerate(steps, 1)])
    )


def _from_foreign(value: Mapping[str, Any]) -> Trajectory:
    form = find_row_form(value)
    if form is not None:
        return from_row(read_row(value, form))
    if is_message(value):
        return from_messages([value])
    unknown = next(key for key in value if key not in _TRAJECTORY.read)
    if unknown in _SIGNALS:
        raise TranscriptError(
            f"trajectory: unknown key {unknown!r}; what a process reports of an episode is expected under "
            "metadata"
        )
    raise unexpected_error("trajectory", "key", unknown, _TRAJECTORY.read)


def _step(value: object, number: int) -> Step:
    if isinstance(value, Step):
        return value
    step = as_object(value, f"step {number}")
    _STEP.check(step, f"step {number}")
    if not step:
        raise unexpected_error(f"step {number}", "object", "{}", _STEP.read)
    return Step(**step)


def _complete_from_messages(trajectory: Trajectory) -> Trajectory:
    """Read the messages of a trajectory, and fill in what they say and it does not."""
    if isinstance(trajectory.messages, ReadMessages):
        return trajectory
    response, messages = trajectory.final_response, trajectory.messages
    if not messages:
        if trajectory.steps or not read_text_calls(response, "final response").calls:
            return trajectory
        messages = [{"role": ASSISTANT, "content": response}]
    read = from_row(ReadRow(read_messages(messages)))
    if 0 < len(trajectory.steps) < len(read.steps):
        raise TranscriptError(
            f"trajectory: expected a step for every call in its messages, got {len(read.steps)} calls and "
            f"{len(trajectory.steps)} steps"
        )
    trajectory.messages = read.messages
    trajectory.steps = trajectory.steps or read.steps
    trajectory.task = trajectory.task or read.task
    if not response:
        trajectory.outcome, trajectory.full_outcome = read.outcome, read.full_outcome
    return trajectory


def _steps(conversation: ReadTranscript) -> list[Step]:
    return [_make_step(call) for call in conversation.calls]


def _make_step(call: AnsweredCall) -> Step:
    result = call.result or ""
    return Step(
        action=call.name,
        action_input=call.arguments,
        result=result[:RESULT_CHARACTERS],
        error=call.error,
        latency_ms=UNKNOWN_LATENCY if call.latency_ms is None else call.latency_ms,
        full_result=call.result,
    )
