"""Counts the slots of one spec's resources and queues requests for them, first come, first served. Pure."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

import anyio

from ors_server.resources.resource import Resource
from ors_server.resources.resource_errors import ResourceUseError
from ors_server.resources.spec import ResourceSpec


@dataclass(eq=False, slots=True)
class Slot:
    """One of the resources that the spec's maximum allows."""

    resource: Resource | None = None
    """`None` if it has ended or is not created yet."""
    uses: int = 0
    """Holders that the resource has had."""


@dataclass(eq=False, slots=True)
class SlotRequest:
    """A request for a slot."""

    slot: Slot | None = None
    """The slot, once it is granted."""
    decided: anyio.Event = field(default_factory=anyio.Event)
    """Set when the slot is granted, or the request is rejected because the pool closes."""


@dataclass(eq=False, slots=True)
class SlotQueue:
    """All slots of one spec on one backend."""

    key: Hashable
    spec: ResourceSpec
    backend: str
    cap: int
    """Most slots: the spec's maximum, or this pool's share of it."""
    idle: list[Slot] = field(default_factory=list[Slot])
    """Slots with unheld resources; the last one that was released is used first."""
    total: int = 0
    """Slots that are taken: idle, held, starting and ending."""
    requests: deque[SlotRequest] = field(default_factory=deque[SlotRequest])

    def ask(self) -> SlotRequest:
        """Request a slot; it may be granted at once."""
        request = SlotRequest()
        self.requests.append(request)
        self._grant()
        return request

    def withdraw(self, request: SlotRequest) -> None:
        """Remove a request that is not decided yet."""
        if request in self.requests:
            self.requests.remove(request)

    def reserve(self, size: int) -> list[Slot]:
        """Take this many empty slots at once, or raise `ResourceUseError`."""
        if not 0 <= size <= self.cap - self.total:
            raise ResourceUseError(
                f"{size} more of {self.spec.label} cannot be started: there are {self.total} of at most "
                f"{self.cap}"
            )
        self.total += size
        return [Slot() for _ in range(size)]

    def put_back(self, slot: Slot) -> None:
        """Make the resource in a slot available to others."""
        self.idle.append(slot)
        self._grant()

    def drop(self) -> None:
        """Give up a slot, whose resource has ended or was never created."""
        self.total -= 1
        self._grant()

    def dismiss(self) -> list[Slot]:
        """Reject all requests, and return the idle slots."""
        while self.requests:
            self.requests.popleft().decided.set()
        idle, self.idle = self.idle, []
        return idle

    def _grant(self) -> None:
        while self.requests and (self.idle or self.total < self.cap):
            request = self.requests.popleft()
            if self.idle:
                request.slot = self.idle.pop()
            else:
                self.total += 1
                request.slot = Slot()
            request.decided.set()
