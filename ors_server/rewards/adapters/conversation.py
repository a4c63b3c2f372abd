"""Prompts and completions as trainers hand them over: texts, or lists of chat messages."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Message, Trajectory, from_messages, last_message


def as_messages(value: object, role: str) -> list[Message]:
    """Read a prompt or a completion as chat messages.

    Args:
        value: A text, which becomes one message; messages as mappings or as objects that pydantic made; or
            `None`, which is none.
        role: Who says a bare text.

    Raises:
        RewardFieldError: If it is nothing of this.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_message(item) for item in cast("Sequence[object]", value)]
    raise RewardFieldError(f"a prompt or completion is a text or chat messages; {value!r:.80} came")


def conversation_fields(prompt: object, completion: object, others: Mapping[str, Any]) -> dict[str, Any]:
    """Make the fields of one judgement.

    Args:
        prompt: What the model was given.
        completion: What it made of it, with its tool calls if there were any.
        others: Every other field, by name; they become the trajectory's metadata too.

    Returns:
        `prompt` and `completion` as they came, `final_response` (also as `prediction`, AgentFly's other name,
        unless a field has it), `trajectory`, and the others.
    """
    asked, answered = as_messages(prompt, "user"), as_messages(completion, "assistant")
    trajectory: Trajectory = from_messages([*asked, *answered])
    trajectory.metadata = dict(others)
    said = last_message(answered)
    return {
        "prediction": said,
        **others,
        "prompt": prompt,
        "completion": completion,
        "final_response": said,
        "trajectory": trajectory,
    }


def _message(item: object) -> Message:
    dump: Any = getattr(item, "model_dump", None)
    value: object = dump() if callable(dump) else item
    if isinstance(value, Mapping):
        return cast("Message", value)
    raise RewardFieldError(f"a chat message is an object with role and content; {item!r:.80} came")
