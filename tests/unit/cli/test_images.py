"""`ors-server images`: the cache of container images."""

import json
import tarfile

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
        "FROM base:1\nENV B=2\nCOPY --chmod=755 tool /bin/tool\nCOPY data /srv/data\nWORKDIR /run\n"
    )
    assert "(made:1): " in run("images", "build", str(context), "--name", "made:1").out
    image = ImageCache().find("made:1")
    assert image.variables == {"PATH": "/usr/bin:/bin", "A": "1", "B": "2"}
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
