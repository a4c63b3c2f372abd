"""Images of episodes as separate files, for formats of documents that cannot contain their bytes."""

import base64
import binascii
import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, cast

from ors_server.model.errors import RecordError
from ors_server.model.recording import BLOCKS
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock

FOLDER = "images"
"""Folder of the images, next to the document."""
MAX_IMAGE_BYTES = 64 * 1024 * 1024
"""Bytes of the largest image that is read."""
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
PICTURES = frozenset(_ENDINGS)
"""Types of images that other formats know."""

KeepImage = Callable[[ImageBlock], str]
"""Keeps an image and returns its path below the document's folder."""


class ImageFolder:
    """Writes images to files, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[str] = set()

    def keep(self, image: ImageBlock) -> str:
        """Write an image, unless it was written, and return its path below the document's folder."""
        try:
            content = base64.b64decode(image.data, validate=True)
        except binascii.Error:
            content = image.data.encode()
        name = f"{sha256(content).hexdigest()[:32]}.{_ENDINGS.get(image.mimeType, 'bin')}"
        if name not in self._written:
            (self._folder / FOLDER).mkdir(parents=True, exist_ok=True)
            (self._folder / FOLDER / name).write_bytes(content)
            self._written.add(name)
        return f"{FOLDER}/{name}"


def with_paths(blocks: Sequence[TextBlock | ImageBlock], keep: KeepImage) -> list[JSONObject]:
    """Return blocks as JSON, with the paths of images in place of their data."""
    rows: list[JSONObject] = BLOCKS.as_json(tuple(blocks))
    for row, block in zip(rows, blocks, strict=True):
        if isinstance(block, ImageBlock):
            row["data"] = {"path": keep(block)}
    return rows


def with_data(rows: Sequence[Any], folder: Path) -> list[Any]:
    """Return rows of `with_paths` with the images' data; `RecordError` if a file cannot be read."""
    restored: list[Any] = []
    for row in rows:
        data: Any = cast("JSONObject", row).get("data") if isinstance(row, dict) else None
        if isinstance(data, dict):
            content = read_image(folder, cast("JSONObject", data).get("path"))
            restored.append({**row, "data": base64.b64encode(content).decode()})
        else:
            restored.append(row)
    return restored


def read_image(folder: Path, path: object) -> bytes:
    """Return an image's bytes; `RecordError` if it is not a file of that folder, or is too large."""
    parts = PurePosixPath(path).parts if isinstance(path, str) else ()
    if not parts or parts[0] == "/" or ".." in parts:
        raise RecordError(f"expected the path of an image below the document's folder, got {path!r}")
    file = folder.joinpath(*parts)
    try:
        # A link could lead to any file of the machine, whose content the record would then show.
        if not file.resolve().is_relative_to(folder.resolve()):
            raise RecordError(f"the image {path!r} is outside of the document's folder")
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as source:
            content = source.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise RecordError(f"the image {path!r} cannot be read: {error}") from error
    if len(content) > MAX_IMAGE_BYTES:
        raise RecordError(f"the image {path!r} has more than {MAX_IMAGE_BYTES} bytes")
    return content
