"""Sandboxes over an image: what a session may change, who sees it, and what graders see of it."""

import os
from dataclasses import replace

import pytest

from ors_server.images.image_cache import ImageCache
from ors_server.images.image_errors import ImageError
from ors_server.sandboxes.base import Limits, SandboxRoot
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.sandbox_errors import SandboxStartError, SandboxUnavailableError, SnapshotError
from ors_server.sandboxes.scripted import ScriptedBackend
from tests.fixtures.host_images import make_tree, tree_image, write_host_image

IS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("image") / "root")


@pytest.fixture
def image(tree):
    return tree_image(tree, variables={"PATH": "/usr/bin:/bin", "GREETING": "hello"}, work_dir="/opt/data")


@pytest.fixture
async def backend():
    chosen = await choose(BackendRequest(choice=BackendChoice.BUBBLEWRAP))
    yield chosen.backend
    await chosen.aclose()


async def test_session_starts_as_the_image_says_and_changes_only_its_own_copy(backend, image, tree):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    shown = await sandbox.exec('pwd; id -u; echo "$GREETING $HOME"; cat /etc/hosts deep/file')
    assert (
        shown.stdout.text == "/opt/data\n0\nhello /root\n127.0.0.1 localhost sandbox\n::1 localhost\nimage\n"
    )
    changes = "echo x > deep/file; rm /etc/kept.conf; rm -rf /usr/sbin; mkdir /usr/sbin; touch /usr/sbin/new"
    assert (await sandbox.exec(f"{changes}; ln -f deep/file /linked")).stderr.text == ""
    await sandbox.write_file("/srv/from/server", b"y")
    assert await sandbox.read_file("/linked") == b"x\n"
    seen = await sandbox.exec(
        "cat deep/file /srv/from/server; ls /usr/sbin; test -e /etc/kept.conf || echo gone"
    )
    assert seen.stdout.text == "x\nynew\ngone\n"
    other = await backend.start(
        "b", Limits(), SandboxRoot.of_image(image, work_dir="/made", variables={"A": "1"})
    )
    seen = await other.exec('pwd; echo "$GREETING $A"; cat /opt/data/deep/file; ls /etc/kept.conf')
    assert seen.stdout.text == "/made\nhello 1\nimage\n/etc/kept.conf\n"
    assert (tree / "opt/data/deep/file").read_text() == "image\n"
    assert not (tree / "usr/sbin/new").exists()
    assert not (tree / "made").exists()


async def test_programs_that_the_agent_swaps_are_not_run_by_graders(backend, image):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    forge = "printf '#!/bin/bash\\necho forged\\n' > /tmp/forged; chmod +x /tmp/forged"
    swap = "cp /tmp/forged /usr/bin/cat; rm /usr/bin/sort; echo /evil.so > /etc/ld.so.preload"
    links = "rm /bin; ln -s /tmp /bin; rm /lib64"
    await sandbox.exec(f"{forge}; echo mine > /usr/bin/added; {swap}; {links}")
    script = "cd /opt/data; cat /.ors-files/asked deep/file /usr/bin/added; echo b | sort; echo z >/usr/bin/z"
    argv = ["/bin/sh", "-c", script]
    run = await sandbox.run_fresh(argv, files={"asked": b"4?\n"}, time_limit=60, writable=True)
    assert (run.stdout.text, run.stderr.text) == ("4?\nimage\nmine\nb\n", "")
    assert await sandbox.list_restored() == ["/bin", "/lib64", "/usr/bin/cat", "/usr/bin/sort"]
    # The session keeps its own, and nothing of what the program wrote there.
    await sandbox.restart()
    kept = await sandbox.exec("/usr/bin/cat; test -e /usr/bin/z || echo gone")
    assert kept.stdout.text == "forged\ngone\n"
    keeping = await backend.start("b", Limits(), replace(SandboxRoot.of_image(image), keeps_system=True))
    await keeping.exec(f"{forge}; cp /tmp/forged /usr/bin/cat")
    run = await keeping.run_fresh(["/bin/sh", "-c", "cat /etc/hosts"], time_limit=60)
    assert run.stdout.text == "forged\n"
    assert await keeping.list_restored() == []


async def test_forks_and_snapshots_have_the_changes_with_owners_links_and_holes(backend, image):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    await sandbox.exec(
        "V=7; rm -rf /home /etc/kept.conf; mkdir /home; touch /home/new; echo x > deep/file;"
        "chmod 600 deep/file; ln -s deep link; ln deep/file second; mkfifo pipe; mkdir -p locked/in;"
        "dd if=/dev/null of=sparse bs=1 seek=400M 2>/dev/null; chown 5:6 deep/file 2>/dev/null;"
        "chmod 0 locked; cd /home"
    )
    look = (
        "echo $V $PWD; ls /home; test -e /etc/kept.conf || echo gone; cd /opt/data;"
        "stat -c '%a %h %s' deep/file; stat -c '%n %F %s' link pipe sparse; stat -c %a locked; cat second;"
        "cd /home"
    )
    kinds = "link symbolic link 4\npipe fifo 0\nsparse regular file 419430400\n"
    expected = f"7 /home\nnew\ngone\n600 2 2\n{kinds}0\nx\n"
    assert (await sandbox.exec(look)).stdout.text == expected
    fork = await sandbox.fork("b")
    assert (await fork.exec(look)).stdout.text == expected
    owner = await fork.exec("stat -c %u:%g /opt/data/deep/file")
    assert owner.stdout.text == ("5:6\n" if IS_ROOT else "0:0\n")
    snapshot = await sandbox.snapshot()
    assert snapshot.size_bytes < 100_000
    await sandbox.exec("V=8; cd /; rm -rf /opt /home; echo back > /etc/kept.conf")
    await sandbox.restore(snapshot)
    assert (await sandbox.exec(look)).stdout.text == expected
    await sandbox.exec("d=/deep; while [ ${#d} -lt 3500 ]; do d=$d/d; done; mkdir -p $d")
    with pytest.raises(SnapshotError, match="more than 300 deep"):
        await sandbox.snapshot()


async def test_limits_hold_over_an_image(backend, image):
    small = Limits(disk_bytes=1 << 20, inodes=200, pids=20)
    sandbox = await backend.start("a", small, SandboxRoot.of_image(image))
    full = await sandbox.exec("head -c 2000000 /dev/zero > big; rm big; for i in {1..300}; do : > f$i; done")
    assert "No space left on device" in full.stderr.text
    bomb = await sandbox.exec("for i in $(seq 60); do sleep 30 & done; wait", time_limit=20)
    assert bomb.killed is not None or "Resource temporarily unavailable" in bomb.stderr.text


@pytest.mark.parametrize("has_image", [True, False], ids=["image", "host"])
async def test_a_full_root_whose_mount_points_the_agent_removes_is_used_and_graded_on(
    backend, image, has_image
):
    small = Limits(disk_bytes=1 << 20, inodes=200)
    root = SandboxRoot.of_image(image) if has_image else SandboxRoot("/opt/data")
    sandbox = await backend.start("a", small, root)
    fill = "for i in {1..300}; do : > f$i; done; head -c 2000000 /dev/zero > f1"
    full = await sandbox.exec(f"rm -rf /.ors-*; rmdir /.ors-*; mv /.ors-home /x; {fill}")
    assert "No space left on device" in full.stderr.text
    await sandbox.exec("kill -9 $$")
    assert (await sandbox.exec("pwd; ls f2")).stdout.text == "/opt/data\nf2\n"
    argv = ["/bin/sh", "-c", "cat /.ors-files/asked"]
    graded = await sandbox.run_fresh(argv, files={"asked": b"4"}, time_limit=60)
    assert graded.stdout.text == "4"


@pytest.mark.parametrize("user", ["ada", "1000:peers", "ada:1001"])
async def test_user_of_the_image_runs_the_shell(backend, image, user):
    root = SandboxRoot.of_image(replace(image, user=user))
    if not IS_ROOT:
        with pytest.raises(SandboxStartError, match="only a server with root has several users"):
            await backend.start("a", Limits(), root)
        return
    sandbox = await backend.start("a", Limits(), root)
    shown = await sandbox.exec('id -u; id -g; echo "$HOME $USER"; touch ~/mine /tmp/x /etc/x')
    assert shown.stdout.text == "1000\n1001\n/home/ada ada\n"
    assert "cannot touch '/etc/x': Permission denied" in shown.stderr.text
    run = await sandbox.run_fresh(["/bin/sh", "-c", "id -u; stat -c %U /home/ada/mine"], time_limit=60)
    assert run.stdout.text == "0\nada\n"


async def test_root_of_a_server_with_root_has_several_users_and_no_right_on_the_host(backend, image):
    sandbox = await backend.start("a", Limits(), SandboxRoot.of_image(image))
    shown = await sandbox.exec("cd /tmp; touch x; chown 1000:1001 x && stat -c %U:%G x; cat /proc/1/uid_map")
    if IS_ROOT:
        *owner, mapped = shown.stdout.text.splitlines()
        assert owner == ["ada:peers"]
        assert mapped.split()[2] == "65536"
    else:
        assert "Invalid argument" in shown.stderr.text
    rights = await sandbox.exec("grep CapEff /proc/self/status")
    assert rights.stdout.text.split()[1] == ("00000000000000fb" if IS_ROOT else "0" * 16)
    refused = await sandbox.exec(
        "echo 1 > /proc/sys/user/max_user_namespaces; echo b > /proc/sysrq-trigger; chown 0 /dev/null"
    )
    assert refused.stdout.text == ""
    assert len(refused.stderr.text.splitlines()) == 3


async def test_images_that_no_shell_can_start_in_are_refused_by_name(backend, image, tmp_path):
    with pytest.raises(SandboxStartError, match="user is 'eve': expected a name in its /etc/passwd"):
        await backend.start("a", Limits(), SandboxRoot.of_image(image, user="eve"))
    bare = tmp_path / "bare"
    (bare / "bin").mkdir(parents=True)
    (bare / "bin/sh").write_text("")
    with pytest.raises(SandboxStartError, match="has no /bin/bash"):
        await backend.start("a", Limits(), SandboxRoot.of_image(tree_image(bare)))
    (bare / "bin/bash").write_text("")
    (bare / "proc").symlink_to("/etc")
    with pytest.raises(SandboxStartError, match="/proc of the image aaaaaaaaaaaa is not a folder"):
        await backend.start("a", Limits(), SandboxRoot.of_image(tree_image(bare)))
    with pytest.raises(SandboxUnavailableError, match="the scripted backend has not"):
        await ScriptedBackend().try_image(image)


async def test_cached_image_is_tried_used_and_not_removed_meanwhile(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_IMAGES", str(tmp_path / "cache"))
    cache = ImageCache()
    cached = cache.add(write_host_image(tmp_path / "image.tar", tree))
    request = BackendRequest(choice=BackendChoice.BUBBLEWRAP, image=cached.as_tree())
    chosen = await choose(request)
    try:
        assert chosen.report.images_refused is None
        assert chosen.report.as_dict()["images"]["root"].startswith(
            "kernel overlay over an idmapped" if IS_ROOT else "overlay in a user namespace"
        )
        sandbox = await chosen.backend.start("a", Limits(), SandboxRoot.of_image(cached.as_tree()))
        assert (await sandbox.exec("pwd; rm -rf /opt/data")).stdout.text == "/opt/data\n"
        with pytest.raises(ImageError, match="a session uses the image"):
            cache.remove("tiny:2")
        assert cache.verify(cached)
        await sandbox.aclose()
        assert cache.remove("tiny:2").image_id == cached.image_id
    finally:
        await chosen.aclose()
