"""Images that other programs fetch or build: stand-ins for these programs write the file."""

import json
import os
import stat

import pytest

from ors_server.images.image_cache import ImageCache
from ors_server.images.image_errors import ImageError
from ors_server.images.image_programs import build_image, fetch_image
from tests.fixtures.image_files import entry, layer, write_docker, write_oci

LAYERS = [layer(entry("etc/a", "x"))]


@pytest.fixture
def cache(tmp_path):
    return ImageCache(tmp_path / "cache")


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Puts a program into PATH that notes its arguments and runs a line of shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")

    def make(name, line):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{line}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "calls"

    return make


def test_skopeo_fetches_an_image_that_is_checked_as_every_file(cache, stand_in, tmp_path):
    with pytest.raises(ImageError, match="skopeo, which fetches images from registries, is not installed"):
        fetch_image(cache, "docker://debian:12")
    oci = write_oci(tmp_path / "oci", LAYERS)
    calls = stand_in("skopeo", f'out=${{3#oci:}}; cp -R {oci} "${{out%:latest}}"')
    assert fetch_image(cache, "docker://debian:12").names == ("debian:12",)
    assert calls.read_text().startswith("copy docker://debian:12 oci:/")
    assert (cache.find("debian:12").path / "etc/a").read_text() == "x"
    stand_in("skopeo", "echo unauthorized >&2; exit 1")
    with pytest.raises(ImageError, match="skopeo ended with status 1: unauthorized"):
        fetch_image(cache, "docker://private:1", "mine")
    (blob,) = [path for path in (oci / "blobs/sha256").iterdir() if b"architecture" in path.read_bytes()]
    blob.write_bytes(json.dumps({}).encode())
    stand_in("skopeo", f'out=${{3#oci:}}; cp -R {oci} "${{out%:latest}}"')
    with pytest.raises(ImageError, match=r"digest|bytes"):
        fetch_image(cache, "docker://other:1")
    assert [image.names for image in cache.images()] == [("debian:12",)]


def test_builder_runs_only_with_the_operators_leave(cache, stand_in, tmp_path):
    folder = tmp_path / "context"
    folder.mkdir()
    with pytest.raises(ImageError, match="expected a folder with a Dockerfile"):
        build_image(cache, folder, "made:1", "docker", has_network=True)
    (folder / "Dockerfile").write_text("FROM scratch\nRUN true\n")
    archive = write_docker(tmp_path / "image.tar", LAYERS)
    calls = stand_in("docker", f'[ "$1" = build ] || cp {archive} "$3"')
    with pytest.raises(ImageError, match="allow it with --allow-network"):
        build_image(cache, folder, "made:1", "docker", has_network=False)
    with pytest.raises(ImageError, match="unknown builder 'kaniko': expected one of buildah, podman, docker"):
        build_image(cache, folder, "made:1", "kaniko", has_network=True)
    assert not calls.exists()
    assert build_image(cache, folder, "made:1", "docker", has_network=True).names == ("made:1",)
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["build", "save"]
