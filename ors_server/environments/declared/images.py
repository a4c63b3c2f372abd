"""Reads the images of a prompt: from files next to the data, data URLs, or base64."""

import base64
import binascii
from pathlib import Path
from typing import Any, cast

from ors_server.environments.declared.row_faults import RowFaultError, show_value
from ors_server.model.wire import ImageBlock

MAX_IMAGE = 20 * 2**20
"""Greatest size of an image, in bytes."""
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_EXPECTED = (
    "an image: the path of a file below the data's folder, a data URL, or base64 (PNG, JPEG, GIF or WebP)"
)


def read_image(value: Any, folder: str, key: str) -> ImageBlock:
    """Return an image as a block of a prompt; raise `RowFaultError` if it is not an image.

    Args:
        value: A text, or an object with `bytes` or `path`, as `datasets` has images.
        folder: The folder in which files are.
    """
    original = value
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        value = parts.get("bytes") or parts.get("path")
    if not isinstance(value, str) or not value:
        raise RowFaultError(key, _EXPECTED, show_value(original))
    data = _read_file(value, folder, key) or _decode(value)
    kind = _kind_of(data)
    if kind is None or len(data) > MAX_IMAGE:
        raise RowFaultError(key, _EXPECTED, show_value(original))
    return ImageBlock(data=base64.b64encode(data).decode(), mimeType=kind)


def _read_file(value: str, folder: str, key: str) -> bytes:
    if len(value) > 1024 or value.startswith("data:") or "\0" in value:  # noqa: PLR2004  (longer than a path)
        return b""
    root = Path(folder).resolve()
    path = (root / value).resolve()
    try:
        if not path.is_file():
            return b""
        if not path.is_relative_to(root):
            raise RowFaultError(key, f"a file below {root}", value)
        with path.open("rb") as stream:
            # One byte more than allowed shows that it is too large.
            return stream.read(MAX_IMAGE + 1)
    except OSError:
        return b""


def _decode(value: str) -> bytes:
    text = value.partition(",")[2] if value.startswith("data:") else value
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _kind_of(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _SIGNATURES.items() if data.startswith(mark)), None)
