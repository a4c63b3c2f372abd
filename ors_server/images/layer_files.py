"""Unpacks the layers of an image, which may have been made to write outside of the image's folder.

Invariants:

- A path is walked by `openat2` with `RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS`: links are followed as in the
  image, and never out of it. New entries are created by name in the folder that was opened this way, and
  creating them follows no link.
- Whiteouts change what lower layers left, and nothing of their own layer: they are applied first.
- Everything belongs to the server's user, without setuid bits and extended attributes: nothing of an image
  gives rights on the host, and no attribute steers an overlay.
- Only data is counted and written: a hole of a sparse file stays a hole.
- Nothing else changes the image's folder meanwhile, so that a folder which was walked to stays open until
  something is removed, which may lead its path elsewhere.

Most files of an image are short, so that what is done for each of them counts: the goal is at most twice the
processor time of `tar -x` (`python -m bench images`). Headers are read by the standard library.
"""

import contextlib
import hashlib
import mmap
import os
import posixpath
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from typing_extensions import override

from ors_server.images.image_errors import ImageRefusedError
from ors_server.sandboxes.cells.server_state import remove_entry
from ors_server.sandboxes.cells.syscalls import INSIDE_ROOT, openat2

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 18
MAX_OPEN_FOLDERS = 64
_PAX_PATHS = ("path", "linkpath")


@dataclass(frozen=True)
class UnpackLimits:
    """Limits on one image, all layers together."""

    unpacked_bytes: int = 16 * 1024**3
    """Data, holes not counted; also the bytes of one layer's archive."""
    entries: int = 1_000_000
    """Files, folders and links."""
    apparent_bytes: int = 1024**4
    """Lengths of all files, holes counted."""
    header_bytes: int = 1 << 20
    """One header of an archive, such as the names and attributes of one file."""
    name_bytes: int = 255
    path_bytes: int = 4096
    depth: int = 128
    layers: int = 256


@dataclass
class LayerUnpacker:
    """Unpacks the layers of one image, the lowest first."""

    root: int
    """Descriptor of the folder that becomes the image's root."""
    limits: UnpackLimits
    entries: int = 0
    data_bytes: int = 0
    apparent_bytes: int = 0
    digests: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """SHA-256 of the contents of files that were written, by inode; files with holes are left out."""
    _created: set[str] = field(default_factory=set[str])
    """Paths that the layer in progress has made."""
    _folders: dict[str, int] = field(default_factory=dict[str, int])
    """Descriptors of folders by their paths."""
    _sibling: tuple[str, str, int] = ("", "", 0)
    """Folder of the latest path that was checked: as it is in the archive, in normal form, and its bytes."""

    def unpack(self, archive: BinaryIO, where: str) -> None:
        """Unpack a layer's archive, which is a file that is not compressed and that nothing else changes.

        Args:
            where: Names the layer in errors.

        Raises:
            ImageRefusedError: It is damaged, hostile or too large.
            OSError: The disk failed or is full.
        """
        self._created = set()
        members: list[tuple[str, tarfile.TarInfo]] = []
        try:
            mapped = _BoundedMap(archive.fileno(), 0, prot=mmap.PROT_READ)
            mapped.max_bytes = self.limits.header_bytes
            for member in self._members(mapped):
                path = self._check_path(member.name)
                if posixpath.basename(path).startswith(WHITEOUT):
                    self._apply_whiteout(path)
                else:
                    members.append((path, member))
            content = memoryview(mapped)
            for path, member in members:
                if path:  # the root itself is there
                    self._extract(path, member, content)
        except tarfile.TarError as error:
            raise ImageRefusedError(f"{where}: the archive is damaged: {error}") from error
        except ImageRefusedError as error:
            raise ImageRefusedError(f"{where}: {error}") from error
        except (ValueError, OverflowError, RecursionError) as error:  # values that no valid header has
            raise ImageRefusedError(f"{where}: a header is damaged: {error}") from error
        finally:
            self._close_folders()

    def _members(self, mapped: "_BoundedMap") -> Iterator[tarfile.TarInfo]:
        opened: Any = tarfile.open(fileobj=cast("Any", mapped), mode="r:", errorlevel=2, encoding="utf-8")  # noqa: SIM115  (closed by `with` below)
        with opened as tar:
            for member in tar:
                tar.members.clear()  # the list would grow with every entry, and is not needed
                self.entries += 1
                if self.entries > self.limits.entries:
                    raise ImageRefusedError(f"expected at most {self.limits.entries} entries")
                for key, value in member.pax_headers.items():
                    if key.startswith("SCHILY.xattr.") and ".overlay." in key:
                        raise ImageRefusedError(
                            f"{member.name}: the attribute {key[13:]} would steer an overlay"
                        )
                    if key in _PAX_PATHS and "\0" in value:
                        raise ImageRefusedError(f"{key} holds a NUL")
                yield member
            # The standard library ends at a damaged header as it does at the end of the archive.
            mapped.seek(opened.offset)
            if mapped.read(tarfile.BLOCKSIZE).strip(b"\0"):
                raise ImageRefusedError("the header after the last entry is damaged")

    def _check_path(self, name: str) -> str:
        """Return a member's path relative to the root, in normal form."""
        above, _, last = name.rpartition("/")
        sibling, folder, size = self._sibling
        if (
            above == sibling
            and folder
            and last.isascii()
            and last not in {"", ".", ".."}
            and "\0" not in last
            and len(last) <= min(self.limits.name_bytes, self.limits.path_bytes - size - 1)
        ):  # most paths are in the folder of the path before, and only their last part is new
            return f"{folder}/{last}"
        try:
            encoded = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ImageRefusedError(f"{name!r} is not a path") from None
        parts = [part for part in name.split("/") if part not in {"", "."}]
        if "\0" in name or len(encoded) > self.limits.path_bytes:
            raise ImageRefusedError(
                f"expected a path of at most {self.limits.path_bytes} bytes without a NUL, got "
                f"{len(encoded)} bytes"
            )
        if name.startswith("/"):
            raise ImageRefusedError(f"{name!r} is absolute")
        if ".." in parts:
            raise ImageRefusedError(f"{name!r} leads out of the image by '..'")
        if len(parts) > self.limits.depth:
            raise ImageRefusedError(
                f"expected at most {self.limits.depth} folders in a path, got {len(parts)}"
            )
        for part in parts:
            if len(part.encode("utf-8", "surrogateescape")) > self.limits.name_bytes:
                raise ImageRefusedError(
                    f"expected a name of at most {self.limits.name_bytes} bytes, got {part[:40]!r}..."
                )
        if parts and last == parts[-1]:
            self._sibling = above, "/".join(parts[:-1]), len(encoded) - len(os.fsencode(last))
        return "/".join(parts)

    def _apply_whiteout(self, path: str) -> None:
        above, name = posixpath.split(path)
        target = name.removeprefix(WHITEOUT)
        if name != OPAQUE and (target in {"", ".", ".."} or target.startswith(WHITEOUT)):
            raise ImageRefusedError(f"expected a whiteout with the name of a file, got {path!r}")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder = self._open_folder(above)
            for child in os.listdir(folder) if name == OPAQUE else [target]:
                remove_entry(folder, child)
            self._close_folders()

    def _extract(self, path: str, member: tarfile.TarInfo, content: memoryview) -> None:
        if path in self._created and not member.isdir():
            raise ImageRefusedError(f"{path!r} is in the layer twice")
        if len(self._folders) > MAX_OPEN_FOLDERS:  # here, where none of them is in use
            self._close_folders()
        if member.isreg() or member.issparse():
            self._check_data(member, len(content))
        above, _, name = path.rpartition("/")
        folder = self._open_folder(above, makes=True)
        try:
            self._create(member, content, folder, name)
        except FileExistsError:
            # A lower layer left it. A folder is merged into a folder.
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if member.isdir() and is_folder:
                self._set_folder_mode(member, folder, name)
            else:
                remove_entry(folder, name)
                self._close_folders()
                self._create(member, content, self._open_folder(above), name)
        self._created.add(path)

    def _create(self, member: tarfile.TarInfo, content: memoryview, folder: int, name: str) -> None:
        """Make an entry; raises `FileExistsError` if there is one of this name."""
        if member.isreg() or member.issparse():
            self._write(member, content, folder, name)
        elif member.isdir():
            os.mkdir(name, 0o755, dir_fd=folder)
            self._set_folder_mode(member, folder, name)
        elif member.issym():
            self._check_target(member.linkname)
            os.symlink(member.linkname, name, dir_fd=folder)
        elif member.islnk():
            self._link(member.linkname, folder, name)
        else:
            raise ImageRefusedError(f"{member.name!r} is a device, a pipe or of an unknown type")

    def _set_folder_mode(self, member: tarfile.TarInfo, folder: int, name: str) -> None:
        os.chmod(name, 0o700 | member.mode & 0o1777, dir_fd=folder, follow_symlinks=True)

    def _check_target(self, target: str) -> None:
        if not target or "\0" in target or len(target.encode("utf-8", "surrogateescape")) >= 4096:  # noqa: PLR2004  (PATH_MAX)
            raise ImageRefusedError(f"expected a link target of 1 to 4,095 bytes, got {target[:40]!r}")

    def _link(self, target: str, folder: int, name: str) -> None:
        path = self._check_path(target.lstrip("/"))
        above, _, target_name = path.rpartition("/")
        try:
            source = self._open_folder(above)
            mode = os.stat(target_name, dir_fd=source, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):  # GNU tar writes both
                raise ImageRefusedError(f"a hard link to {target!r}, which is neither a file nor a link")
            os.link(target_name, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            raise ImageRefusedError(f"a hard link to {target!r}, which is not in the image") from None

    def _check_data(self, member: tarfile.TarInfo, archive_bytes: int) -> None:
        """Check that a file's data is in the archive, and count it against the limits."""
        pieces = _sparse_pieces_of(member)
        data = member.size if pieces is None else sum(length for _, length in pieces)
        if member.size < 0 or any(
            begin < 0 or length < 0 or begin + length > member.size for begin, length in pieces or ()
        ):
            raise ImageRefusedError(f"{member.name!r} has data outside of its length")
        self.data_bytes += data
        self.apparent_bytes += member.size
        if self.data_bytes > self.limits.unpacked_bytes or self.apparent_bytes > self.limits.apparent_bytes:
            raise ImageRefusedError(
                f"expected at most {self.limits.unpacked_bytes} bytes of data and "
                f"{self.limits.apparent_bytes} bytes with holes"
            )
        if member.offset_data + data > archive_bytes:
            raise ImageRefusedError(f"{member.name!r} ends before its length")

    def _write(self, member: tarfile.TarInfo, content: memoryview, folder: int, name: str) -> None:
        pieces = _sparse_pieces_of(member)
        mode, position = member.mode & 0o777, member.offset_data
        digest = hashlib.sha256()
        descriptor = os.open(name, _NEW_FILE, mode, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
            if status.st_mode & 0o777 != mode:  # the server's umask
                os.fchmod(descriptor, mode)
            for begin, length in ((0, member.size),) if pieces is None else pieces:
                if pieces is not None:
                    os.lseek(descriptor, begin, os.SEEK_SET)
                end = position + length
                while position < end:
                    written = os.write(descriptor, content[position : min(end, position + _PIECE)])
                    digest.update(content[position : position + written])
                    position += written
            if pieces is not None:
                os.ftruncate(descriptor, member.size)
            os.utime(descriptor, (0, max(0, min(int(member.mtime), 2**33))))
        finally:
            os.close(descriptor)
        if pieces is None:
            self.digests[status.st_ino] = digest.digest()
        else:  # the number may be that of a file which was removed
            self.digests.pop(status.st_ino, None)

    def _open_folder(self, path: str, *, makes: bool = False) -> int:
        """Return a descriptor of a folder, which stays open until something is removed or the layer ends."""
        folder = self._folders.get(path)
        if folder is not None:
            return folder
        try:
            folder = openat2(self.root, os.fsencode(path or "."), _FOLDER, resolve=INSIDE_ROOT)
        except FileNotFoundError:
            if not makes:
                raise
            folder = self._make_folders(path)
        except OSError as error:
            # A file or a circle of links in the place of a folder.
            if makes and not isinstance(error, NotADirectoryError):
                raise ImageRefusedError(f"{path!r} cannot be walked: {error.strerror}") from error
            if makes:
                raise ImageRefusedError(f"{path!r} is below a file") from error
            raise
        self._folders[path] = folder
        return folder

    def _close_folders(self) -> None:
        while self._folders:
            os.close(self._folders.popitem()[1])

    def _make_folders(self, path: str) -> int:
        """Make the folders of a path, and return a descriptor of the last."""
        folder = os.dup(self.root)
        walked = ""
        for part in path.split("/"):
            walked = f"{walked}/{part}" if walked else part
            try:
                below = openat2(self.root, os.fsencode(walked), _FOLDER, resolve=INSIDE_ROOT)
            except FileNotFoundError:
                try:
                    os.mkdir(part, 0o755, dir_fd=folder)
                except FileExistsError:  # a link to nothing
                    os.close(folder)
                    raise ImageRefusedError(f"{walked!r} is a link to nothing") from None
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            except OSError as error:
                os.close(folder)
                raise ImageRefusedError(f"{walked!r} is not a folder: {error.strerror}") from error
            os.close(folder)
            folder = below
        return folder


def _sparse_pieces_of(member: tarfile.TarInfo) -> list[tuple[int, int]] | None:
    """Return where the data of a file with holes belongs, as positions and lengths; `None` without holes."""
    return cast("list[tuple[int, int]] | None", member.sparse)  # the standard library's type is wrong


class _BoundedMap(mmap.mmap):
    """A mapped file that limits one read: an archive can state a header of any size, which tarfile reads."""

    max_bytes = 0

    @override
    def read(self, n: int | None = -1, /) -> bytes:
        if n is None or n < 0 or n > self.max_bytes:
            raise ImageRefusedError(f"expected a header of at most {self.max_bytes} bytes, got {n}")
        return super().read(n)
