"""Copies a small tree of files from one sandbox into another, without starting a program for it.

Every step goes by descriptor and name, follows no link and opens only plain files, so an agent's files decide
what is copied, and not where to. Device nodes and sockets are left out.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_ENTRIES = 400
"""Files and folders above which a separate program copies faster."""
_READ_BYTES = 1 << 20
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class _Copy:
    """One copy in progress."""

    uid: int | None
    root: int
    """Descriptor of the target."""
    linked: dict[int, str] = field(default_factory=dict[int, str])
    """Inode of a file with several names to the first of its copies, below the target."""


def is_small(source: int, names: list[str]) -> bool:
    """Return whether folders below a descriptor hold few enough entries to be copied here."""
    left = MAX_ENTRIES
    for name in names:
        for _ in _walk(source, name):
            left -= 1
            if left < 0:
                return False
    return True


def copy_tree(source: int, target: int, names: list[str], uid: int | None) -> None:
    """Copy folders into existing folders of the same names; entries of the same name are replaced.

    Nothing may change below either meanwhile.

    Args:
        source: Descriptor of the folder above the ones that are copied.
        target: Descriptor of the folder above the others.
        uid: Uid and gid of the copies; None for the server's own.

    Raises:
        OSError: A file could not be copied; what was copied stays.
    """
    copy = _Copy(uid, target)
    for name in names:
        _copy_folder(copy, source, name, target, name)


def _walk(parent: int, name: str) -> Iterator[None]:
    """Yield once for everything below a folder."""
    folder = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    try:
        with os.scandir(folder) as rows:
            entries = [(row.name, row.is_dir(follow_symlinks=False)) for row in rows]
        for entry, is_folder in entries:
            yield None
            if is_folder:
                yield from _walk(folder, entry)
    finally:
        os.close(folder)


def _copy_folder(copy: _Copy, parent: int, name: str, into: int, path: str) -> None:
    """Copy a folder's entries into an existing one; set its own mode and times last."""
    folder = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    try:
        copied_folder = os.open(name, _FOLDER_FLAGS, dir_fd=into)
        try:
            for entry in os.listdir(folder):  # noqa: PTH208  (by descriptor)
                _copy_entry(copy, folder, entry, copied_folder, f"{path}/{entry}")
            _set_attributes(copy, os.fstat(folder), copied_folder)
        finally:
            os.close(copied_folder)
    finally:
        os.close(folder)


def _copy_entry(copy: _Copy, folder: int, name: str, target: int, path: str) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(name, dir_fd=target)
    # A file with several names is copied once, and its other names are linked to the copy.
    first = copy.linked.get(status.st_ino)
    if first is not None:
        with contextlib.suppress(OSError):  # too long a path, or a limit on links: copy it again
            os.link(first, name, src_dir_fd=copy.root, dst_dir_fd=target, follow_symlinks=False)
            return
    if stat.S_ISDIR(status.st_mode):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=target)
        _copy_folder(copy, folder, name, target, path)
    elif stat.S_ISREG(status.st_mode):
        _copy_file(copy, folder, name, target)
        if status.st_nlink > 1:
            copy.linked[status.st_ino] = path
    elif stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(name, dir_fd=folder), name, dir_fd=target)
        _set_attributes_by_name(copy, status, name, target)
    elif stat.S_ISFIFO(status.st_mode):
        os.mkfifo(name, stat.S_IMODE(status.st_mode), dir_fd=target)
        _set_attributes_by_name(copy, status, name, target)


def _copy_file(copy: _Copy, folder: int, name: str, target_folder: int) -> None:
    source = os.open(name, _FILE_FLAGS, dir_fd=folder)
    try:
        status = os.fstat(source)
        # Checked on the open descriptor: the name may have been replaced since it was looked up.
        if not stat.S_ISREG(status.st_mode):
            return
        target = os.open(name, _NEW_FLAGS, 0o600, dir_fd=target_folder)
        try:
            _copy_data(source, target, status.st_size)
            _set_attributes(copy, status, target)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _copy_data(source: int, target: int, size: int) -> None:
    """Copy a file's data; holes stay holes."""
    position = 0
    while position < size:
        try:
            position = os.lseek(source, position, os.SEEK_DATA)
        except OSError:
            break  # only a hole is left
        end = os.lseek(source, position, os.SEEK_HOLE)
        while position < end:
            piece = os.pread(source, min(_READ_BYTES, end - position), position)
            if not piece:
                break
            position += os.pwrite(target, piece, position)
    os.ftruncate(target, size)


def _set_attributes(copy: _Copy, status: os.stat_result, target: int) -> None:
    """Give a copy owner, mode and times of the original; the owner first, which takes set-uid bits away."""
    if copy.uid is not None:
        os.fchown(target, copy.uid, copy.uid)
    os.fchmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _set_attributes_by_name(copy: _Copy, status: os.stat_result, name: str, target: int) -> None:
    """Give what is not opened its owner and times."""
    if copy.uid is not None:
        os.chown(name, copy.uid, copy.uid, dir_fd=target, follow_symlinks=False)
    os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=target, follow_symlinks=False)
