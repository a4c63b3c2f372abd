"""The time of an audit, shared out among its policies."""

import time
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from ors_server.audit.study import BudgetOverError


class TimeBudget:
    """Seconds that an audit may take; what runs when they are over is cancelled."""

    def __init__(self, seconds: float | None) -> None:
        """Begin to count.

        Args:
            seconds: All that may be spent; `None` for no limit.
        """
        self.deadline = float("inf") if seconds is None else time.monotonic() + seconds
        """On the monotonic clock."""

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit."""
        return max(self.deadline - time.monotonic(), 0.0)

    def share(self, parts: int) -> float:
        """Return the seconds of one of several parts that are still to come."""
        return self.left / parts

    @contextmanager
    def limit(self, seconds: float) -> Generator[None]:
        """Cancel the body after some seconds, and no later than at the end of the budget.

        Raises:
            BudgetOverError: If it was cancelled.
        """
        if self.left <= 0:
            raise BudgetOverError
        with anyio.move_on_after(min(seconds, self.left)) as scope:
            yield
        if scope.cancelled_caught:
            raise BudgetOverError
