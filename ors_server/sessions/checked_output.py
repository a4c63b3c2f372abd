"""From what a tool returned to what leaves the server: legal, bounded, and encodable on every wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.authoring.boundary import encodable
from ors_server.errors import ToolOutputError
from ors_server.policy import EpisodePolicy, RewardRangeError
from ors_server.sessions.json_copies import JSONCopyError, check_size, read_json, write_json
from ors_server.wire import ImageBlock, JSONObject, TextBlock, ToolOutput

BLOCK_OVERHEAD = 64
"""Bytes that a block counts for besides its content."""

MAX_BLOCKS = 10_000
"""Blocks of one output: more would hold the event loop."""


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
