"""The interfaces of a resource and of its backend.

A resource is something outside an episode that tools and rewards share: a simulator, a browser, a database.
"""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any, Protocol

from ors_server.resources.spec import ResourceSpec


class ResourceStatus(StrEnum):
    """The phase of a resource's life. The names are AgentFly's."""

    PENDING = "pending"
    """Made, not started, or starting."""
    RUNNING = "running"
    """Can be used."""
    SUCCESS = "success"
    """Ended by itself, as a job does."""
    FAILED = "failed"
    """Failed; it is never used again."""
    STOPPED = "stopped"
    """Was ended."""


class Resource(ABC):
    """One resource. The names of the methods are AgentFly's; a subclass adds its own, all of them async."""

    resource_id: str
    """Unique in its pool."""
    category: str
    """The kind of resource, as its spec names it."""

    @abstractmethod
    async def start(self) -> None:
        """Start it; called once, within the spec's `start_timeout`. May raise anything."""

    @abstractmethod
    async def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Restore its initial state; called without arguments before another holder gets it."""

    @abstractmethod
    async def get_status(self) -> ResourceStatus:
        """Return the phase of its life."""

    @abstractmethod
    async def is_healthy(self) -> bool:
        """Return whether it can be used now; called before another holder gets it."""

    @abstractmethod
    async def control(self, command: str, *args: Any, **kwargs: Any) -> Any:
        """Run a command of the resource's own."""

    @abstractmethod
    async def end(self) -> None:
        """End it and free its memory, files and processes. A second call does nothing."""

    async def close(self) -> None:
        """End it: another name for `end`."""
        await self.end()

    async def memory_used(self) -> int | None:
        """Return the bytes of memory that it uses; `None` if that is not known."""
        return None


class ResourceBackend(Protocol):
    """Creates resources in one kind of place: this process, containers, another machine."""

    def make(self, spec: ResourceSpec, resource_id: str) -> Resource:
        """Return at once a resource that is not started; ResourceUseError for an unknown class of specs."""
        ...
