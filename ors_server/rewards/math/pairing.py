"""Comparison of members without an order."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Member = TypeVar("Member")


def can_pair(
    gold: Sequence[Member], answer: Sequence[Member], same: Callable[[Member, Member], bool]
) -> bool:
    """Return whether each member of one side has its own equal member of the other."""
    left = list(answer)
    for item in gold:
        match_index = next((index for index, other in enumerate(left) if same(item, other)), None)
        if match_index is None:
            return False
        del left[match_index]
    return not left
