"""A process without a network reaches this machine, and nothing else."""

import subprocess
import sys

import pytest

from ors_server.audit.closed_network import is_own_machine

OWN = ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "", b"127.0.0.1"]
OWN += ["0.0.0.0"]  # noqa: S104  (no server listens there)
OTHERS = [
    "192.0.2.1",
    "10.0.0.1",
    "example.org",
    "2001:db8::1",
    "fe80::1%eth0",
    "localhost.example.org",
    b"\xff",
]


@pytest.mark.parametrize("host", OWN, ids=repr)
def test_this_machine_is_reached(host):
    assert is_own_machine(host)


@pytest.mark.parametrize("host", OTHERS, ids=repr)
def test_no_other_machine_is_reached(host):
    assert not is_own_machine(host)


TRIES = {
    "socket.create_connection(('192.0.2.1', 80), timeout=5)": "no connection to '192.0.2.1'",
    "socket.getaddrinfo('example.org', 80)": "no connection to 'example.org'",
    "socket.gethostbyname('example.org')": "no connection to 'example.org'",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))": "no connection to",
    "urllib.request.urlopen('http://example.org/')": "no connection to 'example.org'",
    "asyncio.run(asyncio.open_connection('192.0.2.1', 80))": "no connection to '192.0.2.1'",
    "socket.create_connection(server.getsockname()); print('reached')": "reached",
    "one, two = socket.socketpair(); one.send(b'x'); print('sent', two.recv(1))": "sent b'x'",
}


@pytest.mark.parametrize("code", TRIES)
def test_every_way_out_is_refused_and_every_way_within_is_open(code):
    program = (
        "import asyncio, socket, urllib.request\n"
        "from ors_server.audit.closed_network import close_network\n"
        "close_network()\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        f"{code}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert TRIES[code] in done.stdout + done.stderr
    assert (done.returncode == 0) == (TRIES[code] in done.stdout)
