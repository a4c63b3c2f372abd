"""`ors-server serve`: what it says, what it serves, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from types import MappingProxyType
from typing import Any

import anyio
import anyio.from_thread
import mcp
import pytest
from mcp import Client, StdioServerParameters

from ors_server.cli.announcement import Announcement, Served, lines_of
from ors_server.cli.command_output import CommandError
from ors_server.cli.listening import bind, listen
from ors_server.environments.loading import usable_environments
from ors_server.model.settings import Settings
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength
from ors_server.sessions.session_services import Sandboxes
from tests.fixtures.ordinary_cases import every
from tests.unit.cli.conftest import COMMAND, start_command

REFENV = "tests/fixtures/refenv.py"
KEY = "trainer-key-0123456789"


def ask(url, path, body=None, method=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    headers = {"Content-Type": "application/json", **named}
    request = urllib.request.Request(url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


async def tools_of(server):
    async with Client(server) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


def test_it_serves_every_installed_environment_unless_told_otherwise(serve):
    server = serve()
    environments = {environment["name"]: environment for environment in server.ready["environments"]}
    assert list(environments) == list(usable_environments(lambda _: None))
    assert {"code", "math_word_problems", "qa", "shell", "webshop"} <= set(environments)
    assert environments["math_word_problems"]["splits"]["train"] >= 1000


def test_the_line_for_machines_names_doors_that_answer(serve):
    server = serve(REFENV)
    doors = server.ready["doors"]
    assert ask(doors["ors"], "/health")["status"] == "ok"
    assert "sandbox" not in ask(doors["ors"], "/health")
    assert ask(doors["ors"], "/list_environments")[0] == "refenv"
    assert ask(doors["control"], "/health")["sandbox"] is None

    assert "start_episode" in anyio.run(tools_of, doors["mcp"])


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_tears_every_session_down(serve, number, status):
    server = serve(f"{REFENV}:RefEnv", "--log-format", "json")
    for index in range(2):
        ask(server.url, "/_ors/sessions", {"split": "train", "index": index})
    events = [json.loads(line) for line in server.stop(with_signal=number).splitlines()]
    assert [(event["event"], event["stop_reason"]) for event in events] == [("episode", "shutdown")] * 2
    assert server.process.returncode == status


def test_a_signal_ends_the_server_though_a_call_runs(serve):
    server = serve(f"{REFENV}:RefEnv")
    session = ask(server.url, "/_ors/sessions", {"split": "train", "index": 0})["session_id"]
    host, port = server.url.removeprefix("http://").split(":")
    body = b'{"name": "slow_count", "input": {"seconds": 3000}}'
    with socket.create_connection((host, int(port)), timeout=30) as caller:
        head = f"POST /refenv/call HTTP/1.1\r\nHost: {host}\r\nX-Session-ID: {session}\r\n"
        caller.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert caller.recv(4096).startswith(b"HTTP/1.1 200")
        server.stop(with_signal=signal.SIGTERM)
    assert server.process.returncode == -signal.SIGTERM


def test_a_taken_port_is_told_in_one_line(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", REFENV, "--port", str(port))
    assert ran.status == 1
    assert ran.err == (
        f"ors-server: cannot listen on 127.0.0.1:{port}: Address already in use; choose another --port, or 0 "
        "for a free one\n"
    )
    with pytest.raises(CommandError, match=r"cannot listen on no\.such\.host\.invalid:0"):
        bind("no.such.host.invalid", 0)


def test_connections_know_that_they_are_tcp_so_that_answers_leave_at_once():
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_strangers_are_not_served_without_keys(run):
    ran = run("serve", REFENV, "--host", "0.0.0.0")  # noqa: S104  (refused)
    assert ran.status == 2
    assert "ORS_API_KEYS" in ran.err


def test_keys_from_a_file_guard_the_server_and_commands_use_theirs_from_the_environment(
    serve, run, tmp_path, monkeypatch
):
    file = tmp_path / "keys.toml"
    file.write_text(f'[[keys]]\nid = "me"\nrole = "trainer"\nkey = "{KEY}"\n')
    server = serve(f"{REFENV}:RefEnv", "--api-keys-file", str(file))
    words = ("call", server.url, "echo", '{"text": "hello"}')
    refused = run(*words)
    assert refused.status == 1
    assert "401" in refused.err
    assert "ORS_API_KEY" in refused.err
    monkeypatch.setenv("ORS_API_KEY", KEY)
    assert run(*words).out == "hello\nreward 1, finished\n"
    assert run("check", server.url, "--only", "E1", "--quiet").out == "1 passed, 0 failed, 0 not judged\n"
    assert run("check", f"{server.url}/mcp", "--mcp", "--only", "M1").status == 0


def test_a_call_at_a_url_plays_the_session_that_is_named(serve, run):
    server = serve(f"{REFENV}:RefEnv")
    session = ask(server.url, "/_ors/sessions", {"split": "train", "index": 0})["session_id"]
    for expected in ("1", "2"):
        assert run("call", server.url, "count", "--session", session).out.startswith(f"{expected}\n")
    missing = run("call", server.url, "count", "--session", "no-such")
    assert missing.status == 1
    assert "404" in missing.err
    assert run("call", server.url, "count", "--split", "test", "--json").json["step"] == 1
    live = ask(server.url, "/_ors/sessions")["sessions"]
    assert [view["session_id"] for view in live] == [session]


def test_a_server_that_nobody_runs_is_told_in_one_line(run):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ran = run("call", f"http://127.0.0.1:{port}", "count")
    assert ran.status == 1
    assert ran.err.startswith(f"ors-server: cannot reach http://127.0.0.1:{port}/_ors")


def test_settings_come_from_flags_before_variables_before_the_file(serve, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('idle_seconds = 11.0\nmax_sessions = 22\nvisibility = "hidden"\n')
    admin = f"admin:boss:{KEY}"
    server = serve(
        REFENV, "--config", str(file), "--max-sessions", "44", ORS_IDLE_SECONDS="33", ORS_API_KEYS=admin
    )
    values = ask(server.url, "/_ors/settings", X_API_Key=KEY)["values"]
    assert (values["idle_seconds"], values["max_sessions"], values["visibility"]) == (33.0, 44, "hidden")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(server.url, "/_ors/settings")


def test_the_announcement_has_a_line_for_each_user():
    said = Announcement(
        "http://127.0.0.1:8080", has_keys=False, environments=[Served("e", "1", {"train": 3, "x": None})]
    )
    lines = "\n".join(lines_of(said))
    for word in ("ORS", "MCP", "control", "agent", "harness", "trainer", "author", "e  train 3, x ? tasks"):
        assert word in lines
    (agent,) = [line for line in lines_of(said) if line.startswith("  agent")]
    config = json.loads(agent.removeprefix("  agent"))
    assert config["mcpServers"]["ors"] == {"type": "http", "url": "http://127.0.0.1:8080/mcp"}


def test_the_announcement_says_where_a_key_goes():
    lines = "\n".join(lines_of(Announcement("http://127.0.0.1:8080", has_keys=True, environments=[])))
    assert "shell" not in lines
    assert '"headers": {"X-API-Key": "YOUR-KEY"}' in lines
    assert lines.count("OPENREWARD_API_KEY=YOUR-KEY") == 2


def test_the_announcement_gives_a_trainer_what_its_client_reads():
    said = Announcement("http://127.0.0.1:9000", has_keys=True, environments=[])
    (trainer,) = [line for line in lines_of(said) if line.startswith("  trainer")]
    variables = dict(word.split("=", 1) for word in trainer.split() if "=" in word)
    assert variables == {
        "OPENREWARD_API_URL": "http://127.0.0.1:9000",
        "OPENREWARD_SESSION_URL": "http://127.0.0.1:9000",
        "OPENREWARD_API_KEY": "YOUR-KEY",
    }


def test_tasks_that_cannot_be_counted_stay_uncounted(serve, tmp_path):
    file = tmp_path / "uncounted.py"
    file.write_text(
        "from ors_server import Environment, tool\n"
        "class Uncounted(Environment):\n"
        "    list_splits = classmethod(lambda cls: ['train', 'test'])\n"
        "    @classmethod\n"
        "    def num_tasks(cls, split):\n"
        "        return 3 if split == 'test' else 1 / 0\n"
        "    @classmethod\n"
        "    def get_task(cls, split, index): return {}\n"
        "    def get_prompt(self): return '?'\n"
        "    @tool\n"
        "    async def wait(self) -> str:\n"
        "        'Waits.'\n"
        "        return 'waited'\n"
    )
    (environment,) = serve(str(file)).ready["environments"]
    assert environment["splits"] == {"train": None, "test": 3}


def test_an_application_that_does_not_start_is_told_in_one_line(monkeypatch):
    class Stillborn:
        """An application whose lifespan fails."""

        settings = Settings(port=0)
        failure = None

        async def __call__(self, scope, receive, send):
            await receive()
            await send({"type": "lifespan.startup.failed", "message": "no store"})

    with pytest.raises(CommandError, match="the server did not start"):
        listen(Stillborn(), as_json=True)


def stdio(*words, **environ):
    command, *first = COMMAND
    args = [*first, "serve", *words, "--stdio", "--log-level", "debug"]
    return StdioServerParameters(command=command, args=args, env={**os.environ, **environ})


def test_stdio_serves_one_episode_to_one_client():
    async def play() -> tuple[list[str], str]:
        async with Client(stdio(f"{REFENV}:RefEnv", "--episode", "refenv/train/1")) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("echo", {"text": "world"})
            assert isinstance(result.content[0], mcp.types.TextContent)
            return tools, result.content[0].text

    with anyio.from_thread.start_blocking_portal() as portal:
        tools, text = portal.call(play)
    assert "echo" in tools
    assert text == "world\n\nThe episode is over. Stop here: further calls are refused."


def test_stdio_opens_the_lobby_when_no_episode_is_chosen():
    assert "start_episode" in anyio.run(tools_of, stdio(REFENV))


def test_the_lobby_of_one_environment_needs_no_name():
    async def start() -> tuple[dict[str, Any], Any, Any]:
        async with Client(stdio(f"{REFENV}:RefEnv")) as client:
            schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            listed = await client.call_tool("list_tasks", {})
            return (
                schemas["start_episode"],
                listed,
                await client.call_tool("start_episode", {"split": "test"}),
            )

    with anyio.from_thread.start_blocking_portal() as portal:
        schema, listed, started = portal.call(start)
    assert "required" not in schema
    assert "test (test)" in listed.content[0].text
    assert not started.is_error
    assert "session_id: " in started.content[0].text


def test_what_an_environment_prints_does_not_disturb_stdio(tmp_path):
    file = tmp_path / "chatty.py"
    file.write_text(
        "print('loading', flush=True)\n"
        "from ors_server import tool\n"
        "from tests.fixtures.single_task import SingleTask\n"
        "class Chatty(SingleTask):\n"
        "    def __init__(self, *args):\n"
        "        super().__init__(*args)\n"
        "        print('making', flush=True)\n"
        "    @tool\n"
        "    def talk(self) -> str:\n"
        "        print('talking', flush=True)\n"
        "        return 'talked'\n"
    )
    client = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "talk", "arguments": {}}},
    ]
    process = start_command(*stdio(str(file), "--episode", "chatty/train/0").args[2:], stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    answers = []
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        if "id" in message:
            answers.append(json.loads(process.stdout.readline()))
    rest, complaints = process.communicate(timeout=60)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["content"][0]["text"] == "talked"
    assert rest == ""
    assert all(word in complaints for word in ("loading", "making", "talking"))
    assert process.returncode == 0


def test_stdio_refuses_an_episode_that_is_no_place(run):
    ran = run("serve", f"{REFENV}:RefEnv", "--stdio", "--episode", "refenv")
    assert ran.status == 2
    assert "environment/split/index" in ran.err


@pytest.mark.parametrize(
    ("episode", "reason"),
    every(
        3,
        [
            ("refenf/train/0", "unknown environment 'refenf'; expected one of refenv"),
            ("refenv/tarin/0", "Invalid split 'tarin'; this environment has extra, test, train"),
            ("refenv/train/999", "Invalid index 999 in split 'train'"),
        ],
    ),
)
def test_stdio_refuses_an_episode_that_does_not_exist_while_the_client_waits(episode, reason):
    words = stdio(f"{REFENV}:RefEnv", "--episode", episode).args[2:]
    process = start_command(*words, stdin=subprocess.PIPE)  # which the client keeps open
    try:
        assert process.wait(timeout=60) == 2
        assert reason in process.stderr.read().splitlines()[-1]
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.communicate()


def test_an_environment_that_cannot_start_ends_the_server(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("raise RuntimeError('no data')\n")
    ran = start_command("serve", str(file))
    _, complaint = ran.communicate(timeout=60)
    assert ran.returncode == 1
    assert complaint.count("\n") == 1
    assert "no data" in complaint


SHELL = "tests/fixtures/shell_environment.py"


def test_what_isolates_agents_is_said_at_start_in_health_and_on_record(serve):
    server = serve(SHELL)
    told = server.ready["sandbox"]
    assert (told["backend"], told["level"]) == ("bubblewrap", 3)
    for path in ("/health", "/_ors/health"):
        health = ask(server.url, path)
        assert (health["status"], health["sandbox"]) == ("ok", told)
    made = ask(server.url, "/_ors/sessions", {"split": "test", "index": 0})
    assert made["status"]["sandbox"] == told


def test_no_isolation_at_all_has_to_be_allowed(run, serve):
    refused = run("serve", SHELL, "--sandbox", "none", "--port", "0")
    assert refused.status != 0
    assert "--allow-unsandboxed" in refused.err
    server = serve(SHELL, "--sandbox", "none", "--allow-unsandboxed", "--allow-visible-answers")
    assert server.ready["sandbox"]["level"] == 0
    assert server.ready["sandbox"]["isolates"]["files"] is None


def test_less_isolation_than_is_asked_for_is_refused(run):
    refused = run("serve", SHELL, "--sandbox", "landlock", "--min-isolation", "3", "--port", "0")
    assert refused.status != 0
    assert "level" in refused.err


def test_the_announcement_names_what_is_not_held():
    report = IsolationReport(
        "fence", Strength.PARTIAL, MappingProxyType({IsolatedResource.FILES: "a fence"}), ("Moles.",)
    )
    said = Announcement(
        "http://127.0.0.1:1", has_keys=False, environments=[], sandbox=Sandboxes(None, report)
    )
    lines = "\n".join(lines_of(said))
    assert "  fence, level 1 of 3\n  isolates files (a fence)\n  not held: Moles.\n" in lines
    without = Announcement(
        "http://127.0.0.1:1", has_keys=False, environments=[], sandbox=Sandboxes(refusal="no kernel")
    )
    assert "  none: no kernel\n  Environments that need one cannot be played." in "\n".join(lines_of(without))


def test_a_shell_that_does_not_find_the_command_is_told_what_to_type():
    said = Announcement("http://127.0.0.1:1", has_keys=False, environments=[], activation="source .venv/x")
    assert "  shell    source .venv/x" in lines_of(said)
