"""Copies what a session has changed of an image: into one file, and from it over the image's files again.

The changes are the upper folder of an overlay (kernel: Documentation/filesystems/overlayfs.rst). A device
0:0 there hides a file of the image, and a folder with the attribute `opaque` hides the image's folder of the
same name. They are written to the file as such, and carried out on the merged folders of another overlay, so
no program writes into the upper folder of a mounted one.

Every step goes by descriptor and name and follows no link. The file is a list of records: the length of a
header (4 bytes, big-endian), the header (JSON), then the data that the header announces. A folder's record is
followed by those of its entries and by one of the kind `end`, which sets its mode and time.
"""

import contextlib
import json
import os
import stat
import struct
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ors_server.sandboxes.cells.server_state import remove_entry

MAX_DEPTH = 300
"""Folders in a path; the copying functions call themselves once or twice for each."""
_PIECE = 1 << 20
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
_HEADER = struct.Struct(">I")


@dataclass
class OverlayWriter:
    """Writes one folder and everything below it."""

    out: BinaryIO
    first_id: int | None
    """The host's id of the sandbox's id 0; `None` if everything belongs to one user."""
    _linked: dict[int, str] = field(default_factory=dict[int, str])
    """Inodes of files with several names, to the first name that was written."""

    def write_all(self, folder: int) -> None:
        """Write the entries of an open folder, and a mark of the end.

        Raises:
            OSError: Something could not be read, or the folders are too deep.
        """
        self._write_folder(folder, "", 0)
        self.out.write(_HEADER.pack(0))

    def _write_folder(self, folder: int, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise OSError(f"the folders are more than {MAX_DEPTH} deep")
        for name in sorted(os.listdir(folder)):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            below = f"{path}/{name}"
            if stat.S_ISDIR(status.st_mode):
                with readable(folder, name, FOLDER_FLAGS) as opened:
                    self._put("folder", name, status, opaque=_is_opaque(opened))
                    self._write_folder(opened, below, depth + 1)
                    self._put("end", name, status)
            elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                self._put("hidden", name, status)  # the kernel links one such device for many names
            elif status.st_nlink > 1 and status.st_ino in self._linked:
                self._put("link", name, status, target=self._linked[status.st_ino])
            else:
                if status.st_nlink > 1:
                    self._linked[status.st_ino] = below
                self._write_entry(folder, name, status)

    def _write_entry(self, folder: int, name: str, status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode):
            with readable(folder, name, _FILE) as opened:
                self._write_file(opened, name, status)
        elif stat.S_ISLNK(status.st_mode):
            self._put("symlink", name, status, target=os.readlink(name, dir_fd=folder))
        elif stat.S_ISFIFO(status.st_mode):
            self._put("pipe", name, status)
        # A socket is nothing without the process that listens, and other devices cannot be made.

    def _write_file(self, opened: int, name: str, status: os.stat_result) -> None:
        pieces: list[tuple[int, int]] = []
        position = 0
        while position < status.st_size:
            try:
                begin = os.lseek(opened, position, os.SEEK_DATA)
            except OSError:
                break  # only a hole is left
            position = os.lseek(opened, begin, os.SEEK_HOLE)
            pieces.append((begin, position - begin))
        self._put("file", name, status, size=status.st_size, pieces=pieces)
        for begin, length in pieces:
            done = 0
            while done < length:
                piece = os.pread(opened, min(_PIECE, length - done), begin + done)
                if not piece:
                    raise OSError(f"{name!r} became shorter while it was copied")
                self.out.write(piece)
                done += len(piece)

    def _put(self, kind: str, name: str, status: os.stat_result, **values: Any) -> None:
        first = self.first_id
        owner = None if first is None else [status.st_uid - first, status.st_gid - first]
        row = {
            "kind": kind,
            "name": name,
            "mode": stat.S_IMODE(status.st_mode),
            "owner": owner,
            "time": status.st_mtime_ns,
            **values,
        }
        header = json.dumps(row).encode()
        self.out.write(_HEADER.pack(len(header)) + header)


@dataclass
class OverlayReader:
    """Carries out the records of one folder, over the image's files of a new session."""

    source: BinaryIO
    first_id: int | None
    """As for the writer; ids differ between sessions."""

    def read(self, root: int) -> None:
        """Read up to the mark of the end.

        Args:
            root: Descriptor of the folder; no other program changes anything below it.

        Raises:
            OSError: Something could not be written.
        """
        open_folders = [os.dup(root)]
        try:
            while length := _HEADER.unpack(self.source.read(_HEADER.size))[0]:
                row: dict[str, Any] = json.loads(self.source.read(length))
                folder = open_folders[-1]
                if row["kind"] == "folder":
                    open_folders.append(self._make_folder(folder, row))
                elif row["kind"] == "end":
                    self._set_attributes(open_folders[-1], row)
                    os.close(open_folders.pop())
                else:
                    self._make_entry(root, folder, row)
        finally:
            for folder in open_folders:
                os.close(folder)

    def _make_folder(self, parent: int, row: dict[str, Any]) -> int:
        name = row["name"]
        with contextlib.suppress(FileNotFoundError):
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
            if row["opaque"] or not is_folder:
                remove_entry(parent, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)

    def _make_entry(self, root: int, folder: int, row: dict[str, Any]) -> None:
        name, kind = row["name"], row["kind"]
        remove_entry(folder, name)
        if kind == "hidden":
            return
        if kind == "link":
            target = row["target"].lstrip("/")
            os.link(target, name, src_dir_fd=root, dst_dir_fd=folder, follow_symlinks=False)
        elif kind == "file":
            opened = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
            try:
                self._copy_data(opened, row)
                self._set_attributes(opened, row)
            finally:
                os.close(opened)
        else:
            if kind == "symlink":
                os.symlink(row["target"], name, dir_fd=folder)
            else:
                os.mkfifo(name, row["mode"], dir_fd=folder)
            if self.first_id is not None:
                os.chown(name, *self._owner(row), dir_fd=folder, follow_symlinks=False)
            os.utime(name, ns=(row["time"], row["time"]), dir_fd=folder, follow_symlinks=False)

    def _copy_data(self, opened: int, row: dict[str, Any]) -> None:
        for begin, length in row["pieces"]:
            done = 0
            while done < length:
                piece = self.source.read(min(_PIECE, length - done))
                if not piece:
                    raise OSError("the copy ends too early")
                # A full disk may take a part of a piece, and then raises for the rest.
                view = memoryview(piece)
                while view:
                    written = os.pwrite(opened, view, begin + done)
                    view, done = view[written:], done + written
        os.ftruncate(opened, row["size"])

    def _owner(self, row: dict[str, Any]) -> tuple[int, int]:
        return self.first_id + row["owner"][0], self.first_id + row["owner"][1]

    def _set_attributes(self, opened: int, row: dict[str, Any]) -> None:
        if self.first_id is not None:
            os.fchown(opened, *self._owner(row))
        os.fchmod(opened, row["mode"])
        os.utime(opened, ns=(row["time"], row["time"]))


def changed_files(upper: int, lower: int, names: tuple[str, ...], max_paths: int) -> list[str]:
    """Return files below these folders that are in an upper folder and also in a lower one.

    Args:
        names: Paths relative to both.
        upper: Descriptor of the folder with the changes.
        lower: Descriptor of the image's folder.
    """
    paths: list[str] = []

    def look(changed: int, original: int, path: str, depth: int) -> None:
        for name in sorted(os.listdir(changed)):
            if len(paths) >= max_paths or depth > MAX_DEPTH:
                return
            try:
                status = os.stat(name, dir_fd=original, follow_symlinks=False)
            except OSError:
                continue  # the session has added it
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=changed, follow_symlinks=False).st_mode)
            if not is_folder or not stat.S_ISDIR(status.st_mode):
                paths.append(f"{path}/{name}")
                continue
            entries = (readable(folder, name, FOLDER_FLAGS) for folder in (changed, original))
            with next(entries) as inner, next(entries) as outer:
                if _is_opaque(inner):
                    paths.append(f"{path}/{name}")
                look(inner, outer, f"{path}/{name}", depth + 1)

    def look_at(path: str) -> None:
        """Go down to a folder; what the session has put in the place of one above it is a change, too."""
        with contextlib.ExitStack() as stack:
            folders = (upper, lower)
            way = ""
            for name in path.split("/"):
                way += f"/{name}"
                modes = [os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode for folder in folders]
                if not all(stat.S_ISDIR(mode) for mode in modes):
                    paths.append(way)
                    return
                inner, outer = (readable(folder, name, FOLDER_FLAGS) for folder in folders)
                folders = (stack.enter_context(inner), stack.enter_context(outer))
                if way != f"/{path}" and _is_opaque(folders[0]):
                    paths.append(way)
            look(*folders, f"/{path}", 0)

    for name in names:
        with contextlib.suppress(OSError):
            look_at(name)
    return sorted(paths)


def _is_opaque(folder: int) -> bool:
    for name in _OPAQUE:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"y":
                return True
    return False


@contextlib.contextmanager
def readable(folder: int, name: str, flags: int) -> Generator[int]:
    """Open an entry, also one that its owner has locked for himself; its mode is as before afterwards."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    # What is in a folder is found by the right to search it, until the last entry.
    needed = 0o500 if stat.S_ISDIR(mode) else 0o400
    with contextlib.ExitStack() as stack:
        if os.geteuid() != 0 and mode & needed != needed:
            # By descriptor: a link that is put into its place meanwhile is not followed.
            entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, entry)
            path, mode = Path(f"/proc/self/fd/{entry}"), stat.S_IMODE(os.fstat(entry).st_mode)
            path.chmod(mode | 0o700)
            stack.callback(path.chmod, mode)
        opened = os.open(name, flags, dir_fd=folder)
        stack.callback(os.close, opened)
        yield opened


@contextlib.contextmanager
def open_below(folder: int, path: str) -> Generator[int]:
    """Open a folder below another one, through folders alone; `OSError` if there is none."""
    with contextlib.ExitStack() as stack:
        for name in path.split("/"):
            folder = stack.enter_context(readable(folder, name, FOLDER_FLAGS))
        yield folder
