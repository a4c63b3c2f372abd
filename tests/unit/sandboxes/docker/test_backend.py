"""A session in containers, without an engine: ours is a small one of bubblewrap's (conftest.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import anyio
import pytest

from ors_server.sandboxes import choose as choose_module
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.cgroups import counters_of
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.docker import containers
from ors_server.sandboxes.docker import launcher as docker_launcher
from ors_server.sandboxes.docker.backend import DockerBackend, describe
from ors_server.sandboxes.docker.engine import EngineFacts
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import (
    SandboxError,
    SandboxStartError,
    SandboxUnavailableError,
    SnapshotError,
)
from ors_server.sandboxes.scripted import ScriptedBackend
from tests.fixtures.opened_backend import open_backend

LIMITS = Limits(pids=4096)
"""More processes than the host's own group may count: the containers are in it."""
PLACE = containers.ContainerSetting(
    "some:image",
    "ors-x-s1",
    {},
    1000,
    LIMITS,
    Path("/base/s1"),
    Path("/quick/s1/control"),
    Path("/base/static"),
)


# The launcher, up to where an engine is needed


def launch(fake, tmp_path, **more):
    orders = tmp_path / "orders"
    config = containers.copier(PLACE, ["/bin/tar", "-x"], reads=False)
    said = {"host": fake.host, "api": "1.41", "name": "n", "container": config, "data": "/d", "begins": -1}
    orders.write_text(json.dumps(said | more))
    reading = os.open(orders, os.O_RDONLY)
    told, tells = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-P", docker_launcher.__file__, str(reading), str(tells)],
            pass_fds=[reading, tells],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        os.close(tells)
        tells = -1
        return done, os.read(told, 65_536)
    finally:
        for descriptor in (reading, told, tells):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.mark.parametrize("more", [{}, {"go": 0, "holder": containers.holder(PLACE), "data": None}])
def test_what_the_engine_says_against_a_container_is_passed_on_and_nothing_is_left(fake, tmp_path, more):
    fake.answers["POST", "/containers/create"] = 400, {"message": "that memory is too small"}
    done, told = launch(fake, tmp_path, **more)
    assert done.returncode == 1
    assert "that memory is too small" in done.stderr
    assert told == b""
    assert [path for method, path in fake.asked if method == "DELETE"] == (
        ["/containers/n-files"] if more else ["/containers/n"]
    )


# The groups that the engine makes


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_s_group_is_read_where_the_kernel_says_it_is(tmp_path, monkeypatch, version):
    rows = Path("/proc/self/cgroup").read_text().splitlines()
    paths = {names: path for _, names, path in (row.split(":", 2) for row in rows)}
    if ("pids" in paths) != (version == 1):
        folder = None
    else:
        folder = (
            tmp_path / ("pids" if version == 1 else "") / paths["pids" if version == 1 else ""].lstrip("/")
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pids.current").write_text("12\n")
        (folder / "pids.events").write_text("max 3\n")
    group = counters_of(os.getpid(), tmp_path)
    try:
        assert (group.alive(), group.denials()) == ((12, 3) if folder else (0, 0))
    finally:
        group.close()


# The backend and the choice


def test_a_backend_without_an_image_says_which_setting_names_one(tmp_path):
    async def run():
        state = ServerState(tmp_path)
        backend = DockerBackend(state)
        try:
            with pytest.raises(SandboxUnavailableError, match="docker_image"):
                await backend.probe()
            with pytest.raises(SandboxUnavailableError, match="docker_image"):
                await backend.start("one")
            await backend.aclose()
            with pytest.raises(SandboxUnavailableError, match="closed"):
                await backend.start("two")
        finally:
            state.close()

    anyio.run(run)


def facts(**more):
    said = {"can_limit_memory": True, "can_limit_pids": True, "can_limit_cpu": True} | more
    return EngineFacts(version="1", api="1.41", image="some:image", path=None, **said)


def test_the_report_says_what_the_engine_cannot_limit():
    whole = describe(facts(), has_uids=True)
    assert all(whole.isolates(resource) for resource in IsolatedResource)
    assert whole.strength is Strength.NAMESPACES
    less = describe(facts(can_limit_memory=False, can_limit_cpu=False, can_limit_pids=False), has_uids=False)
    assert not less.isolates(IsolatedResource.MEMORY)
    assert not less.isolates(IsolatedResource.CPU)
    assert "uid" in less.isolated[IsolatedResource.PIDS]
    assert len(less.gaps) == len(whole.gaps) + 3


class Tier(ScriptedBackend):
    def __init__(self, name):
        super().__init__()
        self.name = name

    async def probe(self):
        if self.name != "docker":
            raise SandboxUnavailableError("not here")
        return IsolationReport(self.name, Strength.NAMESPACES, MappingProxyType({}))


def chosen(monkeypatch, tmp_path, wanted):
    given = {}

    def docker(state, clock, **more):
        given.update(more)
        return Tier("docker")

    monkeypatch.setattr(choose_module, "clean_up", lambda: None)
    monkeypatch.setattr(choose_module, "ServerState", lambda: ServerState(tmp_path))
    monkeypatch.setattr(choose_module, "BubblewrapBackend", lambda *_: Tier("bubblewrap"))
    monkeypatch.setattr(choose_module, "LandlockBackend", lambda *_: Tier("landlock"))
    monkeypatch.setattr(choose_module, "DockerBackend", docker)

    async def run():
        got = await choose(wanted)
        await got.aclose()
        return got.report.backend

    return anyio.run(run), given


def test_docker_comes_after_bubblewrap_where_an_image_is_named(monkeypatch, tmp_path):
    wanted = BackendRequest(docker_image="some:image", docker_host="unix:///x")
    backend, given = chosen(monkeypatch, tmp_path, wanted)
    assert backend == "docker"
    assert given == {"image": "some:image", "host": "unix:///x"}


def test_docker_is_not_tried_where_nobody_named_an_image(monkeypatch, tmp_path):
    with pytest.raises(SandboxUnavailableError) as refused:
        chosen(monkeypatch, tmp_path, BackendRequest())
    assert "docker" not in str(refused.value)


def test_docker_can_be_asked_for_by_name(monkeypatch, tmp_path):
    assert chosen(monkeypatch, tmp_path, BackendRequest(BackendChoice.DOCKER))[0] == "docker"


# A whole session


def on_engine(fake, play):
    """Plays with a backend on the small engine; returns what it returned and what is left."""

    async def run():
        async with open_backend(DockerBackend, image="some:image", host=fake.host) as backend:
            return await play(backend)

    return anyio.run(run)


def test_a_session_speaks_over_its_own_terminal_and_keeps_its_files(fake):
    async def play(backend):
        sandbox = await backend.start("one", LIMITS)
        told = await sandbox.exec("cd /work; x=1; echo $PATH; id -un 2>/dev/null; echo err >&2; (exit 3)")
        assert (told.exit_code, told.stderr.text) == (3, "err\n")
        assert told.stdout.text.startswith("/usr/local/bin:/usr/bin:/bin\n")
        assert (await sandbox.exec("echo $x; exit 4")).shell_restarted
        await sandbox.write_file("kept", b"kept")
        await sandbox.restart()
        assert (await sandbox.exec("cat kept; echo ${x-none}")).stdout.text == "keptnone\n"
        slow = await sandbox.exec("sleep 100", time_limit=0.3)
        assert slow.timed_out
        assert not slow.shell_restarted
        if os.geteuid() == 0:  # the terminal is the server's own, and nobody inside can open it again
            assert (await sandbox.exec("echo x > /run/ors-terminal")).exit_code == 1
        await sandbox.aclose()
        return sorted(fake.labels)

    assert on_engine(fake, play) == []


def test_a_fresh_program_is_talked_to_through_the_engine(fake):
    async def play(backend):
        sandbox = await backend.start("one", LIMITS)
        await sandbox.write_file("seen", b"seen ")
        await sandbox.freeze()
        assert any(container.is_paused for container in fake.made.values())
        said = "cat seen - /grader/a/b; echo err >&2; touch /work/x || exit 7"
        run = await sandbox.run_fresh(["sh", "-c", said], files={"a/b": b" file"}, stdin=b"in", time_limit=30)
        assert run.exit_code == 7
        assert run.stdout.text == "seen in file"
        assert run.stderr.text.startswith("err\n")
        late = await sandbox.run_fresh(["sleep", "1000"], time_limit=0.3)
        assert late.timed_out
        await sandbox.thaw()
        assert not any(container.is_paused for container in fake.made.values())
        return [name for name in fake.labels if "-p" in name]

    assert on_engine(fake, play) == []


def test_files_are_copied_out_and_in_again_and_a_failing_copier_is_a_failure(fake):
    async def play(backend):
        sandbox = await backend.start("one", LIMITS)
        await sandbox.exec("mkdir d; echo old > d/f")
        snapshot = await sandbox.snapshot()
        await sandbox.exec("echo new > d/f")
        await sandbox.restore(snapshot)
        restored = (await sandbox.exec("cat d/f")).stdout.text
        await anyio.Path(snapshot.path).write_bytes(b"no archive at all " * 1000)
        with pytest.raises(SnapshotError, match="archive"):
            await sandbox.restore(snapshot)
        await snapshot.aclose()
        return restored

    assert on_engine(fake, play) == "old\n"


def test_a_container_that_cannot_be_made_fails_the_start_with_the_engine_s_words(fake):
    fake.answers["POST", "/containers/create"] = 400, {"message": "that memory is too small"}

    async def play(backend):
        with pytest.raises(SandboxStartError, match="that memory is too small"):
            await backend.start("one")
        return list(fake.labels)

    assert on_engine(fake, play) == []


def test_an_engine_whose_process_ids_are_not_ours_is_refused(fake, monkeypatch):
    honest = fake.answer
    stranger = subprocess.Popen(["/bin/sleep", "1000"])

    def lies(method, url, body):
        status, said = honest(method, url, body)
        if url.path.endswith("-1/json"):
            said["State"]["Pid"] = stranger.pid
        return status, said

    monkeypatch.setattr(fake, "answer", lies)

    async def play(backend):
        with pytest.raises(SandboxStartError, match=r"somewhere else|cannot be reached"):
            await backend.start("one")

    try:
        on_engine(fake, play)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_engine_that_will_not_pause_does_not_freeze(fake):
    async def play(backend):
        sandbox = await backend.start("one", LIMITS)
        (name,) = [name for name in fake.made if name.endswith("-1")]
        fake.answers["POST", f"/containers/{name}/pause"] = 500, {"message": "no freezer here"}
        with pytest.raises(SandboxError, match="no freezer here"):
            await sandbox.freeze()
        assert (await sandbox.exec("echo on")).stdout.text == "on\n"

    on_engine(fake, play)
