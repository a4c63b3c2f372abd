"""Counts sessions and calls, sessions being made included, so that no limit is passed by asking at once."""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ors_server.errors import CapacityError

IDS_KEPT = 10_000
MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What one API key may use; `None` for no limit of its own."""

    sessions: int | None = None
    """Live sessions; it replaces the limit that all keys have."""
    calls_per_minute: int | None = None
    """Tool calls of its sessions, those of their agents included."""


NO_KEY_LIMITS: Final = KeyLimits()

LimitsOf: TypeAlias = Callable[[str | None], KeyLimits]
"""Returns the limits of a credential by its id."""


def no_key_limits(_credential_id: str | None) -> KeyLimits:
    """Return no limits, for servers whose keys have none."""
    return NO_KEY_LIMITS


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

    def __init__(self, limits: SessionLimits, limits_of: LimitsOf = no_key_limits) -> None:
        self._limits = limits
        self._limits_of = limits_of
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
            own = self._limits_of(credential_id).sessions
            allowed = limits.sessions_per_credential if own is None else own
            _check(self._by_credential[credential_id], allowed, "this credential")
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


class CallRates:
    """Admits the tool calls of each credential at its rate: a bucket that a minute fills.

    A credential that was idle may make a minute's calls at once, and then goes on at its rate.
    """

    def __init__(self, limits_of: LimitsOf = no_key_limits) -> None:
        self._limits_of = limits_of
        self._buckets: dict[str, tuple[float, float]] = {}
        """Credential to the calls that were left, and when."""

    def admit(self, credential_id: str | None, now: float) -> None:
        """Count a call that is about to begin.

        Args:
            now: Seconds from the clock's origin.

        Raises:
            CapacityError: If the credential has made its calls of the minute; nothing is counted then.
        """
        allowed = self._limits_of(credential_id).calls_per_minute
        if credential_id is None or allowed is None:
            return
        left, then = self._buckets.get(credential_id, (float(allowed), now))
        left = min(float(allowed), left + (now - then) * allowed / MINUTE)
        if left < 1.0:
            wait = math.ceil((1.0 - left) * MINUTE / allowed)
            raise CapacityError(
                f"the API key {credential_id!r} may make {allowed} calls per minute; the call did not run: "
                f"repeat it in {wait} s",
                retry_after=max(1, wait),
            )
        self._buckets[credential_id] = (left - 1.0, now)


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
