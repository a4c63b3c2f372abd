"""A whole writable root in a bubblewrap sandbox: what it shows, and what cannot be changed in it."""

import pytest

from ors_server.sandboxes.base import Limits, SandboxRoot
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.sandbox_errors import SandboxFileError, SandboxStartError, SandboxUnavailableError
from ors_server.sandboxes.scripted import ScriptedBackend

ROOT = SandboxRoot("/app/new", {"GREETING": "hello there"})


@pytest.fixture
async def backend():
    chosen = await choose(BackendRequest(choice=BackendChoice.BUBBLEWRAP))
    yield chosen.backend
    await chosen.aclose()


async def test_root_is_writable_except_for_the_systems_folders(backend):
    sandbox = await backend.start("a", Limits(), ROOT)
    shown = await sandbox.exec('pwd; id -u; echo "$GREETING $HOME"; touch made /opt/made /made && echo made')
    assert shown.stdout.text == "/app/new\n0\nhello there /root\nmade\n"
    rights = await sandbox.exec("grep CapEff /proc/self/status")
    assert rights.stdout.text.split()[1] == "0" * 16
    refused = await sandbox.exec("touch /usr/x /bin/x /lib/x /etc/ld.so.preload; mv /bin /b; rmdir /proc; :")
    assert refused.stderr.text.count("Read-only file system") == 4
    assert refused.stderr.text.count("Device or resource busy") == 2


async def test_server_reads_and_writes_the_root_and_follows_its_links_inside(backend):
    sandbox = await backend.start("a", Limits(), ROOT)
    await sandbox.write_file("/srv/deep/x.txt", b"x")
    await sandbox.write_file("y.txt", b"y")
    await sandbox.exec("ln -s /srv /up; ln -s /proc/1/root/etc/passwd /bad; mkfifo /pipe")
    assert await sandbox.read_file("/up/deep/x.txt") == b"x"
    assert await sandbox.read_file("/app/new/y.txt") == b"y"
    assert [entry.path for entry in await sandbox.list_files("/srv", depth=2)] == [
        "/srv/deep",
        "/srv/deep/x.txt",
    ]
    await sandbox.remove_file("/srv/deep/x.txt")
    for path in ("/srv/deep/x.txt", "/bad", "/pipe", "/../../etc/shadow"):
        with pytest.raises(SandboxFileError, match=r"no such file|not a plain file|out of the work dir"):
            await sandbox.read_file(path)


async def test_only_a_writable_fresh_program_changes_the_root(backend):
    sandbox = await backend.start("a", Limits(), ROOT)
    script = "touch /tests 2>&1; ls /.ors-control /.ors-state; cat /.ors-files/a"
    reading = await sandbox.run_fresh(["sh", "-c", script], time_limit=20, files={"a": b"given"})
    assert "Read-only file system" in reading.stdout.text
    assert reading.stdout.text.endswith("given")
    writing = await sandbox.run_fresh(["sh", "-c", script], time_limit=20, files={"a": b""}, writable=True)
    assert "Read-only" not in writing.stdout.text
    assert (await sandbox.exec("ls /tests")).exit_code == 0


async def test_shell_returns_after_a_program_has_replaced_the_mount_points(backend):
    sandbox = await backend.start("a", Limits(), ROOT)
    cheat = "rmdir /proc /.ors-files 2>/dev/null; rm -rf /.ors-home; ln -s /etc /.ors-files; echo done"
    assert (await sandbox.run_fresh(["sh", "-c", cheat], time_limit=20, writable=True)).exit_code == 0
    await sandbox.restart()
    assert (await sandbox.exec("pwd")).stdout.text == "/app/new\n"
    again = await sandbox.run_fresh(["cat", "/.ors-files/a"], time_limit=20, files={"a": b"kept"})
    assert again.stdout.text == "kept"


async def test_fork_and_snapshot_copy_the_whole_root(backend):
    sandbox = await backend.start("a", Limits(), ROOT)
    await sandbox.exec("mkdir /data; echo 1 > /data/x; export KEPT=yes; cd /data")
    fork = await sandbox.fork("b")
    assert (await fork.exec("cat /data/x; echo $KEPT; pwd")).stdout.text == "1\nyes\n/data\n"
    snapshot = await sandbox.snapshot()
    await sandbox.exec("rm -rf /data /opt")
    await sandbox.restore(snapshot)
    assert (await sandbox.exec("cat /data/x; ls -d /opt")).stdout.text == "1\n/opt\n"


async def test_work_dir_in_the_systems_folders_is_refused(backend):
    with pytest.raises(SandboxStartError, match="/usr/src/app is in /usr"):
        await backend.start("a", Limits(), SandboxRoot("/usr/src/app"))
    for path in ("app", "/app/", "/a/../b", "//app"):
        with pytest.raises(ValueError, match="absolute path in normal form"):
            SandboxRoot(path)


async def test_backend_without_roots_refuses_one():
    with pytest.raises(SandboxUnavailableError, match="the scripted backend has not"):
        await ScriptedBackend().start("a", Limits(), SandboxRoot())
