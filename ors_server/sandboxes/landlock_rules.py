"""The Landlock rules of a session, as data for the launcher."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

System: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""System paths that may be read whole, and folders that may only be listed."""
_READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
    *("/etc/hosts", "/etc/localtime", "/etc/magic", "/etc/mime.types", "/etc/services", "/etc/protocols"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/vim"),
)
_USABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SYSTEM: System = (_READABLE, ())
"""All of it."""


def rules(
    system: System,
    *,
    read: Sequence[str | Path],
    write: Sequence[str | Path | None],
    use: Sequence[str | Path] = (),
) -> dict[str, list[str]]:
    """Return the launcher's rules: the system, harmless devices, the paths; `use` allows no new files."""
    readable, listed = system
    return {
        "list": list(listed),
        "read": [*readable, *map(str, read)],
        "use": [*_USABLE, *map(str, use)],
        "write": [str(path) for path in write if path is not None],
    }
