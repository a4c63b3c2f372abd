"""The way to an engine, and what is said when nothing answers."""

import errno
import re
import socket
import sys

import pytest

from ors_server.installation import install_hint
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.docker.backend import sweep_containers
from ors_server.sandboxes.docker.cell import place_of
from ors_server.sandboxes.docker.containers import PLACE_LABEL, SERVER_LABEL
from ors_server.sandboxes.docker.engine import Engine, EngineFacts, why_unreachable
from ors_server.sandboxes.sandbox_errors import SandboxError, SandboxUnavailableError

IMAGE_PATH = "/usr/local/bin:/usr/bin:/bin"


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(SandboxUnavailableError, match=re.escape(install_hint("docker"))):
        Engine()


@pytest.mark.parametrize(
    "host", ["tcp://192.0.2.1:2375", "ssh://somewhere", "npipe:////./pipe/docker_engine"]
)
def test_an_engine_elsewhere_is_refused(host):
    with pytest.raises(SandboxUnavailableError, match="expected an engine on this host"):
        Engine(host)


def test_an_engine_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(SandboxUnavailableError, match=r"no Docker engine at .*docker_host"):
        Engine(f"unix://{tmp_path}/none.sock")


def test_an_engine_that_is_dead_is_said_to_be_dead(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    with pytest.raises(SandboxUnavailableError, match="no Docker engine answers"):
        Engine(f"unix://{tmp_path}/dead.sock")


def test_a_socket_that_may_not_be_used_is_said_to_want_the_group():
    assert "group docker" in why_unreachable("/run/docker.sock", PermissionError(errno.EACCES, "no"))
    assert "timed out" in why_unreachable("/run/docker.sock", TimeoutError("timed out"))


def test_something_else_that_listens_is_said_to_be_no_engine(fake):
    fake.answers["GET", "/version"] = 404, {"message": "what is a version?"}
    with pytest.raises(SandboxUnavailableError, match="not a Docker engine"):
        Engine(fake.host)


def test_the_environment_says_where_the_engine_is(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/from-environment.sock")
    with pytest.raises(SandboxUnavailableError, match="from-environment"):
        Engine()


# An engine that answers


def test_an_engine_tells_what_it_can_limit_and_where_the_image_looks_for_programs(engine):
    assert engine.facts("some:image") == EngineFacts(
        version="20.10.24",
        api="1.41",
        image="some:image",
        path=IMAGE_PATH,
        can_limit_memory=True,
        can_limit_pids=True,
        can_limit_cpu=True,
    )


def test_an_image_that_is_not_there_is_named(engine):
    with pytest.raises(SandboxUnavailableError, match="no image 'other'"):
        engine.facts("other")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"OSType": "windows"}, "expected an engine of linux containers, got windows"),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, "rootless"),
        ({"SecurityOptions": ["name=userns"]}, "maps its containers' uids"),
    ],
)
def test_an_engine_that_cannot_share_terminals_is_refused(fake, engine, said, words):
    fake.info |= said
    with pytest.raises(SandboxUnavailableError, match=words):
        engine.facts("some:image")


def test_what_the_engine_refuses_is_the_machinery_s_failure(fake, engine):
    fake.answers["POST", "/containers/some-container/pause"] = 500, {"message": "the engine is on fire"}
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
    fake.answers["POST", "/containers/some-container/pause"] = fake.HANG_UP, None
    with pytest.raises(SandboxError, match="does not answer"):
        engine.pause("some-container")


# Clean-up


def test_only_the_containers_of_dead_servers_of_this_place_are_removed(fake, engine, tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    state = ServerState(base)
    (base / "ors-crashed").mkdir()
    here, label = place_of(base), SERVER_LABEL
    place = PLACE_LABEL
    fake.labels = {
        "ours": {place: here, label: state.server_id},
        "vanished": {place: here, label: "vanished"},
        "crashed": {place: here, label: "crashed"},
        "elsewhere": {place: "1-2", label: "vanished"},
        "strangers": {"com.example": "x"},
    }
    try:
        assert sorted(sweep_containers(engine, base)) == ["crashed", "vanished"]
        assert set(fake.labels) == {"ours", "elsewhere", "strangers"}
    finally:
        state.close()
