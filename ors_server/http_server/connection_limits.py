"""What a connection may take of the server, and how many there may be."""

import contextlib
import ipaddress
import resource
from collections import Counter
from dataclasses import dataclass

from ors_server.errors import TooManyConnectionsError
from ors_server.settings import Settings

FILES_BESIDE = 1024
"""Descriptors that are kept for everything that is no connection: the record, sandboxes, programs."""
TURNED_AWAY_AT_ONCE = 256
"""Refused connections that are held open until their clients have read why."""
IPV6_NETWORK = 64
"""Bits of an IPv6 address that one customer has in common with nobody else (RFC 6177)."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How large, how slow and how many."""

    header_bytes: int = 64 * 1024
    """Of one request's line and headers."""
    header_seconds: float = 10.0
    """Until the headers of a request are complete, and until the first request of a connection begins."""
    body_seconds: float = 30.0
    """Within which a body that is not complete goes on."""
    connections: int = 10_000
    """Open ones in all."""
    connections_per_address: int = 4_096
    """Open ones from one address."""

    @classmethod
    def of(cls, settings: Settings) -> "ConnectionLimits":
        """Take them from the settings.

        Args:
            settings: The server's settings.
        """
        return cls(
            header_bytes=settings.max_header_bytes,
            header_seconds=settings.header_seconds,
            body_seconds=settings.body_seconds,
            connections=settings.max_connections,
            connections_per_address=settings.max_connections_per_address,
        )


class Connections:
    """Counts open connections, and says which one is too many."""

    def __init__(self, limits: ConnectionLimits, *, files: int | None = None) -> None:
        """Count none yet.

        Args:
            limits: How many there may be.
            files: Descriptors that the process may have; `None` for as many as it likes.
        """
        self._most = limits.connections
        if files is not None:
            self._most = max(1, min(self._most, files - min(FILES_BESIDE, files // 2)))
        self._most_per_address = limits.connections_per_address
        self._count = 0
        self._turned_away = 0
        self._by_network: Counter[str] = Counter()

    def enter(self, address: str | None) -> None:
        """Count a new connection, unless it is one too many.

        Args:
            address: Where it comes from; `None` where that has no address.

        Raises:
            TooManyConnectionsError: If it is.
        """
        advice = "use one connection for many requests, or come back later"
        if self._count >= self._most:
            raise TooManyConnectionsError(
                f"{self._most} connections are open (setting max_connections, and the limit on open files); "
                f"{advice}"
            )
        network = network_of(address)
        if address is not None and self._by_network[network] >= self._most_per_address:
            raise TooManyConnectionsError(
                f"{self._most_per_address} connections from {network} are open (setting "
                f"max_connections_per_address); {advice}"
            )
        self._count += 1
        self._by_network[network] += 1

    def leave(self, address: str | None) -> None:
        """Count a connection no longer.

        Args:
            address: As it entered.
        """
        self._count -= 1
        network = network_of(address)
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]

    def turn_away(self) -> bool:
        """Note a connection that was refused, and say whether there is room to tell its client so."""
        self._turned_away += 1
        return self._turned_away <= TURNED_AWAY_AT_ONCE

    def forget(self) -> None:
        """Note that a connection which was refused is closed."""
        self._turned_away -= 1


def network_of(address: str | None) -> str:
    """Return what connections from one place have in common: an IPv4 address, or the /64 of an IPv6 one.

    Args:
        address: As the socket names it.
    """
    if address is None or ":" not in address:
        return address or ""
    parsed = ipaddress.IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    whole = ipaddress.IPv6Address(int(parsed)).compressed
    return str(ipaddress.IPv6Network((whole, IPV6_NETWORK), strict=False))


def raise_file_limit(limits: ConnectionLimits) -> int:
    """Let the process open as many files as its connections need, as far as the system allows.

    Args:
        limits: How many connections there may be.

    Returns:
        How many files it may open now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + FILES_BESIDE
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with contextlib.suppress(ValueError, OSError):  # some systems name a higher limit than they grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
