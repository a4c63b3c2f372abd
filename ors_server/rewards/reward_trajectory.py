"""A trajectory as rewards read it: ARISE's field names, and all messages.

ARISE cuts outcomes at 1,000 characters and results at 500. The fields of its names are cut in the same way
where a trajectory is built from a record; `final_response` and `full_result` hold the whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from ors_server.rewards.reward_errors import RewardFieldError

OUTCOME_CHARACTERS = 1000
"""Characters of the final response that `outcome` keeps (ARISE's documentation of `Trajectory`)."""
RESULT_CHARACTERS = 500
"""Characters of a tool's result that `Step.result` keeps (ARISE's documentation of `Step`)."""

REASONING_PARTS = frozenset({"reasoning", "thinking", "redacted_thinking"})
"""Types of a message's parts that are reasoning, not the message's text."""

Message: TypeAlias = Mapping[str, Any]
"""A chat message: `role` and `content`, and what else its source gave it."""


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
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
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
    """Read a mapping with some of `Trajectory`'s fields, or a list of chat messages; a `Trajectory` passes.

    Raises:
        RewardFieldError: It is none of these.
    """
    if isinstance(value, Trajectory):
        return value
    if isinstance(value, Mapping):
        return _from_mapping(cast("Mapping[str, Any]", value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return from_messages([_message(item) for item in cast("Sequence[object]", value)])
    raise RewardFieldError(
        f"a trajectory is an object with ARISE's fields, or a list of chat messages, not {value!r:.80}"
    )


def fields_of_trajectory(trajectory: Trajectory) -> dict[str, Any]:
    """Return the fields that a trajectory fills: itself, the final response, and its metadata by name."""
    return {
        **trajectory.metadata,
        "trajectory": trajectory,
        "final_response": trajectory.final_response,
        "metadata": trajectory.metadata,
    }


def from_messages(messages: Sequence[Message]) -> Trajectory:
    """Read a trajectory from a conversation; each `tool` message is one step."""
    texts = [(str(message.get("role", "")), text_of(message)) for message in messages]
    outcome = last_message(messages)
    task = next((text for role, text in texts if role == "user"), "")
    steps = [
        Step(action=str(message.get("name", "")), result=text[:RESULT_CHARACTERS], full_result=text)
        for message, (role, text) in zip(messages, texts, strict=True)
        if role == "tool"
    ]
    return Trajectory(
        task=task,
        steps=steps,
        outcome=outcome[:OUTCOME_CHARACTERS],
        full_outcome=outcome,
        messages=tuple(messages),
    )


def is_conversation(value: object) -> bool:
    """Whether a value is a list of chat messages."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(one, Mapping) and "role" in one for one in cast("Sequence[object]", value))


def last_message(messages: Sequence[Message]) -> str:
    """Return the text of the assistant's last message; empty if there is none."""
    return next((text_of(one) for one in reversed(messages) if one.get("role") == "assistant"), "")


def text_of(message: Message) -> str:
    """Return the text of a chat message, a string or a list of parts, without its reasoning."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = [cast("Message", part) for part in cast("Sequence[object]", content) if isinstance(part, Mapping)]
    texts = [part.get("text") for part in parts if part.get("type") not in REASONING_PARTS]
    return "\n".join(text for text in texts if isinstance(text, str))


def _message(item: object) -> Message:
    if isinstance(item, Mapping):
        return cast("Message", item)
    raise RewardFieldError(f"a chat message is an object with role and content, not {item!r:.80}")


_STEP_FIELDS = frozenset(Step.__dataclass_fields__)
_FIELDS = frozenset(Trajectory.__dataclass_fields__)


def _from_mapping(value: Mapping[str, Any]) -> Trajectory:
    given = {key: entry for key, entry in value.items() if key in _FIELDS}
    steps: Sequence[object] = given.pop("steps", None) or ()
    if "timestamp" in given and not isinstance(given["timestamp"], datetime):
        given["timestamp"] = datetime.fromisoformat(str(given["timestamp"]))
    if not isinstance(given.get("metadata", {}), Mapping):
        raise RewardFieldError(f"a trajectory's metadata is an object, not {given['metadata']!r:.80}")
    return Trajectory(**given, steps=[_step(step) for step in steps])


def _step(value: object) -> Step:
    if isinstance(value, Step):
        return value
    if not isinstance(value, Mapping):
        raise RewardFieldError(f"a step is an object with ARISE's fields, not {value!r:.80}")
    given = cast("Mapping[str, Any]", value)
    return Step(**{key: entry for key, entry in given.items() if key in _STEP_FIELDS})
