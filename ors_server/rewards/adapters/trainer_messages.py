"""Prompts and completions as trainers pass them: texts, or lists of chat messages."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Message, Trajectory, from_messages, last_message


def as_messages(value: object, role: str) -> list[Message]:
    """Read a prompt or a completion as chat messages.

    Args:
        value: A text, which becomes one message; messages as mappings or pydantic models; or `None`.
        role: The role of a bare text.

    Raises:
        RewardFieldError: If it is nothing of this.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_message(item) for item in cast("Sequence[object]", value)]
    raise RewardFieldError(f"expected a prompt or completion as text or chat messages, got {value!r:.80}")


def as_chat(value: Any, role: str) -> Any:
    """Return a text as a list of one chat message; messages are returned unchanged."""
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def conversation_fields(prompt: object, completion: object, others: Mapping[str, Any]) -> dict[str, Any]:
    """Make the fields of one judgement.

    Returns:
        `prompt` and `completion` unchanged; `final_response`, the text of the last answer (also as
        `prediction`, AgentFly's name, unless a field has it); `trajectory`, with `others` as its metadata;
        and `others`.
    """
    questions, answers = as_messages(prompt, "user"), as_messages(completion, "assistant")
    trajectory: Trajectory = from_messages([*questions, *answers])
    trajectory.metadata = dict(others)
    response = last_message(answers)
    return {
        "prediction": response,
        **others,
        "prompt": prompt,
        "completion": completion,
        "final_response": response,
        "trajectory": trajectory,
    }


def _message(item: object) -> Message:
    dump: Any = getattr(item, "model_dump", None)
    value: object = dump() if callable(dump) else item
    if isinstance(value, Mapping):
        return cast("Message", value)
    raise RewardFieldError(f"expected a chat message with role and content, got {item!r:.80}")
