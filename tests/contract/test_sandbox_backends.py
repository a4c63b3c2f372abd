"""Every backend keeps the promises of the interface, and holds the shell vectors as its tier says."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import anyio
import pytest

from ors_server.sandboxes.cells.cgroups import Hierarchies
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.host import launcher
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.host.landlock import LandlockBackend
from ors_server.sandboxes.host.none import NoneBackend
from ors_server.sandboxes.isolation_report import IsolatedResource
from ors_server.sandboxes.sandbox_errors import (
    SandboxUnavailableError,
    SnapshotError,
    UnsandboxedRefusedError,
)
from ors_server.sandboxes.scripted import ScriptedBackend, ScriptedSnapshot
from ors_server.testing.sandbox_suite import check_backend
from tests.fixtures.host_images import make_vector_tree
from tests.fixtures.ordinary_cases import leave_to_stress

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
PLAYER = ROOT / "tests" / "fixtures" / "sandbox_vectors.py"
PROMISES = ROOT / "tests" / "fixtures" / "sandbox_promises.py"
BACKENDS = [("bubblewrap", BubblewrapBackend), ("landlock", LandlockBackend)]
NOBODY = 65_534
SOME_PYTHON = "/usr/bin/python3"

# What a tier cannot hold, and why. A vector in this table must fail: one that passes is to be taken out.
EXCEPTIONS = {
    ("bubblewrap", "user"): {
        "memory_total": "without a cgroup memory is limited per process",
    },
    ("image", "root"): {
        "ld_preload_file": "/etc is the session's own; fresh programs, which grade, do not see the file",
        "capabilities_zero": "the sandbox's root has those of a container, over the session's own ids alone",
    },
    ("landlock", "root"): {
        "server_survives_between_commands": "all but local sockets are refused, the loopback too",
        "zombies_reaped": "the processes of the whole host are listed, its zombies too",
        "inode_fill": "inodes are not limited on the server's own file system",
        "cmdlines_visible": "argument lists are readable without a pid namespace",
        "sees_only_own_processes": "the processes of the whole host are listed",
        "pathname_unix_socket": "Landlock does not judge connecting to a socket with a path",
        "disk_total": "disk is limited per file only",
        "inodes_total": "inodes are not limited on the server's own file system",
    },
}
EXCEPTIONS["image", "user"] = {
    "ld_preload_file": EXCEPTIONS["image", "root"]["ld_preload_file"],
    **EXCEPTIONS["bubblewrap", "user"],
}
EXCEPTIONS["landlock", "user"] = {
    **EXCEPTIONS["landlock", "root"],
    **EXCEPTIONS["bubblewrap", "user"],
    "inotify_exhaustion": "the uid is the server's own, and with it the quota of inotify instances",
    "renice_sched_server": "the uid is the server's own, and may lower the priority of whatever has it",
    "write_host_dir": "the uid is the server's own, and Landlock does not judge a change of mode",
    "ulimit_as_tiny": "the shell itself may have no room under the limit; it is replaced, which lifts it",
}
# Exceptions that depend on what else the host does, and so may pass.
BY_CHANCE = {"zombies_reaped", "sees_only_own_processes", "ulimit_as_tiny"}

CONFIGURATIONS = tuple(
    (backend, user)
    for backend in ("bubblewrap", "image", "landlock")
    for user in (("root", "user") if os.geteuid() == 0 else ("user",))
)


def require(backend: str, user: str) -> None:
    """Fail where a component is missing: what was not tried must not look like what works."""
    if backend in {"bubblewrap", "image"} and shutil.which("bwrap") is None:
        pytest.fail("bubblewrap is not installed; on Debian: apt-get install -y bubblewrap")
    if backend == "landlock" and launcher.abi() < 1:
        pytest.fail("the kernel has no Landlock")
    if user == "user" and os.geteuid() == 0 and not Path(SOME_PYTHON).exists():
        pytest.fail(f"there is no {SOME_PYTHON} that another user may start")


def command(user: str, program: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("XDG_RUNTIME_DIR", None)
    if user == "root" or os.geteuid() != 0:
        return [sys.executable, str(program), *arguments], environment
    environment["PYTHONPATH"] += f":{sysconfig.get_path('purelib')}"
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    return [*drop, SOME_PYTHON, str(program), *arguments], environment


@functools.cache
def image_root(user: str) -> str:
    """Make a root for sessions of this user, with the programs that the vectors call; removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ors-test-image-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    make_vector_tree(folder / "root")
    if user == "user" and os.geteuid() == 0:  # a cache belongs to the server's user
        subprocess.run(["/bin/chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
    return str(folder / "root")


def played(user: str, program: Path, *arguments: str) -> dict[str, list[str]]:
    argv, environment = command(user, program, *arguments)
    if arguments[0] == "image":
        environment["ORS_TEST_IMAGE_ROOT"] = image_root(user)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=300)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows, done.stderr
    return {row["name"]: row["problems"] for row in rows}


vectors_played = functools.cache(played)


def vectors():
    for kind, key in (("nasty", "cases"), ("escapes", "escapes")):
        names = [case["name"] for case in json.loads((DATA / f"bash_{kind}.json").read_text())[key]]
        for backend, user in CONFIGURATIONS:
            for name in names:
                yield pytest.param(backend, user, kind, name, id=f"{backend}-{user}-{kind}-{name}")


@pytest.mark.stress
@pytest.mark.timeout(320)  # the first case of a configuration plays them all
@pytest.mark.parametrize(("backend", "user", "kind", "name"), list(vectors()))
def test_a_vector_ends_as_the_tier_says(backend, user, kind, name):
    require(backend, user)
    problems = vectors_played(user, PLAYER, backend, kind)[name]
    exception = EXCEPTIONS.get((backend, user), {}).get(name)
    if exception is None:
        assert problems == []
    elif name not in BY_CHANCE:
        assert problems, f"passes, although it was said that {exception}"


def test_every_exception_names_a_vector():
    known = {param.values[3] for param in vectors()}
    assert {name for table in EXCEPTIONS.values() for name in table} <= known


def check(make, *, runs_commands=True):
    async def run():
        state = ServerState()
        backend = make(state)
        try:
            return await check_backend(backend, runs_commands=runs_commands)
        finally:
            await backend.aclose()
            state.close()

    return anyio.run(run)


def assert_kept(verdicts):
    assert {verdict.name: verdict.problem for verdict in verdicts if verdict.problem} == {}


def test_the_scripted_backend_keeps_the_promises_that_need_no_shell():
    assert_kept(check(lambda _state: ScriptedBackend(), runs_commands=False))


@pytest.mark.parametrize(("name", "make"), BACKENDS)
def test_every_promise_is_kept(name, make):
    require(name, "user")
    assert_kept(check(make))


@pytest.mark.parametrize("name", [pytest.param("bubblewrap", marks=pytest.mark.stress), "landlock"])
def test_every_promise_is_kept_without_root(name):
    require(name, "user")
    kept = played("user", PROMISES, name)
    assert {promise: problems for promise, problems in kept.items() if problems} == {}
    assert len(kept) > 30


def test_none_keeps_every_promise_but_isolation():
    assert_kept(check(lambda state: NoneBackend(state, allowed=True)))


def without_cgroups(make):
    def made(state):
        state.hierarchies = Hierarchies(0)
        return make(state)

    return made


@pytest.mark.parametrize(("name", "make"), leave_to_stress(BACKENDS, lambda case: case[0] == "bubblewrap"))
def test_every_promise_is_kept_where_no_cgroup_is_writable(name, make):
    require(name, "user")
    assert_kept(check(without_cgroups(make)))


@pytest.mark.parametrize(("name", "make"), BACKENDS)
def test_a_shell_never_notices_that_signals_froze_it(name, make):
    require(name, "user")
    printed = []

    async def run():
        state = ServerState()
        backend = without_cgroups(make)(state)
        try:
            sandbox = await backend.start("frozen-often")
            await sandbox.exec("while :; do sleep 0.01; done >/dev/null 2>&1 &")
            for number in range(100):
                await sandbox.freeze()
                await sandbox.thaw()
                printed.append((await sandbox.exec(f"echo {number}; jobs -s")).stdout.text)
            await sandbox.aclose()
        finally:
            await backend.aclose()
            state.close()

    anyio.run(run)
    assert printed == [f"{number}\n" for number in range(100)]


SLEEPERS = """python3 -c '
import ctypes, os, time
libc = ctypes.CDLL(None)
for _ in range(20):
    if not os.fork():
        if libc.vfork() == 0:  # its parent cannot be interrupted while it neither ends nor starts a program
            time.sleep(1000)
        os._exit(0)
time.sleep(1000)' >/dev/null 2>&1 &
sleep 1"""


@pytest.mark.parametrize(("name", "make"), BACKENDS)
def test_processes_that_cannot_be_interrupted_hold_up_no_freeze(name, make):
    require(name, "user")

    async def run():
        state = ServerState()
        backend = without_cgroups(make)(state)
        try:
            sandbox = await backend.start("frozen-uninterruptible")
            await sandbox.exec(SLEEPERS, time_limit=20)
            with anyio.fail_after(20):
                await sandbox.freeze()
            await sandbox.thaw()
            assert (await sandbox.exec("echo alive")).stdout.text == "alive\n"
            await sandbox.aclose()
        finally:
            await backend.aclose()
            state.close()

    anyio.run(run)


@pytest.mark.parametrize(("name", "make"), BACKENDS)
def test_a_backend_that_works_probes_itself_and_reports_its_gaps(name, make):
    require(name, "user")

    async def run():
        state = ServerState()
        state.hierarchies = Hierarchies(0)
        backend = make(state)
        try:
            return await backend.probe()
        finally:
            await backend.aclose()
            state.close()

    report = anyio.run(run)
    assert report.backend == name
    assert not report.isolates(IsolatedResource.CPU)
    assert not report.isolates(IsolatedResource.MEMORY)
    assert len(report.gaps) >= 3


def test_a_closed_backend_starts_nothing_and_foreign_snapshots_are_refused():
    async def run():
        state = ServerState()
        backend = NoneBackend(state, allowed=True)
        sandbox = await backend.start("one")
        with pytest.raises(SnapshotError, match="another backend"):
            await sandbox.restore(ScriptedSnapshot({}))
        snapshot = await sandbox.snapshot()
        await snapshot.aclose()
        with pytest.raises(SnapshotError, match="gone"):
            await sandbox.restore(snapshot)
        await backend.aclose()
        with pytest.raises(SandboxUnavailableError, match="closed"):
            await backend.start("two")
        state.close()

    anyio.run(run)


@pytest.mark.parametrize("files", [2, 600], ids=["a few files", "many files"])
def test_copies_keep_fractions_of_times_of_change(files):
    times = "stat --format=%y a b; [ b -nt a ] && echo newer"

    async def run():
        state = ServerState()
        backend = NoneBackend(state, allowed=True)
        try:
            sandbox = await backend.start("one")
            await sandbox.exec("touch -d @1000000000 a; touch -d @1000000000.123456789 b")
            await sandbox.exec(f"touch $(seq {files})")
            before = (await sandbox.exec(times)).stdout.text
            snapshot = await sandbox.snapshot()
            fork = await sandbox.fork("two")
            await sandbox.restore(snapshot)
            found = [(await each.exec(times)).stdout.text for each in (sandbox, fork)]
            await snapshot.aclose()
        finally:
            await backend.aclose()
            state.close()
        return before, found

    before, found = anyio.run(run)
    assert ".123456789" in before
    assert "newer" in before
    assert found == [before, before]


def test_none_is_refused_unless_it_is_allowed(tmp_path):
    state = ServerState(tmp_path)
    with pytest.raises(UnsandboxedRefusedError, match="--allow-unsandboxed"):
        NoneBackend(state)
    state.close()
