"""From returns to verdicts: shares of what the gold actions earn, thresholds, and which answers are chance.

The thresholds come from a trial with 26 planted flaws and 15 honest environments: at 0.25, two honest ones
failed; at 0.8, one flaw was missed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

FAIL_SHARE = 0.5
"""Share of the gold actions' return above which a policy has found a hole."""
CHANCE_MARGIN = 0.2
WARN_SHARE = 0.25
"""Share above which it may have found one."""
HOSTILE_WARN_SHARE = 0.4
"""The same for one of many hostile answers: some earn a part by accident, such as for their first letter."""
MIN_TASKS = 5
"""With fewer tasks, one answer may be right for all of them by accident."""
ASSUMED_MAX_RETURN = 1.0
"""The greatest return, where neither gold actions nor the class state it, as for a foreign server."""
TOLERANCE = 1e-9
"""Difference of two returns that may come from rounding."""


class AuditVerdict(StrEnum):
    """What the audit found out about one class."""

    FAIL = "fail"
    WARN = "warn"
    PASS = "pass"  # noqa: S105  (a verdict)
    NOT_JUDGED = "not_judged"

    @property
    def weight(self) -> int:
        """How bad it is; the worst has the greatest."""
        return _WEIGHTS[self]


_WEIGHTS = {AuditVerdict.NOT_JUDGED: 0, AuditVerdict.PASS: 1, AuditVerdict.WARN: 2, AuditVerdict.FAIL: 3}


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale on which returns are measured: `zero` is share 0, `full` share 1."""

    zero: float
    full: float

    @property
    def is_usable(self) -> bool:
        """Whether the gold actions earn more than the zero point."""
        return self.full - self.zero > TOLERANCE

    def share(self, earned: float) -> float:
        """Normalise a return by the gold return."""
        return (earned - self.zero) / (self.full - self.zero)


def judge_share(share: float, chance: float = 0.0, warn_at: float = WARN_SHARE) -> AuditVerdict:
    """Return the verdict on a policy's share.

    Args:
        chance: The share that guessing earns.
        warn_at: Share above which it may have found a hole.
    """
    # Guessing earns its share honestly: a class fails only clearly above it.
    limit = max(FAIL_SHARE, chance + CHANCE_MARGIN)
    if share >= limit - TOLERANCE:
        return AuditVerdict.FAIL
    if share >= max(warn_at, chance + CHANCE_MARGIN / 2) - TOLERANCE:
        return AuditVerdict.WARN
    return AuditVerdict.PASS


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number."""
    return math.fsum(values) / len(values)


def is_same(first: float, second: float) -> bool:
    """Return whether two returns are equal except for rounding."""
    return math.isclose(first, second, rel_tol=1e-9, abs_tol=TOLERANCE)


def chance_of(declared: float | None, choices: int, distinct: int, tasks: int) -> float:
    """Return the share that guessing earns.

    Args:
        declared: What the environment says.
        choices: Number of values that the tool's schema allows; 0 if it names none.
        distinct: Number of different gold answers; 0 if they are not known.
        tasks: Number of tasks. Where all have the same answer, that is not chance but a flaw.
    """
    if declared is not None:
        return declared
    if choices > 1:
        return 1 / choices
    # With nearly as many different answers as tasks, nothing can be guessed. Where all tasks have one
    # answer, guessing it earns everything, which is a flaw (H2) and not chance.
    if 1 < distinct <= tasks / 2:
        return 1 / distinct
    return 0.0
