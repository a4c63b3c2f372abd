"""The hosts of a server, as an operator looks after them: restarted in turn, drained, replaced, and refused.

The record is in PostgreSQL, which several hosts share on one machine as on many.
"""

import json
import os
import signal
import ssl
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from itertools import count

import httpx2
import pytest

from ors_server.model.host_slot import REPLACED_STATUS
from ors_server.processes.host_processes import descendants, send_signal
from tests.contract.test_workers import (
    COMMAND,
    ENVIRONMENT,
    FRONT,
    KEY,
    PATIENCE,
    connected,
    host_of,
    serving,
    session_of_host,
)
from tests.fixtures.shell_host import free_port
from tests.unit.cli.test_serve_operations import write_certificate

CALCULATE = {"name": "calculator", "input": {"expression": "6*7"}}
PATH = f"/{ENVIRONMENT}/call"
pytestmark = pytest.mark.timeout(600)


def run(*words):
    """Run a command of an admin to its end."""
    variables = {**os.environ, "ORS_API_KEY": KEY}
    return subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE, check=False, env=variables
    )


@pytest.fixture(scope="module")
def where(postgres):
    return postgres.create_database()


@pytest.fixture(scope="module")
def workers(tmp_path_factory, where):
    with serving(tmp_path_factory.mktemp("hosts"), "--store", where) as running:
        yield running


def call(client, session_id):
    return client.post(PATH, headers={"X-Session-ID": session_id}, json=CALCULATE)


def test_a_session_that_waits_to_be_rebuilt_is_listed(workers):
    with connected(workers) as client:
        left, named = (session_of_host(client, 1) for _ in range(2))
        workers.kill("h1")
        session_of_host(client, 1)  # waits until the host is back
        call(client, named)
        listed = client.get("/_ors/sessions", params={"limit": 100}).json()["sessions"]
        waits = {view["session_id"]: view["waits"] for view in listed}
        assert (waits[left], waits[named]) == (True, False)
        assert client.delete(f"/_ors/sessions/{left}").status_code == 200
        client.delete(f"/_ors/sessions/{named}")


def test_health_says_why_a_host_does_not_answer(workers):
    pid = workers.pid_of("h1")
    with connected(workers) as client:
        asked = {"X-Session-ID": session_of_host(client, 0)}
        send_signal(pid, signal.SIGSTOP, lambda pid: True)
        try:
            hosts = client.get("/_ors/health", headers=asked).json()["hosts"]
        finally:
            send_signal(pid, signal.SIGCONT, lambda pid: True)
        client.delete(f"/_ors/sessions/{asked['X-Session-ID']}")
    assert hosts["h0"]["error"] is None
    assert hosts["h0"]["queues"]
    assert hosts["h1"]["error"] == "host h1 does not answer within 5 s"


@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
def test_another_server_on_the_record_of_several_hosts_is_refused(workers, where, flags):
    ended = run("serve", ENVIRONMENT, "--port", "0", "--store", where, *flags)
    assert ended.returncode != 0
    assert "another server with several hosts uses the record" in ended.stderr


def test_hosts_are_listed_with_their_slots(workers):
    listed = json.loads(run("hosts", workers.url, "--json").stdout)["hosts"]
    assert [(host["name"], host["slots"], host["is_draining"]) for host in listed] == [
        ("h0", 512, False),
        ("h1", 512, False),
    ]
    assert all(host["address"].startswith("unix:") for host in listed)


class Player(threading.Thread):
    """Plays one session after another, repeats 503, and notes everything else that is no answer."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.stopping = threading.Event()
        self.problems = []
        self.played = 0
        self.repeats = 0

    def run(self):
        with httpx2.Client(base_url=self.url, timeout=PATIENCE, headers={"X-API-Key": KEY}) as client:
            for index in count():
                if self.stopping.is_set():
                    return
                try:
                    self.play(client, index % 200)
                except (httpx2.HTTPError, AssertionError, IndexError) as error:
                    self.problems.append(repr(error))

    def send(self, client, method, path, **words):
        while True:
            answered = client.request(method, path, **words)
            if answered.status_code != 503:
                return answered
            assert int(answered.headers["retry-after"]) >= 1
            self.repeats += 1
            time.sleep(0.1)

    def play(self, client, index):
        body = {"environment": ENVIRONMENT, "split": "test", "index": index}
        created = self.send(client, "POST", "/_ors/sessions", json=body)
        assert created.status_code == 201, created.text
        session_id = created.json()["status"]["session_id"]
        for number in range(1, 6):
            body = {"name": "calculator", "arguments": {"expression": f"{number}+1"}, "call_id": str(number)}
            answered = self.send(client, "POST", f"/_ors/sessions/{session_id}/calls", json=body)
            assert answered.status_code == 200, answered.text
            assert answered.json()["step"] == number, answered.text
            assert answered.json()["output"]["blocks"][0]["text"] == str(number + 1)
            self.played += 1
        assert self.send(client, "DELETE", f"/_ors/sessions/{session_id}").status_code == 200


def test_a_client_that_repeats_503_sees_no_error_while_the_hosts_are_restarted(workers):
    hosts = {workers.pid_of(f"h{number}") for number in (0, 1)}
    players = [Player(workers.url) for _ in range(4)]
    for player in players:
        player.start()
    try:
        while any(player.played < 5 for player in players):
            time.sleep(0.05)
        assert run("restart", workers.url).returncode == 0
        while hosts & set(descendants(workers.process.pid)):
            time.sleep(0.1)
        with connected(workers) as client:
            for number in (0, 1):
                client.delete(f"/_ors/sessions/{session_after_restart(client, number)}")
    finally:
        for player in players:
            player.stopping.set()
        for player in players:
            player.join()
    assert [player.problems for player in players] == [[]] * 4
    assert sum(player.repeats for player in players) > 0


def session_after_restart(client, number):
    """Return a session of a host, once it takes requests again."""
    while True:
        try:
            return session_of_host(client, number)
        except (AssertionError, IndexError):  # 503
            time.sleep(0.1)


def test_the_sessions_of_a_drained_host_continue_on_the_others(workers):
    with connected(workers) as client:
        sessions = [session_after_restart(client, number) for number in (1, 1, 0)]
        for session_id in sessions:
            assert '"42"' in call(client, session_id).text
        drained = run("drain", "h1", workers.url, "--json")
        assert drained.returncode == 0, drained.stderr
        hosts = {host["name"]: host for host in json.loads(drained.stdout)["hosts"]}
        assert (hosts["h0"]["slots"], hosts["h1"]["slots"], hosts["h1"]["is_draining"]) == (1024, 0, True)
        for session_id in sessions:
            while (answered := call(client, session_id)).status_code == 503:
                time.sleep(0.1)
            assert '"42"' in answered.text
            view = client.get(f"/_ors/sessions/{session_id}").json()
            assert (view["episode"]["steps"], view["episode"]["phase"]) == (2, "playing")
        assert {host_of(session_after_restart(client, number)) for number in (0, 1)} == {0, 1}
        assert client.get("/_ors/health").json()["hosts"].keys() == {"h0"}
        assert client.post("/_ors/hosts/h9/drain").status_code == 404
        last = client.post("/_ors/hosts/h0/drain")
    assert (last.status_code, "no other host could take the sessions of h0" in last.text) == (422, True)


class Machine:
    """A host on TCP, as on a machine of its own."""

    def __init__(self, folder, where, number, port, name):
        variables = {
            **os.environ,
            "ORS_API_KEYS": f"admin:root:{KEY}",
            "ORS_HOST_SLOT": f"{number}/2",
            "ORS_HOST_ADDRESS": f"127.0.0.1:{port}",
        }
        command = [COMMAND, "serve", ENVIRONMENT, "--port", str(port), "--json", "--store", where]
        self.log = folder / f"{name}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables
            )

    def until_ready(self):
        assert self.process.stdout.readline(), self.log.read_text()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


def test_hosts_of_several_machines_share_their_sessions_and_a_replaced_one_ends(tmp_path, postgres):
    where = postgres.create_database()
    ports = [free_port() for _ in range(3)]
    with ExitStack() as stack:
        machines = [Machine(tmp_path, where, number, ports[number], f"h{number}") for number in (0, 1)]
        for machine in machines:
            stack.callback(machine.end)
        command = [COMMAND, "front", *(f"127.0.0.1:{port}" for port in ports[:2]), "--port", "0", "--json"]
        front = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(front.stdout.close)
        stack.callback(front.wait)
        stack.callback(front.terminate)
        for machine in machines:
            machine.until_ready()
        url = json.loads(front.stdout.readline())["url"]
        client = stack.enter_context(
            httpx2.Client(base_url=url, timeout=PATIENCE, headers={"X-API-Key": KEY})
        )
        sessions = [session_of_host(client, number) for number in (0, 1)]
        for session_id in sessions:
            assert '"42"' in call(client, session_id).text
        while (listed := client.get("/_ors/sessions", params={"limit": 100})).status_code == 503:
            time.sleep(0.1)  # a host reads once in a while where the others are
        assert {view["session_id"] for view in listed.json()["sessions"]} >= set(sessions)

        # Another process takes the place of host 1, as after its machine was lost; the first one still runs.
        replacing = Machine(tmp_path, where, 1, ports[2], "replacing")
        stack.callback(replacing.end)
        replacing.until_ready()
        old = f"http://127.0.0.1:{ports[1]}{PATH}"
        headers = {"X-Session-ID": sessions[1], "X-API-Key": KEY}
        with suppress(httpx2.TransportError):  # it may have ended by now
            answered = httpx2.post(old, headers=headers, json=CALCULATE, timeout=PATIENCE)
            assert '"42"' not in answered.text
        assert machines[1].process.wait(PATIENCE) == REPLACED_STATUS
        new = f"http://127.0.0.1:{ports[2]}{PATH}"
        assert '"42"' in httpx2.post(new, headers=headers, json=CALCULATE, timeout=PATIENCE).text
        view = httpx2.get(f"http://127.0.0.1:{ports[2]}/_ors/sessions/{sessions[1]}", headers=headers)
        assert (view.json()["episode"]["steps"], view.json()["episode"]["phase"]) == (2, "playing")


def test_a_renewed_certificate_is_used_after_sighup(tmp_path):
    def served(port):
        return ssl.get_server_certificate(("127.0.0.1", port)).strip()

    certificate = tmp_path / "cert.pem"
    write_certificate(tmp_path, "first")
    with serving(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(tmp_path / "key.pem")) as running:
        port = int(running.url.rpartition(":")[2])
        assert served(port) == certificate.read_text().strip()
        write_certificate(tmp_path, "second")
        running.process.send_signal(signal.SIGHUP)
        while served(port) != certificate.read_text().strip():
            time.sleep(0.1)
        running.kill(FRONT)
        assert served(port) == certificate.read_text().strip()  # of the front that is started again
