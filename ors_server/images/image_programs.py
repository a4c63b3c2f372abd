"""Images by way of other programs: skopeo fetches from a registry, builders carry out Dockerfiles with RUN.

Both write a file, which is then checked and unpacked as every file is: nothing that they say is trusted.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ors_server.images.image_cache import CachedImage, ImageCache
from ors_server.images.image_errors import ImageError
from ors_server.images.image_files import check_names

REGISTRY = "docker://"
BUILDERS: Mapping[str, Callable[[str, str, str], list[list[str]]]] = {
    # chroot is the isolation that works without root and in containers; its RUN has the host's network.
    "buildah": lambda folder, tag, out: [
        ["buildah", "build", "--isolation", "chroot", "--tag", tag, folder],
        ["buildah", "push", tag, f"oci:{out}:{tag}"],
    ],
    "podman": lambda folder, tag, out: [
        ["podman", "build", "--tag", tag, folder],
        ["podman", "save", "--format", "docker-archive", "--output", out, tag],
    ],
    "docker": lambda folder, tag, out: [
        ["docker", "build", "--tag", tag, folder],
        ["docker", "save", "--output", out, tag],
    ],
}
"""Builder to its commands: the folder of the Dockerfile, a name, and the file that they write."""
_SECONDS = 3600.0


def fetch_image(cache: ImageCache, reference: str, name: str | None = None) -> CachedImage:
    """Fetch an image from a registry by skopeo(1), and add it.

    Args:
        reference: `docker://` and the image's name.
        name: Its name in the cache; by default the one of the reference.

    Raises:
        ImageError: skopeo is missing or failed, or as `ImageCache.add`.
    """
    if shutil.which("skopeo") is None:
        raise ImageError(
            "skopeo, which fetches images from registries, is not installed: apt-get install -y skopeo; or "
            "add a file that docker save has written elsewhere"
        )
    return _add_written(
        cache,
        reference.removeprefix(REGISTRY) if name is None else name,
        lambda out: [["skopeo", "copy", reference, f"oci:{out}:latest"]],
    )


def build_image(
    cache: ImageCache, folder: Path, name: str, builder: str, *, has_network: bool
) -> CachedImage:
    """Build a folder with a Dockerfile by another program, and add the image.

    Args:
        builder: One of `BUILDERS`.
        has_network: Whether the operator has allowed that its RUN lines run with this host's network.

    Raises:
        ImageError: That is not allowed, the builder is missing or failed, or as `ImageCache.add`.
    """
    if builder not in BUILDERS:
        raise ImageError(f"unknown builder {builder!r}: expected one of {', '.join(BUILDERS)}")
    if not (folder / "Dockerfile").is_file():
        raise ImageError(f"{folder}: expected a folder with a Dockerfile")
    if not has_network:
        raise ImageError(
            f"{builder} runs the RUN lines of {folder / 'Dockerfile'} with this host's network, outside of "
            "every sandbox: allow it with --allow-network"
        )
    if shutil.which(builder) is None:
        raise ImageError(f"{builder} is not installed")
    tag = "localhost/ors-server-build:latest"
    return _add_written(cache, name, lambda out: BUILDERS[builder](str(folder.resolve()), tag, out))


def _add_written(cache: ImageCache, name: str, commands: Callable[[str], list[list[str]]]) -> CachedImage:
    check_names((name,))  # before the commands, which take minutes
    with tempfile.TemporaryDirectory(prefix="ors-image-") as folder:
        out = Path(folder) / "image"
        for argv in commands(str(out)):
            try:
                run = subprocess.run(  # noqa: S603  (a list of our own making)
                    argv, stderr=subprocess.PIPE, timeout=_SECONDS, check=False, env=dict(os.environ)
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise ImageError(f"{argv[0]} failed: {error}") from error
            if run.returncode:
                printed = run.stderr.decode(errors="replace").strip()[-500:]
                raise ImageError(f"{argv[0]} ended with status {run.returncode}: {printed}")
        return cache.add(out, name)
