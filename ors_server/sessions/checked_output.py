"""From what a tool returned to what leaves the server: legal, bounded, and encodable on every wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.authoring.boundary import encodable
from ors_server.episode import EpisodeState, StepReward, remaining_time
from ors_server.errors import ToolOutputError
from ors_server.policy import EpisodePolicy, RewardRangeError
from ors_server.sessions.json_copies import JSONCopyError, check_size, read_json, write_json
from ors_server.wire import ImageBlock, JSONObject, TextBlock, ToolOutput, make_of_checked

BLOCK_OVERHEAD = 64
"""Bytes that a block counts for besides its content."""

MAX_BLOCKS = 10_000
"""Blocks of one output: more would hold the event loop."""

EPISODE_KEY = "episode"
"""Key of an output's metadata under which the server states the episode's state, over any author's."""


@dataclass(slots=True)
class CheckedOutput:
    """The server's own copy of what a tool returned, which the author's code cannot reach."""

    blocks: list[TextBlock | ImageBlock]
    metadata: JSONObject | None = None
    reward: float | None = None
    """Admitted by the policy."""
    finished: bool = False


def check_output(output: ToolOutput, policy: EpisodePolicy, max_bytes: int) -> CheckedOutput:
    """Check what a tool returned, and admit its reward.

    Args:
        max_bytes: Most bytes of text and image data, roughly as they travel.

    Returns:
        A copy, its reward clipped if the policy says so, and characters that UTF-8 cannot express replaced.

    Raises:
        ToolOutputError: If the reward is out of range, the output too large, or its metadata not JSON, or of
            more than 50,000 values.
    """
    if len(output.blocks) > MAX_BLOCKS:
        raise ToolOutputError(f"the output has {len(output.blocks)} blocks; at most {MAX_BLOCKS} are allowed")
    size = sum(map(_size, output.blocks))
    if size > max_bytes:
        msg = f"the output has {size} bytes; at most {max_bytes} are allowed (setting max_output_bytes)"
        raise ToolOutputError(msg)
    try:
        reward = policy.admit(output.reward)
    except RewardRangeError as error:
        raise ToolOutputError(str(error)) from error
    metadata = _copy_json(output.metadata, "metadata", max_bytes)
    blocks = [_check_block(block, max_bytes) for block in output.blocks]
    return CheckedOutput(blocks, metadata, reward, output.finished)


def add_episode_metadata(
    output: CheckedOutput, charge: StepReward, state: EpisodeState, policy: EpisodePolicy, now: float
) -> ToolOutput:
    """Make the output that leaves the server: with the step's final reward and the episode's state.

    Args:
        output: What the tool returned; it must not be used again.
    """
    stated = describe_state(state, policy, now)
    stated["components"] = dict(charge.components)
    metadata = {EPISODE_KEY: stated} if output.metadata is None else output.metadata | {EPISODE_KEY: stated}
    return make_of_checked(
        ToolOutput,
        {
            "blocks": output.blocks,
            "metadata": metadata,
            "reward": charge.reward,
            "finished": charge.finished,
        },
    )


def describe_state(state: EpisodeState, policy: EpisodePolicy, now: float) -> dict[str, Any]:
    """Describe an episode's state after its latest step.

    Returns:
        `step`, `return`, `withheld` (earned and charged, and not paid yet), `penalty_sum`, `penalties` by
        cause, `steps_remaining` and `time_remaining` (seconds; `None` without a limit), and `stop_reason`.
    """
    left = remaining_time(state, policy, now)
    return {
        "step": state.steps,
        "return": state.episode_return,
        "withheld": state.held or 0.0,
        "penalty_sum": state.penalty_sum,
        "penalties": {cause.value: amount for cause, amount in state.penalties.items()},
        "steps_remaining": None if policy.step_limit is None else max(0, policy.step_limit - state.steps),
        "time_remaining": None if left is None else round(left, 3),
        "stop_reason": None if state.stop_reason is None else state.stop_reason.value,
    }


def make_error_output(text: str, code: str, extra: Mapping[str, Any] | None = None) -> CheckedOutput:
    """Make the output that tells an agent of its own mistake."""
    return CheckedOutput([TextBlock(text=text)], {"error": {"code": code, **(extra or {})}})


def _size(block: TextBlock | ImageBlock) -> int:
    content = block.text if isinstance(block, TextBlock) else block.data
    length = len(content) if content.isascii() else len(content.encode(errors="replace"))
    return length + BLOCK_OVERHEAD


def _check_block(block: TextBlock | ImageBlock, max_bytes: int) -> TextBlock | ImageBlock:
    if isinstance(block, ImageBlock) and not (block.data.isascii() and block.mimeType.isascii()):
        raise ToolOutputError("an image's data is base64 and its mimeType a MIME type; both are ASCII")
    if block.detail is not None:
        block = block.model_copy(update={"detail": _copy_json(block.detail, "a block's detail", max_bytes)})
    if isinstance(block, ImageBlock) or block.text.isascii():
        return block
    text = encodable(block.text)
    return block if text == block.text else block.model_copy(update={"text": text})


def _copy_json(value: JSONObject | None, what: str, max_bytes: int) -> JSONObject | None:
    if value is None:
        return None
    try:
        check_size(value)
        text = write_json(value)
        copied = read_json(text)
    except JSONCopyError as error:
        msg = f"{what} must be JSON without NaN or infinities, nested at most 200 deep: {error}"
        raise ToolOutputError(msg) from error
    if len(text) > max_bytes:
        msg = f"{what} has {len(text)} bytes as JSON; {max_bytes} are allowed (setting max_output_bytes)"
        raise ToolOutputError(msg)
    return copied
