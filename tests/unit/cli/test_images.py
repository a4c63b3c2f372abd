"""`ors-server images`: the cache of container images."""

import json
import os
import subprocess
import sys
import tarfile

import pytest

from ors_server.cli.images_command import images as group
from ors_server.images.image_cache import ImageCache
from tests.fixtures.image_files import entry, layer, write_oci


def test_commands_add_list_verify_and_remove(run, tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_IMAGES", str(tmp_path / "cache"))
    source = write_oci(tmp_path / "oci", [layer(entry("x", "y"))])
    assert "(tiny:1): 1 entries, " in run("images", "add", str(source)).out
    (row,) = json.loads(run("images", "list", "--json").out)
    assert row["names"] == ["tiny:1"]
    assert "tiny:1" in run("images", "list").out
    assert run("images", "verify").out == f"{row['id'][:12]}  ok\n"
    (tmp_path / "cache" / row["id"] / "root" / "added").touch()
    ran = run("images", "verify", "tiny:1")
    assert ran.status == 1
    assert "1 of 1 images changed" in ran.err
    assert run("images", "rm", "tiny:1").out == f"removed {row['id'][:12]}\n"
    assert run("images", "list").out == ""
    assert run("images", "add", str(tmp_path / "missing")).status == 2
    assert {command.name for command in group.registered_commands} == {"add", "build", "list", "rm", "verify"}


@pytest.mark.parametrize("size", [300_000, 500_000], ids=["for no layer", "for the layer alone"])
def test_a_full_disk_refuses_an_image_and_keeps_nothing_of_it(tmp_path, size):
    files = [entry(name, os.urandom(200_000)) for name in "xy"]
    source, cache = write_oci(tmp_path / "oci", [layer(*files)]), tmp_path / "cache"
    cache.mkdir()
    disk = ["--dev-bind", "/", "/", "--size", str(size), "--tmpfs", str(cache)]
    add = f'"$0" -m ors_server images add {source}; echo $?; find {cache} -type f'
    variables = {**os.environ, "ORS_IMAGES": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["bwrap", *disk, "/bin/sh", "-c", add, sys.executable]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert ran.stdout == f"1\n{cache}/.lock\n"
    assert f"unpacking into {cache} failed: No space left on device" in ran.stderr


def test_a_dockerfile_without_run_is_built_over_an_image_of_the_cache(run, tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_IMAGES", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))  # without any builder
    base = layer(
        entry("usr/bin", kind=tarfile.DIRTYPE, mode=0o755),
        entry("usr/bin/tool", "old", mode=0o755),
        entry("bin", kind=tarfile.SYMTYPE, link="usr/bin"),
        entry("run", kind=tarfile.SYMTYPE, link="usr"),
    )
    ImageCache().add(write_oci(tmp_path / "oci", [base]), "base:1")
    context = tmp_path / "context"
    (context / "data").mkdir(parents=True)
    (context / "data" / "rows").write_text("1 2 3")
    (context / "tool").write_text("new")
    (context / "Dockerfile").write_text(
        "FROM base:1\nENV B=2\nCOPY --chmod=755 tool /bin/tool\nCOPY data /srv/data\nWORKDIR /run\nUSER 7:8\n"
    )
    assert "(made:1): " in run("images", "build", str(context), "--name", "made:1").out
    image = ImageCache().find("made:1")
    assert image.variables == {"PATH": "/usr/bin:/bin", "A": "1", "B": "2"}
    assert image.user == "7:8"
    assert image.work_dir == "/run"
    assert (image.path / "usr/bin/tool").read_text() == "new"
    assert (image.path / "srv/data/rows").read_text() == "1 2 3"
    assert [(image.path / name).is_symlink() for name in ("bin", "run")] == [True, True]
    assert ImageCache().verify(image)
    assert (ImageCache().find("base:1").path / "usr/bin/tool").read_text() == "old"
    ImageCache().remove("base:1")
    assert ImageCache().verify(image)
    for text, told in (
        ("FROM base:1\n", "'base:1' is not in the cache"),
        ("FROM made:1\nRUN x\n", "RUN needs"),
    ):
        (context / "Dockerfile").write_text(text)
        failed = run("images", "build", str(context), "--name", "made:2")
        assert failed.status == 1
        assert told in failed.err
        assert "--allow-network" in failed.err
    assert [image.names for image in ImageCache().images()] == [("made:1",)]
