"""`ors-server images`: the cache of container images."""

import json

from ors_server.cli.images_command import images as group
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
