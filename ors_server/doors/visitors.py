"""Visitors: callers without a credential on a public server, distinguished by their addresses alone.

An address is the peer's, unless the peer is a proxy that the operator trusts: then it is the last entry of
X-Forwarded-For that no trusted proxy wrote. What is before that entry came from the client, who may
write anything there.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ors_server.doors.http.connection_limits import network_of
from ors_server.model.errors import SettingsError
from ors_server.sessions.key_limits import KeyLimits

FORWARDED_FOR = b"x-forwarded-for"
MAX_PROXIES = 16
"""Trusted proxies in a row; entries before them are not read."""

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Visitors:
    """What a caller without a key may do on a public server."""

    limits: KeyLimits
    """Of each address."""
    proxies: tuple[_Network, ...] = ()
    """The proxies that are trusted."""

    @classmethod
    def read(cls, limits: KeyLimits, proxies: Iterable[str]) -> "Visitors":
        """Read addresses and networks of proxies; `SettingsError` for anything else."""
        networks: list[_Network] = []
        for text in proxies:
            try:
                networks.append(ipaddress.ip_network(text.strip()))
            except ValueError as error:
                raise SettingsError(
                    f"trusted_proxies: expected an address or a network, such as 10.0.0.0/8, got {text!r:.80}"
                ) from error
        return cls(limits, tuple(networks))

    def network_of_client(self, scope: Mapping[str, Any]) -> str:
        """Return the network of the client of an ASGI request: an IPv4 address, or a /64 of IPv6."""
        peer: str | None = (scope.get("client") or (None,))[0]
        address = _read_address(peer or "")
        if address is None:
            return peer or ""  # a Unix socket: all of its clients share the limits
        lines = [value.decode("latin-1") for name, value in scope["headers"] if name == FORWARDED_FOR]
        entries = ",".join(lines).rsplit(",", MAX_PROXIES)[-MAX_PROXIES:] if lines else []
        while entries and any(address in network for network in self.proxies):
            named = _read_address(entries.pop().strip())
            if named is None:
                break  # the proxy names no address: the client counts as the proxy itself
            address = named
        return network_of(str(address))


def _read_address(text: str) -> _Address | None:
    """Read an address, with or without a port; an IPv4 address that is written as IPv6 is IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or ipaddress.IPv6Address(int(address))
    return address
