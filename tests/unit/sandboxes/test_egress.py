"""The way out of a sandbox: which hosts a list allows, and what a sandbox reaches through the proxy."""

import asyncio
import contextlib
import ipaddress
import socket
import struct
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ors_server.sandboxes.base import SandboxRequest
from ors_server.sandboxes.cells import fresh_process
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.egress import (
    MAX_CONNECTIONS,
    EgressProxy,
    SandboxNetwork,
    parse_request,
    refuse_address,
)
from ors_server.sandboxes.fresh import run_to_end
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError
from ors_server.sandboxes.scripted import ScriptedBackend

ALLOWED = ("pypi.test", "*.files.test", "10.1.0.0/16", "trap.test")
ADDRESSES = {"pypi.test": ["93.184.216.34"], "a.files.test": ["10.2.0.1"], "trap.test": ["127.0.0.1", "::1"]}


@pytest.mark.parametrize(
    "rule",
    [
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::/96", "::127.0.0.1"),
        *("64:ff9b:1::/48", "fec0::1", "2001::1", "2001:db8::5efe:7f00:1", "2002::/16", "255.255.255.255"),
        *("127.0.0.1", "::1", "169.254.169.254", "0.0.0.0/0", "10.0.0.0/0", "fe80::/64", "::/0", "224.0.0.1"),
        *(
            "localhost",
            "a.localhost",
            "*",
            "*.",
            "Pypi.org",
            "pypi.org:443",
            "http://a",
            "a b",
            "",
            "127.1",
            "0x7f",
        ),
    ],
)
def test_rules_that_are_none_or_lead_back_to_the_host_are_refused(rule):
    with pytest.raises(ValueError, match=r"never allowed|expected a host's name"):
        SandboxNetwork.of([rule])


def test_networks_are_stated_by_name_or_as_a_list():
    assert SandboxNetwork.of(["pypi.org", "*.b.c", "10.0.0.0/8", "2001:db8::1"]).mode == "allow-list"
    assert [SandboxNetwork.of(mode).mode for mode in ("none", "loopback")] == ["none", "loopback"]
    for wrong in ("public", list[str](), "allow-list"):
        with pytest.raises(ValueError, match=r"expected 'none'|has at least one host"):
            SandboxNetwork.of(wrong)


@pytest.mark.parametrize(
    ("address", "host", "refused"),
    [
        ("93.184.216.34", "pypi.test", None),
        ("93.184.216.34", "x.files.test", None),
        ("93.184.216.34", "files.test", "no rule allows"),
        ("93.184.216.34", "pypi.test.evil", "no rule allows"),
        ("10.1.2.3", "10.1.2.3", None),
        ("10.1.2.3", "other.test", None),
        ("10.2.0.1", "pypi.test", "private address"),
        ("100.64.0.1", "pypi.test", "private address"),
        ("fd00::1", "pypi.test", "private address"),
        ("127.0.0.2", "pypi.test", "loopback"),
        ("169.254.169.254", "pypi.test", "link-local"),
        ("::ffff:127.0.0.1", "pypi.test", "loopback"),
        ("::ffff:169.254.169.254", "pypi.test", "link-local"),
        ("2002:7f00:1::", "pypi.test", "loopback"),
        ("0.0.0.0", "pypi.test", "loopback"),  # noqa: S104  (nothing is bound)
    ],
)
def test_address_is_checked_and_not_only_the_name(address, host, refused):
    reason = refuse_address(ipaddress.ip_address(address), host, ALLOWED)
    assert (reason is None) if refused is None else refused in str(reason)


def _embeddings(address):
    """The IPv6 addresses that embed an IPv4 address, by their form; those refused as a whole are second."""
    number = int(ipaddress.IPv4Address(address))
    prefixes = {
        "compatible": (number,),
        "mapped": (0xFFFF << 32 | number,),
        "translated": (0xFFFF << 48 | number,),
        "nat64": (0x64_FF9B << 96 | number,),
        "6to4": (0x2002 << 112 | number << 80, 0x2002 << 112 | number << 80 | 0xABC << 64 | 1),
        "isatap": (
            0x2606_4700 << 96 | 0x5EFE << 32 | number,
            0x2606_4700 << 96 | 0x0200_5EFE << 32 | number,
        ),
    }
    whole = {
        "teredo": (
            0x2001_0000 << 96 | 0x0808_0808 << 64 | number ^ 0xFFFF_FFFF,
            0x2001_0000 << 96 | number << 64,
        ),
        "nat64 of a site": (
            0x64_FF9B_0001 << 80 | number,
            0x64_FF9B_0001 << 80 | number >> 16 << 64 | (number & 0xFFFF) << 40,
        ),
    }
    return tuple(
        [ipaddress.IPv6Address(value) for values in forms.values() for value in values]
        for forms in (prefixes, whole)
    )


NEVER = ("127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "255.255.255.255")  # noqa: S104  (nothing is bound)
PRIVATE = ("10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1", "192.0.2.7", "198.18.0.1", "240.0.0.1")


@pytest.mark.parametrize("address", [*NEVER, *PRIVATE, "8.8.8.8", "93.184.216.34"])
def test_address_inside_of_an_ipv6_address_is_judged_as_itself(address):
    rules = ("h.test",)
    plain = refuse_address(ipaddress.ip_address(address), "h.test", rules)
    assert (plain is None) == (address not in {*NEVER, *PRIVATE})
    judged, refused = _embeddings(address)
    for form in judged:
        reason = refuse_address(form, "h.test", rules)
        assert (reason is None) == (plain is None), form
        named = refuse_address(form, str(form), (str(form),))
        assert (named is None) == (address not in NEVER), form
        if address in NEVER:
            with pytest.raises(ValueError, match="never allowed"):
                SandboxNetwork.of([str(form)])
    for form in refused:
        assert "loopback" in str(refuse_address(form, "h.test", (*rules, str(form)))), form
        with pytest.raises(ValueError, match="never allowed"):
            SandboxNetwork.of([str(form)])


def test_rule_for_a_private_network_is_one_for_the_ipv6_forms_of_its_addresses():
    for form in _embeddings("10.1.2.3")[0]:
        is_isatap = "5efe" in str(form)
        assert (refuse_address(form, "h.test", ("10.1.0.0/16",)) is None) != is_isatap
        assert refuse_address(form, "h.test", ("10.2.0.0/16", "h.test"))


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("CONNECT pypi.test:443 HTTP/1.1", ("pypi.test", 443, None)),
        ("CONNECT [2001:db8::1]:443 HTTP/1.1", ("2001:db8::1", 443, None)),
        ("CONNECT pypi.test HTTP/1.1", None),
        ("CONNECT pypi.test:99999 HTTP/1.1", None),
        ("CONNECT a@b:1 HTTP/1.1", None),
        ("GET / HTTP/1.1", None),
        ("GET https://a/ HTTP/1.1", None),
        ("nonsense", None),
    ],
)
def test_request_is_read_strictly(line, parsed):
    assert parse_request(f"{line}\r\nHost: other\r\n\r\n".encode()) == parsed


def test_plain_request_is_rewritten_for_its_server():
    head = (
        b"GET http://u:p@Pypi.test./a?b HTTP/1.1\r\nHost: pypi.test\r\nProxy-Connection: keep-alive\r\n\r\n"
    )
    sent = b"GET /a?b HTTP/1.1\r\nHost: pypi.test\r\nConnection: close\r\n\r\n"
    assert parse_request(head) == ("pypi.test", 80, sent)


async def test_sandbox_reaches_listed_hosts_by_the_proxy_and_nothing_else():
    asked = []

    async def answer(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfrom outside\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def resolve(host, _port):
        return ADDRESSES[host]

    async def connect(_host, _port):
        return await asyncio.open_connection("127.0.0.1", port)

    chosen = await choose(BackendRequest(choice=BackendChoice.BUBBLEWRAP, allow_network=True))
    try:
        backend: Any = chosen.backend
        backend.make_proxy = lambda allowed: EgressProxy(allowed, resolve, connect)
        request = SandboxRequest(network=SandboxNetwork.of(ALLOWED))
        sandbox = await chosen.backend.start_requested("a", request)
        define = (
            'ask() { exec 3<>/dev/tcp/127.0.0.1/3128; printf "$1 HTTP/1.1\\r\\n\\r\\n$2" >&3;'
            "cat <&3 | tail -n 1; }\n"
        )
        ask = (
            f'{define}ask "GET http://pypi.test/simple";'
            'ask "CONNECT 10.1.0.9:80" "GET /far HTTP/1.1\\r\\n\\r\\n";'
            'ask "GET http://evil.test/"; ask "CONNECT trap.test:22"; ask "CONNECT a.files.test:1";'
            'ask "BREW x"; echo $http_proxy'
        )
        printed = await sandbox.exec(ask)
        assert printed.stdout.text.splitlines() == [
            "from outside",
            "from outside",
            "no rule allows evil.test",
            "trap.test is at 127.0.0.1, a loopback, link-local or multicast address",
            "a.files.test is at the private address 10.2.0.1, which no rule names",
            "expected CONNECT host:port, or an http:// address",
            "http://127.0.0.1:3128",
        ]
        assert asked == [b"GET /simple HTTP/1.1", b"GET /far HTTP/1.1"]
        events = [(event.host, event.refused is None) for event in sandbox.connections]
        hosts = ("pypi.test", "10.1.0.9", "evil.test", "trap.test", "a.files.test")
        assert events == list(zip(hosts, (True, True, False, False, False), strict=True))
        direct = await sandbox.exec(f"(exec 4<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || echo refused")
        assert direct.stdout.text == "refused\n"
        # A new shell has a new network namespace, and so has a copy.
        await sandbox.restart()
        fork = await sandbox.fork("b")
        for again in (sandbox, fork):
            printed = await again.exec(f"{ask.split(';ask', maxsplit=1)[0]}".replace("; };", "; };\n"))
            assert printed.stdout.text == "from outside\n"
    finally:
        await chosen.aclose()
        server.close()


# What stands before bubblewrap tells its report in two pieces, and ends it if nobody reads the second one, as
# SIGPIPE does when bubblewrap itself is that slow.
SLOW_REPORT = """\
#!/bin/bash
arguments=("$@")
for i in "${!arguments[@]}"; do [ "${arguments[i]}" = --info-fd ] && place=$((i + 1)); done
[[ $place && " $* " == *" --block-fd "* ]] || exec /usr/bin/bwrap "$@"
fd=${arguments[place]}
exec {report}> >(trap '' PIPE; read -r -d , first; printf '%s,' "$first" >&"$fd"; sleep 0.3
  cat >&"$fd" || kill -9 $$)
arguments[place]=$report
eval "exec $fd>&-"
exec /usr/bin/bwrap "${arguments[@]}"
"""


async def test_programs_with_an_allow_list_start_at_once_and_when_bubblewrap_is_slow(tmp_path, monkeypatch):
    (tmp_path / "bwrap").write_text(SLOW_REPORT)
    (tmp_path / "bwrap").chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    monkeypatch.setitem(fresh_process.SYSTEM_PATH, "PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    network = SandboxNetwork.of(ALLOWED)
    chosen = await choose(BackendRequest(choice=BackendChoice.BUBBLEWRAP, allow_network=True))
    try:
        sandbox = await chosen.backend.start("a")
        ask = "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'BREW\\r\\n\\r\\n' >&3; cat <&3 | head -n 1"
        runs = []

        async def run(number):
            files = {"number": b"%d" % number}
            argv = ["bash", "-c", f"cat /grader/number; {ask}"]
            program = await sandbox.start_fresh(argv, files=files, network=network)
            runs.append(await run_to_end(program, b"", time_limit=30, output_bytes=1000))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(run, number)
        answers = sorted(run.stdout.text.strip() for run in runs)
        assert answers == [f"{number}HTTP/1.1 400 Bad Request" for number in range(3)]
    finally:
        await chosen.aclose()


async def test_connection_that_breaks_outside_ends_the_one_inside():
    has_arrived = asyncio.Event()

    async def break_off(_reader, writer):
        writer.write(b"part")
        await has_arrived.wait()
        at_once = struct.pack("ii", 1, 0)  # with a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()

    async def resolve(host, _port):
        return ADDRESSES[host]

    far = await asyncio.start_server(break_off, "127.0.0.1", 0)

    async def connect(_host, _port):
        return await asyncio.open_connection(*far.sockets[0].getsockname())

    listener = socket.create_server(("127.0.0.1", 0))
    proxy = EgressProxy(ALLOWED, resolve, connect)
    await proxy.serve(listener)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        writer.write(b"CONNECT pypi.test:443 HTTP/1.1\r\n\r\n")
        with anyio.fail_after(10):
            assert (await reader.readuntil(b"part")).startswith(b"HTTP/1.1 200")
            has_arrived.set()
            # The client keeps its own direction open, and waits for the end of the other one.
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert [event.refused for event in proxy.events] == [None]
    finally:
        writer.close()
        proxy.close()
        far.close()


def _count_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def _wait_for_descriptors(most):
    with anyio.fail_after(10):
        while _count_descriptors() > most:  # noqa: ASYNC110  (the kernel has no event for it)
            await anyio.sleep(0.01)


async def test_connections_without_a_head_are_counted_and_none_is_left_after_close():
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    address = listener.getsockname()
    before = _count_descriptors()
    proxy = EgressProxy(ALLOWED)
    await proxy.serve(listener)
    clients: list[socket.socket] = []
    try:
        for _ in range(MAX_CONNECTIONS + 100):
            clients.append(socket.create_connection(address))
            await anyio.lowlevel.checkpoint()
        for client in clients:
            client.settimeout(0)
            client.send(b"CONNECT pypi.test:443 HT")
        closed: set[int] = set()
        with anyio.fail_after(10):
            while len(closed) < 100:
                await anyio.sleep(0.01)
                for number, client in enumerate(clients):
                    with contextlib.suppress(BlockingIOError):
                        with contextlib.suppress(ConnectionResetError):
                            assert client.recv(10) == b""
                        closed.add(number)
        assert len(closed) == 100
        assert _count_descriptors() <= before + len(clients) + MAX_CONNECTIONS
        proxy.close()
        await _wait_for_descriptors(before - 1 + len(clients))
    finally:
        for client in clients:
            client.close()
        proxy.close()


async def test_socket_that_is_made_while_the_session_ends_is_closed():
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = EgressProxy(ALLOWED)
    proxy.close()
    await proxy.serve(listener)
    assert listener.fileno() == -1


async def test_pair_of_connections_counts_once_and_close_cuts_all_of_them():
    arrived = 0

    async def hold(reader, writer):
        nonlocal arrived
        arrived += 1
        await reader.read()
        writer.close()

    async def resolve(host, _port):
        return ADDRESSES[host]

    far = await asyncio.start_server(hold, "127.0.0.1", 0)
    far_address = far.sockets[0].getsockname()
    late_name = asyncio.Event()

    async def connect(_host, port):
        if port == 1:
            await late_name.wait()
        return await asyncio.open_connection(*far_address)

    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    before = _count_descriptors()
    proxy = EgressProxy(ALLOWED, resolve, connect)
    address = listener.getsockname()
    await proxy.serve(listener)
    pairs = [await asyncio.open_connection(*address) for _ in range(MAX_CONNECTIONS)]
    try:
        for _reader, writer in pairs[1:]:
            writer.write(b"CONNECT pypi.test:443 HTTP/1.1\r\n\r\n")
        pairs[0][1].write(b"CONNECT pypi.test:1 HTTP/1.1\r\n\r\n")
        with anyio.fail_after(10):
            for reader, _writer in pairs[1:]:
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        # The server of the test has ends too: one of each client, and one of each connection outwards.
        assert _count_descriptors() <= before + 4 * MAX_CONNECTIONS
        proxy.close()
        late_name.set()
        with anyio.fail_after(10):
            for reader, _writer in pairs:
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
        for _reader, writer in pairs:
            writer.close()
        await _wait_for_descriptors(before - 1)
        assert arrived == MAX_CONNECTIONS - 1
    finally:
        for _reader, writer in pairs:
            writer.close()
        proxy.close()
        far.close()


async def test_name_that_cannot_be_resolved_is_answered():
    proxy = EgressProxy(("*.files.test",))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await proxy.serve(listener)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {'a' * 70}.files.test:443 HTTP/1.1\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    proxy.close()
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert str(proxy.events[-1].refused).startswith("no connection")


async def test_client_that_reads_late_receives_all_that_was_sent():
    async def flood(_reader, writer):
        writer.write(b"x" * 20_000_000)
        writer.close()

    async def resolve(host, _port):
        return ADDRESSES[host]

    far = await asyncio.start_server(flood, "127.0.0.1", 0)

    async def connect(_host, _port):
        return await asyncio.open_connection(*far.sockets[0].getsockname())

    listener = socket.create_server(("127.0.0.1", 0))
    proxy = EgressProxy(ALLOWED, resolve, connect)
    address = listener.getsockname()
    await proxy.serve(listener)
    client = socket.create_connection(address)
    try:
        client.send(b"CONNECT pypi.test:443 HTTP/1.1\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        await anyio.sleep(0.2)
        client.settimeout(0)
        received = 0
        with anyio.fail_after(20):
            while True:
                try:
                    piece = client.recv(1_000_000)
                except BlockingIOError:
                    await anyio.sleep(0.001)
                    continue
                if not piece:
                    break
                received += len(piece)
        assert received > 20_000_000
    finally:
        client.close()
        proxy.close()
        far.close()


async def test_operator_and_backend_must_allow_a_network():
    chosen = await choose(BackendRequest(choice=BackendChoice.BUBBLEWRAP))
    try:
        with pytest.raises(SandboxUnavailableError, match="the operator has not allowed: --allow-network"):
            await chosen.backend.start_requested("a", SandboxRequest(network=SandboxNetwork.of(["pypi.org"])))
        sandbox = await chosen.backend.start_requested("b", SandboxRequest(network=SandboxNetwork.of("none")))
        probe = "import socket; socket.socket(socket.AF_UNIX); socket.socket(socket.AF_INET)"
        printed = await sandbox.exec(f"/usr/bin/python3 -c '{probe}'")
        assert "Address family not supported" in printed.stderr.text
    finally:
        await chosen.aclose()
    with pytest.raises(SandboxUnavailableError, match="'none', which the scripted backend has not"):
        await ScriptedBackend().start_requested("a", SandboxRequest(network=SandboxNetwork.of("none")))
