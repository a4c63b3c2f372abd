"""Describes what a backend isolates, by which means, and what it does not. Data only."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any


class IsolatedResource(StrEnum):
    """A resource that a sandbox may isolate."""

    FILES = "files"
    """The host's files: data sets, sources, secrets."""
    SESSIONS = "sessions"
    """Other sessions' files."""
    PROCESSES = "processes"
    """Seeing, signalling and tracing outside processes."""
    NETWORK = "network"
    """Connections to anything, the server included."""
    MEMORY = "memory"
    PIDS = "pids"
    DISK = "disk"
    CPU = "cpu"


class Strength(IntEnum):
    """The strength of a backend; the server chooses the strongest that works."""

    NONE = 0
    """Nothing is isolated."""
    PARTIAL = 1
    """The kernel refuses by rule (Landlock, seccomp, limits); some things stay visible."""
    OWN_UID = 2
    """As `PARTIAL`, and each session has its own uid."""
    NAMESPACES = 3
    """Only what belongs to the session is visible to it."""


@dataclass(frozen=True)
class IsolationReport:
    """The isolated resources, the means, and the gaps; recorded with every episode."""

    backend: str
    """The backend's name, such as `bubblewrap`."""
    strength: Strength
    """What the isolation prevents, as a level."""
    isolated: MappingProxyType[IsolatedResource, str]
    """IsolatedResource to the means that isolates it, such as `"network namespace"`."""
    gaps: tuple[str, ...] = ()
    """The gaps, one sentence each."""
    loopback: bool = False
    """Whether a process inside can reach a server inside."""
    images: str | None = None
    """How an image becomes a session's root; `None` if that was not tried, or does not work."""
    images_refused: str | None = None
    """Why no session can have an image; `None` if that was not tried, or works."""

    def isolates(self, resource: IsolatedResource) -> bool:
        """Return whether the resource is isolated."""
        return resource in self.isolated

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON types; a resource that is not isolated is null."""
        tried = self.images is not None or self.images_refused is not None
        return {
            **({"images": {"root": self.images, "refused": self.images_refused}} if tried else {}),
            "backend": self.backend,
            "level": int(self.strength),
            "isolates": {resource.value: self.isolated.get(resource) for resource in IsolatedResource},
            "gaps": list(self.gaps),
            "loopback": self.loopback,
        }
