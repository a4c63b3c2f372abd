"""Brings the given files into a sandbox, in one piece, with their modes and times."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from ors_server_tasks.shell.exercise import EPOCH, Exercise, File, Folder, Link, Node, Tree

if TYPE_CHECKING:
    from ors_server import Sandbox

PROGRAMS = (
    "awk",
    "cat",
    "cmp",
    "date",
    "find",
    "git",
    "grep",
    "gzip",
    "iconv",
    "python3",
    "sed",
    "sort",
    "tar",
    "xargs",
)
"""What exercises may need inside the sandbox, one program of each package."""

_PARCEL = ".given.tar"
_UNPACK = (
    f"for p in {' '.join(PROGRAMS)}; do command -v $p >/dev/null || echo $p; done; "
    f"tar -xpf {_PARCEL} && rm {_PARCEL}"
)
_FILE_MODE = 0o644
_FOLDER_MODE = 0o755


async def deliver(sandbox: Sandbox, exercise: Exercise) -> None:
    """Put what an exercise gives into an empty work dir.

    Args:
        sandbox: The session's.
        exercise: Whose files.

    Raises:
        RuntimeError: The sandbox lacks programs that exercises need, or its tar failed.
    """
    await sandbox.write_file(_PARCEL, pack({**exercise.before, **exercise.hidden}))
    result = await sandbox.exec(_UNPACK)
    missing = result.stdout.text.split()
    if missing:
        raise RuntimeError(
            f"the shell environment needs programs that its sandbox does not have: {', '.join(missing)}; "
            "install them on the server's machine (Debian: apt-get install mawk diffutils findutils "
            "git grep gzip "
            "libc-bin python3 sed tar)"
        )
    if result.exit_code != 0:
        raise RuntimeError(f"the given files could not be unpacked: {result.stderr.text.strip()}")


def pack(tree: Tree) -> bytes:
    """Return a tar archive of a tree, folders before what is in them.

    Raises:
        TypeError: A node can only be required, not given.
    """
    parcel = io.BytesIO()
    with tarfile.open(fileobj=parcel, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree):
            member, content = _member(path, tree[path])
            archive.addfile(member, io.BytesIO(content))
    return parcel.getvalue()


def _member(path: str, node: Node) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(path)
    member.mtime = EPOCH
    match node:
        case File():
            member.size = len(node.content)
            member.mode = _FILE_MODE if node.mode is None else node.mode
            member.mtime = node.mtime
            return member, node.content
        case Folder():
            member.type = tarfile.DIRTYPE
            member.mode = _FOLDER_MODE if node.mode is None else node.mode
        case Link():
            member.type = tarfile.SYMTYPE
            member.linkname = node.target
        case _:
            raise TypeError(f"{path!r} cannot be given: {type(node).__name__}")
    return member, b""
