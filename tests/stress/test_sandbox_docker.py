"""Docker for real: the promises, the shell vectors, and what is left of a server that dies.

The engine is the one that `make stress` starts (scripts/docker_engine.sh); without one everything here fails.
"""

import functools
import io
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import docker
import pytest

from ors_server.sandboxes.base import MIB, Limits
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.docker.backend import DockerBackend
from ors_server.sandboxes.docker.containers import SERVER_LABEL
from ors_server.sandboxes.isolation_report import IsolatedResource, Strength
from ors_server.sandboxes.sandbox_errors import SandboxStartError, SandboxUnavailableError, SnapshotError
from ors_server.testing.sandbox_suite import check_backend

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
PLAYER = ROOT / "tests" / "fixtures" / "sandbox_vectors.py"
PATIENCE = 30.0
"""Seconds that the engine may take to clean up."""
UNPRIVILEGED = "10001"
"""The user of the Dockerfile."""

EXCEPTIONS: dict[str, str] = {}
"""Vectors that containers do not hold, and why: none. One in this table must fail; what passes comes out."""

pytestmark = [pytest.mark.stress, pytest.mark.timeout(300)]


@functools.cache
def image():
    name = os.environ.get("ORS_TEST_DOCKER_IMAGE")
    if not name:
        pytest.fail("no Docker engine: run `make stress` as root, or scripts/docker_engine.sh")
    return name


@pytest.fixture
def client():
    image()
    made = docker.APIClient(base_url=os.environ["DOCKER_HOST"], version="auto")
    yield made
    made.close()


@asynccontextmanager
async def backend(**more):
    state = ServerState()
    made = DockerBackend(state, image=image(), **more)
    try:
        yield made
    finally:
        await made.aclose()
        state.close()


def containers(client, server=None):
    label = SERVER_LABEL if server is None else f"{SERVER_LABEL}={server}"
    return {row["Id"] for row in client.containers(all=True, filters={"label": [label]})}


def eventually(is_so):
    """Wait for what the engine does by itself, and tells nobody about."""
    deadline = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)  # the engine's own clean-up cannot be waited for otherwise
    return is_so()


# Promises and vectors


def test_docker_keeps_every_promise():
    async def run():
        async with backend() as made:
            return await check_backend(made)

    verdicts = anyio.run(run)
    assert len(verdicts) > 20
    assert [verdict for verdict in verdicts if verdict.problem] == []


@functools.cache
def played(kind):
    image()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(PLAYER), "docker", kind],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows, done.stderr
    return {row["name"]: row["problems"] for row in rows}


def vectors():
    for kind, key in (("nasty", "cases"), ("escapes", "escapes")):
        for case in json.loads((DATA / f"bash_{kind}.json").read_text())[key]:
            yield pytest.param(kind, case["name"], id=f"{kind}-{case['name']}")


@pytest.mark.timeout(920)  # the first of a kind plays them all
@pytest.mark.parametrize(("kind", "name"), list(vectors()))
def test_a_vector_ends_as_the_tier_says(kind, name):
    problems = played(kind)[name]
    if name in EXCEPTIONS:
        assert problems, f"passes, although it was said that {EXCEPTIONS[name]}"
    else:
        assert problems == []


def test_every_exception_names_a_vector():
    assert set(EXCEPTIONS) <= {param.values[1] for param in vectors()}


def test_docker_is_chosen_by_name_and_reports_what_it_holds():
    async def run():
        got = await choose(BackendRequest(BackendChoice.DOCKER, docker_image=image()))
        await got.aclose()
        return got.report

    report = anyio.run(run)
    assert report.backend == "docker"
    assert report.strength is Strength.NAMESPACES
    assert all(report.isolates(resource) for resource in IsolatedResource)


# What is left


def test_nothing_is_left_of_sessions_that_were_closed(client):
    async def run():
        async with backend() as made:
            server = made.state.server_id
            volumes = {row["Name"] for row in client.volumes()["Volumes"] or []}
            async with anyio.create_task_group() as group:
                for number in range(6):
                    group.start_soon(use, made, f"session-{number}")
            return server, {row["Name"] for row in client.volumes()["Volumes"] or []} - volumes

    async def use(made, name):
        sandbox = await made.start(name)
        await sandbox.write_file("note", name.encode())
        await sandbox.exec("sleep 1000 &")
        run = await sandbox.run_fresh(["cat", "note"], time_limit=30)
        assert run.stdout.text == name
        await sandbox.aclose()

    server, left = anyio.run(run)
    assert eventually(lambda: not containers(client, server))
    assert eventually(lambda: not left & {row["Name"] for row in client.volumes()["Volumes"] or []})


DOOMED = """
import os, sys, anyio
from ors_server.sandboxes.docker.backend import DockerBackend
from ors_server.sandboxes.cells.server_state import ServerState

async def main():
    state = ServerState()
    backend = DockerBackend(state, image=os.environ["ORS_TEST_DOCKER_IMAGE"])
    sandbox = await backend.start("doomed")
    await sandbox.exec("trap '' HUP; sleep 98765 & setsid sleep 98765 &")
    program = await sandbox.start_fresh(["sleep", "98765"])
    if sys.argv[1] == "frozen":
        await sandbox.freeze()
    print(state.server_id, flush=True)
    await anyio.sleep_forever()

anyio.run(main)
"""


def killed_server(how):
    """Start a server with a busy session, kill it, and return its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", DOOMED, how],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        server = process.stdout.readline().strip()
        assert server
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    return server


def test_the_containers_of_a_killed_server_end_by_themselves(client):
    server = killed_server("running")
    assert eventually(lambda: not containers(client, server))


def test_a_start_removes_what_a_killed_server_left_and_nothing_of_a_living_one(client):
    async def run():
        async with backend() as living:
            sandbox = await living.start("living")
            server = await anyio.to_thread.run_sync(killed_server, "frozen")
            assert containers(client, server)  # what is frozen cannot end by itself
            async with backend() as next_one:
                await next_one.probe()
            assert containers(client, server) == set()
            result = await sandbox.exec("echo here")
            assert result.stdout.text == "here\n"
            assert not result.shell_restarted

    anyio.run(run)


# What goes wrong


def test_an_image_that_is_not_there_is_named():
    async def run():
        state = ServerState()
        made = DockerBackend(state, image="ors-test:no-such-image")
        try:
            with pytest.raises(SandboxUnavailableError, match="no image 'ors-test:no-such-image'"):
                await made.probe()
        finally:
            await made.aclose()
            state.close()

    anyio.run(run)


def test_an_image_without_a_shell_does_not_start_and_says_so(client):
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("nothing"))
    client.import_image_from_data(empty.getvalue(), repository="ors-test", tag="empty")

    async def run():
        state = ServerState()
        made = DockerBackend(state, image="ors-test:empty")
        try:
            with pytest.raises(SandboxStartError, match="/bin/sh"):
                await made.start("one")
            return containers(client, state.server_id)
        finally:
            await made.aclose()
            state.close()

    try:
        assert anyio.run(run) == set()
    finally:
        client.remove_image("ors-test:empty", force=True)


def test_files_that_do_not_fit_are_a_failure_of_the_copy_and_no_silence():
    async def run():
        async with backend() as made:
            large = await made.start("large", Limits(disk_bytes=64 * MIB))
            small = await made.start("small", Limits(disk_bytes=16 * MIB))
            assert (await large.exec("head -c 40000000 /dev/urandom > big")).exit_code == 0
            snapshot = await large.snapshot()
            assert snapshot.size_bytes > 40_000_000
            with pytest.raises(SnapshotError, match="No space left"):
                await small.restore(snapshot)
            await snapshot.aclose()

    anyio.run(run)


def test_what_an_agent_locked_can_still_be_copied():
    async def run():
        async with backend() as made:
            sandbox = await made.start("locked")
            await sandbox.exec("mkdir d && echo kept > d/f && chmod 000 d/f d")
            other = await sandbox.fork("other")
            result = await other.exec(
                "chmod 700 d && stat -c %a d/f && chmod 600 d/f && cat d/f && stat -c %U d/f"
            )
            assert result.stdout.text == "0\nkept\nagent\n"

    anyio.run(run)


# A container that holds the server, with bubblewrap in it

PROBE = """
import anyio
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError
from ors_server.sandboxes.cells.server_state import ServerState

async def main():
    state = ServerState()
    backend = BubblewrapBackend(state)
    try:
        print((await backend.probe()).backend)
    except SandboxUnavailableError as error:
        print("refused:", error)
    finally:
        await backend.aclose()
        state.close()

anyio.run(main)
"""
UNMASKED: dict[str, list[str]] = {
    "MaskedPaths": [],
    "ReadonlyPaths": [],
}  # what systempaths=unconfined stands for


def probed_inside(client, **host):
    """Probe bubblewrap in a container as the Dockerfile's user; return what it printed."""
    packages = sysconfig.get_path("purelib")
    config = {
        "Image": image(),
        "User": UNPRIVILEGED,
        "Env": [f"PYTHONPATH=/project:{packages}", "PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp"],
        "Cmd": ["/usr/bin/python3", "-c", PROBE],
        "HostConfig": {
            "NetworkMode": "none",
            "Binds": [f"{ROOT}:/project:ro", f"{packages}:{packages}:ro"],
            "CapDrop": ["ALL"],
            **host,
            "SecurityOpt": ["no-new-privileges", *host.get("SecurityOpt", [])],
        },
    }
    container = client.create_container_from_config(config)["Id"]
    try:
        client.start(container)
        client.wait(container)
        return client.logs(container).decode()
    finally:
        client.remove_container(container, force=True, v=True)


def test_bubblewrap_works_in_a_container_that_has_the_profile_that_ships(client):
    profile = f"seccomp={(ROOT / 'deploy' / 'docker-seccomp.json').read_text()}"
    assert probed_inside(client, SecurityOpt=[profile], **UNMASKED) == "bubblewrap\n"


@pytest.mark.parametrize("half", ["neither", "paths alone", "profile alone"])
def test_bubblewrap_needs_both_the_profile_and_the_paths(client, half):
    profile = f"seccomp={(ROOT / 'deploy' / 'docker-seccomp.json').read_text()}"
    host = {
        "neither": {},
        "paths alone": UNMASKED,
        "profile alone": {"SecurityOpt": [profile]},
    }[half]
    assert probed_inside(client, **host).startswith("refused:")
