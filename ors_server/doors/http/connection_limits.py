"""Limits on connections: how large, how slow and how many."""

import contextlib
import ipaddress
import resource
from collections import Counter
from dataclasses import dataclass

from ors_server.model.errors import TooManyConnectionsError
from ors_server.model.settings import Settings

SPARE_FILES = 1024
"""Descriptors kept free for everything but connections: the store, sandboxes, programs."""
MAX_REFUSED = 256
"""Refused connections that are kept open until their clients have read the reason."""
IPV6_NETWORK = 64
"""Bits of an IPv6 address that identify one customer's network (RFC 6177)."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one client's connections and requests."""

    header_bytes: int = 64 * 1024
    """Maximum number of bytes of one request's line and headers."""
    header_seconds: float = 10.0
    """Seconds for the headers of a request, and for the first request of a connection to begin."""
    body_seconds: float = 30.0
    """Maximum seconds between two parts of a body."""
    connections: int = 10_000
    """Maximum number of open connections."""
    connections_per_address: int = 4_096
    """Maximum number of open connections from one network, as `network_of` defines it."""

    @classmethod
    def of(cls, settings: Settings) -> "ConnectionLimits":
        """Take the limits from the server's settings."""
        return cls(
            header_bytes=settings.max_header_bytes,
            header_seconds=settings.header_seconds,
            body_seconds=settings.body_seconds,
            connections=settings.max_connections,
            connections_per_address=settings.max_connections_per_address,
        )


class Connections:
    """Counts open connections, in all and by network."""

    def __init__(self, limits: ConnectionLimits, *, files: int | None = None) -> None:
        """Start without connections; `files` is how many descriptors the process may open."""
        self._limit = limits.connections
        if files is not None:
            self._limit = max(1, min(self._limit, files - min(SPARE_FILES, files // 2)))
        self._limit_per_address = limits.connections_per_address
        self._count = 0
        self._refused = 0
        self._by_network: Counter[str] = Counter()

    def add(self, address: str | None) -> None:
        """Count a new connection; its address is `None` on a Unix socket.

        Raises:
            TooManyConnectionsError: If a limit is reached; the connection is not counted then.
        """
        advice = "send several requests over one connection, or try again later"
        if self._count >= self._limit:
            raise TooManyConnectionsError(
                f"{self._limit} connections are open (setting max_connections, and the limit on open files); "
                f"{advice}"
            )
        network = network_of(address)
        if address is not None and self._by_network[network] >= self._limit_per_address:
            raise TooManyConnectionsError(
                f"{self._limit_per_address} connections from {network} are open (setting "
                f"max_connections_per_address); {advice}"
            )
        self._count += 1
        self._by_network[network] += 1

    def remove(self, address: str | None) -> None:
        """Stop counting a connection."""
        self._count -= 1
        network = network_of(address)
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]

    def add_refused(self) -> bool:
        """Count a refused connection; return whether it may stay open until its client has the reason."""
        self._refused += 1
        return self._refused <= MAX_REFUSED

    def remove_refused(self) -> None:
        """Stop counting a refused connection."""
        self._refused -= 1


def network_of(address: str | None) -> str:
    """Return the network of an address: an IPv4 address itself, or the /64 of an IPv6 one."""
    if address is None or ":" not in address:
        return address or ""
    parsed = ipaddress.IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    whole = ipaddress.IPv6Address(int(parsed)).compressed
    return str(ipaddress.IPv6Network((whole, IPV6_NETWORK), strict=False))


def raise_file_limit(limits: ConnectionLimits) -> int:
    """Let the process open the files that its connections need, if it may; return how many it may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + SPARE_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with contextlib.suppress(ValueError, OSError):  # some systems name a higher limit than they grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
