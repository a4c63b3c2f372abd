"""Counts the requests of a process by door, for `/metrics`."""

from dataclasses import dataclass, field

from ors_server.doors.http.messages import Exchange
from ors_server.sessions.call_meters import SECONDS, Histogram

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})


class RequestCounter:
    """Counts the answers of one door to one method with one status."""

    __slots__ = ("answers", "seconds")

    def __init__(self) -> None:
        """Begin at zero."""
        self.answers = 0
        self.seconds = Histogram(SECONDS)
        """How long requests waited for the first byte of their answer."""


@dataclass(slots=True)
class HttpMeters:
    """Counts the requests of a process by door."""

    answers: dict[tuple[str, str, int], RequestCounter] = field(
        default_factory=dict[tuple[str, str, int], RequestCounter]
    )
    """Counts by door, method and status."""
    open_requests: int = 0
    """Requests that are being served, streams included."""

    def count(self, door: str, method: str, answer: Exchange, began: float) -> None:
        """Count a request that has ended, if it was answered.

        Args:
            began: When it came, by `time.perf_counter`.
        """
        self.open_requests -= 1
        if not answer.response_started:
            return
        counter = self.answers.get((door, method, answer.status))
        if counter is None:
            method = method if method in _METHODS else "other"
            counter = self.answers.setdefault((door, method, answer.status), RequestCounter())
        counter.answers += 1
        counter.seconds.add(answer.started_at - began)
