"""What a resource is, and what makes one: two small interfaces, one file for each kind behind them.

A resource is something that lives beside an episode and that tools and rewards share: a simulator, a browser,
a database. The pool that hands them out knows nothing of what is inside.
"""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any, Protocol

from ors_server.resources.spec import ResourceSpec


class ResourceStatus(StrEnum):
    """Where a resource is in its life. The names are AgentFly's."""

    PENDING = "pending"
    """Made, not started, or starting."""
    RUNNING = "running"
    """Can be used."""
    SUCCESS = "success"
    """Came to its end by itself, as a job does."""
    FAILED = "failed"
    """Gave way; it is never handed out again."""
    STOPPED = "stopped"
    """Was ended."""


class Resource(ABC):
    """One resource. The names of the methods are AgentFly's.

    What it wraps is reached through further methods of the subclass, all of them awaited.
    """

    resource_id: str
    """Told apart from every other by this."""
    category: str
    """Kind of thing; its spec's."""

    @abstractmethod
    async def start(self) -> None:
        """Bring it to life. Called once, within the spec's `start_timeout`.

        Raises:
            ResourceUseError: What is to be started does not exist.
            Exception: Whatever the wrapped thing raises.
        """

    @abstractmethod
    async def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Bring it back to its beginning; called without arguments before another holder gets it."""

    @abstractmethod
    async def get_status(self) -> ResourceStatus:
        """Return where it is in its life."""

    @abstractmethod
    async def is_healthy(self) -> bool:
        """Look whether it could be used right now. Called before another holder gets it."""

    @abstractmethod
    async def control(self, command: str, *args: Any, **kwargs: Any) -> Any:
        """Do something that is named by a string."""

    @abstractmethod
    async def end(self) -> None:
        """End it and free what it holds. A second call does nothing."""

    async def close(self) -> None:
        """End it: another name for `end`."""
        await self.end()

    async def memory_used(self) -> int | None:
        """Return the bytes of memory that it takes; `None` if that is not known."""
        return None


class ResourceBackend(Protocol):
    """Makes resources of one kind of place: this process, containers, another machine."""

    def make(self, spec: ResourceSpec, resource_id: str) -> Resource:
        """Make a resource that has not started. Does no work that could take long.

        Raises:
            ResourceUseError: The backend does not know specs of this class.
        """
        ...
