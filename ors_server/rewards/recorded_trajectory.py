"""Turns the server's own record of an episode into the trajectory that rewards read."""

from collections.abc import Mapping, Sequence
from typing import Any

from ors_server.model.trajectory import EpisodeOrigin, EpisodeSummary
from ors_server.model.trajectory import Step as RecordedStep
from ors_server.model.wire import GroupCandidate, TextBlock
from ors_server.rewards.reward_trajectory import (
    OUTCOME_CHARACTERS,
    RESULT_CHARACTERS,
    Step,
    Trajectory,
    from_messages,
)
from ors_server.rewards.transcripts.conversation import ReadMessages
from ors_server.rewards.transcripts.turns import Message


def trajectory_of(
    origin: EpisodeOrigin,
    steps: Sequence[RecordedStep],
    summary: EpisodeSummary | None = None,
    *,
    prompt: str = "",
    final_response: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Read an episode's record as a trajectory; what ARISE's fields cut is whole in other fields.

    The return becomes the trajectory's reward, the prompt its task, and the task's fields metadata, unless
    `metadata` has them: what the process that ran the episode reports.
    """
    return Trajectory(
        task=prompt,
        steps=[_step(step) for step in steps],
        outcome=final_response[:OUTCOME_CHARACTERS],
        full_outcome=final_response,
        reward=0.0 if summary is None else summary.episode_return,
        timestamp=origin.created_at,
        metadata={**origin.task_spec, **(metadata or {})},
        messages=ReadMessages(_messages(prompt, steps, final_response)),
    )


def trajectory_of_candidate(candidate: GroupCandidate) -> Trajectory:
    """Read a rollout of a group, which is a conversation, as a trajectory with the rollout's metadata."""
    read = from_messages(candidate.messages)
    read.metadata = dict(candidate.metadata or {})
    return read


def _step(step: RecordedStep) -> Step:
    result = text_of_step(step)
    return Step(
        action=step.tool,
        action_input=dict(step.arguments),
        result=result[:RESULT_CHARACTERS],
        full_result=result,
        error=None if step.error is None else step.error or (step.error_code or "error"),
        latency_ms=1000.0 * step.duration,
        reward=step.earned,
    )


def text_of_step(step: RecordedStep) -> str:
    """Return the text that a step returned."""
    return "\n".join(block.text for block in step.blocks if isinstance(block, TextBlock))


def _messages(prompt: str, steps: Sequence[RecordedStep], final_response: str) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": prompt}] if prompt else []
    for step in steps:
        messages.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": step.call_id, "name": step.tool, "arguments": dict(step.arguments)}],
            }
        )
        messages.append(
            {
                "role": "tool",
                "name": step.tool,
                "tool_call_id": step.call_id,
                "content": text_of_step(step) if step.error is None else (step.error or text_of_step(step)),
            }
        )
    if final_response:
        messages.append({"role": "assistant", "content": final_response})
    return messages
