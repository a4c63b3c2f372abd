"""Counting connections: by address and in all, and as many as there may be files."""

import resource

import pytest

from ors_server.doors.http.connection_limits import (
    ConnectionLimits,
    Connections,
    network_of,
    raise_file_limit,
)
from ors_server.model.errors import TooManyConnectionsError
from ors_server.model.settings import Settings


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        (None, ""),
    ],
)
def test_one_customer_is_one_network(address, network):
    assert network_of(address) == network


def test_connections_of_one_network_are_counted_until_they_leave():
    open_ones = Connections(ConnectionLimits(connections=9, connections_per_address=2))
    open_ones.add("2001:db8::1")
    open_ones.add("2001:db8::2")
    open_ones.add("192.0.2.1")
    with pytest.raises(TooManyConnectionsError, match="max_connections_per_address"):
        open_ones.add("2001:db8::3")
    open_ones.remove("2001:db8::1")
    open_ones.add("2001:db8::3")


def test_sockets_without_an_address_are_counted_in_all_only():
    open_ones = Connections(ConnectionLimits(connections=3, connections_per_address=1))
    for _ in range(3):
        open_ones.add(None)
    with pytest.raises(TooManyConnectionsError, match="setting max_connections"):
        open_ones.add(None)
    open_ones.remove(None)
    open_ones.add(None)


@pytest.mark.parametrize(("files", "most"), [(None, 50), (20_000, 50), (1100, 50), (80, 40), (1, 1)])
def test_files_are_left_for_everything_else(files, most):
    open_ones = Connections(ConnectionLimits(connections=50), files=files)
    for _ in range(most):
        open_ones.add("192.0.2.1")
    with pytest.raises(TooManyConnectionsError):
        open_ones.add("192.0.2.2")


@pytest.mark.parametrize(
    ("limits", "grants", "wanted", "allowed"),
    [
        ((1024, 4096), True, 4096, 4096),
        ((1024, 1 << 20), True, 11_024, 11_024),
        ((1024, resource.RLIM_INFINITY), True, 11_024, 11_024),
        ((1024, resource.RLIM_INFINITY), False, 11_024, 1024),
        ((20_000, 20_000), True, None, 11_024),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), True, None, 11_024),
    ],
)
def test_the_limit_on_files_is_raised_as_far_as_is_needed_and_granted(
    monkeypatch, limits, grants, wanted, allowed
):
    found, asked = [limits], []

    def grant(_which, pair):
        asked.append(pair[0])
        if not grants:
            raise ValueError("not here")
        found[0] = pair

    monkeypatch.setattr(resource, "getrlimit", lambda _which: found[0])
    monkeypatch.setattr(resource, "setrlimit", grant)
    assert raise_file_limit(ConnectionLimits(connections=10_000)) == allowed
    assert asked == ([] if wanted is None else [wanted])


def test_the_settings_defaults_are_the_limits_own():
    assert ConnectionLimits.of(Settings()) == ConnectionLimits()
