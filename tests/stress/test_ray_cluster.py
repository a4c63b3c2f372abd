"""Hosts on a Ray cluster that loses machines, or its own store, or has no machine for a host."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import httpx2
import pytest

from ors_server.processes.host_processes import descendants
from tests.contract.test_hosts import CALCULATE, PATH
from tests.contract.test_workers import KEY, PATIENCE, session_of_host
from tests.fixtures.ray_cluster import (
    NEEDS,
    add_machine,
    cluster,
    epochs,
    hosts_of,
    played,
    refusal,
    serving,
    until_moved,
)

__all__ = ["cluster"]
pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(600),
    # Ray's test cluster leaves the pipes of its processes to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


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


def test_a_host_that_was_cut_off_writes_no_step_when_it_comes_back(tmp_path, cluster, postgres):
    machines = [add_machine(cluster) for _ in range(2)]
    where = postgres.create_database()
    with serving(tmp_path, cluster, "--workers", "2", "--store", where, *NEEDS) as (_, client):
        session_id = session_of_host(client, 0)
        assert played(client, session_id) == 1
        first = client.get("/_ors/hosts").json()["hosts"][0]
        [cut_off] = [
            pid
            for pid in hosts_of(cluster)
            if b"ORS_HOST_SLOT=0/2" in Path(f"/proc/{pid}/environ").read_bytes()
        ]
        # It reaches neither clients nor the record, and Ray places the host on another machine.
        os.kill(cut_off, signal.SIGSTOP)
        lost = next(machine for machine in machines if is_below(cut_off, machine))
        add_machine(cluster)
        cluster.remove_node(lost, allow_graceful=False)
        until_moved(client, 0, first["epoch"])
        assert played(client, session_id) == 2
        answers = []

        def call_directly():
            headers = {"X-Session-ID": session_id, "X-API-Key": KEY}
            with suppress(httpx2.TransportError):
                url = f"http://{first['address']}{PATH}"
                answers.append(httpx2.post(url, headers=headers, json=CALCULATE, timeout=PATIENCE).text)

        caller = Thread(target=call_directly)
        caller.start()
        time.sleep(0.5)  # the call waits in the socket of the host that does not run
        os.kill(cut_off, signal.SIGCONT)
        caller.join()
        assert not any('"42"' in answer for answer in answers)
        while Path(f"/proc/{cut_off}").exists():
            time.sleep(0.1)
        assert played(client, session_id) == 3


def is_below(pid, machine):
    """Return whether a process was started by a machine's raylet."""
    return pid in descendants(machine.all_processes["raylet"][0].process.pid)
