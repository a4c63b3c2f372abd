"""The reasons of failed attempts, grouped and counted."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ors_server.evaluation.number_format import count_of
from ors_server.evaluation.runs import Attempt

MAX_REASONS = 5
"""Maximum number of reasons that are shown; the others are counted."""
MAX_CHARACTERS = 300
"""Maximum number of characters of one reason."""
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+")
"""Addresses, ids and numbers: reasons that differ only in these are the same."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Attempts that failed for the same reason."""

    reason: str
    """The reason of the first attempt."""
    count: int
    first: Attempt
    """The attempt with the lowest key."""

    def describe(self) -> str:
        """Return the reason and the first attempt's key, in one line."""
        reason = self.reason if len(self.reason) <= MAX_CHARACTERS else f"{self.reason[:MAX_CHARACTERS]}…"
        return f"{reason}; first at {self.first.key}"


def group_failures(attempts: Iterable[Attempt]) -> list[FailureGroup]:
    """Group the errored attempts by their reason, the most frequent first."""
    members: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.error is not None:
            members.setdefault(_VARYING.sub("#", attempt.error), []).append(attempt)
    groups: list[FailureGroup] = []
    for failed in members.values():
        first = min(failed, key=lambda attempt: attempt.key)
        groups.append(FailureGroup(first.error or "", len(failed), first))
    return sorted(groups, key=lambda group: (-group.count, group.first.key))


def failure_lines(attempts: Iterable[Attempt], played: int) -> list[str]:
    """Return one line per reason, at most `MAX_REASONS`, and one that counts the rest."""
    groups = group_failures(attempts)
    lines = [
        f"{group.count:,} of {played:,} attempts failed: {group.describe()}" for group in groups[:MAX_REASONS]
    ]
    rest = groups[MAX_REASONS:]
    if rest:
        count = count_of(sum(group.count for group in rest), "attempt")
        lines.append(f"{count} failed for {count_of(len(rest), 'other reason')}")
    return lines
