"""The tool calls of an episode, in order. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.rewards.reward_trajectory import Trajectory, read_trajectory
from ors_server.rewards.transcripts.role_messages import read_arguments


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool."""

    name: str
    arguments: Mapping[str, Any] | None
    """Values by argument name; `None` if the arguments are not a JSON object."""
    result: str | None = None
    """What the call returned, as far as it is known."""
    failed: bool = False
    """Whether the call returned an error."""


def read_calls(trajectory: Trajectory) -> list[ToolCall]:
    """Return the tool calls of an episode, in order: its steps, which its messages are read into.

    Raises:
        RewardFieldError: The messages are in no shape that is understood.
    """
    episode: Trajectory = read_trajectory(trajectory)
    return [
        ToolCall(
            step.action,
            read_arguments(step.action_input),
            step.whole_result,
            step.error is not None,
        )
        for step in episode.steps
    ]
