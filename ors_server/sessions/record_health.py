"""Whether the record can be written, as the latest writes of all sessions tell."""

from collections.abc import Generator
from contextlib import contextmanager

from ors_server.clock import Clock, SystemClock
from ors_server.errors import StoreError

REMEMBERED_SECONDS = 15.0
"""Seconds after a write that failed, and that none has followed, after which the next one is given a try."""


class RecordHealth:
    """Remembers the latest write that failed until one succeeds."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Start well."""
        self._clock = clock or SystemClock()
        self._failure: StoreError | None = None
        self._failed_at = 0.0

    @contextmanager
    def writing(self) -> Generator[None]:
        """Note what comes of a write."""
        try:
            yield
        except StoreError as error:
            self.fail(error)
            raise
        self.succeed()

    def succeed(self) -> None:
        """Note that a write succeeded."""
        self._failure = None

    def fail(self, error: StoreError) -> None:
        """Note that a write failed."""
        self._failure, self._failed_at = error, self._clock.monotonic()

    def check(self) -> None:
        """Check that the record could be written lately."""
        failure = self._failure
        if failure is not None and self._clock.monotonic() - self._failed_at < REMEMBERED_SECONDS:
            raise StoreError(f"the record cannot be written: {failure}")
