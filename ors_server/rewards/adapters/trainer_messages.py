"""Prompts and completions as trainers pass them: texts, or lists of chat messages."""

from collections.abc import Mapping
from typing import Any

from ors_server.rewards.reward_trajectory import from_messages, last_message, played_messages


def as_chat(value: Any, role: str) -> Any:
    """Return a text as a list of one chat message; messages are returned unchanged."""
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def conversation_fields(prompt: object, completion: object, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Make the fields of one judgement.

    Args:
        prompt: A text, messages in any shape that is known, or `None`; its calls are not the agent's.
        completion: The same; a text is the assistant's.

    Returns:
        `prompt` and `completion` unchanged; `final_response`, the text of the last answer (also as
        `prediction`, AgentFly's name, unless a field has it); `trajectory`, with `columns` as its metadata;
        and `columns`.

    Raises:
        RewardFieldError: A shape, a role, a type or a key is not understood.
    """
    trajectory = from_messages(completion, prompt)
    trajectory.metadata = dict(columns)
    response = last_message(played_messages(trajectory))
    return {
        "prediction": response,
        **columns,
        "prompt": prompt,
        "completion": completion,
        "final_response": response,
        "trajectory": trajectory,
    }
