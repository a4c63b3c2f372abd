"""`serve --workers 2`: two hosts behind HAProxy, as clients and operators meet them."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from zlib import crc32

import httpx2
import pytest

from ors_server.client import Client
from ors_server.processes.host_processes import descendants, process_row
from tests.prepared_processes import SWITCH

KEY = "k" * 32
COMMAND = Path(sys.executable).with_name("ors-server")
ENVIRONMENT = "math_word_problems"
PATIENCE = 120.0
CORES = os.cpu_count() or 1
FRONT = "front"
"""Names the front, as h0 names the first host."""
MAX_WORKERS = 64
"""The most that the setting takes."""


def is_running(pid):
    row = process_row(pid)
    return row is not None and row.state != "Z"


def sockets_of(pid):
    """Return the inodes of a process's sockets."""
    targets = set()
    with suppress(OSError):  # it may end meanwhile
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                targets.add(str(link.readlink()))
    return {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}


class Workers:
    """A running server with workers."""

    def __init__(self, process, announced):
        self.process, self.announced = process, announced
        self.url = announced["url"]

    def pid_of(self, name):
        """Return the process of a host, which has its listening socket, or of the front."""
        sockets = Path("/proc/net/unix").read_text().splitlines()
        inodes = {line.split()[-2] for line in sockets if line.endswith(f"/{name}.sock")}
        for pid in descendants(self.process.pid)[1:]:  # the first one, their parent, has all sockets
            is_front = b"haproxy.cfg" in Path(f"/proc/{pid}/cmdline").read_bytes()
            if is_front if name == FRONT else inodes & sockets_of(pid):
                return pid
        raise LookupError(name)

    def kill(self, name):
        """Kill a host or the front, and wait for its end: a request that it has read by then is lost."""
        pid = self.pid_of(name)
        os.kill(pid, signal.SIGKILL)
        while is_running(pid):
            os.sched_yield()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(folder, *flags, workers=2, keys=f"admin:root:{KEY}", is_prepared=True):
    """Start a server; unless it is prepared, it and its hosts are started as interpreters."""
    variables = {**os.environ, "ORS_API_KEYS": keys, **({} if is_prepared else {SWITCH: "0"})}
    command = [COMMAND, "serve", ENVIRONMENT, "--workers", str(workers), "--port", "0", "--json"]
    command += ["--store", str(folder / "episodes.db"), *flags]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables)
        try:
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            yield Workers(process, json.loads(line))
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(PATIENCE)
            process.stdout.close()


@contextmanager
def connected(workers):
    # Without `verify=False` each client would read the certificates of all authorities, a fifth of a second.
    headers = {"X-API-Key": KEY}
    with httpx2.Client(base_url=workers.url, timeout=PATIENCE, headers=headers, verify=False) as client:
        yield client


def new_session(client, index):
    """Create a session over ORS, and return its id."""
    session_id = re.findall(r"[0-9a-f-]{36}", client.post("/create_session").text)[-1]
    body = {"env_name": ENVIRONMENT, "split": "test", "index": index}
    try:
        created = client.post("/create", headers={"X-Session-ID": session_id}, json=body)
    except httpx2.RemoteProtocolError:  # a host had read it and was killed; a repeat is the same creation
        created = client.post("/create", headers={"X-Session-ID": session_id}, json=body)
    assert created.status_code == 200, created.text
    return session_id


def host_of(session_id):
    return crc32(session_id.encode()) % 1024 % 2


def session_of_host(client, number):
    """Return a session that belongs to a host."""
    return next(found for i in count() if host_of(found := new_session(client, i)) == number)


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("workers")) as running:
        yield running


def test_any_host_answers_with_the_metrics_of_all(workers):
    with connected(workers) as client:
        for number in (0, 1):
            session_of_host(client, number)
        text = client.get("/metrics").text
    for name in ("h0", "h1"):
        assert f'ors_host_up{{host="{name}"}} 1.0' in text
        assert re.search(rf'ors_http_requests_total{{[^}}]*host="{name}"', text)
        assert re.search(rf'ors_sessions{{[^}}]*host="{name}"', text)


def test_sessions_of_both_hosts_are_played_over_one_address(workers):
    played = set()
    with Client(workers.url, KEY) as client:
        for index in range(8):
            with client.episode(ENVIRONMENT, split="test", index=index) as episode:
                gold = client.task("test", index, ENVIRONMENT)["answer"]
                assert episode.call("submit", {"answer": gold}).reward == 1.0
                played.add(host_of(episode.session_id))
    assert played == {0, 1}


def test_a_batch_reaches_the_sessions_of_every_host(workers):
    ids = [f"batch-{number}" for number in range(6)]
    assert {host_of(session_id) for session_id in ids} == {0, 1}
    tasks = [
        {"environment": ENVIRONMENT, "split": "test", "index": index, "session_id": session_id}
        for index, session_id in enumerate(ids)
    ]
    calls = [
        {"session_id": name, "name": tool, "arguments": {"expression": f"{index}+1"}}
        for index, name in enumerate([*ids, *ids, "nobody", "absent"])
        for tool in ["abacus" if index in {9, 10} else "calculator"]
    ]
    with connected(workers) as client:

        def send(kind, items):
            answered = client.post(f"/_ors/batches/{kind}", json={"items": items})
            assert answered.status_code == 200, answered.text
            return answered.json()["items"]

        client.headers["X-ORS-Labels"] = "run=batched"
        created = send("sessions", [*tasks, tasks[0]])
        assert [item["ok"] for item in created] == [True] * 6 + [False]
        assert [item["created"]["status"]["session_id"] for item in created[:6]] == ids
        assert {item["created"]["status"]["labels"]["run"] for item in created[:6]} == {"batched"}
        called = send("calls", calls)
        assert [item["result"]["step"] for item in called[:12]] == [1] * 6 + [2] * 6
        texts = [item["result"]["output"]["blocks"][0]["text"] for item in called[:9]]
        assert [text.endswith(str(index + 1)) for index, text in enumerate(texts)] == [True] * 9
        assert [item["result"]["kind"] for item in called[:12]] == ["completed"] * 9 + ["refused"] * 2 + [
            "completed"
        ]
        assert [item["status"] for item in called[12:]] == [404, 404]
        ended = send("deletions", [*reversed(ids), "nobody"])
    assert [item["session"]["session_id"] for item in ended[:6]] == [*reversed(ids)]
    assert [item["session"]["episode"]["steps"] for item in ended[:6]] == [2] * 6
    assert ended[6]["status"] == 404


def test_the_live_sessions_of_all_hosts_are_listed_in_pages_oldest_first(workers):
    with connected(workers) as client:
        body = {"environment": ENVIRONMENT, "split": "test", "index": 0}
        made = [client.post("/_ors/sessions", json=body).json()["status"]["session_id"] for _ in range(7)]
        listed, cursor = [], ""
        while cursor is not None:
            page = client.get(
                "/_ors/sessions", params={"limit": 3} | ({"cursor": cursor} if cursor else {})
            ).json()
            listed += [view["session_id"] for view in page["sessions"]]
            cursor = page["next_cursor"]
        for session_id in made:
            assert client.delete(f"/_ors/sessions/{session_id}").status_code == 200
    assert {host_of(session_id) for session_id in made} == {0, 1}
    assert [session_id for session_id in listed if session_id in made] == made
    assert len(listed) == len(set(listed))


class EventFollower(threading.Thread):
    """Reads the events of all sessions from one host, until it is closed."""

    def __init__(self, workers, asked, last_id=None):
        super().__init__(daemon=True)
        self.client = httpx2.Client(base_url=workers.url, timeout=PATIENCE)
        self.headers = {"X-API-Key": KEY, "X-Session-ID": asked}
        self.headers |= {} if last_id is None else {"Last-Event-ID": last_id}
        self.has_begun, self.arrived = threading.Event(), threading.Condition()
        self.events, self.last_id = [], None
        self.start()
        assert self.has_begun.wait(PATIENCE)

    def run(self):
        kind = ""
        with (
            suppress(httpx2.HTTPError),
            self.client.stream("GET", "/_ors/events", headers=self.headers) as stream,
        ):
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                with self.arrived:
                    if name == "id":
                        self.last_id = value
                        self.has_begun.set()
                    elif name == "event":
                        kind = value
                    elif name == "data":
                        self.events.append((kind, json.loads(value)))
                    self.arrived.notify_all()

    def kinds(self, session_id):
        return [kind for kind, data in self.events if data and data.get("session_id") == session_id]

    def wait_for(self, is_enough):
        with self.arrived:
            assert self.arrived.wait_for(is_enough, PATIENCE), self.events


def test_one_host_streams_the_events_of_all_and_a_reader_comes_back_over_any(workers):
    def play(client, session_id):
        body = {"name": "calculator", "arguments": {"expression": "1+1"}, "call_id": "1"}
        assert client.post(f"/_ors/sessions/{session_id}/calls", json=body).status_code == 200

    with connected(workers) as client:
        sessions = [session_of_host(client, number) for number in (0, 1)]
        follower = EventFollower(workers, sessions[0])
        for session_id in sessions:
            play(client, session_id)
        follower.wait_for(lambda: all(follower.kinds(name) == ["call", "step"] for name in sessions))
        follower.client.close()
        for session_id in sessions:
            assert client.delete(f"/_ors/sessions/{session_id}").status_code == 200
        # The other host is asked now; each host's position is in the id.
        back = EventFollower(workers, session_of_host(client, 1), follower.last_id)
        back.wait_for(lambda: all(back.kinds(name) == ["closed"] for name in sessions))
        workers.kill("h0")
        back.wait_for(lambda: ("missed", None) in back.events)
        session_id = session_of_host(client, 0)
        back.wait_for(lambda: "opened" in back.kinds(session_id))
        back.client.close()


def test_health_names_every_host(workers):
    with connected(workers) as client:
        hosts = client.get("/_ors/health").json()["hosts"]
    assert set(hosts) == {"h0", "h1"}
    assert all(health["queues"] for health in hosts.values())


def test_limits_of_the_server_are_shared_out(tmp_path):
    with (
        serving(tmp_path, "--max-sessions", "4", "--gradings-at-once", "6") as running,
        connected(running) as client,
    ):
        hosts = client.get("/_ors/health").json()["hosts"]
        assert [health["queues"]["gradings"]["capacity"] for health in hosts.values()] == [3, 3]
        body = {"environment": ENVIRONMENT, "split": "test", "index": 0}
        statuses = [client.post("/_ors/sessions", json=body).status_code for _ in range(6)]
        assert sorted(statuses) == [201] * 4 + [429] * 2


def test_attempts_at_a_task_are_counted_for_all_hosts(tmp_path):
    agent = "a" * 32
    prefix = "io.modelcontextprotocol"
    meta = {
        f"{prefix}/protocolVersion": "2026-07-28",
        f"{prefix}/clientInfo": {"name": "racer", "version": "1"},
        f"{prefix}/clientCapabilities": {},
    }
    arguments = {"environment": ENVIRONMENT, "split": "test", "index": 3}
    params = {"name": "start_episode", "arguments": arguments, "_meta": meta}
    headers = {
        "X-API-Key": agent,
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "start_episode",
    }

    def start(url):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return httpx2.post(f"{url}/mcp", json=body, headers=headers, timeout=PATIENCE).text

    keys = f"admin:root:{KEY},agent:racer:{agent}"
    with serving(tmp_path, keys=keys) as running, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(start, [running.url] * 8))
    started = [text for text in answers if "Pass this session_id" in text]
    assert len(started) == 1, answers
    assert sum("attempts_per_task" in text for text in answers) == 7


def test_an_id_of_another_hosts_slot_is_never_taken(workers):
    with connected(workers) as client:
        session_id = next(name for i in count() if host_of(name := f"mine-{i}") == 1)
        body = {"environment": ENVIRONMENT, "split": "test", "index": 0, "session_id": session_id}
        assert client.post("/_ors/sessions", json=body).status_code == 201
        assert client.post("/_ors/sessions", json=body).status_code == 409
        # Such a request is routed by its header to a host that refuses the id as not its own.
        other = next(name for i in count() if host_of(name := f"other-{i}") == 0)
        foreign = next(name for i in count() if host_of(name := f"foreign-{i}") == 1)
        refused = client.post(
            "/_ors/sessions", json={**body, "session_id": foreign}, headers={"X-Session-ID": other}
        )
        assert "belongs to host h1, and this is h0" in refused.json()["detail"]
        client.delete(f"/_ors/sessions/{session_id}")


def test_requests_wait_for_a_host_that_was_killed(workers):
    with connected(workers) as client:
        other = session_of_host(client, 0)
        workers.kill("h1")
        made = session_of_host(client, 1)  # waits until the host is back
        headers = {"X-Session-ID": other}
        answered = client.post(
            f"/{ENVIRONMENT}/call", headers=headers, json={"name": "submit", "input": {"answer": "1"}}
        )
        assert (host_of(made), answered.status_code) == (1, 200)


def test_the_sessions_of_a_killed_host_continue(workers):
    with connected(workers) as client:
        sessions = [session_of_host(client, number) for number in (0, 1)]
        calculate = {"name": "calculator", "input": {"expression": "6*7"}}
        path = f"/{ENVIRONMENT}/call"
        for session_id in sessions:
            assert '"42"' in client.post(path, headers={"X-Session-ID": session_id}, json=calculate).text
        workers.kill("h1")
        session_of_host(client, 1)
        for session_id in sessions:
            answered = client.post(path, headers={"X-Session-ID": session_id}, json=calculate).text
            assert '"42"' in answered
            view = client.get(f"/_ors/sessions/{session_id}").json()
            assert (view["episode"]["steps"], view["episode"]["phase"]) == (2, "playing")
            client.delete(f"/_ors/sessions/{session_id}")


def test_openenvs_clients_find_their_episodes_again_on_whichever_host_and_after_a_kill(workers):
    door = f"/openenv/{ENVIRONMENT}"
    act = {"type": "call_tool", "tool_name": "calculator", "arguments": {"expression": "1+1"}}
    with connected(workers) as client:
        ids = [
            client.post(f"{door}/reset", json={"episode_id": f"ep-{index}", "index": index}).json()[
                "observation"
            ]["session_id"]
            for index in range(6)
        ]
        assert {crc32(session_id.encode()) % 2 for session_id in ids} == {0, 1}
        for session_id in ids:
            stepped = client.post(f"{door}/step", json={"action": act, "session_id": session_id})
            assert stepped.status_code == 200, stepped.text
        workers.kill("h1")
        states = [client.get(f"{door}/state", params={"session_id": session_id}).json() for session_id in ids]
        again = client.post(f"{door}/step", json={"action": act, "session_id": ids[0]}).json()
        nobody = client.get(f"{door}/state", params={"session_id": "0" * 32})
        other = client.get("/openenv/nothing/state", params={"session_id": ids[0]})
    assert "step_count" in states[1], states
    assert [(state["step_count"], state["episode_id"], state["done"]) for state in states] == [
        (1, f"ep-{index}", False) for index in range(6)
    ]
    assert again["observation"]["error"] is None
    assert (nobody.status_code, other.status_code) == (404, 404)


def test_suspended_sessions_of_every_host_continue_on_the_next_server(tmp_path):
    with serving(tmp_path, "--on-stop", "suspend") as running:
        with connected(running) as client:
            sessions = [session_of_host(client, number) for number in (0, 1)]
            tokens = [client.post(f"/_ors/sessions/{name}/token").json()["agent_token"] for name in sessions]
        assert running.stop() == 0
    with serving(tmp_path) as running, connected(running) as client:
        for session_id, token in zip(sessions, tokens, strict=True):
            headers = {"X-Session-ID": session_id, "X-API-Key": token}
            call = {"name": "calculator", "input": {"expression": "6*7"}}
            assert '"42"' in client.post(f"/{ENVIRONMENT}/call", headers=headers, json=call).text
            assert client.get(f"/_ors/sessions/{session_id}").json()["episode"]["phase"] == "playing"


def test_a_record_that_another_server_has_open_is_refused(tmp_path):
    record = str(tmp_path / "episodes.db")
    command = [COMMAND, "serve", ENVIRONMENT, "--port", "0", "--json", "--store", record]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as alone:
        assert alone.stdout.readline()
        ended = subprocess.run(
            [*command, "--workers", "2"], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        alone.terminate()
    assert ended.returncode != 0
    assert "another server uses the record" in ended.stderr


def test_a_front_that_was_killed_is_started_again(workers):
    workers.kill(FRONT)
    with connected(workers) as client:
        assert client.get("/health").status_code == 200


def test_tokens_of_agents_are_accepted_after_their_host_was_started_again(workers):
    with connected(workers) as client:
        session_id = session_of_host(client, 1)
        token = client.post(f"/_ors/sessions/{session_id}/token").json()["agent_token"]
        workers.kill("h1")
        session_of_host(client, 1)
        answered = client.post(f"/agent/{token}/mcp", json={}, headers={"X-API-Key": ""})
    assert "not made by this server" not in answered.text


def test_a_renewed_secret_ends_the_tokens_of_every_host(workers):
    with connected(workers) as client:
        ids = [session_of_host(client, number) for number in (0, 1)]

        def statuses(tokens):
            return [
                client.get(f"/_ors/sessions/{session_id}/prompt", headers={"X-API-Key": token}).status_code
                for session_id, token in zip(ids, tokens, strict=True)
            ]

        def minted():
            return [client.post(f"/_ors/sessions/{name}/token").json()["agent_token"] for name in ids]

        old = minted()
        assert statuses(old) == [200, 200]
        assert client.post("/_ors/token-secret").json() == {"status": "renewed"}
        assert statuses(old) == [401, 401]
        assert statuses(minted()) == [200, 200]


def test_the_console_ends_the_sessions_of_every_host(workers):
    def csrf_of(page):
        return re.search(r'name="csrf" value="([^"]+)"', page.text)[1]

    origin = {"Origin": workers.url}
    with connected(workers) as client, httpx2.Client(base_url=workers.url, timeout=PATIENCE) as browser:
        form = {"csrf": csrf_of(browser.get("/console/sign-in")), "key": KEY}
        assert browser.post("/console/sign-in", data=form, headers=origin).status_code == 303
        for number in (0, 1):
            session_id = session_of_host(client, number)
            episode = client.get(f"/_ors/sessions/{session_id}").json()["episode_id"]
            form = {"csrf": csrf_of(browser.get(f"/console/episodes/{episode}"))}
            ended = browser.post(f"/console/episodes/{episode}/end", data=form, headers=origin)
            assert (ended.status_code, ended.headers["location"]) == (303, f"/console/episodes/{episode}")
            assert client.get(f"/_ors/sessions/{session_id}").json()["episode"]["phase"] == "deleted"


def test_an_admins_request_to_one_host_stops_all(tmp_path):
    with serving(tmp_path, is_prepared=False) as running:  # as one of these tests has to
        with connected(running) as client:
            new_session(client, 0)
            assert client.post("/_ors/shutdown").json() == {"status": "stopping"}
        assert running.process.wait(PATIENCE) == 0


def test_a_signal_ends_the_sessions_of_every_host_leaves_no_process_and_is_logged_by_host(tmp_path):
    with serving(tmp_path) as running:
        with connected(running) as client:
            made = [session_of_host(client, number) for number in (0, 1)]
        below = descendants(running.process.pid)[1:]
        assert running.stop() == 0
    listed = subprocess.run(
        [COMMAND, "episodes", "list", "--json", "--store", str(tmp_path / "episodes.db")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for session_id in made:
        assert f'"{session_id}"' in listed
    assert listed.count('"stop_reason":"shutdown"') + listed.count('"stop_reason": "shutdown"') >= 2
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    assert re.search(r"episode .*host=h1", (tmp_path / "log").read_text())


def test_what_a_killed_supervisor_started_ends_with_it(tmp_path):
    with serving(tmp_path) as running:
        below = descendants(running.process.pid)[1:]
        running.process.kill()
        running.process.wait(PATIENCE)
        for pid in below:
            while (
                Path(f"/proc/{pid}/exe").exists()
                and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
            ):
                os.sched_yield()


@pytest.mark.parametrize(
    ("flags", "messages"),
    [
        (["--store", "memory"], ["expected --store PATH or postgresql://…, got memory"]),
        (["--max-sessions", "1"], ["max_sessions is divided among the hosts: expected at least 2"]),
        (["--reload"], ["--workers is for a server over HTTP without --reload"]),
        (
            ["--workers", str(MAX_WORKERS), "--tls-cert", "/nowhere.pem"],
            [
                *[f"{MAX_WORKERS} workers on {CORES} processors: the additional ones only cost memory"]
                * (CORES < MAX_WORKERS),
                f"{MAX_WORKERS} workers write to one SQLite file: above 4, some calls wait for it longer",
                "/nowhere.pem",
            ],
        ),
        (["--port", "99999"], ["port"]),
    ],
)
def test_settings_that_do_not_go_with_workers_are_refused_or_warned_of(tmp_path, flags, messages):
    command = [
        COMMAND,
        "serve",
        ENVIRONMENT,
        "--workers",
        "2",
        "--port",
        "0",
        "--store",
        str(tmp_path / "a.db"),
        *flags,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert all(message in ended.stderr for message in messages), ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_host_that_cannot_start_says_so_once(tmp_path):
    command = [
        COMMAND,
        "serve",
        "no_such_environment",
        "--workers",
        "2",
        "--port",
        "0",
        "--store",
        str(tmp_path / "a.db"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert ended.stderr.count("no_such_environment") == 1


def test_two_servers_with_workers_on_one_record_are_refused(workers):
    record = workers.announced["record"]
    command = [COMMAND, "serve", ENVIRONMENT, "--workers", "2", "--port", "0", "--store", record]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert "another server with several hosts uses the record" in ended.stderr


def test_nothing_of_ray_is_imported():
    program = "import sys, ors_server.cli.main; assert 'ray' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
