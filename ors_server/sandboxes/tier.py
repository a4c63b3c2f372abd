"""What a backend isolates, by which means, and what it does not. Pure data."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any


class Resource(StrEnum):
    """What a sandbox may or may not keep apart."""

    FILES = "files"
    """The host's files: data sets, sources, secrets."""
    SESSIONS = "sessions"
    """Other sessions' files."""
    PROCESSES = "processes"
    """Seeing, signalling and tracing processes outside."""
    NETWORK = "network"
    """Reaching anything by a socket, the server included."""
    MEMORY = "memory"
    PIDS = "pids"
    DISK = "disk"
    CPU = "cpu"


class Strength(IntEnum):
    """How strong a backend is; a larger one wins when the server chooses."""

    NONE = 0
    """Nothing is isolated."""
    PARTIAL = 1
    """The kernel refuses by rule (Landlock, seccomp, limits); some things stay visible."""
    OWN_UID = 2
    """As `PARTIAL`, with a uid of its own per session."""
    NAMESPACES = 3
    """What is not the session's does not exist for it."""


@dataclass(frozen=True)
class TierReport:
    """What is isolated, by which means, and what is not: recorded with every episode."""

    backend: str
    strength: Strength
    held: MappingProxyType[Resource, str]
    """Resource to the means that holds it, e.g. `"network namespace"`."""
    gaps: tuple[str, ...] = ()
    """What is not held, one sentence each."""
    loopback: bool = False
    """Whether a server inside can be reached from inside."""

    def holds(self, resource: Resource) -> bool:
        """Tell whether the resource is isolated.

        Args:
            resource: What is asked about.
        """
        return resource in self.held

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON: every resource with its means, or null where it is open."""
        return {
            "backend": self.backend,
            "level": int(self.strength),
            "isolates": {resource.value: self.held.get(resource) for resource in Resource},
            "gaps": list(self.gaps),
            "loopback": self.loopback,
        }
