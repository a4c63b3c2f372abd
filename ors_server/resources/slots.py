"""Places for the resources of one spec: how many there are, who waits for one. Pure: nothing is awaited here.

Whoever waits longest gets the next place. A newcomer never overtakes.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

import anyio

from ors_server.resources.resource import Resource
from ors_server.resources.resource_errors import ResourceUseError
from ors_server.resources.spec import ResourceSpec


@dataclass(eq=False, slots=True)
class Slot:
    """One place under the cap."""

    resource: Resource | None = None
    """Who is in it; `None` if nobody is, or not yet."""
    uses: int = 0
    """Holders that the resource has had."""


@dataclass(eq=False, slots=True)
class Ticket:
    """Somebody's claim to a place."""

    slot: Slot | None = None
    """The place, once it is granted."""
    called: anyio.Event = field(default_factory=anyio.Event)
    """Set when the place is granted, or when none ever will be."""


@dataclass(eq=False, slots=True)
class Shelf:
    """All places for one spec on one backend."""

    key: Hashable
    spec: ResourceSpec
    backend: str
    idle: list[Slot] = field(default_factory=list[Slot])
    """With resources that nobody holds; the last one that came back is the first to go out."""
    total: int = 0
    """Places that are taken: idle, held, starting and ending."""
    queue: deque[Ticket] = field(default_factory=deque[Ticket])

    @property
    def is_unused(self) -> bool:
        """Whether nothing is there and nobody waits."""
        return self.total == 0 and not self.queue

    def ask(self) -> Ticket:
        """Claim a place; the ticket says whether it is granted."""
        ticket = Ticket()
        self.queue.append(ticket)
        self._grant()
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Take back a claim that was not granted; one that was dismissed is none any more."""
        if ticket in self.queue:
            self.queue.remove(ticket)

    def reserve(self, size: int) -> list[Slot]:
        """Take empty places at once.

        Raises:
            ResourceUseError: There are not so many.
        """
        room = self.spec.max_global_num - self.total
        if size < 0 or size > room:
            raise ResourceUseError(
                f"{size} more of {self.spec.label} cannot be started: {self.total} of at most "
                f"{self.spec.max_global_num} are there"
            )
        self.total += size
        return [Slot() for _ in range(size)]

    def put_back(self, slot: Slot) -> None:
        """Take in a resource that nobody holds any more."""
        self.idle.append(slot)
        self._grant()

    def drop(self) -> None:
        """Give up a place, whose resource has ended or never was."""
        self.total -= 1
        self._grant()

    def dismiss(self) -> list[Slot]:
        """Send everybody away who waits, and hand over what is idle."""
        while self.queue:
            self.queue.popleft().called.set()
        idle, self.idle = self.idle, []
        return idle

    def _grant(self) -> None:
        while self.queue and (self.idle or self.total < self.spec.max_global_num):
            ticket = self.queue.popleft()
            if self.idle:
                ticket.slot = self.idle.pop()
            else:
                self.total += 1
                ticket.slot = Slot()
            ticket.called.set()
