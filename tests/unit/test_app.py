"""The composition root: what it refuses to compose, and its life under an ASGI server."""

import ast
import inspect
import json
import subprocess
import sys
from typing import Any

import anyio
import httpx2
import pytest
from pydantic import ValidationError

from ors_server import __version__, tool
from ors_server.app import App, create_app, make_keyring, sandbox_request, session_options
from ors_server.model import settings as settings_module
from ors_server.model.errors import EnvironmentDefinitionError, SettingsError, ShuttingDownError
from ors_server.model.settings import Settings, load_settings, names_of
from ors_server.resources.spec import LocalEnvResourceSpec
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.sandboxes.isolation_report import Strength
from tests.fixtures.single_task import SingleTask


class Tiny(SingleTask):
    """Does one thing."""

    name = "tiny"

    @tool
    async def go(self) -> str:
        """Goes."""
        return "gone"


class Counter:
    """A resource."""


class Cap(SingleTask):
    """Says how many of its resources this server may have."""

    name = "cap"
    spec = LocalEnvResourceSpec(Counter, max_global_num=6)

    @tool
    async def look(self) -> str:
        """Looks."""
        await self.context.acquire_resource(spec=self.spec, scope="global")
        [figures] = self.context.monitor_resources()["specs"]
        return str(figures["cap"])


@pytest.mark.parametrize(
    ("place", "cap"),
    [
        ({}, "6"),
        ({"host_slot": "1/2", "host_folder": "/nowhere"}, "3"),
        ({"host_slot": "1/2", "host_address": "machine-b:8080"}, "6"),
    ],
)
async def test_hosts_of_one_machine_divide_the_resources(tmp_path, place, cap):
    app = create_app([Cap], Settings(store=str(tmp_path / "episodes.db"), **place))
    transport = httpx2.ASGITransport(app)
    async with app.running(), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        task = {"environment": "cap", "split": "train", "index": 0}
        session_id = (await http.post("/_ors/sessions", json=task)).json()["status"]["session_id"]
        call = {"name": "look", "arguments": {}}
        called = (await http.post(f"/_ors/sessions/{session_id}/calls", json=call)).json()
    assert called["output"]["blocks"][0]["text"] == cap


def test_an_application_serves_at_least_one_environment_and_each_name_once():
    with pytest.raises(SettingsError, match="at least one"):
        create_app([], Settings())
    with pytest.raises(EnvironmentDefinitionError, match="two environments are named 'tiny'"):
        create_app([Tiny, Tiny], Settings())


def test_strangers_are_not_served_without_keys():
    with pytest.raises(SettingsError, match=r"10\.0\.0\.1"):
        make_keyring(Settings(host="10.0.0.1"))
    assert make_keyring(Settings(host="10.0.0.1", api_keys="trainer:t:0123456789abcdef")).is_open is False
    for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"):
        assert make_keyring(Settings(host=host)).is_open


def test_every_limit_of_the_settings_reaches_the_engine():
    settings = Settings(
        max_sessions=1,
        max_sessions_per_environment=2,
        max_sessions_per_credential=3,
        idle_seconds=4,
        reap_seconds=5,
        max_output_bytes=6000,
        teardown_seconds=7,
        visibility="hidden",
    )
    options = session_options(settings)
    limits = options.limits
    assert (limits.sessions, limits.sessions_per_environment, limits.sessions_per_credential) == (1, 2, 3)
    assert (limits.idle_seconds, limits.reap_seconds) == (4, 5)
    assert (options.max_output_bytes, options.teardown_time_limit, options.visibility.value) == (
        6000,
        7,
        "hidden",
    )


async def test_the_engine_is_there_only_while_the_application_runs():
    app = create_app([Tiny], Settings())
    with pytest.raises(ShuttingDownError):
        _ = app.manager
    async with app.running():
        assert list(app.manager.environments) == ["tiny"]
    with pytest.raises(ShuttingDownError):
        _ = app.manager


class Wire:
    """An ASGI connection whose messages a test gives one by one."""

    def __init__(self):
        self.to_app, self._inbox = anyio.create_memory_object_stream[Any](10)
        self._outbox, self.from_app = anyio.create_memory_object_stream[Any](10)

    async def receive(self):
        return await self._inbox.receive()

    async def send(self, message):
        await self._outbox.send(message)

    def close(self):
        for stream in (self.to_app, self._inbox, self._outbox, self.from_app):
            stream.close()


@pytest.fixture
def wire():
    made = Wire()
    yield made
    made.close()


async def test_the_lifespan_starts_and_stops_every_part(wire):
    app = create_app([Tiny], Settings())
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(app, {"type": "lifespan"}, wire.receive, wire.send)
            await wire.to_app.send({"type": "lifespan.startup"})
            assert (await wire.from_app.receive())["type"] == "lifespan.startup.complete"
            assert app.manager is not None
            await wire.to_app.send({"type": "lifespan.shutdown"})
            assert (await wire.from_app.receive())["type"] == "lifespan.shutdown.complete"


async def test_a_start_that_fails_is_told(wire):
    class Broken(App):
        def running(self):
            raise RuntimeError("no start")

    app = Broken(create_app([Tiny], Settings())._definitions, Settings())
    await wire.to_app.send({"type": "lifespan.startup"})
    with pytest.raises(RuntimeError, match="no start"):
        await app({"type": "lifespan"}, wire.receive, wire.send)
    message = await wire.from_app.receive()
    assert message == {"type": "lifespan.startup.failed", "message": "RuntimeError: no start"}


async def test_before_the_start_every_request_is_told_to_come_back(wire):
    app = create_app([Tiny], Settings())
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [(b"host", b"localhost")]}
    await app(scope, wire.receive, wire.send)
    assert (await wire.from_app.receive())["status"] == 503


@pytest.mark.parametrize("keys", ["", "trainer:me:0123456789abcdef0123"])
async def test_the_address_itself_names_the_doors_and_the_version(wire, keys):
    app = create_app([Tiny], Settings(api_keys=keys))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    async with app.running():
        await app(scope, wire.receive, wire.send)
        assert (await wire.from_app.receive())["status"] == 200
        answer = json.loads((await wire.from_app.receive())["body"])
        assert (answer["name"], answer["version"]) == ("ors-server", __version__)
        assert answer["documentation"].startswith("https://")
        control = "/_ors/openapi.json"
        others = {"control": control, "console": "/console"}
        assert answer["doors"] == {"ors": "/list_environments", "mcp": "/mcp", **others}


async def test_websockets_are_closed(wire):
    app = create_app([Tiny], Settings())
    await app({"type": "websocket"}, wire.receive, wire.send)
    assert (await wire.from_app.receive())["type"] == "websocket.close"


def test_flags_win_over_variables_which_win_over_the_file(tmp_path, monkeypatch):
    file = tmp_path / "ors.toml"
    file.write_text("port = 1111\nmax_sessions = 7\nidle_seconds = 5.0\n")
    monkeypatch.setenv("ORS_MAX_SESSIONS", "8")
    settings = load_settings(file, idle_seconds=6.0, host=None)
    assert (settings.port, settings.max_sessions, settings.idle_seconds) == (1111, 8, 6.0)
    assert load_settings(None, port=5).port == 5


def test_no_repr_of_the_settings_shows_a_key():
    settings = Settings(api_keys="trainer:t:s3cr3t-0123456789", token_secret="s3cr3t")
    assert "s3cr3t" not in repr(settings) + str(settings.model_dump())


@pytest.mark.parametrize("field", sorted(set(Settings.model_fields) - {"config"}))
def test_every_setting_says_what_it_is(field):
    assert Settings.model_fields[field].annotation is not None
    assert field in (Settings.__doc__ or "") or field in _documented()


def _documented():
    (cls,) = [
        n
        for n in ast.parse(inspect.getsource(settings_module)).body
        if isinstance(n, ast.ClassDef) and n.name == "Settings"
    ]
    named = set()
    for statement, after in zip(cls.body, cls.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            named.add(statement.target.id)
    return named


@pytest.mark.parametrize("host", ["example.org", "::", "10.0.0.1"])
def test_only_this_machines_addresses_are_loopback(host):
    assert not Settings(host=host).is_loopback


def test_every_wish_for_isolation_reaches_the_choice():
    settings = Settings(
        sandbox="docker",
        allow_unsandboxed=True,
        allow_visible_answers=True,
        min_isolation=3,
        docker_image="debian:12",
        docker_host="unix:///run/docker.sock",
    )
    assert sandbox_request(settings) == BackendRequest(
        BackendChoice.DOCKER,
        allow_unsandboxed=True,
        allow_visible_answers=True,
        at_least=Strength.NAMESPACES,
        docker_image="debian:12",
        docker_host="unix:///run/docker.sock",
    )
    assert set(Settings.model_fields["sandbox"].annotation.__args__) == set(BackendChoice)


NAMED = {name: names_of(field.annotation) for name, field in Settings.model_fields.items()}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in NAMED.items() for value in values]
)
def test_the_case_of_a_value_that_is_a_name_does_not_matter(field, value, monkeypatch):
    for spelling in (value.upper(), value.title(), f" {value} "):
        monkeypatch.setenv(f"ORS_{field.upper()}", spelling)
        assert getattr(Settings(), field) == value


def test_every_setting_of_names_is_known_and_no_other():
    assert {field for field, values in NAMED.items() if values} == {
        "durability",
        "emit",
        "engine",
        "log_format",
        "log_level",
        "on_stop",
        "recover",
        "sandbox",
        "unjudged",
        "visibility",
    }


def test_a_value_that_is_no_name_is_still_refused(monkeypatch):
    monkeypatch.setenv("ORS_LOG_LEVEL", "LOUD")
    with pytest.raises(ValidationError, match="'debug', 'info', 'warning' or 'error'"):
        Settings()
    monkeypatch.setenv("ORS_LOG_LEVEL", "ERROR")
    monkeypatch.setenv("ORS_DOCKER_IMAGE", "Debian:12")
    assert Settings().docker_image == "Debian:12"


def test_a_server_imports_what_makes_events_before_it_serves():
    """Structlog held the event loop for 100 ms with the first event, and the loop's watch said so."""
    program = """
import sys
import anyio
from ors_server.app import create_app
from tests.unit.test_app import Tiny

async def run():
    async with create_app([Tiny]).running():
        print("structlog" in sys.modules)

anyio.run(run)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True"]
