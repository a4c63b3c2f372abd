"""Unpacks the layers of an image, which may have been made to write outside of the image's folder.

Invariants:

- A path is walked by `openat2` with `RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS`: links are followed as in the
  image, and never out of it. New entries are created by name in the folder that was opened this way, and
  creating them follows no link.
- Whiteouts change what lower layers left, and nothing of their own layer: they are applied first.
- Everything belongs to the server's user, without setuid bits and extended attributes: nothing of an image
  gives rights on the host, and no attribute steers an overlay.
- Only data is counted and written: a hole of a sparse file stays a hole.
"""

import contextlib
import os
import posixpath
import stat
import tarfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from ors_server.images.image_errors import ImageRefusedError
from ors_server.sandboxes.cells.server_state import remove_entry
from ors_server.sandboxes.cells.syscalls import Resolve, openat2

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
_WALK = Resolve.IN_ROOT | Resolve.NO_MAGICLINKS
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
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
    _created: set[str] = field(default_factory=set[str])
    """Paths that the layer in progress has made."""

    def unpack(self, archive: BinaryIO, where: str) -> None:
        """Unpack a layer's archive, which is not compressed.

        Args:
            where: Names the layer in errors.

        Raises:
            ImageRefusedError: It is damaged, hostile or too large.
            OSError: The disk failed or is full.
        """
        self._created = set()
        members: list[tarfile.TarInfo] = []
        try:
            for member in self._members(archive):
                name = self._check_path(member.name)
                if posixpath.basename(name).startswith(WHITEOUT):
                    self._apply_whiteout(name)
                else:
                    members.append(member)
            for member in members:
                self._extract(member, archive)
        except tarfile.TarError as error:
            raise ImageRefusedError(f"{where}: the archive is damaged: {error}") from error
        except ImageRefusedError as error:
            raise ImageRefusedError(f"{where}: {error}") from error
        except (ValueError, OverflowError, RecursionError) as error:  # values that no valid header has
            raise ImageRefusedError(f"{where}: a header is damaged: {error}") from error

    def _members(self, archive: BinaryIO) -> Iterator[tarfile.TarInfo]:
        bounded: Any = _BoundedReads(archive, self.limits.header_bytes)
        opened: Any = tarfile.open(fileobj=bounded, mode="r:", errorlevel=2, encoding="utf-8")  # noqa: SIM115  (closed by `with` below)
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
            bounded.seek(opened.offset)
            if bounded.read(tarfile.BLOCKSIZE).strip(b"\0"):
                raise ImageRefusedError("the header after the last entry is damaged")

    def _check_path(self, name: str) -> str:
        """Return a member's path relative to the root, in normal form."""
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
        return "/".join(parts)

    def _apply_whiteout(self, path: str) -> None:
        above, name = posixpath.split(path)
        target = name.removeprefix(WHITEOUT)
        if name != OPAQUE and (target in {"", ".", ".."} or target.startswith(WHITEOUT)):
            raise ImageRefusedError(f"expected a whiteout with the name of a file, got {path!r}")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._opened(above) as folder:
            for child in os.listdir(folder) if name == OPAQUE else [target]:
                remove_entry(folder, child)

    def _extract(self, member: tarfile.TarInfo, archive: BinaryIO) -> None:
        path = self._check_path(member.name)
        if not path:
            return  # the root itself
        above, name = posixpath.split(path)
        is_folder = member.isdir()
        if path in self._created and not is_folder:
            raise ImageRefusedError(f"{path!r} is in the layer twice")
        with self._opened(above, makes=True) as folder:
            self._clear(folder, name, is_folder=is_folder)
            if is_folder:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
                os.chmod(name, 0o700 | member.mode & 0o1777, dir_fd=folder, follow_symlinks=True)
            elif member.issym():
                self._check_target(member.linkname)
                os.symlink(member.linkname, name, dir_fd=folder)
            elif member.islnk():
                self._link(member.linkname, folder, name)
            elif member.isreg() or member.issparse():
                self._write(member, archive, folder, name)
            else:
                raise ImageRefusedError(f"{path!r} is a device, a pipe or of an unknown type")
        self._created.add(path)

    def _clear(self, folder: int, name: str, *, is_folder: bool) -> None:
        """Remove the entry that a lower layer left at a name, but merge a folder into a folder."""
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not (is_folder and stat.S_ISDIR(status.st_mode)):
            remove_entry(folder, name)

    def _check_target(self, target: str) -> None:
        if not target or "\0" in target or len(target.encode("utf-8", "surrogateescape")) >= 4096:  # noqa: PLR2004  (PATH_MAX)
            raise ImageRefusedError(f"expected a link target of 1 to 4,095 bytes, got {target[:40]!r}")

    def _link(self, target: str, folder: int, name: str) -> None:
        path = self._check_path(target.lstrip("/"))
        above, target_name = posixpath.split(path)
        try:
            with self._opened(above) as source:
                if not stat.S_ISREG(os.stat(target_name, dir_fd=source, follow_symlinks=False).st_mode):
                    raise ImageRefusedError(f"a hard link to {target!r}, which is not a file")
                os.link(target_name, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            raise ImageRefusedError(f"a hard link to {target!r}, which is not in the image") from None

    def _write(self, member: tarfile.TarInfo, archive: BinaryIO, folder: int, name: str) -> None:
        # The standard library's type of `sparse` is wrong.
        sparse_pieces = cast("list[tuple[int, int]] | None", member.sparse)
        pieces = [(0, member.size)] if sparse_pieces is None else sparse_pieces
        data = sum(length for _, length in pieces)
        self.data_bytes += data
        self.apparent_bytes += member.size
        if self.data_bytes > self.limits.unpacked_bytes or self.apparent_bytes > self.limits.apparent_bytes:
            raise ImageRefusedError(
                f"expected at most {self.limits.unpacked_bytes} bytes of data and "
                f"{self.limits.apparent_bytes} bytes with holes"
            )
        if any(begin < 0 or length < 0 or begin + length > member.size for begin, length in pieces):
            raise ImageRefusedError(f"{member.name!r} has data outside of its length")
        archive.seek(member.offset_data)
        descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
        with open(descriptor, "wb", buffering=0) as file:
            for begin, length in pieces:
                file.seek(begin)
                left = length
                while left > 0:
                    piece = archive.read(min(left, _PIECE))
                    if not piece:
                        raise ImageRefusedError(f"{member.name!r} ends before its length")
                    file.write(piece)
                    left -= len(piece)
            file.truncate(member.size)
            os.fchmod(descriptor, member.mode & 0o777)
            os.utime(descriptor, (0, max(0, min(int(member.mtime), 2**33))))

    @contextlib.contextmanager
    def _opened(self, path: str, *, makes: bool = False) -> Generator[int]:
        try:
            folder = openat2(self.root, os.fsencode(path or "."), _FOLDER, resolve=_WALK)
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
        try:
            yield folder
        finally:
            os.close(folder)

    def _make_folders(self, path: str) -> int:
        """Make the folders of a path, and return a descriptor of the last."""
        folder = os.dup(self.root)
        walked = ""
        for part in path.split("/"):
            walked = f"{walked}/{part}" if walked else part
            try:
                below = openat2(self.root, os.fsencode(walked), _FOLDER, resolve=_WALK)
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


class _BoundedReads:
    """A file that limits one read: an archive can state a header of any size, and tarfile reads it whole."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file, self._max_bytes = file, max_bytes

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._max_bytes:
            raise ImageRefusedError(f"expected a header of at most {self._max_bytes} bytes, got {size}")
        return self._file.read(size)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(position, whence)

    def tell(self) -> int:
        return self._file.tell()
