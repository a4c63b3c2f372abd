"""The way out of a sandbox: an HTTP proxy with a list of allowed hosts, which the server runs.

Invariants:

- A sandbox has no route to anywhere. The proxy's listening socket is made inside of the sandbox's network
  namespace and held by the server, so what ignores the proxy reaches nothing.
- The server resolves a name once, checks each address, and connects to the address that it has checked.
- Loopback and link-local addresses, where the server itself and the metadata of clouds are, are never
  connected to, in no IPv6 form that embeds them, and no rule can name them. Private addresses need a rule
  that names the address or a network that it is in.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, cast

from ors_server.sandboxes.sandbox_errors import SandboxStartError

PROXY_PORT = 3128
"""Port of the proxy on the sandbox's loopback."""
_ADDRESS = f"http://127.0.0.1:{PROXY_PORT}"
PROXY_VARIABLES = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _ADDRESS),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1"),
}
"""Variables by which programs find the proxy."""
MAX_CONNECTIONS = 64
"""Connections of one sandbox at once, each with its other end; counted before anything is read."""
MAX_LOGGED = 1000
_HEAD_BYTES = 16_384
_HEAD_SECONDS = 20.0
_CONNECT_SECONDS = 20.0
_PAUSE_SECONDS = 1.0
_PIECE = 65_536
_NAME = re.compile(
    r"(?:\*\.)?(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*"
)
_REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]")

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_EMBEDDING = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765)
        "64:ff9b::/96",  # NAT64 (RFC 6052)
        "2002::/16",  # 6to4 (RFC 3056)
    )
)
"""IPv6 networks in which an IPv4 address follows the prefix: a gateway leads such an address there."""
_NEVER_IPV4 = tuple(
    ipaddress.IPv4Network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32")
)
_NEVER: tuple[Network, ...] = (
    *_NEVER_IPV4,
    *(
        ipaddress.IPv6Network(
            (
                int(form.network_address) | int(never.network_address) << (96 - form.prefixlen),
                form.prefixlen + never.prefixlen,
            )
        )
        for form in _EMBEDDING
        for never in _NEVER_IPV4
    ),
    # Teredo and a site's NAT64 (RFC 8215) embed IPv4 addresses too, in ways that no prefix states.
    *(
        ipaddress.IPv6Network(text)
        for text in ("2001::/32", "64:ff9b:1::/48", "fe80::/10", "fec0::/10", "ff00::/8")
    ),
)
_FORBIDDEN = "a loopback, link-local or multicast address"


class NetworkMode(StrEnum):
    """What a sandbox can connect to."""

    NONE = "none"
    """Nothing: no socket but a local one (AF_UNIX) can be made."""
    LOOPBACK = "loopback"
    """Servers inside of the sandbox."""
    ALLOW_LIST = "allow-list"
    """Servers inside, and by the proxy the hosts of a list."""


@dataclass(frozen=True)
class SandboxNetwork:
    """The network of a sandbox."""

    mode: NetworkMode = NetworkMode.LOOPBACK
    allowed: tuple[str, ...] = ()
    """Hosts of an allow-list: a name, `*.` and a name for what is below it, an address, or a network
    (`10.1.0.0/16`)."""

    def __post_init__(self) -> None:
        """Reject a list without rules, and rules that lead back to this host."""
        if (self.mode is NetworkMode.ALLOW_LIST) != bool(self.allowed):
            raise ValueError("an allow-list has at least one host, and other networks have none")
        for rule in self.allowed:
            check_rule(rule)

    @classmethod
    def of(cls, stated: str | Sequence[str]) -> "SandboxNetwork":
        """Return the network that an environment states: `none`, `loopback`, or a list of hosts.

        Raises:
            ValueError: It is something else.
        """
        if not isinstance(stated, str):
            return cls(NetworkMode.ALLOW_LIST, tuple(stated))
        if stated not in {NetworkMode.NONE, NetworkMode.LOOPBACK}:
            raise ValueError(f"expected 'none', 'loopback' or a list of hosts, got {stated!r:.80}")
        return cls(NetworkMode(stated))


LOOPBACK = SandboxNetwork()


def states_network(value: object) -> bool:
    """Return whether a value of an environment states a network, as `SandboxNetwork.of` takes it."""
    try:
        SandboxNetwork.of(cast("str | Sequence[str]", value))
    except (TypeError, ValueError, AttributeError):
        return False
    return True


@dataclass(frozen=True)
class EgressEvent:
    """One connection that a sandbox requested."""

    host: str
    port: int
    refused: str | None = None
    """Why it was refused; `None` if it was made."""


def check_rule(rule: str) -> None:
    """Raise `ValueError` for a rule that is not one, or that leads back to this host."""
    network = _as_network(rule)
    if network is not None:
        is_never = _is_never(network)
        if is_never or any(map(_is_never, _judged(network.network_address))):
            verb = "has" if is_never else "embeds"
            raise ValueError(
                f"{rule!r} {verb} loopback, link-local or multicast addresses, which are never allowed"
            )
        return
    name = rule.removeprefix("*.")
    if not _NAME.fullmatch(rule) or re.fullmatch(r"[0-9.]+|0x[0-9a-f]+", name):
        raise ValueError(f"expected a host's name in lower case, an address or a network, got {rule!r:.80}")
    if name == "localhost" or name.endswith(".localhost"):
        raise ValueError(f"{rule!r} is this host itself, which is never allowed")


def refuse_address(address: Address, host: str, allowed: Sequence[str]) -> str | None:
    """Return why an address may not be connected to; `None` if it may.

    Args:
        host: The name that it was resolved from, or the address itself.
    """
    judged = _judged(address)
    for target in (address, *judged):
        if _is_never(target):
            return f"{host} is at {address}, {_FORBIDDEN}"
    networks = [network for rule in allowed if (network := _as_network(rule)) is not None]
    if _is_in(address, networks) or all(_is_in(part, networks) for part in judged):
        return None
    for part in judged:
        if not part.is_global:
            return f"{host} is at the private address {part}, which no rule names"
    return None if _names(host, allowed) else f"no rule allows {host}"


def _judged(address: Address) -> tuple[Address, ...]:
    """Return the addresses by which one is judged: the IPv4 address that an IPv6 address embeds, or itself.

    An address of ISATAP (RFC 5214) is judged by both, because its prefix may be any.
    """
    if not isinstance(address, ipaddress.IPv6Address):
        return (address,)
    number = int(address)
    for form in _EMBEDDING:
        if address in form:
            return (ipaddress.IPv4Address(number >> (96 - form.prefixlen) & 0xFFFF_FFFF),)
    is_isatap = number >> 32 & 0xFDFF_FFFF == 0x5EFE  # noqa: PLR2004  (with and without the bit "universal")
    return (address, ipaddress.IPv4Address(number & 0xFFFF_FFFF)) if is_isatap else (address,)


def _is_never(target: Address | Network) -> bool:
    """Return whether an address is, or a network has, one that is never connected to."""
    network = ipaddress.ip_network(target) if not isinstance(target, Network) else target
    return any(network.version == never.version and network.overlaps(never) for never in _NEVER)


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _names(host: str, allowed: Sequence[str]) -> bool:
    return any(host == rule or (rule.startswith("*.") and host.endswith(rule[1:])) for rule in allowed)


def _as_network(rule: str) -> Network | None:
    try:
        return ipaddress.ip_network(rule)
    except ValueError:
        return None


Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
Connect: TypeAlias = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def resolve_name(host: str, port: int) -> list[str]:
    """Return a name's addresses; raises `OSError` without any."""
    rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


@dataclass
class EgressProxy:
    """The proxy of one sandbox."""

    allowed: tuple[str, ...]
    resolve: Resolve = resolve_name
    connect: Connect = asyncio.open_connection
    events: deque[EgressEvent] = field(default_factory=lambda: deque(maxlen=MAX_LOGGED))
    """The latest connections and refusals."""
    _is_closed: bool = False
    _listener: socket.socket | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def serve(self, listener: socket.socket) -> None:
        """Serve a listening socket, in the place of an earlier one; after `close` it is closed unserved."""
        self._stop()
        if self._is_closed:  # the session has ended while the socket was made
            listener.close()
            return
        listener.setblocking(False)  # noqa: FBT003  (its only signature)
        self._listener = listener
        self._watch(listener)

    def close(self) -> None:
        """Close the listening socket and every connection for good; a second call does nothing."""
        self._is_closed = True
        self._stop()

    def _stop(self) -> None:
        if self._listener is not None:
            if self._listener.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.cancel()

    def _watch(self, listener: socket.socket) -> None:
        if listener is self._listener:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept one connection, or close it unread if the sandbox has as many as it may have."""
        try:
            near, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            # The server has no descriptors left: one that stays readable would take all of its time.
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            loop.call_later(_PAUSE_SECONDS, self._watch, listener)
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            near.close()
            return
        near.setblocking(False)  # noqa: FBT003  (its only signature)
        connection = asyncio.get_running_loop().create_task(self._handle(near))
        self._connections.add(connection)

        def forget(ended: asyncio.Task[None]) -> None:
            self._connections.discard(ended)
            near.close()  # a task that is cancelled before it has begun leaves it open

        connection.add_done_callback(forget)

    async def _handle(self, near: socket.socket) -> None:
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            reader, writer = await asyncio.open_connection(sock=near, limit=_HEAD_BYTES)
            async with _closing(writer):
                await self._serve_request(reader, writer)

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        target = parse_request(head)
        if target is None:
            await _answer(writer, "400 Bad Request", "expected CONNECT host:port, or an http:// address")
            return
        host, port, first = target
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                address = await self._choose(host, port)
                far_reader, far_writer = await self.connect(address, port)
        except PermissionError as error:
            self.events.append(EgressEvent(host, port, str(error)))
            await _answer(writer, "403 Forbidden", str(error))
            return
        except (OSError, TimeoutError, UnicodeError) as error:  # a name may have a label that is too long
            self.events.append(EgressEvent(host, port, f"no connection: {error}"))
            await _answer(writer, "502 Bad Gateway", f"no connection to {host}")
            return
        self.events.append(EgressEvent(host, port))
        async with _closing(far_writer):
            if first is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far_writer.write(first)
            await asyncio.gather(_relay(reader, far_writer), _relay(far_reader, writer))

    async def _choose(self, host: str, port: int) -> str:
        """Return the first address of a host that may be connected to; `PermissionError` if none may."""
        try:
            addresses = [str(ipaddress.ip_address(host))]
        except ValueError:
            # A name that no rule has is not resolved: a lookup could carry data out.
            if not _names(host, self.allowed):
                raise PermissionError(f"no rule allows {host}") from None
            addresses = await self.resolve(host, port)
        refusals = [refuse_address(ipaddress.ip_address(text), host, self.allowed) for text in addresses]
        for text, refusal in zip(addresses, refusals, strict=True):
            if refusal is None:
                return text
        raise PermissionError(next(iter(refusals), None) or f"{host} has no address")


def parse_request(head: bytes) -> tuple[str, int, bytes | None] | None:
    """Return host, port and what is sent there first, of a request to a proxy; `None` if it is none.

    What is sent first is `None` for `CONNECT`.
    """
    line, _, rest = head.partition(b"\r\n")
    match = _REQUEST.fullmatch(line)
    if match is None:
        return None
    method, target = match[1], match[2].decode("latin-1")
    if method == b"CONNECT":
        address = _split_place(target, None)
        return None if address is None else (*address, None)
    if not target.lower().startswith("http://"):
        return None
    authority, _, path = target[7:].partition("/")
    address = _split_place(authority.rpartition("@")[2], 80)
    if address is None:
        return None
    headers = [
        row for row in rest.split(b"\r\n") if row and not row.lower().startswith((b"proxy-", b"connection:"))
    ]
    first = [method + b" /" + path.encode("latin-1") + b" HTTP/1.1", *headers, b"Connection: close"]
    return (*address, b"\r\n".join(first) + b"\r\n\r\n")


def _split_place(text: str, default_port: int | None) -> tuple[str, int] | None:
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/?#@\s]+))(?::([0-9]{1,5}))?", text)
    port = None if match is None else int(match[3]) if match[3] else default_port
    if match is None or port is None or not 0 < port < 65_536:  # noqa: PLR2004  (16 bits)
        return None
    return (match[1] or match[2]).lower().rstrip("."), port


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"{text}\n".encode()
    rows = (f"HTTP/1.1 {status}", "Content-Type: text/plain", f"Content-Length: {len(body)}")
    head = "\r\n".join((*rows, "Connection: close", "", ""))
    writer.write(head.encode() + body)
    await writer.drain()


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncGenerator[None]:
    """Close a connection when all that was written to it has left; cut it off after an error."""
    try:
        yield
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    finally:
        writer.transport.abort()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        # A broken connection breaks the other one too, whose program would wait for its end for ever.
        writer.transport.abort()


# Arguments: pid of the sandbox's first process, port, descriptor of the socket to the server. Root may enter
# a network namespace directly; others must enter the user namespace that owns it first, which an ioctl tells
# (ioctl_ns(2), NS_GET_USERNS).
_MAKE_LISTENER = """\
import ctypes, fcntl, os, socket, sys
pid, port, out = (int(text) for text in sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
def enter(namespace, kind):
    if libc.setns(namespace, kind):
        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))
network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
if os.geteuid():
    enter(fcntl.ioctl(network, 0xB701), 0x10000000)
enter(network, 0x40000000)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(64)
socket.send_fds(socket.socket(fileno=out), [b"x"], [listener.fileno()])
"""
_LISTENER_SECONDS = 20.0


def make_listener(pid: int, port: int) -> socket.socket:
    """Return a socket that listens on the loopback of a process's network namespace.

    Raises:
        SandboxStartError: It could not be made.
    """
    own_end, child_end = socket.socketpair()
    with own_end, child_end:
        own_end.settimeout(_LISTENER_SECONDS)
        argv = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _MAKE_LISTENER,
            str(pid),
            str(port),
            str(child_end.fileno()),
        ]
        try:
            run = subprocess.run(  # noqa: S603  (a program of our own)
                argv,
                pass_fds=[child_end.fileno()],
                capture_output=True,
                timeout=_LISTENER_SECONDS,
                env={},
                cwd="/",
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxStartError(f"the proxy of a sandbox cannot be made: {error}") from error
        if run.returncode:
            printed = run.stderr.decode(errors="replace").strip()[-300:]
            raise SandboxStartError(f"the proxy of a sandbox cannot be made: {printed}")
        _, descriptors, _, _ = socket.recv_fds(own_end, 1, 1)
        listener = socket.socket(fileno=descriptors[0])
        listener.set_inheritable(False)  # received descriptors are inherited unless one says so
        listener.setblocking(False)  # noqa: FBT003  (its only signature)
        return listener
