"""Hosts on a Ray cluster that loses machines, or its own store, or has no machine for a host."""

import time

import pytest

from tests.contract.test_workers import session_of_host
from tests.fixtures.ray_cluster import NEEDS, add_machine, cluster, epochs, played, refusal, serving

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
