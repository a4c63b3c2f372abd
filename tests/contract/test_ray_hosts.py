"""Hosts on the machines of a Ray cluster: placed, moved when a machine is lost, and ended.

The machines are Ray's own of its tests: several raylets on this machine. The record is in PostgreSQL.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import httpx2
import pytest
from ray.cluster_utils import Cluster

from ors_server.processes.host_processes import descendants
from tests.contract.test_hosts import PATH, call
from tests.contract.test_workers import COMMAND, ENVIRONMENT, KEY, PATIENCE, host_of, session_of_host

pytestmark = pytest.mark.timeout(600)
RESOURCE = "ors"
"""A resource that only the cluster's workers have, so that a host is not on the machine of Ray's own store."""


@pytest.fixture(scope="module")
def cluster():
    ray_cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield ray_cluster
    ray_cluster.shutdown()


def add_machine(cluster):
    return cluster.add_node(num_cpus=2, resources={RESOURCE: 1})


def epochs(client):
    """Return the epoch of each host; none while the front has no host that answers."""
    answered = client.get("/_ors/hosts")
    return [host["epoch"] for host in answered.json()["hosts"]] if answered.is_success else []


class Served:
    def __init__(self, folder, cluster, where, *words):
        variables = {
            **os.environ,
            "ORS_API_KEYS": f"admin:root:{KEY}",
            "ORS_ON_STOP": "suspend",
            "RAY_ADDRESS": cluster.address,
        }
        self.log = folder / "log"
        command = [COMMAND, "serve", ENVIRONMENT, "--engine", "ray", "--port", "0", "--json", "--store", where]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *words], stdout=subprocess.PIPE, stderr=log, text=True, env=variables
            )

    def url(self):
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return json.loads(line)["url"]

    def end(self):
        with suppress(ProcessLookupError):
            self.process.terminate()
        self.process.stdout.close()
        return self.process.wait(PATIENCE)


@contextmanager
def serving(folder, cluster, where, *words):
    served = Served(folder, cluster, where, *words)
    try:
        yield served
    finally:
        served.end()


def test_a_host_moves_to_another_machine_with_its_sessions(tmp_path, cluster, postgres):
    first, second = add_machine(cluster), add_machine(cluster)
    words = ("--workers", "2", "--ray-resources", f"{RESOURCE}=1", "--ray-resources", "CPU=1")
    with (
        serving(tmp_path, cluster, postgres.create_database(), *words) as served,
        httpx2.Client(base_url=served.url(), timeout=PATIENCE, headers={"X-API-Key": KEY}) as client,
    ):
        sessions = [session_of_host(client, number) for number in (0, 1)]
        for session_id in sessions:
            assert '"42"' in call(client, session_id).text
        add_machine(cluster)
        cluster.remove_node(first, allow_graceful=False)
        began = time.monotonic()
        while [epoch for epoch in epochs(client) if epoch > 1] == []:
            time.sleep(0.2)
        print("moved after", time.monotonic() - began)
        for session_id in sessions:
            while (answered := call(client, session_id)).status_code == 503:
                time.sleep(0.2)
            assert '"42"' in answered.text
            view = client.get(f"/_ors/sessions/{session_id}").json()
            assert (view["episode"]["steps"], view["episode"]["phase"]) == (2, "playing")
        print("answered after", time.monotonic() - began)
        print(served.log.read_text()[-6000:])
    cluster.remove_node(second)
