"""Programs of an image outside the system's folders: which are restored, and how fresh programs see them."""

import os
import threading
from dataclasses import replace

import anyio.to_thread
import pytest

from ors_server.sandboxes.base import Limits, SandboxRoot
from ors_server.sandboxes.cells.server_state import remove_tree
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.host import image_cell
from ors_server.sandboxes.host.image_programs import MAX_LINKS, ProgramRule, walk
from tests.fixtures.host_images import make_tree, tree_image

PATH = "/opt/venv/bin:/opt/data/.venv/bin:/root/.local/bin:/usr/bin:/bin"
FORGE = "printf '#!/bin/bash\\necho forged\\n' > /tmp/forged; chmod +x /tmp/forged"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    tree = make_tree(tmp_path_factory.mktemp("image") / "root")
    for prefix in ("opt/venv", "opt/data/.venv", "root/.local"):
        (tree / prefix / "bin").mkdir(parents=True)
        (tree / prefix / "pyvenv.cfg").touch()
        program = tree / prefix / "bin/judge"
        program.write_text("#!/usr/bin/bash\necho image\n")
        program.chmod(0o755)
    return tree_image(tree, variables={"PATH": PATH}, work_dir="/opt/data")


@pytest.fixture
async def backend():
    chosen = await choose(BackendRequest(choice=BackendChoice.BUBBLEWRAP))
    yield chosen.backend
    await chosen.aclose()


async def run(sandbox, script, *, path=PATH, writable=False):
    argv = ["/bin/sh", "-c", script]
    ran = await sandbox.run_fresh(argv, environment={"PATH": path}, time_limit=60, writable=writable)
    return ran.stdout.text + ran.stderr.text


SWAPS = {
    "folder": "mv $v $v.own; mkdir -p $v/bin; cp /tmp/forged $v/bin/judge; rm -rf $v; mv $v.own $v",
    "link": "mv $v $v.own; ln -s /tmp/evil $v; rm $v; mv $v.own $v",
    "top": "mv $t $t.own; ln -s {host} $t; rm $t; mv $t.own $t",
}


@pytest.mark.parametrize(
    ("swap", "writable"),
    [("folder", False), ("link", False), ("top", False), ("folder", True), ("link", True)],
)
async def test_processes_that_rename_the_folders_meanwhile_change_nothing(
    backend, image, tmp_path, swap, writable
):
    """Such a process lives, as in the middle of an episode; the link leads to a folder of this host."""
    forged = tmp_path / "venv/bin/judge"
    forged.parent.mkdir(parents=True)
    forged.write_text("#!/usr/bin/bash\necho forged\n")
    forged.chmod(0o755)
    root = SandboxRoot.of_image(image, work_dir="/srv/work")
    sandbox = await backend.start("a", Limits(), root)
    loop = f"while :; do {SWAPS[swap].format(host=tmp_path)}; done"
    evil = "mkdir -p /tmp/evil/bin; cp /tmp/forged /tmp/evil/bin/judge"
    await sandbox.exec(f"{FORGE}; {evil}; v=/opt/venv t=/opt; ({loop}) >/dev/null 2>&1 &")
    for _ in range(4):
        assert await run(sandbox, "judge", writable=writable) == "image\n"
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "venv",
        "venv/bin",
        "venv/bin/judge",
    ]


async def test_what_a_program_writes_stays_except_into_restored_folders(backend, image):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    await sandbox.exec("cp -p /opt/venv/bin/judge /opt/venv/bin/mine")
    write = "echo 1 > /opt/data/{0}; echo 1 > /root/{0}; echo 1 > /srv-{0}; echo 1 > /opt/venv/{0}"
    assert await run(sandbox, f"mine; {write.format('live')}", writable=True) == "image\n"
    await sandbox.end_processes()
    assert (
        await run(sandbox, f"mine; {write.format('ended')}; echo 1 > /opt/more", writable=True) == "image\n"
    )
    seen = await sandbox.exec(
        "ls -d /opt/data/[el]* /root/[el]* /srv-* /opt/venv/[el]* /opt/more /opt/data/deep"
    )
    assert seen.stdout.text.split() == [
        *("/opt/data/deep", "/opt/data/ended", "/opt/data/live", "/opt/more"),
        *("/root/ended", "/root/live", "/srv-ended", "/srv-live"),
    ]


async def test_added_programs_are_not_run_for_the_image_s_and_are_listed(backend, image):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    adds = (
        "cp /tmp/forged /opt/venv/bin/cat; cp /tmp/forged /usr/bin/judge; cp /tmp/forged /opt/venv/bin/mine"
    )
    await sandbox.exec(f"{FORGE}; {adds}; cp /tmp/forged /root/.local/bin/judge; rm -r /opt/data/.venv")
    script = "cat /etc/kept.conf; mine; judge; /opt/data/.venv/bin/judge; /root/.local/bin/judge"
    shown = "as in the image\nforged\nimage\nimage\nimage\n"
    assert await run(sandbox, script) == shown
    assert await run(sandbox, "judge", path="/usr/bin:/root/.local/bin") == "image\n"
    listed = ["/opt/data/.venv", "/opt/venv/bin/cat", "/root/.local/bin/judge", "/usr/bin/judge"]
    assert await sandbox.list_restored() == listed
    root = replace(SandboxRoot.of_image(image), keeps_system=True)
    keeping = await backend.start("b", Limits(), root)
    await keeping.exec(f"{FORGE}; cp /tmp/forged /opt/venv/bin/judge")
    assert await run(keeping, "judge") == "forged\n"
    assert await keeping.list_restored() == []


async def test_libraries_for_other_processors_and_compiled_modules_are_hidden(backend, image):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    hwcaps = "/usr/lib/glibc-hwcaps/x86-64-v2 /opt/venv/lib/glibc-hwcaps"
    await sandbox.exec(f"mkdir -p {hwcaps} /opt/venv/__pycache__; touch /opt/venv/__pycache__/a.pyc")
    shown = await run(sandbox, "ls /opt/venv /opt/venv/lib; test -e /usr/lib/glibc-hwcaps || echo gone")
    assert shown == "/opt/venv:\nbin\nlib\npyvenv.cfg\n\n/opt/venv/lib:\ngone\n"
    assert await sandbox.list_restored() == ["/opt/venv/lib/glibc-hwcaps", "/usr/lib/glibc-hwcaps"]


async def test_what_hides_an_agent_s_files_is_removed_in_a_thread(backend, image, monkeypatch):
    removers = []
    removed = threading.Event()

    def remove(path):
        removers.append(threading.current_thread())
        remove_tree(path)
        removed.set()

    monkeypatch.setattr(image_cell, "remove_tree", remove)
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    await sandbox.exec("cd /opt/venv; mkdir sitecustomize.{1..2000}")
    assert await run(sandbox, "ls /opt/venv") == "bin\npyvenv.cfg\n"
    assert await anyio.to_thread.run_sync(removed.wait, 10)
    assert threading.main_thread() not in removers


@pytest.mark.skipif(os.geteuid() != 0, reason="several users need root")
async def test_a_user_of_the_image_runs_the_restored_programs(backend, image):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(replace(image, user="ada")))
    await sandbox.exec("mkdir -p ~/x")
    ran = await sandbox.start_fresh(["/bin/sh", "-c", "judge"], environment={"PATH": PATH}, user="ada")
    assert await ran.receive() == b"image\n"
    await ran.aclose()


ENTRIES = """\
usr/bin opt/versions/3/bin opt/python/bin opt/python/lib/python3.11 root/.local/bin root/bin app/.venv/bin
app/bin srv/kafka/bin srv/kafka/libs srv/kafka/lib srv/kafka/config opt/tools home/ada/bin home/ada/x/bin
nix/store/aa/bin nix/var root/.pyenv/shims root/.pyenv/versions go/bin go/src conda/bin conda/conda-meta
"""
STATED = """\
/opt/venv/bin /opt/tools /root/.local/bin /root/bin /app/.venv/bin /app/bin /srv/kafka/bin /home/ada/bin
/home/ada/x/bin /nix/var/profile/bin /root/.pyenv/shims /go/bin /conda/bin /usr/bin relative
/proc/bin /a,b/bin
"""
EVERYWHERE = {
    *("conda", "go/bin", "home/ada/bin", "home/ada/x/bin", "nix/store", "opt/python", "opt/tools"),
    *("opt/versions/3", "root/.local/bin", "root/.pyenv", "root/bin", "app/.venv", "srv/kafka/bin"),
    "srv/kafka/lib",
}


@pytest.mark.parametrize(
    ("work", "added", "removed"),
    [
        ("/", {"app/bin"}, set()),
        # Below the working directory only what nobody writes by hand.
        ("/app", set(), set()),
        ("/opt/tools", {"app/bin"}, {"opt/tools"}),
        ("/srv/kafka/config", {"app/bin"}, {"srv/kafka/lib"}),
        ("/root", {"app/bin"}, {"root/.local/bin", "root/bin"}),
        ("/opt/versions/3/work", {"app/bin", "opt/versions/3/bin"}, {"opt/versions/3"}),
        ("/nix/store/aa", {"app/bin"}, {"nix/store"}),
    ],
)
def test_installations_are_restored_whole_and_work_never(tmp_path, work, added, removed):
    for entry in ENTRIES.split():
        (tmp_path / entry).mkdir(parents=True)
    for marker in ("opt/versions/3/pyvenv.cfg", "app/.venv/pyvenv.cfg", "opt/python/bin/python3"):
        (tmp_path / marker).touch()
    (tmp_path / "opt/venv").symlink_to("versions/3")
    (tmp_path / "opt/versions/3/bin/python").symlink_to("/opt/python/bin/python3")
    (tmp_path / "nix/var/profile").symlink_to("/nix/store/aa")
    programs = ProgramRule([tmp_path], work, "/root").find(":".join(STATED.split()))
    settings = {"etc/alternatives", "etc/crypto-policies", "etc/perl"}
    assert set(programs.prefixes) == EVERYWHERE - removed | added | settings
    links = {"opt/venv": "versions/3", "nix/var/profile": "/nix/store/aa"}
    assert programs.links == {
        path: to for path, to in links.items() if "nix" not in path or "nix" not in work
    }
    assert {"app/bin", "usr/bin", "opt/versions/3/bin"} <= set(programs.folders)


def test_settings_that_are_work_are_not_restored(tmp_path):
    assert set(ProgramRule([tmp_path], "/etc/perl/x", "/root").find("").prefixes) == {
        "etc/alternatives",
        "etc/crypto-policies",
    }


def test_paths_lead_through_the_layers_of_an_image(tmp_path):
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    for folder in (upper / "opt/3", lower / "opt/3/bin", lower / "srv/bin", lower / "usr", upper / "kept/x"):
        folder.mkdir(parents=True)
    os.symlink("../opt/./3", upper / "opt/now")  # noqa: PTH211  (exactly so)
    (lower / "opt/now").mkdir()
    (upper / "srv").touch()
    os.mknod(upper / "usr", 0o020000)
    (lower / "kept").touch()
    (lower / "loop").symlink_to("loop")
    layers = [upper, lower]
    found = walk(layers, "/opt/now/bin")
    assert (found.path, found.layers) == ("opt/3/bin", [(1, lower / "opt/3/bin")])
    assert found.links == {"opt/now": "../opt/./3"}
    assert [number for number, _ in walk(layers, "opt/3").layers] == [0, 1]
    for hidden in ("srv/bin", "usr", "missing/bin"):
        assert (walk(layers, hidden).path, walk(layers, hidden).layers) == (hidden, [])
    assert [number for number, _ in walk(layers, "kept").layers] == [0]
    assert walk(layers, "loop/bin") is None
    for number in range(MAX_LINKS):
        (lower / f"l{number}").symlink_to(f"l{number + 1}" if number + 1 < MAX_LINKS else "opt")
    assert walk(layers, "l0/3").path == "opt/3"
    (lower / "l").symlink_to("l0")
    assert walk(layers, "l/3") is None
