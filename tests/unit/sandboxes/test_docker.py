"""Docker without an engine: what would be asked for, and what is said when nothing answers."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from ors_server.sandboxes import choose as choose_module
from ors_server.sandboxes import docker_containers as containers
from ors_server.sandboxes import docker_launcher, seccomp
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.choose import Choice, Wanted, choose
from ors_server.sandboxes.docker import DockerBackend, describe, sweep_containers
from ors_server.sandboxes.docker_cell import place_of
from ors_server.sandboxes.docker_engine import Engine, EngineFacts, why_unreachable
from ors_server.sandboxes.docker_group import ContainerGroup
from ors_server.sandboxes.docker_profile import (
    FOR_BUBBLEWRAP,
    anything_but,
    server_profile,
    session_profile,
)
from ors_server.sandboxes.errors import SandboxError, SandboxUnavailableError
from ors_server.sandboxes.fresh import FreshOrder
from ors_server.sandboxes.scripted import ScriptedBackend
from ors_server.sandboxes.state import ServerState
from ors_server.sandboxes.tier import Resource, Strength, TierReport

ROOT = Path(__file__).parents[3]
USER = 1_700_000_007
LIMITS = Limits()
PLACE = containers.Place(
    image="some:image",
    name="ors-x-s1",
    labels={containers.SERVER_LABEL: "x"},
    user=USER,
    limits=LIMITS,
    folder=Path("/base/ors-x/s1"),
    static=Path("/base/ors-x/static"),
    environment={"PATH": "/opt/tools:/bin"},
)
FRESH = containers.fresh(
    PLACE, FreshOrder(("prog", "arg"), {}, {"GIVEN": "1"}), Path("/files"), "ulimit -c 0"
)
EVERY_CONTAINER = {
    "holder": containers.holder(PLACE),
    "session": containers.session(PLACE, "/dev/pts/9"),
    "fresh": FRESH,
    "reader": containers.copier(PLACE, ["/bin/tar", "-c"], reads=True),
    "writer": containers.copier(PLACE, ["/bin/tar", "-x"], reads=False),
}


def targets(config, *, writable=False):
    return {
        mount["Target"]: mount.get("Source")
        for mount in config["HostConfig"]["Mounts"]
        if not (writable and mount.get("ReadOnly"))
    }


# What is asked for


@pytest.mark.parametrize("kind", EVERY_CONTAINER)
def test_every_container_is_held_tight(kind):
    config = EVERY_CONTAINER[kind]
    host = config["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert json.loads(host["SecurityOpt"][1].removeprefix("seccomp=")) == session_profile()
    assert 0 < host["Memory"] == host["MemorySwap"] <= LIMITS.memory_bytes
    assert 0 < host["PidsLimit"] <= LIMITS.pids
    assert "Privileged" not in host
    assert targets(config)["/dev/tty"] == "/base/ors-x/static/no-terminal"
    assert "Image" in config
    assert config["Labels"] == {containers.SERVER_LABEL: "x"}


@pytest.mark.parametrize("kind", [kind for kind in EVERY_CONTAINER if kind != "reader"])
def test_all_but_the_reader_run_as_the_session_s_uid_without_rights(kind):
    config = EVERY_CONTAINER[kind]
    assert config["User"] == f"{USER}:{USER}"
    assert "CapAdd" not in config["HostConfig"]


def test_the_reader_may_read_what_its_owner_has_locked_and_no_more():
    assert EVERY_CONTAINER["reader"]["HostConfig"]["CapAdd"] == ["DAC_OVERRIDE", "FOWNER"]
    assert set(targets(EVERY_CONTAINER["reader"], writable=True)) == {"/data"}


def test_the_files_stand_on_a_tmpfs_with_quotas():
    (volume,) = [
        mount for mount in EVERY_CONTAINER["holder"]["HostConfig"]["Mounts"] if mount["Type"] == "volume"
    ]
    options = volume["VolumeOptions"]["DriverConfig"]["Options"]
    assert options["type"] == "tmpfs"
    wanted = {f"size={LIMITS.disk_bytes}", f"nr_inodes={LIMITS.inodes}", "nosuid", "nodev", f"uid={USER}"}
    assert wanted <= set(options["o"].split(","))


def test_a_session_can_write_its_own_files_and_nothing_else():
    writable = targets(EVERY_CONTAINER["session"], writable=True)
    assert writable == {
        "/work": "{data}/work",
        "/home/agent": "{data}/home",
        "/tmp": "{data}/tmp",  # noqa: S108 # inside
        "/var/tmp": "{data}/tmp",  # noqa: S108 # inside
        "/run/ors-state": "{data}/state",
        "/run/ors-terminal": "/dev/pts/9",
    }


def test_a_session_has_the_shell_s_variables_and_the_image_s_path():
    variables = dict(row.split("=", 1) for row in EVERY_CONTAINER["session"]["Env"])
    assert variables["PATH"] == "/opt/tools:/bin"
    assert variables["HOME"] == "/home/agent"
    assert not [name for name in variables if name.startswith("ORS")]


def test_a_fresh_program_sees_the_work_dir_read_only_and_nothing_else_of_the_session():
    assert targets(FRESH, writable=True) == {}
    assert targets(FRESH)["/work"] == "{data}/work"
    assert targets(FRESH)["/grader"] == "/files"
    assert not {"/home/agent", "/run/ors", "/run/ors-state"} & set(targets(FRESH))
    (own,) = FRESH["HostConfig"]["Tmpfs"].values()
    assert f"size={LIMITS.disk_bytes}" in own
    assert FRESH["Cmd"][-2:] == ["prog", "arg"]
    assert "GIVEN=1" in FRESH["Cmd"]


def test_a_fresh_program_without_files_has_no_folder_for_them():
    config = containers.fresh(PLACE, FreshOrder(("prog",)), None, "")
    assert "/grader" not in targets(config)


def test_the_script_of_a_fresh_program_gives_a_clean_environment_and_an_exact_status(tmp_path):
    def run(*argv):
        order = FreshOrder(argv, {}, {"GIVEN": "a b"})
        config = containers.fresh(PLACE, order, None, "ulimit -c 0")
        return subprocess.run(
            [*config["Entrypoint"], *config["Cmd"]],
            env={"HOSTNAME": "sandbox", "LEAK": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    printed = run("/usr/bin/env")
    names = {line.partition("=")[0] for line in printed.stdout.splitlines()}
    assert names - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "LANG", "HOME", "TMPDIR", "GIVEN"}
    assert run("sh", "-c", "exit 7").returncode == 7
    killed = run("sh", "-c", "kill -9 $$")
    assert (killed.returncode, killed.stderr) == (137, "")
    assert run("no-such-program").returncode == 127
    (tmp_path / "a=b").write_text("#!/bin/sh\necho odd\n")
    (tmp_path / "a=b").chmod(0o755)
    assert run(str(tmp_path / "a=b")).stdout == "odd\n"


def test_the_start_script_makes_the_first_terminal_it_opens_its_own():
    assert containers.START_SCRIPT.index("/run/ors-terminal") < containers.START_SCRIPT.index("/run/ors/init")
    assert subprocess.run(["/bin/sh", "-n", "-c", containers.START_SCRIPT], check=False).returncode == 0


def test_a_session_s_uid_has_a_name(tmp_path):
    containers.write_identity(tmp_path, USER)
    assert f"agent:x:{USER}:{USER}:" in (tmp_path / "passwd").read_text()
    assert f"agent:x:{USER}:" in (tmp_path / "group").read_text()


# The profiles


def test_a_masked_test_says_anything_but_some_words():
    for words in ({0x5412, 0x541C}, {7}, {0, 1, 2, 3}):
        pairs = anything_but(words)
        near = {(word ^ bit) & 0xFFFFFFFF for word in words for bit in (1 << shift for shift in range(32))}
        for word in near | words | {0x12345678}:
            for upper in (0, 1 << 32):  # what the kernel ignores must not open a way around
                allowed = any((word | upper) & mask == value for mask, value in pairs)
                assert allowed == (word not in words), hex(word)


def rules(profile, name):
    return [rule for rule in profile["syscalls"] if name in rule["names"]]


@pytest.mark.parametrize("name", [*seccomp.REFUSED, *seccomp.MISSING])
def test_a_session_s_profile_refuses_what_the_filter_refuses(name):
    (rule,) = rules(session_profile(), name)
    assert rule["action"] == "SCMP_ACT_ERRNO"
    assert rule["errnoRet"] == (errno.ENOSYS if name in seccomp.MISSING else errno.EPERM)


def test_calls_that_depend_on_their_arguments_are_never_allowed_without_a_look():
    for name in ("clone", "socket", "socketpair", "personality", "ioctl"):
        found = rules(session_profile(), name)
        assert found
        assert all(rule["action"] == "SCMP_ACT_ALLOW" and rule["args"] for rule in found), name
    families = {rule["args"][0]["value"] for rule in rules(session_profile(), "socket")}
    assert socket.AF_VSOCK not in families
    (clone,) = rules(session_profile(), "clone")
    assert clone["args"] == [
        {"index": 0, "value": seccomp.NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    ]


def test_the_server_s_profile_opens_what_bubblewrap_needs_and_nothing_else():
    ours, theirs = session_profile(), server_profile()
    opened = {
        name for rule in theirs["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]
    } - {name for rule in ours["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert opened == set(FOR_BUBBLEWRAP)
    assert "args" not in rules(theirs, "clone")[0]
    for name in FOR_BUBBLEWRAP:
        assert [rule["action"] for rule in rules(theirs, name)] == ["SCMP_ACT_ALLOW"]


def test_the_profile_that_ships_is_the_one_that_is_made():
    shipped = json.loads((ROOT / "deploy" / "docker-seccomp.json").read_text())
    assert shipped == server_profile()


# What is said when nothing answers


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(SandboxUnavailableError, match=r"pip install 'ors-server\[docker\]'"):
        Engine()


@pytest.mark.parametrize(
    "host", ["tcp://192.0.2.1:2375", "ssh://somewhere", "npipe:////./pipe/docker_engine"]
)
def test_an_engine_elsewhere_is_refused(host):
    with pytest.raises(SandboxUnavailableError, match="must be on this host"):
        Engine(host)


def test_an_engine_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(SandboxUnavailableError, match=r"no Docker engine at .*docker_host"):
        Engine(f"unix://{tmp_path}/none.sock")


def test_an_engine_that_is_dead_is_said_to_be_dead(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    with pytest.raises(SandboxUnavailableError, match="nobody answers"):
        Engine(f"unix://{tmp_path}/dead.sock")


def test_a_socket_that_may_not_be_used_is_said_to_want_the_group():
    assert "group docker" in why_unreachable("/run/docker.sock", PermissionError(errno.EACCES, "no"))
    assert "timed out" in why_unreachable("/run/docker.sock", TimeoutError("timed out"))


def test_something_else_that_listens_is_said_to_be_no_engine(fake):
    fake.answers["GET", "/version"] = 404, {"message": "what is a version?"}
    with pytest.raises(SandboxUnavailableError, match="no Docker engine"):
        Engine(fake.host)


def test_the_environment_says_where_the_engine_is(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/from-environment.sock")
    with pytest.raises(SandboxUnavailableError, match="from-environment"):
        Engine()


# An engine of our own making, which answers what a test says


HANG_UP = 0


class FakeEngine:
    """Speaks just enough of the engine's API over a socket."""

    def __init__(self, path):
        self.host = f"unix://{path}"
        self.asked = []
        self.info = {
            "OSType": "linux",
            "ServerVersion": "20.10.24",
            "MemoryLimit": True,
            "PidsLimit": True,
            "CpuCfsQuota": True,
            "SecurityOptions": ["name=seccomp,profile=default"],
        }
        self.image = {"Config": {"Env": ["A=1", "PATH=/opt/bin:/bin"]}}
        self.containers = {}
        self.answers = {}
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def address_string(self):
                return "socket"

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                status, body = engine.answer(self.command, urlsplit(self.path))
                self.close_connection = status == HANG_UP
                if status == HANG_UP:
                    return
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 # what the library looks for

        self._server = ThreadingUnixStreamServer(str(path), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, method, url):
        path = url.path.partition("/v1.41")[2] or url.path
        self.asked.append((method, path))
        known = {
            ("GET", "/version"): lambda: (200, {"ApiVersion": "1.41", "Version": "20.10.24"}),
            ("GET", "/info"): lambda: (200, self.info),
            ("GET", "/containers/json"): lambda: (200, self._labelled(url)),
            ("GET", "/images/some:image/json"): lambda: (200, self.image),
            ("GET", "/images/other/json"): lambda: (404, {"message": "no such image"}),
            **{("DELETE", f"/containers/{name}"): self._remover(name) for name in self.containers},
            **{key: lambda key=key: self.answers[key] for key in self.answers},
        }
        on_fire = 500, {"message": "the engine is on fire"}
        return known.get((method, path), lambda: on_fire)()

    def _labelled(self, url):
        (wanted,) = json.loads(parse_qs(url.query)["filters"][0])["label"]
        name, _, value = wanted.partition("=")
        return [
            {"Id": key, "Labels": labels}
            for key, labels in self.containers.items()
            if labels.get(name) == value
        ]

    def _remover(self, name):
        return lambda: (204, self.containers.pop(name) and None)

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def fake(tmp_path):
    engine = FakeEngine(tmp_path / "engine.sock")
    yield engine
    engine.close()


@pytest.fixture
def engine(fake):
    connected = Engine(fake.host)
    yield connected
    connected.close()


def test_an_engine_tells_what_it_can_limit_and_where_the_image_looks_for_programs(engine):
    assert engine.facts("some:image") == EngineFacts(
        version="20.10.24",
        api="1.41",
        image="some:image",
        path="/opt/bin:/bin",
        memory=True,
        pids=True,
        cpu=True,
    )


def test_an_image_that_is_not_there_is_named(engine):
    with pytest.raises(SandboxUnavailableError, match="no image 'other'"):
        engine.facts("other")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"OSType": "windows"}, "linux is needed"),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, "rootless"),
        ({"SecurityOptions": ["name=userns"]}, "maps its containers' uids"),
    ],
)
def test_an_engine_that_cannot_share_terminals_is_refused(fake, engine, said, words):
    fake.info |= said
    with pytest.raises(SandboxUnavailableError, match=words):
        engine.facts("some:image")


def test_what_the_engine_refuses_is_the_machinery_s_failure(fake, engine):
    with pytest.raises(SandboxError, match="on fire"):
        engine.pause("some-container")
    fake.answers["GET", "/info"] = 500, {"message": "no idea"}
    with pytest.raises(SandboxUnavailableError, match="no idea"):
        engine.facts("some:image")


@pytest.mark.parametrize("status", [404, 409])
def test_removing_what_is_gone_is_no_failure(fake, engine, status):
    fake.answers["DELETE", "/containers/gone"] = status, {"message": "gone, or going"}
    engine.remove("gone")
    assert ("DELETE", "/containers/gone") in fake.asked


def test_an_engine_that_dies_is_the_machinery_s_failure(fake, engine):
    fake.answers["POST", "/containers/some-container/pause"] = HANG_UP, None
    with pytest.raises(SandboxError, match="does not answer"):
        engine.pause("some-container")


# Clean-up


def test_only_the_containers_of_dead_servers_of_this_place_are_removed(fake, engine, tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    state = ServerState(base)
    (base / "ors-crashed").mkdir()
    here, label = place_of(base), containers.SERVER_LABEL
    place = containers.PLACE_LABEL
    fake.containers = {
        "ours": {place: here, label: state.server_id},
        "vanished": {place: here, label: "vanished"},
        "crashed": {place: here, label: "crashed"},
        "elsewhere": {place: "1-2", label: "vanished"},
        "strangers": {"com.example": "x"},
    }
    try:
        assert sorted(sweep_containers(engine, base)) == ["crashed", "vanished"]
        assert set(fake.containers) == {"ours", "elsewhere", "strangers"}
    finally:
        state.close()


# The launcher, up to where an engine is needed


def launch(fake, tmp_path, **more):
    orders = tmp_path / "orders"
    config = EVERY_CONTAINER["writer"]
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


@pytest.mark.parametrize("more", [{}, {"go": 0, "holder": EVERY_CONTAINER["holder"], "data": None}])
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
    group = ContainerGroup(os.getpid(), tmp_path)
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
    said = {"memory": True, "pids": True, "cpu": True} | more
    return EngineFacts(version="1", api="1.41", image="some:image", path=None, **said)


def test_the_report_says_what_the_engine_cannot_limit():
    whole = describe(facts(), has_uids=True)
    assert all(whole.holds(resource) for resource in Resource)
    assert whole.strength is Strength.NAMESPACES
    less = describe(facts(memory=False, cpu=False, pids=False), has_uids=False)
    assert not less.holds(Resource.MEMORY)
    assert not less.holds(Resource.CPU)
    assert "uid" in less.held[Resource.PIDS]
    assert len(less.gaps) == len(whole.gaps) + 3


class Tier(ScriptedBackend):
    def __init__(self, name):
        super().__init__()
        self.name = name

    async def probe(self):
        if self.name != "docker":
            raise SandboxUnavailableError("not here")
        return TierReport(self.name, Strength.NAMESPACES, MappingProxyType({}))


def chosen(monkeypatch, tmp_path, wanted):
    given = {}

    def docker(state, clock, **more):
        given.update(more)
        return Tier("docker")

    monkeypatch.setattr(choose_module, "sweep", lambda: None)
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
    wanted = Wanted(docker_image="some:image", docker_host="unix:///x")
    backend, given = chosen(monkeypatch, tmp_path, wanted)
    assert backend == "docker"
    assert given == {"image": "some:image", "host": "unix:///x"}


def test_docker_is_not_tried_where_nobody_named_an_image(monkeypatch, tmp_path):
    with pytest.raises(SandboxUnavailableError) as refused:
        chosen(monkeypatch, tmp_path, Wanted())
    assert "docker" not in str(refused.value)


def test_docker_can_be_asked_for_by_name(monkeypatch, tmp_path):
    assert chosen(monkeypatch, tmp_path, Wanted(Choice.DOCKER))[0] == "docker"
