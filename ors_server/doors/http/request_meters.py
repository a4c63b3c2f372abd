"""Counts the requests of a process by door, for `/metrics`."""

from collections import defaultdict
from dataclasses import dataclass, field

from ors_server.sessions.call_meters import SECONDS, Histogram

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})


@dataclass(slots=True)
class HttpMeters:
    """Counts the requests of a process by door."""

    requests: dict[tuple[str, str, int], int] = field(
        default_factory=lambda: defaultdict[tuple[str, str, int], int](int)
    )
    """Number of answered requests by door, method and status."""
    seconds: dict[str, Histogram] = field(default_factory=dict[str, Histogram])
    """Seconds until the answer began, by door."""
    open_requests: int = 0
    """Requests that are being served, streams included."""

    def count(self, door: str, method: str, status: int, seconds: float) -> None:
        """Count an answer that begins."""
        self.requests[door, method if method in _METHODS else "other", status] += 1
        histogram = self.seconds.get(door)
        if histogram is None:
            histogram = self.seconds[door] = Histogram(SECONDS)
        histogram.add(seconds)
