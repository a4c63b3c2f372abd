"""Why attempts failed: the reasons, grouped, with the number of attempts of each."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ors_server.evaluation.number_format import count_of
from ors_server.evaluation.runs import Attempt

MOST_REASONS = 5
"""Reasons that are shown; the others are counted."""
MOST_CHARACTERS = 300
"""Characters of one reason that are shown."""
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+")
"""Addresses, ids and numbers: reasons that differ only in these are one."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Attempts that failed for the same reason."""

    reason: str
    """As the first of them has it."""
    count: int
    first: Attempt
    """By its place in the run."""

    def describe(self) -> str:
        """Return the reason and where it came up first, in one line."""
        reason = self.reason if len(self.reason) <= MOST_CHARACTERS else f"{self.reason[:MOST_CHARACTERS]}…"
        place = f"{self.first.split}/{self.first.index}, attempt {self.first.attempt}"
        return f"{reason}; first at {place}"


def group_failures(attempts: Iterable[Attempt]) -> list[FailureGroup]:
    """Group the attempts that errored by their reason, the most frequent first.

    Args:
        attempts: Any; those that did not error are left out.
    """
    members: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.error is not None:
            members.setdefault(_VARYING.sub("#", attempt.error), []).append(attempt)
    groups = [_grouped(found) for found in members.values()]
    return sorted(groups, key=lambda group: (-group.count, group.first.place))


def _grouped(members: list[Attempt]) -> FailureGroup:
    first = min(members, key=lambda attempt: attempt.place)
    return FailureGroup(first.error or "", len(members), first)


def failure_lines(attempts: Iterable[Attempt], played: int) -> list[str]:
    """Return one line per reason, at most `MOST_REASONS`, and one that counts the rest.

    Args:
        attempts: As for `group_failures`.
        played: Attempts in all.
    """
    groups = group_failures(attempts)
    lines = [
        f"{group.count:,} of {played:,} attempts failed: {group.describe()}"
        for group in groups[:MOST_REASONS]
    ]
    rest = groups[MOST_REASONS:]
    if rest:
        count = count_of(sum(group.count for group in rest), "attempt")
        lines.append(f"{count} failed for {count_of(len(rest), 'other reason')}")
    return lines
