"""Closes the network of a process: its Python code reaches nothing but this machine."""

import ipaddress
import sys
from typing import Any, cast

CLOSED_NETWORK_VARIABLE = "ORS_AUDIT_CLOSED_NETWORK"
"""Environment variable with which an audited process starts without a network."""
_CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOKING_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})


class ClosedNetworkError(OSError):
    """Something outside of this machine was asked for in an audit without a network."""


def close_network() -> None:
    """Refuse connections to other machines and the look-up of their names, until the process ends."""
    # An audit hook sees every connection, also those of libraries written before the hook, and cannot be
    # removed: an author's code cannot open the network again.
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _CONNECTING | _LOOKING_UP:
        return
    address = arguments[1] if event in _CONNECTING else (arguments[0],)
    # Addresses of other kinds are files, such as those of Unix sockets.
    host: object = cast("tuple[object, ...]", address)[0] if isinstance(address, tuple) else None
    if host is not None and not is_own_machine(host):
        raise ClosedNetworkError(f"no connection to {host!r}: the audit plays without a network")


def is_own_machine(host: object) -> bool:
    """Return whether a host is this machine, by its name or a loopback address."""
    text = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
    # A zone, as in `fe80::1%eth0`, does not change whose address it is.
    if text.casefold() in {"", "localhost"}:
        return True
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
