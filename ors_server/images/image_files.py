"""Reads an image's description from a file: an OCI layout (folder or tar), or what `docker save` writes.

Everything is checked before it is used: the digest and the size of each blob, the digest of each layer's
content (diff id), the platform, and that no name leads out of the file or folder.
"""

import hashlib
import json
import os
import platform
import re
import select
import shutil
import stat
import subprocess
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from typing_extensions import override

from ors_server.images.image_errors import ImageRefusedError
from ors_server.images.layer_files import UnpackLimits

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of architectures: the kernel's to those of images."""
MAX_DOCUMENT, MAX_INDEX_DEPTH, MAX_MANIFESTS, MAX_MEMBERS = 4 << 20, 4, 64, 20_000
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_NAME_KEY = "org.opencontainers.image.ref.name"
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_PIECE = 1 << 18
"""Bytes of one read: few enough to be in the processor's caches until they are hashed and written."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class LayerBlob:
    """One layer as it is in the file."""

    blob: str
    """The blob's name in its file."""
    diff_id: str
    """SHA-256 of the layer's archive without compression, hexadecimal."""
    digest: str | None = None
    """SHA-256 of the blob; `None` where the file states none."""
    size: int | None = None


@dataclass(frozen=True)
class ImageDescription:
    """One image, as its file describes it."""

    image_id: str
    """SHA-256 of its configuration, hexadecimal."""
    names: tuple[str, ...]
    config: Mapping[str, Any]
    layers: tuple[LayerBlob, ...]


class ImageFile(ABC):
    """A file or folder that holds images."""

    @abstractmethod
    def open_blob(self, name: str) -> BinaryIO:
        """Open a blob; raises `ImageRefusedError` if it is missing or not a plain file."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether the file has an entry of this name."""

    @abstractmethod
    def close(self) -> None:
        """Close the file or folder."""

    def read_document(self, name: str, digest: str | None = None, size: int | None = None) -> bytes:
        """Return a small blob; raises `ImageRefusedError` if it is too large or not what was announced."""
        with self.open_blob(name) as file:
            content = file.read(MAX_DOCUMENT + 1)
        if len(content) > MAX_DOCUMENT:
            raise ImageRefusedError(f"{name}: expected a document of at most {MAX_DOCUMENT} bytes")
        if size is not None and len(content) != size:
            raise ImageRefusedError(f"{name}: expected {size} bytes, got {len(content)}")
        if digest is not None and (actual := hashlib.sha256(content).hexdigest()) != digest:
            raise ImageRefusedError(f"{name}: expected the digest {digest}, got {actual}")
        return content


class FolderImage(ImageFile):
    """An OCI layout as a folder; no link in it is followed."""

    def __init__(self, path: Path) -> None:
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @override
    def open_blob(self, name: str) -> BinaryIO:
        folder = os.dup(self._root)
        try:
            *above, last = name.split("/")
            for part in above:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = below
            # Without waiting: a pipe in the place of a blob must not hold the server.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(last, flags, dir_fd=folder)
        except OSError as error:
            raise ImageRefusedError(f"{name}: {error.strerror}") from error
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ImageRefusedError(f"{name}: expected a plain file, got a folder, pipe or device")
        return open(descriptor, "rb")

    @override
    def has(self, name: str) -> bool:
        try:
            self.open_blob(name).close()
        except ImageRefusedError:
            return False
        return True

    @override
    def close(self) -> None:
        os.close(self._root)


class TarImage(ImageFile):
    """An archive of either kind; members are read in place, without unpacking the archive."""

    def __init__(self, path: Path) -> None:
        try:
            self._tar = tarfile.open(path, mode="r:")  # noqa: SIM115  (until `close`)
            self._members: dict[str, tarfile.TarInfo] = {}
            for member in self._tar:
                if len(self._members) > MAX_MEMBERS:
                    raise ImageRefusedError(f"{path}: expected at most {MAX_MEMBERS} members")
                name = os.path.normpath(member.name)
                if name in self._members and not member.isdir():
                    raise ImageRefusedError(f"{path}: {name} is in the archive twice")
                self._members[name] = member
        except (tarfile.TarError, OSError, ValueError) as error:
            raise ImageRefusedError(
                f"{path}: expected an OCI layout or a docker save archive: {error}"
            ) from error

    @override
    def open_blob(self, name: str) -> BinaryIO:
        member = self._members.get(name)
        # `docker save` writes a layer that occurs twice as a link to the first, relative to its own folder.
        if member is not None and member.issym():
            member = self._members.get(os.path.normpath(os.path.join(os.path.dirname(name), member.linkname)))
        file = self._tar.extractfile(member) if member is not None and member.isreg() else None
        if file is None or (member is not None and member.sparse is not None):
            raise ImageRefusedError(f"{name}: expected a plain file of this name in the archive")
        return cast("BinaryIO", file)

    @override
    def has(self, name: str) -> bool:
        return name in self._members

    @override
    def close(self) -> None:
        self._tar.close()


@contextmanager
def open_image(path: Path) -> Generator[ImageFile]:
    """Open an image's file or folder."""
    file = FolderImage(path) if path.is_dir() else TarImage(path)
    try:
        yield file
    finally:
        file.close()


def describe_image(file: ImageFile) -> ImageDescription:
    """Return the image for this machine.

    Raises:
        ImageRefusedError: The file has no image for this machine, or several, or a document is wrong.
    """
    if file.has("oci-layout") and file.has("index.json"):
        return _describe_oci(file)
    if file.has("manifest.json"):
        return _describe_docker(file)
    raise ImageRefusedError("expected an OCI layout (oci-layout, index.json) or manifest.json of docker save")


def _describe_oci(file: ImageFile) -> ImageDescription:
    layout = _parse(file.read_document("oci-layout"), "oci-layout", dict)
    if layout.get("imageLayoutVersion") != "1.0.0":
        raise ImageRefusedError(
            f"oci-layout: expected version 1.0.0, got {layout.get('imageLayoutVersion')!r}"
        )
    index = _parse(file.read_document("index.json"), "index.json", dict)
    manifests = list(_manifests(file, index, 0))
    host_platform = {"os": "linux", "architecture": _architecture()}
    fitting = [
        item
        for item in manifests
        # Without a platform, `_diff_ids` checks the one that the configuration names.
        if not isinstance(item_platform := item.get("platform"), dict)
        or host_platform.items() <= cast("dict[str, object]", item_platform).items()
    ]
    if len(fitting) != 1:
        platforms = [cast("object", item.get("platform")) for item in manifests]
        shown = ", ".join(sorted({json.dumps(item, default=str)[:100] for item in platforms})) or "none"
        raise ImageRefusedError(
            f"expected one image for linux/{_architecture()}, got {len(fitting)} ({shown})"
        )
    (descriptor,) = fitting
    name, digest, size = _blob_of(descriptor)
    manifest = _parse(file.read_document(name, digest, size), name, dict)
    config_name, config_digest, config_size = _blob_of(_field(manifest, "config", dict, name))
    config = _parse(file.read_document(config_name, config_digest, config_size), config_name, dict)
    blobs = [_blob_of(_expect_type(item, dict, name)) for item in _field(manifest, "layers", list, name)]
    layers = [
        LayerBlob(blob, diff_id, digest, size)
        for (blob, digest, size), diff_id in zip(blobs, _diff_ids(config, len(blobs)), strict=True)
    ]
    annotations = descriptor.get("annotations")
    ref = cast("dict[str, object]", annotations).get(_NAME_KEY) if isinstance(annotations, dict) else None
    names = (ref,) if isinstance(ref, str) else ()
    return ImageDescription(config_digest, check_names(names), config, tuple(layers))


def _manifests(file: ImageFile, index: Mapping[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    rows = _field(index, "manifests", list, "index")
    if depth >= MAX_INDEX_DEPTH or len(rows) > MAX_MANIFESTS:
        raise ImageRefusedError(
            f"expected an index of at most {MAX_INDEX_DEPTH} levels with {MAX_MANIFESTS} manifests each"
        )
    for item in rows:
        descriptor = _expect_type(item, dict, "index")
        if descriptor.get("mediaType") not in _INDEXES:
            yield descriptor
            continue
        name, digest, size = _blob_of(descriptor)
        yield from _manifests(file, _parse(file.read_document(name, digest, size), name, dict), depth + 1)


def _describe_docker(file: ImageFile) -> ImageDescription:
    rows = _parse(file.read_document("manifest.json"), "manifest.json", list)
    if len(rows) != 1:
        raise ImageRefusedError(f"manifest.json: expected one image, got {len(rows)}")
    manifest = _expect_type(rows[0], dict, "manifest.json")
    config_name = _safe_name(_field(manifest, "Config", str, "manifest.json"))
    content = file.read_document(config_name)
    image_id = hashlib.sha256(content).hexdigest()
    named_digest = re.search(r"([0-9a-f]{64})(?:\.json)?$", config_name)
    if named_digest is not None and named_digest[1] != image_id:
        raise ImageRefusedError(f"{config_name}: expected the digest {named_digest[1]}, got {image_id}")
    config = _parse(content, config_name, dict)
    names = [
        _safe_name(_expect_type(item, str, "manifest.json"))
        for item in _field(manifest, "Layers", list, "Layers")
    ]
    layers = [
        LayerBlob(name, diff_id) for name, diff_id in zip(names, _diff_ids(config, len(names)), strict=True)
    ]
    repo_tags = manifest.get("RepoTags")
    tags: list[Any] = [] if repo_tags is None else _expect_type(repo_tags, list, "manifest.json: RepoTags")
    return ImageDescription(image_id, check_names(tuple(tags)), config, tuple(layers))


def _diff_ids(config: Mapping[str, Any], expected: int) -> list[str]:
    if config.get("os", "linux") != "linux" or config.get("architecture") != _architecture():
        raise ImageRefusedError(
            f"expected an image for linux/{_architecture()}, got one for "
            f"{config.get('os')}/{config.get('architecture')}"
        )
    rootfs = _field(config, "rootfs", dict, "configuration")
    diff_ids = [
        _hex(_expect_type(item, str, "diff_ids")) for item in _field(rootfs, "diff_ids", list, "rootfs")
    ]
    if len(diff_ids) != expected or expected > UnpackLimits().layers:
        raise ImageRefusedError(
            f"expected a diff id for each of at most {UnpackLimits().layers} layers, got {expected} layers "
            f"and {len(diff_ids)} diff ids"
        )
    return diff_ids


def _architecture() -> str:
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)


def _parse(content: bytes, name: str, kind: type[Any]) -> Any:
    try:
        return _expect_type(json.loads(content), kind, name)
    except (ValueError, RecursionError) as error:
        raise ImageRefusedError(f"{name}: not JSON: {str(error)[:100]}") from error


def _expect_type(value: object, kind: type[Any], where: str) -> Any:
    if not isinstance(value, kind):
        raise ImageRefusedError(f"{where}: expected a {kind.__name__}, got a {type(value).__name__}")
    return value


def _field(table: Mapping[str, Any], key: str, kind: type[Any], where: str) -> Any:
    return _expect_type(table.get(key), kind, f"{where}: {key}")


def _blob_of(descriptor: Mapping[str, Any]) -> tuple[str, str, int]:
    digest = _hex(_field(descriptor, "digest", str, "descriptor"))
    size = _field(descriptor, "size", int, "descriptor")
    media = str(descriptor.get("mediaType", ""))
    if size < 0 or "encrypted" in media or "foreign" in media:
        raise ImageRefusedError(
            f"blob {digest}: expected neither an encrypted nor a foreign one, got {size} bytes of {media!r}"
        )
    return f"blobs/sha256/{digest}", digest, size


def _hex(digest: str) -> str:
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise ImageRefusedError(f"expected a SHA-256 digest, got {digest[:100]!r}")
    return match[1]


def _safe_name(name: str) -> str:
    if name != os.path.normpath(name) or name.startswith(("/", "..")) or "\0" in name:
        raise ImageRefusedError(f"{name[:100]!r} leads out of the archive")
    return name


def check_names(names: tuple[object, ...]) -> tuple[str, ...]:
    """Return names of images; raises `ImageRefusedError` for anything else."""
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w][\w./:@-]{0,254}", name):
            raise ImageRefusedError(f"expected the name of an image, got {str(name)[:100]!r}")
    return tuple(map(str, names))


# Layers


def write_layer(file: ImageFile, layer: LayerBlob, target: BinaryIO, limits: UnpackLimits) -> int:
    """Write a layer's archive without its compression, and return its length; digests are checked.

    Raises:
        ImageRefusedError: A digest or a size differs, the compression is damaged, or the layer is too long.
    """
    with file.open_blob(layer.blob) as blob:
        start = blob.read(4)
        blob.seek(0)
        content = hashlib.sha256()
        is_compressed = start[:2] == _GZIP or start == _ZSTD
        # Of a blob without compression, the digest is that of its content.
        hashed = _HashedReads(blob, limits.unpacked_bytes, has_digest=is_compressed)
        length = 0
        for piece in _decompressed(hashed, start):
            length += len(piece)
            if length > limits.unpacked_bytes:
                raise ImageRefusedError(
                    f"{layer.blob}: expected at most {limits.unpacked_bytes} bytes after decompression"
                )
            content.update(piece)
            target.write(piece)
        hashed.finish()
    if layer.size is not None and hashed.length != layer.size:
        raise ImageRefusedError(f"{layer.blob}: expected {layer.size} bytes, got {hashed.length}")
    digest = (hashed.digest or content).hexdigest()
    if layer.digest is not None and digest != layer.digest:
        raise ImageRefusedError(f"{layer.blob}: expected the digest {layer.digest}, got {digest}")
    if content.hexdigest() != layer.diff_id:
        raise ImageRefusedError(
            f"{layer.blob}: expected the diff id {layer.diff_id}, got {content.hexdigest()}"
        )
    return length


class _HashedReads:
    """Reads a blob, counts its bytes and computes its digest if it is needed."""

    def __init__(self, file: BinaryIO, max_bytes: int, *, has_digest: bool) -> None:
        self._file, self._max_bytes = file, max_bytes
        self.digest = hashlib.sha256() if has_digest else None
        self.length = 0

    def read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self.length += len(piece)
        if self.length > self._max_bytes:
            raise ImageRefusedError(f"expected a blob of at most {self._max_bytes} bytes")
        if self.digest is not None:
            self.digest.update(piece)
        return piece

    def finish(self) -> None:
        """Read what follows the compressed stream, because the digest covers it too."""
        while self.read(_PIECE):
            pass


def _decompressed(file: _HashedReads, start: bytes) -> Iterator[bytes]:
    if start[:2] == _GZIP:
        yield from _gunzipped(file)
    elif start == _ZSTD:
        yield from _unzstd(file)
    else:
        while piece := file.read(_PIECE):
            yield piece


def _gunzipped(file: _HashedReads) -> Iterator[bytes]:
    """Decompress all members of a gzip file, at most one piece at a time: small input can become huge."""
    decompressor = zlib.decompressobj(wbits=31)
    waiting = b""
    try:
        while piece := waiting or file.read(_PIECE):
            yield decompressor.decompress(piece, _PIECE)
            waiting = decompressor.unconsumed_tail
            if decompressor.eof:
                waiting = decompressor.unused_data.lstrip(b"\0")
                decompressor = zlib.decompressobj(wbits=31)
                if not waiting and not (waiting := file.read(_PIECE)):
                    return
        raise ImageRefusedError("the gzip stream ends too early")
    except zlib.error as error:
        raise ImageRefusedError(f"the gzip stream is damaged: {error}") from error


def _unzstd(file: _HashedReads) -> Iterator[bytes]:
    """Decompress by zstd(1), whose window is bounded: a stream may ask for 2 GiB of memory."""
    program = shutil.which("zstd")
    if program is None:
        raise ImageRefusedError(
            "the layer is compressed with zstd, and the program zstd is not installed; on Debian: "
            "apt-get install -y zstd"
        )
    argv = [program, "--decompress", "--stdout", "--quiet", "--memory=128MB", "--no-progress"]
    with subprocess.Popen(  # noqa: S603 # a list of our own making
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, bufsize=0
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise ImageRefusedError("zstd could not be started")
        try:
            os.set_blocking(stdin.fileno(), False)
            yield from _pumped(file, stdin, stdout)
        finally:
            process.kill()
        process.wait()


def _pumped(file: _HashedReads, into: IO[bytes], out: IO[bytes]) -> Iterator[bytes]:
    """Write a file into a program and yield its output, as each pipe allows, so that neither waits."""
    waiting = memoryview(file.read(_PIECE))
    printed = False
    while True:
        readable, writable, _ = select.select([out], [] if into.closed else [into], [])
        if writable:
            try:
                waiting = waiting[os.write(into.fileno(), waiting[:65_536]) :]
            except BrokenPipeError:
                raise ImageRefusedError("the zstd stream is damaged") from None
            if not waiting and not (waiting := memoryview(file.read(_PIECE))):
                into.close()
        if readable:
            piece = os.read(out.fileno(), _PIECE)
            if not piece:
                if not into.closed or not printed:
                    raise ImageRefusedError("the zstd stream is damaged")
                return
            printed = True
            yield piece
