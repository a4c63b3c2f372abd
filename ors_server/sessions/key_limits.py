"""What one API key may use, and the rate of its calls."""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ors_server.model.errors import CapacityError

MINUTE: Final = 60.0
MAX_BUCKETS: Final = 10_000
"""Credentials whose rates are remembered; one more makes the server forget the one that was idle longest.
The addresses of a public server are credentials, and one client may have many of them."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What one API key may use; `None` where the server's limit holds."""

    sessions: int | None = None
    """Live sessions; it replaces the limit that all keys have."""
    calls_per_minute: int | None = None
    """Tool calls of its sessions, those of their agents included."""

    def share(self, hosts: int) -> "KeyLimits":
        """Return one host's share of limits that several hosts have together, at least 1 of each."""
        return KeyLimits(
            None if self.sessions is None else max(1, self.sessions // hosts),
            None if self.calls_per_minute is None else max(1, self.calls_per_minute // hosts),
        )


NO_KEY_LIMITS: Final = KeyLimits()

LimitsOf: TypeAlias = Callable[[str | None], KeyLimits]
"""Returns the limits of a credential by its id."""


VISITOR_PREFIX: Final = "visitor:"
"""Prefix of the ids of visitors: callers without a credential on a public server, by their addresses."""


def name_credential(credential_id: str) -> str:
    """Return what a message calls a credential: visitors know their address, and not their id."""
    return "your address" if credential_id.startswith(VISITOR_PREFIX) else f"the API key {credential_id!r}"


def no_key_limits(_credential_id: str | None) -> KeyLimits:
    """Return no limits, for servers whose keys have none."""
    return NO_KEY_LIMITS


class CallRates:
    """Admits the tool calls of each credential at its rate: a bucket that a minute fills.

    A credential that was idle may make a minute's calls at once, and continues at its rate.
    """

    def __init__(self, limits_of: LimitsOf = no_key_limits) -> None:
        self._limits_of = limits_of
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Credential to the calls that were left, and when."""

    def admit(self, credential_id: str, now: float) -> None:
        """Count a call that is about to begin.

        Args:
            now: Seconds from the clock's origin.

        Raises:
            CapacityError: If the credential has made its calls of the minute; nothing is counted then.
        """
        allowed = self._limits_of(credential_id).calls_per_minute
        if allowed is None:
            return
        left, then = self._buckets.get(credential_id, (float(allowed), now))
        left = min(float(allowed), left + (now - then) * allowed / MINUTE)
        if left < 1.0:
            wait = math.ceil((1.0 - left) * MINUTE / allowed)
            raise CapacityError(
                f"{name_credential(credential_id)} may make {allowed} calls per minute; the call did not "
                f"run: repeat it in {wait} s",
                retry_after=max(1, wait),
            )
        self._buckets[credential_id] = (left - 1.0, now)
        self._buckets.move_to_end(credential_id)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
