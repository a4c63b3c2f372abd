"""The order in which episodes are listed."""

from dataclasses import dataclass
from enum import StrEnum

BEYOND = 1e308
"""Stands for a value that is missing, so that such episodes come last in both directions."""


class OrderKey(StrEnum):
    """What episodes are ordered by; equals follow in the order of their creation."""

    CREATED = "created"
    RETURN = "return"
    STEPS = "steps"
    DURATION = "duration"
    """Seconds from the end of the setup to the end of the episode."""


@dataclass(frozen=True, slots=True)
class EpisodeSorting:
    """What episodes are ordered by, and in which direction."""

    key: OrderKey = OrderKey.CREATED
    descending: bool = True

    def __str__(self) -> str:
        """Return the order as text, one of `SORTS`."""
        return f"{'-' if self.descending else ''}{self.key}"

    @property
    def missing(self) -> float:
        """What a missing value counts as."""
        return -BEYOND if self.descending else BEYOND


NEWEST_FIRST = EpisodeSorting()
OLDEST_FIRST = EpisodeSorting(descending=False)

SORTS = tuple(f"{sign}{key}" for key in OrderKey for sign in ("", "-"))
"""Every order as text: the key, after a minus for a descending one."""


def parse_order(text: str) -> EpisodeSorting:
    """Read one of `SORTS`."""
    return EpisodeSorting(OrderKey(text.removeprefix("-")), descending=text.startswith("-"))
