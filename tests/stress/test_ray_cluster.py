"""Hosts on a Ray cluster that loses machines, or its own store, or has no machine for a host."""

import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread

import anyio
import httpx2
import pytest

from ors_server.processes.host_processes import descendants
from ors_server.store.open import open_reader
from tests.contract.test_hosts import CALCULATE, PATH
from tests.contract.test_workers import KEY, PATIENCE, is_running, session_of_host
from tests.fixtures.database_line import DatabaseLine
from tests.fixtures.ray_cluster import (
    NEEDS,
    add_machine,
    epochs,
    hosts_of,
    played,
    refusal,
    running_cluster,
    serving,
    until_moved,
)

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(1200),
    # Ray's test cluster leaves the pipes of its processes to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def cluster():
    """A cluster for each test: one that lost its own store takes no further machine."""
    with running_cluster() as ray_cluster:
        yield ray_cluster


async def read_steps(where, session_id):
    reader = await open_reader(where)
    try:
        return [
            step
            async for record, steps in reader.stream()
            if record.origin.session_id == session_id
            for step in steps
        ]
    finally:
        await reader.aclose()


def read_prints(pid, said):
    with Path(f"/proc/{pid}/fd/2").open() as printed:
        said.extend(printed)


def raylet_of(machine):
    return machine.all_processes["raylet"][0].process.pid


def test_a_server_without_a_machine_for_a_host_says_what_it_needs(tmp_path, cluster, postgres):
    words = ("--store", postgres.create_database(), "--ray-resources", "kiln=1", "--ray-labels", "zone=a")
    status, said = refusal(tmp_path, cluster.address, *words)
    assert status == 1
    assert "Ray found no machine for host h0 within 30 s: it needs {'kiln': 1.0}" in said
    assert "labels {'zone': 'a'}, and the cluster has {'CPU'" in said.replace("\n  ", " ")


def test_sessions_survive_the_loss_of_machines_and_of_rays_store(tmp_path, cluster, postgres):
    machines = [add_machine(cluster) for _ in range(2)]
    where = postgres.create_database()
    with serving(tmp_path, cluster, "--workers", "2", "--store", where, *NEEDS) as (_, client):
        sessions = [session_of_host(client, number) for number in (0, 1)]
        assert [played(client, session_id) for session_id in sessions] == [1, 1]
        # Ray places the host of a lost machine on another one, to which the front sends its sessions.
        before = epochs(client)
        add_machine(cluster)
        cluster.remove_node(machines[0], allow_graceful=False)
        while epochs(client) in ([], before):
            time.sleep(0.2)
        assert [played(client, session_id) for session_id in sessions] == [2, 2]
        # No call needs Ray.
        cluster.head_node.kill_gcs_server()
        assert [played(client, session_id) for session_id in sessions] == [3, 3]
        cluster.head_node.start_gcs_server()


def test_a_host_that_is_cut_off_writes_no_step_once_another_one_has_its_place(tmp_path, cluster, postgres):
    for _ in range(3):
        add_machine(cluster)
    where = postgres.create_database()
    with ExitStack() as stack:
        line = DatabaseLine(postgres.port)
        stack.callback(line.close)
        store = where.replace(f":{postgres.port}/", f":{line.port}/")
        _, client = stack.enter_context(
            serving(tmp_path, cluster, "--workers", "2", "--store", store, *NEEDS)
        )
        session_id = session_of_host(client, 0)
        assert played(client, session_id) == 1
        first = client.get("/_ors/hosts").json()["hosts"][0]
        [host] = [
            pid
            for pid in hosts_of(cluster)
            if b"ORS_HOST_SLOT=0/2" in Path(f"/proc/{pid}/environ").read_bytes()
        ]
        # Its machine loses the network: neither the database nor Ray hears of it, and the host runs on.
        machine = next(node for node in cluster.list_all_nodes() if host in descendants(raylet_of(node)))
        line.cut(host)
        silent = [raylet_of(machine), *descendants(raylet_of(machine))]
        silent = [pid for pid in silent if pid not in {host, *descendants(host)}]
        stack.callback(cluster.remove_node, machine, allow_graceful=False)
        for pid in silent:
            os.kill(pid, signal.SIGSTOP)
            stack.callback(os.kill, pid, signal.SIGCONT)
        # Ray's worker, which reads what the host prints, is stopped: a full pipe would stop the host, too.
        said: list[str] = []
        Thread(target=read_prints, args=(host, said), daemon=True).start()
        # A client that still reaches it: the call runs, and the host tries to write its step all the time.
        headers = {"X-Session-ID": session_id, "X-API-Key": KEY, "Host": "localhost"}
        lines: list[str] = []

        def call_directly():
            url = f"http://{first['address']}{PATH}"
            with (
                suppress(httpx2.TransportError),  # it ends
                httpx2.stream("POST", url, headers=headers, json=CALCULATE, timeout=PATIENCE) as answered,
            ):
                lines.extend(answered.iter_lines())

        caller = Thread(target=call_directly)
        caller.start()
        until_moved(client, 0, first["epoch"])
        assert played(client, session_id) == 2
        assert is_running(host)
        line.mend()
        while is_running(host):
            time.sleep(0.1)
        caller.join()
        assert played(client, session_id) == 3
    refusal_of_a_write = "another process has taken the place of host h0; this one writes nothing"
    assert any(refusal_of_a_write in row for row in said)
    steps = anyio.run(read_steps, where, session_id)
    assert [step.number for step in steps] == [1, 2, 3]
    assert lines[0] == "event: task_id"
    assert lines[1].removeprefix("data: ") not in {step.call_id for step in steps}
    assert not any('"42"' in line for line in lines)
