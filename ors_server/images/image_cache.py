"""The cache of unpacked images: one folder for each image, by the digest of its configuration.

Invariants:

- A folder of an image appears whole, by one rename, or not at all.
- `verify` compares it with its record, which has one digest over all paths, modes, links and contents, made
  after the unpacking.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import stat
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from ors_server.images.image_errors import ImageError, ImageRefusedError, UnknownImageError
from ors_server.images.image_files import (
    ImageDescription,
    check_names,
    describe_image,
    open_image,
    write_layer,
)
from ors_server.images.layer_files import LayerUnpacker, UnpackLimits
from ors_server.model.errors import SettingsError
from ors_server.model.user_folders import user_folder
from ors_server.sandboxes.base import ImageTree
from ors_server.sandboxes.cells.server_state import remove_tree

VARIABLE = "ORS_IMAGES"
"""The environment variable that names the cache's folder."""
RECORD, ROOT = "image.json", "root"
_ID_DIGITS = 12
"""Hexadecimal digits of an image's id that its short form has."""
MIN_ID_DIGITS = 6
"""Hexadecimal digits of an image's id that a name must have to match it by its id."""


@dataclass(frozen=True)
class CachedImage:
    """An image of the cache."""

    image_id: str
    names: tuple[str, ...]
    variables: dict[str, str]
    work_dir: str
    user: str
    entries: int
    data_bytes: int
    tree: str
    """SHA-256 over all paths, modes, links and contents."""
    path: Path
    """The root's folder."""

    def as_tree(self) -> ImageTree:
        """Return the image as sandboxes use it."""
        return ImageTree(self.image_id, (self.path,), self.variables, self.work_dir, self.user)

    @property
    def short_id(self) -> str:
        """The first digits of the id, as lists show it."""
        return self.image_id[:_ID_DIGITS]


class ImageCache:
    """A folder of unpacked images; several processes may use it."""

    def __init__(self, folder: Path | None = None) -> None:
        """Use a folder, by default `$ORS_IMAGES`, or `ors-server/images` in the user's cache."""
        variable = os.environ.get(VARIABLE, "")
        user_cache = user_folder("XDG_CACHE_HOME", ".cache") / "ors-server" / "images"
        self.folder = folder or (Path(variable) if variable else user_cache)

    def add(self, file: Path, name: str | None = None, limits: UnpackLimits | None = None) -> CachedImage:
        """Unpack an image from a file or folder; an image that is already in the cache only gets the names.

        Args:
            name: The name under which tasks find it; by default the names that the file states.

        Raises:
            ImageRefusedError: It is not an image that may be unpacked, or the name is not one; the cache is
                as it was.
            ImageError: The cache's disk is full, or the cache cannot be written.
        """
        limits = limits or UnpackLimits()
        stated_names = None if name is None else check_names((name,))
        if not file.exists():
            raise UnknownImageError(
                f"{file}: no such file or folder: expected an OCI layout or an archive of docker save"
            )
        try:
            self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            with self._locked(), open_image(file) as source:
                description = describe_image(source)
                names = description.names if stated_names is None else stated_names
                for image in self.images():
                    if image.image_id == description.image_id:
                        self._take_names(image.image_id, names)
                        return self.find(image.image_id)
                staging = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
                try:
                    unpacker = self._unpack(source, description, staging, limits)
                    tree = tree_digest(staging / ROOT, unpacker.digests)
                    record = _record(description, names, unpacker, tree)
                    (staging / RECORD).write_text(json.dumps(record, indent=1))
                    staging.chmod(0o755)
                    staging.rename(self.folder / description.image_id)
                except BaseException:  # an interrupt, too, leaves nothing half-unpacked
                    remove_tree(staging)
                    raise
                self._take_names(description.image_id, names)
        except OSError as error:
            raise ImageError(
                f"{file}: unpacking into {self.folder} failed: {error.strerror or error}"
            ) from error
        return self.find(description.image_id)

    def images(self) -> list[CachedImage]:
        """Return all images, by their names and ids."""
        folders = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        read = [_read(folder) for folder in folders if not folder.name.startswith(".")]
        return sorted(
            (image for image in read if image is not None), key=lambda image: (image.names, image.image_id)
        )

    def find(self, name: str) -> CachedImage:
        """Return the image with a name, or with an id that begins with these six or more digits.

        Raises:
            ImageError: No image matches, or several do.
        """
        has_tag = ":" in name.rpartition("/")[2] or "@" in name
        names = {name} if has_tag else {name, f"{name}:latest"}
        exact = [image for image in self.images() if names & set(image.names)]
        digits = name.removeprefix("sha256:")
        by_id = [
            image
            for image in self.images()
            if len(digits) >= MIN_ID_DIGITS and image.image_id.startswith(digits)
        ]
        images = exact or by_id
        if len(images) != 1:
            if images:
                ids = ", ".join(image.short_id for image in images)
                raise ImageError(f"{name!r} matches {len(images)} images in {self.folder}: {ids}; use an id")
            listed = ", ".join(shown for image in self.images() for shown in image.names) or "none"
            raise UnknownImageError(f"unknown image {name!r} in {self.folder}; expected one of: {listed}")
        return images[0]

    def remove(self, name: str) -> CachedImage:
        """Remove an image and return it.

        Raises:
            ImageError: No image matches, several do, or a session uses it.
        """
        image = self.find(name)
        with self._locked():
            folder = os.open(image.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # sessions share this lock
            except BlockingIOError:
                raise ImageError(f"a session uses the image {name!r}; end it first") from None
            finally:
                os.close(folder)
            # Renamed first, so that other processes see the whole image or no image, never a part.
            trash = self.folder / f".gone-{image.image_id}-{os.getpid()}"
            image.path.parent.rename(trash)
            remove_tree(trash)
        return image

    def verify(self, image: CachedImage) -> bool:
        """Return whether an image's files are as they were unpacked.

        Raises:
            OSError: A file cannot be read, because another user added the image.
        """
        return tree_digest(image.path) == image.tree

    def _unpack(
        self, source: Any, description: ImageDescription, staging: Path, limits: UnpackLimits
    ) -> LayerUnpacker:
        root = staging / ROOT
        root.mkdir(mode=0o755)
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            unpacker = LayerUnpacker(descriptor, limits)
            if len(description.layers) > limits.layers:
                raise ImageRefusedError(
                    f"expected at most {limits.layers} layers, got {len(description.layers)}"
                )
            for layer in description.layers:
                with tempfile.TemporaryFile(dir=staging) as archive:
                    plain = cast("BinaryIO", archive)
                    write_layer(source, layer, plain, limits)
                    plain.flush()
                    unpacker.unpack(plain, layer.blob)
            return unpacker
        finally:
            os.close(descriptor)

    def _take_names(self, image_id: str, names: tuple[str, ...]) -> None:
        """Give names to an image and take them from any other: a tag moves to its newest image."""
        for image in self.images():
            before = set(image.names)
            after = before | set(names) if image.image_id == image_id else before - set(names)
            if after != before:
                path = image.path.parent / RECORD
                record = {**json.loads(path.read_text()), "names": sorted(after)}
                draft = path.with_name(f".{RECORD}-{os.getpid()}")
                try:
                    draft.write_text(json.dumps(record, indent=1))
                    draft.rename(path)
                except BaseException:
                    draft.unlink(missing_ok=True)
                    raise

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        with (self.folder / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def image_to_try() -> ImageTree | None:
    """Return the smallest image of the cache that has a shell, to try sandboxes with; `None` without any."""
    try:
        images = sorted(ImageCache().images(), key=lambda image: image.data_bytes)
    except (OSError, SettingsError):
        return None  # the cache cannot be read, or has no place: sessions that need an image say so
    shells = ("bin/bash", "usr/bin/bash")
    usable = (image for image in images if any(os.path.lexists(image.path / shell) for shell in shells))
    image = next(usable, None)
    return None if image is None else image.as_tree()


def tree_digest(root: Path, digests: Mapping[int, bytes] | None = None) -> str:
    """Return the SHA-256 over a folder's paths, modes, link targets and contents, in order of the paths.

    Args:
        digests: SHA-256 of contents by inode, of files that need not be read again.
    """
    digest = hashlib.sha256()
    known_digests = digests or {}
    top = os.fspath(root)
    folders = [top]
    while folders:
        folder = folders.pop()
        # A path is cut, because `os.path.relpath` takes longer than all else that is done for a short file.
        above = folder[len(top) + 1 :] + "/" if folder != top else ""
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        below: list[str] = []
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            row = f"{above}{entry.name}\0{status.st_mode:o}\0"
            digest.update(row.encode("utf-8", "surrogateescape"))
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(os.readlink(entry.path)))
            elif stat.S_ISDIR(status.st_mode):
                below.append(entry.path)
            elif stat.S_ISREG(status.st_mode):
                content_digest = known_digests.get(status.st_ino)
                if content_digest is None:
                    with _open_file(entry.path, stat.S_IMODE(status.st_mode)) as file:
                        content_digest = hashlib.file_digest(file, "sha256").digest()
                digest.update(content_digest)
            digest.update(b"\0")
        folders += reversed(below)
    return digest.hexdigest()


@contextlib.contextmanager
def _open_file(path: str, mode: int) -> Generator[io.FileIO]:
    """Open a file of an image; one that its mode keeps from its owner is readable for that time."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except PermissionError:
        # By its descriptor: its path may lead elsewhere meanwhile.
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{place}", mode | stat.S_IRUSR)
            try:
                descriptor = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
            finally:
                os.chmod(f"/proc/self/fd/{place}", mode)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, path) from error
        finally:
            os.close(place)
    with open(descriptor, "rb", buffering=0) as file:
        yield file


def _record(
    description: ImageDescription, names: tuple[str, ...], unpacker: LayerUnpacker, tree: str
) -> dict[str, Any]:
    config: object = description.config.get("config")
    table = cast("dict[str, object]", config) if isinstance(config, dict) else {}
    listed = table.get("Env")
    rows = cast("list[object]", listed) if isinstance(listed, list) else []
    variables = [item for item in rows if isinstance(item, str) and "=" in item]
    image = CachedImage(
        image_id=description.image_id,
        names=names,
        variables=dict(item.split("=", 1) for item in variables),
        work_dir="/" + str(table.get("WorkingDir") or "/").strip("/"),
        user=str(table.get("User") or ""),
        entries=unpacker.entries,
        data_bytes=unpacker.data_bytes,
        tree=tree,
        path=Path(),
    )
    return {key: value for key, value in asdict(image).items() if key != "path"}


def _read(folder: Path) -> CachedImage | None:
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text())
        record["names"] = tuple(record["names"])
        return CachedImage(**record, path=folder / ROOT)
    except (OSError, ValueError, TypeError, KeyError):
        return None  # a folder that this cache did not write
