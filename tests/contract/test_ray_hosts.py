"""Hosts on the machines of a Ray cluster: started, started again, ended, and refused."""

import os
import signal

import pytest

from tests.contract.test_workers import session_of_host
from tests.fixtures.ray_cluster import (
    NEEDS,
    add_machine,
    cluster,
    hosts_of,
    played,
    refusal,
    serving,
    until_moved,
)

__all__ = ["cluster"]
pytestmark = [
    pytest.mark.timeout(600),
    # Ray's test cluster leaves the pipes of its processes to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_sessions_survive_the_end_of_a_host_and_of_the_server(tmp_path, cluster, postgres):
    add_machine(cluster)
    where = postgres.create_database()
    with serving(tmp_path, cluster, "--store", where, "--workers", "2") as (_, client):
        sessions = [session_of_host(client, number) for number in (0, 1)]
        assert [played(client, session_id) for session_id in sessions] == [1, 1]
        for pid in hosts_of(cluster):
            os.kill(pid, signal.SIGKILL)
        until_moved(client, 0, 1)
        until_moved(client, 1, 1)
        assert [played(client, session_id) for session_id in sessions] == [2, 2]
    with serving(tmp_path, cluster, "--store", where, "--workers", "2") as (_, client):
        assert [played(client, session_id) for session_id in sessions] == [3, 3]  # suspended, and taken up


def test_a_host_that_cannot_start_is_named_with_its_reason(tmp_path, cluster, postgres):
    add_machine(cluster)
    store = postgres.create_database().rpartition("/")[0] + "/nothing"
    status, said = refusal(tmp_path, cluster.address, "--store", store, *NEEDS)
    assert status == 1
    last = said.splitlines()[-1]
    assert last.startswith(
        "ors-server: host h0 did not start (exit status 1): ors-server: the server did not"
    )
    assert 'database "nothing" does not exist' in last


def test_a_cluster_that_is_not_there_is_named(tmp_path, postgres):
    status, said = refusal(tmp_path, "127.0.0.1:9", "--store", postgres.create_database())
    assert (status, "cannot reach a Ray cluster" in said) == (1, True), said


@pytest.mark.parametrize(
    ("words", "variables", "reason"),
    [
        (("--store", "memory"), {}, "expected --store postgresql://…, got memory"),
        (("--store", "e.db"), {}, "expected --store postgresql://…, got"),
        (("--store", "postgresql://a/b"), {"ORS_API_KEYS": ""}, "--engine ray needs API keys"),
        (("--store", "postgresql://a/b", "--ray-resources", "CPU"), {}, "expected NAME=NUMBER, got 'CPU'"),
        (
            ("--store", "postgresql://a/b", "--ray-resources", "CPU=x"),
            {},
            "expected NAME=NUMBER, got 'CPU=x'",
        ),
        (("--store", "postgresql://a/b", "--ray-labels", "zone"), {}, "expected NAME=VALUE, got 'zone'"),
        (("--store", "postgresql://a/b", "--stdio"), {}, "for a server over HTTP without --reload"),
    ],
)
def test_settings_that_do_not_go_with_ray_are_refused(tmp_path, words, variables, reason):
    status, said = refusal(tmp_path, "127.0.0.1:9", *words, **variables)
    assert (status, reason in " ".join(said.split())) == (2, True), said
