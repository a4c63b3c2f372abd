"""Real servers on loopback, and real clients in environments of their own that play them.

A client script runs with the interpreter of `$ORS_TEST_VENVS/<client>` (default `.venvs/<client>` in the
project's root; `make clients` makes them) and prints one JSON document; tests judge it. A client whose
environment is not there fails its tests.
"""

import contextlib
import functools
import json
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
REFENV = ROOT / "tests" / "fixtures" / "refenv.py"
PACKAGES = {"openreward": "openreward", "ors_sdk": "ors"}
"""Client -> the import name of its package, which has a server too; `REFENV` is written for each."""
SCRIPTS = Path(__file__).parent / "scripts"
TASK_ID = re.compile(rb"event: task_id\r?\ndata: \S+\r?\n\r?\n")
"""The event that tells the id of a call."""
READING_TIME = 1.0
"""Seconds between the id of a call and the cut; a client that had not read it would call anew."""
START_LIMIT = 240.0
"""Seconds that a server may take to answer its first request; OpenEnv's needs long to import."""
PLAY_LIMIT = 240.0
"""Seconds that a client script may take."""
IS_SHARED = "PYTEST_XDIST_WORKER" in os.environ
"""Whether this is one of several processes that share the tests: one of them waits while the others go on."""


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks, that of tests that wait long for something beside the others among them."""
    config.addinivalue_line("markers", "requirement(id): the requirement of ors_manifest that a test demands")
    config.addinivalue_line(
        "markers", "waits: runs beside others, or after them, since it only waits for something"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the tests that wait to the end; where several processes share the tests, to the beginning."""
    items.sort(key=lambda item: (item.get_closest_marker("waits") is not None) != IS_SHARED)


def client_python(client: str) -> Path:
    """Finds the interpreter of a client's environment, or fails the test."""
    python = Path(os.environ.get("ORS_TEST_VENVS", ROOT / ".venvs")) / client / "bin" / "python"
    if not python.exists():
        pytest.fail(f"no environment for the {client} client at {python}; run `make clients`")
    return python


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    for _ in range(int(START_LIMIT / 0.05)):
        if process.poll() is not None:
            raise RuntimeError(
                f"the server at {url} ended with status {process.returncode} before it answered"
            )
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(f"{url}/health", timeout=1).close()
            return
        pause.wait(0.05)
    raise RuntimeError(f"the server at {url} did not answer within {START_LIMIT} seconds")


@contextlib.contextmanager
def running(command: list[str], url: str, **environment: str) -> Iterator[str]:
    """Runs a server process for the length of a with statement and gives its URL."""
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment})
    try:
        wait_until_healthy(url, process)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def two_hosts(folder: Path) -> dict[str, str]:
    """Return the variables of a server with two hosts, which share a record in a folder."""
    return {"ORS_WORKERS": "2", "ORS_STORE": str(folder / "episodes.db")}


def serve_command(environments: tuple[str, ...], port: int, packages: Path | None = None) -> list[str]:
    """Spells the command that serves environments, which may import what stands in the folder `packages`."""
    borrow = f"import sys; sys.path.append({str(packages)!r}); " if packages else ""
    program = f"{borrow}from ors_server.cli.main import main; main()"
    return [sys.executable, "-c", program, "serve", *environments, "--port", str(port)]


@contextlib.contextmanager
def serving_on_demand() -> Iterator[Callable[..., str]]:
    """Starts servers of our own on demand, which may borrow a client's packages, for a with statement."""
    with contextlib.ExitStack() as servers:

        def start(client: str | None, *environments: str, **variables: str) -> str:
            port = free_port()
            packages = (
                next(client_python(client).parents[1].glob("lib/python*/site-packages")) if client else None
            )
            command = serve_command(environments, port, packages)
            return servers.enter_context(running(command, f"http://127.0.0.1:{port}", **variables))

        yield start


@pytest.fixture(scope="module")
def serve_with() -> Iterator[Callable[..., str]]:
    """Starts servers of our own on demand; they end with the module."""
    with serving_on_demand() as start:
        yield start


@pytest.fixture(scope="session")
def serve_for_all() -> Iterator[Callable[..., str]]:
    """Starts servers that several modules use."""
    with serving_on_demand() as start:
        yield start


@pytest.fixture(scope="session")
def reference_server() -> Iterator[Callable[[str], str]]:
    """Starts another package's server of the acceptance environments on demand, once for each package."""
    with contextlib.ExitStack() as servers:

        @functools.cache
        def start(client: str) -> str:
            port = free_port()
            command = [str(client_python(client)), str(REFENV), str(port)]
            url = f"http://127.0.0.1:{port}"
            return servers.enter_context(running(command, url, REFENV_PACKAGE=PACKAGES[client]))

        yield start


@pytest.fixture(scope="session")
def server_url(serve_for_all: Callable[..., str]) -> str:
    """The URL of a server with the acceptance environments, `refenv` being the default one.

    `ORS_TEST_SERVER_URL` names another server to play instead, which must serve them too.
    """
    elsewhere = os.environ.get("ORS_TEST_SERVER_URL")
    if elsewhere:
        return elsewhere
    return serve_for_all(
        None, *(f"{REFENV}:{name}" for name in ("RefEnv", "SecondEnv", "IndexEnv", "TermEnv"))
    )


@pytest.fixture(scope="session", params=["one host", "two hosts"])
def acceptance_url(
    request: pytest.FixtureRequest,
    serve_for_all: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """The URL of a server with the acceptance environments; which is its default matters to no test."""
    if request.param == "one host":
        url: str = request.getfixturevalue("server_url")
        return url
    names = ("SecondEnv", "TermEnv", "RefEnv", "IndexEnv")
    return serve_for_all(
        None, *(f"{REFENV}:{name}" for name in names), **two_hosts(tmp_path_factory.mktemp("hosts"))
    )


class Play:
    """Client scripts that run beside the tests, each answering for some scenarios."""

    def __init__(self, client: str, script: str) -> None:
        self._command = [str(client_python(client)), str(SCRIPTS / script)]
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._answers: dict[str, Any] = {}

    def start(self, url: str, *scenarios: str, **environment: str) -> None:
        """Starts a process that plays scenarios against a URL, with some more environment variables."""
        process = subprocess.Popen(
            [*self._command, url, *scenarios],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENREWARD_LOG_LEVEL": "ERROR", "NO_PROXY": "127.0.0.1", **environment},
        )
        self._running.update(dict.fromkeys(scenarios, process))

    def answer(self, scenario: str) -> Any:
        """Waits for the process that plays a scenario and gives what it saw."""
        if scenario not in self._answers:
            process = self._running[scenario]
            output, complaints = process.communicate(timeout=PLAY_LIMIT)
            assert process.returncode == 0, complaints
            self._answers.update(json.loads(output))
        answer = self._answers[scenario]
        assert not (isinstance(answer, dict) and "escaped" in answer), answer["escaped"]
        return answer

    def close(self) -> None:
        """Ends what still runs."""
        for process in set(self._running.values()):
            if process.poll() is None:
                process.kill()
            if process.stdout is not None and not process.stdout.closed:
                process.communicate()


class CuttingProxy(socketserver.ThreadingTCPServer):
    """A TCP proxy that once cuts a connection in the middle of an answer.

    It watches what is asked and, the first time that an answer to a request with these words has told the
    id of its call, closes both sides.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, target: tuple[str, int], request: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Pump)
        self.target = target
        self.request_words = request
        self.cuts = 0
        self.reading = threading.Event()
        """Never set: its wait is the time that a client has to read the id before the cut."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Pump(socketserver.BaseRequestHandler):
    """Copies bytes both ways until one side closes or the proxy cuts."""

    server: CuttingProxy

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as upstream:
            self.asked = self.heard = b""
            there = threading.Thread(target=self._there, args=(upstream,), daemon=True)
            there.start()
            with contextlib.suppress(OSError):
                self._back(upstream)
            for side in (self.request, upstream):
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
            there.join(10)

    def _there(self, upstream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(65536):
                self.asked, self.heard = self.asked[-65536:] + data, b""
                upstream.sendall(data)
            upstream.shutdown(socket.SHUT_WR)

    def _back(self, upstream: socket.socket) -> None:
        while data := upstream.recv(65536):
            self.request.sendall(data)
            self.heard = self.heard[-65536:] + data
            if self._is_moment():
                self.server.cuts += 1
                self.server.reading.wait(READING_TIME)
                return

    def _is_moment(self) -> bool:
        first = self.server.cuts == 0
        return first and self.server.request_words in self.asked and TASK_ID.search(self.heard) is not None


@contextlib.contextmanager
def running_proxy(url: str, request: bytes) -> Iterator[CuttingProxy]:
    """Runs a proxy before a server that cuts the first call with some words in it."""
    host, port = url.removeprefix("http://").split(":")
    with CuttingProxy((host, int(port)), request) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join(10)


@pytest.fixture(scope="module")
def cutting_proxy() -> Iterator[Callable[..., CuttingProxy]]:
    """Starts cutting proxies on demand; they live until the end of the module."""
    with contextlib.ExitStack() as proxies:

        def start(url: str, request: bytes) -> CuttingProxy:
            return proxies.enter_context(running_proxy(url, request))

        yield start


@pytest.fixture(scope="module")
def play() -> Iterator[Callable[[str, str], Play]]:
    """Makes plays on demand; what they started ends with the module."""
    with contextlib.ExitStack() as plays:

        def make(client: str, script: str) -> Play:
            return plays.enter_context(contextlib.closing(Play(client, script)))

        yield make


@pytest.fixture(scope="session")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the wheel of ors-mcp-client."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT / "packages" / "client", check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def light_client(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs ors-mcp-client into a folder, for the search path of clients' interpreters."""
    folder = tmp_path_factory.mktemp("light") / "site"
    options = ["--no-index", "--no-deps", "--no-compile", "--target", str(folder)]
    command = [sys.executable, "-m", "pip", "install", "-q", *options, str(client_wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def slow_setups(server_url: str) -> Iterator[dict[str, Play]]:
    """Plays whose sessions take 80 seconds to set up, by client."""
    with contextlib.ExitStack() as plays:
        started = {}
        for client in ("openreward", "ors_sdk"):
            started[client] = plays.enter_context(contextlib.closing(Play(client, f"play_{client}.py")))
            started[client].start(server_url, "slow_setup")
        yield started


@pytest.fixture(scope="session", autouse=True)
def early(request: pytest.FixtureRequest) -> None:
    """Starts what the waiting tests wait for, if there are any, before the first test."""
    waits = ("slow_setups" in getattr(item, "fixturenames", ()) for item in request.session.items)
    if not IS_SHARED and any(waits):
        with contextlib.suppress(pytest.fail.Exception):
            request.getfixturevalue("slow_setups")
