"""Counts sessions, those being made included, so that no limit is passed by asking for many at once."""

from collections import Counter, OrderedDict
from dataclasses import dataclass

from ors_server.errors import CapacityError

IDS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How many sessions may live, and for how long unused."""

    sessions: int = 10_000
    """In all."""
    sessions_per_environment: int | None = None
    sessions_per_credential: int | None = None
    idle_seconds: float = 900.0
    """Seconds without a request after which a session expires; the reference implementation's figure."""
    reap_seconds: float = 5.0
    """Seconds between two looks for expired sessions."""


class Quotas:
    """Admits sessions within the limits."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._all = 0
        self._by_environment: Counter[str] = Counter()
        self._by_credential: Counter[str] = Counter()

    def add(self, environment: str, credential_id: str | None) -> None:
        """Count a session that is about to be made."""
        limits = self._limits
        _check(self._all, limits.sessions, "the server")
        alive = self._by_environment[environment]
        _check(alive, limits.sessions_per_environment, f"environment {environment!r}")
        if credential_id is not None:
            _check(self._by_credential[credential_id], limits.sessions_per_credential, "this credential")
            self._by_credential[credential_id] += 1
        self._all += 1
        self._by_environment[environment] += 1

    def remove(self, environment: str, credential_id: str | None) -> None:
        """Count a session no more."""
        self._all -= 1
        self._by_environment[environment] -= 1
        if credential_id is not None:
            self._by_credential[credential_id] -= 1
            if not self._by_credential[credential_id]:
                del self._by_credential[credential_id]


def _check(alive: int, limit: int | None, what: str) -> None:
    if limit is not None and alive >= limit:
        raise CapacityError(f"{what} is at maximum capacity ({limit} sessions); retry later")


class RecentIds:
    """Ids of which something is remembered, as long as not many others come after."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, an_id: str) -> bool:
        return an_id in self._ids

    def add(self, an_id: str) -> None:
        """Remember one, and forget the oldest of too many."""
        self._ids[an_id] = None
        if len(self._ids) > IDS_KEPT:
            self._ids.popitem(last=False)

    def discard(self, an_id: str) -> None:
        """Forget one, if it is remembered."""
        self._ids.pop(an_id, None)
