"""Who runs a session's commands in an image: its `USER`, looked up in the image's own files."""

import os
from dataclasses import dataclass
from pathlib import Path

from ors_server.sandboxes.cells.syscalls import Resolve, openat2
from ors_server.sandboxes.cells.uids import IDS_OF_IMAGES
from ors_server.sandboxes.sandbox_errors import SandboxStartError

_INSIDE = Resolve.IN_ROOT | Resolve.NO_MAGICLINKS
_MAX_BYTES = 8 << 20


@dataclass(frozen=True)
class ImageUser:
    """A user inside of a sandbox."""

    uid: int = 0
    gid: int = 0
    name: str = "root"
    home: str = "/root"


def find_user(layers: tuple[Path, ...], stated: str) -> ImageUser:
    """Return the user that an image's `USER` states: `NAME`, `UID`, `NAME:GROUP` or `UID:GID`.

    Raises:
        SandboxStartError: The image has no such user or group.
    """
    name, _, group = stated.partition(":")
    row = _find_row(layers, "etc/passwd", name or "0")
    if row is not None and len(row) > 5:  # noqa: PLR2004  (passwd(5): the sixth field is the home)
        uid, gid, home = _number(row[2], stated), _number(row[3], stated), row[5] or "/"
        name = row[0]
    elif name in {"", "0", "root"}:
        uid, gid, home, name = 0, 0, "/root", "root"
    else:
        uid, gid, home = _number(name, stated), 0, "/"
    if group:
        group_row = _find_row(layers, "etc/group", group)
        gid = _number(group if group_row is None else group_row[2], stated)
    if not home.startswith("/"):
        home = "/"
    return ImageUser(uid, gid, name, home)


def read_in_image(layers: tuple[Path, ...], path: str, max_bytes: int = _MAX_BYTES) -> bytes | None:
    """Return the first bytes of a plain file of an image; `None` if it has no such file.

    Links are followed within the image's folders.
    """
    for layer in layers:
        folder = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            opened = openat2(folder, os.fsencode(path), os.O_RDONLY | os.O_NONBLOCK, resolve=_INSIDE)
        except OSError:
            continue
        finally:
            os.close(folder)
        with open(opened, "rb") as file:  # noqa: PTH123  (a descriptor)
            return file.read(max_bytes)
    return None


def _find_row(layers: tuple[Path, ...], file: str, key: str) -> list[str] | None:
    text = (read_in_image(layers, file) or b"").decode("utf-8", "replace")
    rows = [line.split(":") for line in text.splitlines()]
    for row in rows:
        if len(row) > 2 and key in {row[0], row[2]}:  # noqa: PLR2004  (name, password, number)
            return row
    return None


def _number(text: str, stated: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= IDS_OF_IMAGES:
        raise SandboxStartError(
            f"the image's user is {stated!r}: expected a name in its /etc/passwd or /etc/group, or a number "
            f"below {IDS_OF_IMAGES}"
        )
    return int(text)
