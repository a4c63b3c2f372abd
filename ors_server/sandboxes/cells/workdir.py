"""Files of a work dir, accessed from outside the sandbox without being led out of it.

Every path is walked by `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`: the agent's processes could
race a check before the opening, but not this. Nothing here waits: pipes and devices are refused, and reads
are bounded.
"""

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Generator
from dataclasses import dataclass

from ors_server.sandboxes.base import Entry, EntryKind, Limits
from ors_server.sandboxes.cells.syscalls import INSIDE_ROOT, Resolve, openat2
from ors_server.sandboxes.sandbox_errors import (
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
)

_WALK = Resolve.BENEATH | Resolve.NO_MAGICLINKS
_MEANINGS: dict[int, tuple[type[SandboxFileError], str | None]] = {
    errno.ENOENT: (SandboxFileMissingError, "no such file or folder"),
    **dict.fromkeys((errno.EXDEV, errno.ELOOP), (SandboxPathError, "leads out of the work dir")),
    errno.ENOTDIR: (SandboxPathError, "not a folder"),
    **dict.fromkeys((errno.ENXIO, errno.EISDIR, errno.ENODEV), (SandboxPathError, "not a plain file")),
}
_PIECE = 1 << 20


@dataclass(frozen=True)
class WorkDir:
    """The work dir of one sandbox, as the server holds it."""

    folder: int
    """Descriptor of the folder; it stays valid after the sandbox's processes end."""
    seen_as: str
    """Its path for commands; absolute paths below it are accepted."""
    limits: Limits
    uid: int | None = None
    """Uid and gid of created files; None leaves the server's."""
    is_root: bool = False
    """Whether the folder is a whole root, in which absolute paths and links begin, and `seen_as` a folder."""

    def read(self, path: str, max_bytes: int | None = None) -> bytes:
        """Return a file's content; one longer than `max_bytes` is refused."""
        cap = min(max_bytes if max_bytes is not None else self.limits.read_bytes, self.limits.read_bytes)
        with self._opened(path, os.O_RDONLY) as descriptor:
            _require_plain(path, descriptor)
            if os.fstat(descriptor).st_size > cap:
                raise SandboxFileTooLargeError(path, f"larger than {cap} bytes")
            content = bytearray()
            # The file may grow after the check: one byte above the limit is read to notice.
            while piece := os.read(descriptor, min(_PIECE, cap + 1 - len(content))):
                content += piece
                if len(content) > cap:
                    raise SandboxFileTooLargeError(path, f"larger than {cap} bytes")
            return bytes(content)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file, with the folders above it."""
        if len(content) > self.limits.read_bytes:
            raise SandboxFileTooLargeError(path, f"content is larger than {self.limits.read_bytes} bytes")
        self._make_folders(path)
        created = True
        with _translated(path):
            try:
                # First as a new file, to know whether the owner must be set; an old file keeps its owner and
                # mode.
                opened = self._open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o644)
            except FileExistsError:
                created = False
                opened = self._open(path, os.O_WRONLY)
        try:
            _require_plain(path, opened)
            with _translated(path):
                if created and self.uid is not None:
                    os.fchown(opened, self.uid, self.uid)
                os.ftruncate(opened, 0)
                view = memoryview(content)
                while view:
                    view = view[os.write(opened, view) :]
        finally:
            os.close(opened)

    def remove(self, path: str) -> None:
        """Remove a plain file; a link is refused."""
        above, name = posixpath.split(self._relative(path))
        if name in {"", ".", ".."}:
            raise SandboxPathError(path, "not a plain file")
        with self._opened(self._again(above), os.O_RDONLY | os.O_DIRECTORY) as folder, _translated(path):
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise SandboxPathError(path, "not a plain file")
            os.unlink(name, dir_fd=folder)

    def entries(self, path: str, depth: int) -> list[Entry]:
        """List a folder, `depth` levels deep, from 1."""
        rows: list[Entry] = []
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            prefix = posixpath.normpath(self._again(self._relative(path)))
            self._list(descriptor, "" if prefix == "." else prefix, depth, rows)
        return sorted(rows)

    def _list(self, folder: int, prefix: str, depth: int, entries: list[Entry]) -> None:
        """List level by level: a tree may be deeper than any stack, and longer than any path."""
        level = [(".", prefix)]
        for left in range(depth, 0, -1):
            below: list[tuple[str, str]] = []
            for name, shown in level:
                with contextlib.suppress(OSError):
                    below += self._list_one(folder, name, shown, entries)
            if left == 1 or not below:
                return
            level = below

    def _list_one(self, folder: int, name: str, shown: str, entries: list[Entry]) -> list[tuple[str, str]]:
        """List one folder; return its folders, as descriptor names and as displayed paths."""
        opened = openat2(
            folder,
            os.fsencode(name),
            os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK,
            resolve=_WALK | Resolve.NO_SYMLINKS,
        )
        below: list[tuple[str, str]] = []
        try:
            with os.scandir(opened) as rows:
                for row in rows:
                    if len(entries) >= self.limits.entries:
                        break
                    entry = _entry(row, posixpath.join(shown, row.name))
                    entries.append(entry)
                    if entry.kind is EntryKind.FOLDER:
                        below.append((posixpath.join(name, row.name), entry.path))
        finally:
            os.close(opened)
        return below

    def _make_folders(self, path: str) -> None:
        # One level at a time, each by `openat2`: `os.makedirs` would follow the agent's links.
        above = posixpath.dirname(self._relative(path))
        folder_path = ""
        for part in [part for part in above.split("/") if part not in {"", "."}]:
            parent = folder_path
            folder_path = f"{folder_path}/{part}" if folder_path else part
            with self._opened(self._again(parent), os.O_RDONLY | os.O_DIRECTORY) as folder:
                self._make_folder(path, folder, part)

    def _make_folder(self, path: str, folder: int, part: str) -> None:
        if part == "..":
            return  # walking through it is the kernel's to judge
        with _translated(path), contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
            if self.uid is not None:
                os.chown(part, self.uid, self.uid, dir_fd=folder, follow_symlinks=False)

    @contextlib.contextmanager
    def _opened(self, path: str, flags: int) -> Generator[int]:
        with _translated(path):
            descriptor = self._open(path, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, path: str, flags: int, mode: int = 0) -> int:
        return openat2(
            self.folder,
            os.fsencode(self._relative(path)),
            flags | os.O_NONBLOCK | os.O_NOCTTY,
            mode=mode,
            resolve=INSIDE_ROOT if self.is_root else _WALK,
        )

    def _again(self, relative: str) -> str:
        """Return a path that `_relative` returned as a caller would write it."""
        return f"/{relative}" if self.is_root else relative or "."

    def _relative(self, path: str) -> str:
        if "\0" in path or not path:
            raise SandboxPathError(path, "not a path", is_never_valid=True)
        try:
            path.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise SandboxPathError(path, "not a path", is_never_valid=True) from None
        if self.is_root:
            return posixpath.join(self.seen_as, path).lstrip("/") or "."
        if not path.startswith("/"):
            return path
        if path == self.seen_as or path.startswith(self.seen_as + "/"):
            return path[len(self.seen_as) :].lstrip("/") or "."
        reason = f"outside the work dir; use a path relative to {self.seen_as}"
        raise SandboxPathError(path, reason, is_never_valid=True)


def _require_plain(path: str, descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise SandboxPathError(path, "not a plain file")


def _entry(row: os.DirEntry[str], path: str) -> Entry:
    try:
        status = row.stat(follow_symlinks=False)
    except OSError:
        return Entry(path, EntryKind.OTHER, 0)
    if stat.S_ISREG(status.st_mode):
        return Entry(path, EntryKind.FILE, status.st_size)
    if stat.S_ISDIR(status.st_mode):
        return Entry(path, EntryKind.FOLDER, 0)
    return Entry(path, EntryKind.LINK if stat.S_ISLNK(status.st_mode) else EntryKind.OTHER, 0)


@contextlib.contextmanager
def _translated(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        kind, reason = _MEANINGS.get(error.errno or 0, (SandboxFileError, None))
        raise kind(path, reason or (error.strerror or "refused").lower()) from None
