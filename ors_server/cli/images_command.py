"""`ors-server images`: manages the cache of container images, which need no daemon."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ors_server.cli.command_options import Command, CommandGroup, from_fields
from ors_server.cli.command_output import CommandError, say, say_json
from ors_server.cli.examples import epilog_of

images = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Manage the cache of container images: unpack them from files, list, remove and verify them.",
)


@dataclass(frozen=True)
class AddImageOptions:
    """Options of `add`."""

    file: Annotated[
        str,
        typer.Argument(
            help="An OCI layout (a folder or a tar), or what docker save has written; skopeo fetches "
            "docker://NAME from a registry."
        ),
    ]
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its name.", show_default="those in the file")
    ] = None


@dataclass(frozen=True)
class BuildImageOptions:
    """Options of `build`."""

    folder: Annotated[Path, typer.Argument(help="The folder of a Dockerfile.")]
    name: Annotated[str, typer.Option(metavar="NAME", help="The image's name.")]
    builder: Annotated[
        str | None,
        typer.Option(
            metavar="BUILDER",
            help="buildah, podman or docker.",
            show_default="this program, or buildah for a Dockerfile that needs a builder",
        ),
    ] = None
    allow_network: Annotated[
        bool, typer.Option("--allow-network", help="Let RUN lines run with this host's network.")
    ] = False


@dataclass(frozen=True)
class ListImagesOptions:
    """Options of `list`."""

    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@dataclass(frozen=True)
class ImageNameOptions:
    """Options of `rm`."""

    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A name, or the first digits of an id.")]


@dataclass(frozen=True)
class VerifyImagesOptions:
    """Options of `verify`."""

    image: Annotated[
        str | None,
        typer.Argument(metavar="IMAGE", help="A name, or the first digits of an id.", show_default="all"),
    ] = None


def add_image(options: AddImageOptions) -> None:
    """Unpack an image into the cache; digests are checked, and a hostile file leaves nothing."""
    from ors_server.images.image_cache import ImageCache
    from ors_server.images.image_programs import REGISTRY, fetch_image

    if options.file.startswith(REGISTRY):
        image = fetch_image(ImageCache(), options.file, options.name)
    else:
        image = ImageCache().add(Path(options.file), options.name)
    names = ", ".join(image.names) or "no name"
    say(f"added {image.short_id} ({names}): {image.entries} entries, {image.data_bytes} bytes")


def build_image_command(options: BuildImageOptions) -> None:
    """Build a Dockerfile, with RUN lines by another program, and add the image to the cache."""
    from ors_server.harbor.dockerfile import pack_image, read_dockerfile
    from ors_server.harbor.task_config import TaskFolderError
    from ors_server.images.image_cache import ImageCache
    from ors_server.images.image_errors import ImageError
    from ors_server.images.image_programs import build_image

    cache, folder, builder = ImageCache(), options.folder, options.builder
    needs_builder = ""
    if builder is None and (folder / "Dockerfile").is_file():
        try:
            plan = read_dockerfile(folder / "Dockerfile", folder)
            with tempfile.TemporaryDirectory(prefix="ors-image-") as temporary:
                archive = Path(temporary) / "image.tar"
                pack_image(plan, archive)
                image = cache.add(archive, options.name)
        except TaskFolderError as error:
            needs_builder = f"{error}\n"
        else:
            say(f"built {image.short_id} ({options.name}): {image.entries} entries, {image.data_bytes} bytes")
            return
    try:
        image = build_image(
            cache, folder, options.name, builder or "buildah", has_network=options.allow_network
        )
    except ImageError as error:
        raise ImageError(f"{needs_builder}{error}") from error
    say(f"built {image.short_id} ({options.name}): {image.entries} entries, {image.data_bytes} bytes")


def list_images(options: ListImagesOptions) -> None:
    """List the images of the cache."""
    from ors_server.images.image_cache import ImageCache

    cached = ImageCache().images()
    if options.json:
        say_json(
            [
                {"id": image.image_id, "names": list(image.names), "bytes": image.data_bytes}
                for image in cached
            ]
        )
        return
    for image in cached:
        say(f"{image.short_id}  {image.data_bytes:>14,}  {', '.join(image.names) or '-'}")


def remove_image(options: ImageNameOptions) -> None:
    """Remove an image from the cache."""
    from ors_server.images.image_cache import ImageCache

    image = ImageCache().remove(options.image)
    say(f"removed {image.short_id}")


def verify_images(options: VerifyImagesOptions) -> None:
    """Compare the files of images with what was unpacked.

    The status is 1 if one differs or cannot be read.
    """
    from ors_server.images.image_cache import ImageCache

    cache = ImageCache()
    chosen = cache.images() if options.image is None else [cache.find(options.image)]
    changed = unread = 0
    for image in chosen:
        try:
            state = "ok" if cache.verify(image) else "changed"
            changed += state == "changed"
        except OSError as error:
            state = f"not readable: {error.filename}: {error.strerror}"
            unread += 1
        say(f"{image.short_id}  {state}")
    faults: list[str] = []
    if changed:
        faults.append(f"{changed} of {len(chosen)} images changed: remove and add them again")
    if unread:
        faults.append(
            f"{unread} of {len(chosen)} images could not be read whole: verify them as who added them"
        )
    if faults:
        raise CommandError("; ".join(faults))


COMMANDS: dict[str, Callable[[Any], None]] = {
    "add": add_image,
    "build": build_image_command,
    "list": list_images,
    "rm": remove_image,
    "verify": verify_images,
}
"""The commands of the group by name."""
for name, command in COMMANDS.items():
    images.command(name, cls=Command, epilog=epilog_of(f"images {name}"))(from_fields(command))
