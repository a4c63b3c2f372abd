"""Sign-in of browsers: a key is exchanged for a short session, which a cookie names and the server revokes.

The cookie is opaque: 256 random bits, of which only the digest is kept. Every use looks the key up again, so
that a key that was removed or has expired signs its browsers out. The key itself is in memory as long as the
session, because other hosts of the server check it too.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from ors_server.doors.access import OPEN_CALLER, ApiKey, Caller, Keyring, Role
from ors_server.model.clock import Clock
from ors_server.model.errors import CapacityError, ForbiddenError, UnauthenticatedError

MAX_SECONDS = 8 * 3600.0
"""Seconds after which a browser has to sign in again in every case."""
IDLE_SECONDS = 3600.0
"""Seconds without a request after which a browser has to sign in again."""
MAX_BROWSERS = 1_000
"""Sessions that are kept; one more signs out the session that was used longest ago."""
FAILURES, FAILURE_SECONDS = 5, 60.0
"""Wrong keys that one address may send within so many seconds."""
MAX_ADDRESSES = 10_000
"""Addresses whose wrong keys are counted; one more makes the server forget the oldest."""


@dataclass(slots=True)
class BrowserSession:
    """A browser that is signed in, any browser on a server without keys, or one that has not signed in."""

    caller: Caller
    csrf: str
    """The token that each of its forms has to send back."""
    key: ApiKey | None = None
    """`None` on a server without keys."""
    ends_at: float = 0.0
    """Monotonic time."""
    used_at: float = 0.0
    credential: str | None = field(default=None, repr=False)
    """The key itself, which other hosts of the server are shown when they act for the browser."""
    is_anonymous: bool = False
    """Whether the browser has to sign in first."""


@dataclass(eq=False)
class BrowserSessions:
    """The browsers that are signed in."""

    keyring: Keyring
    clock: Clock
    _sessions: OrderedDict[bytes, BrowserSession] = field(
        default_factory=OrderedDict[bytes, BrowserSession], init=False
    )
    _failures: OrderedDict[str, list[float]] = field(
        default_factory=OrderedDict[str, list[float]], init=False
    )
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), init=False)

    def open_for(self, caller: Caller, *, is_anonymous: bool = False) -> BrowserSession:
        """Return the session of a caller without a key; all of them have one token for forms."""
        csrf = hmac.digest(self._secret, b"anonymous", "sha256").hex()
        return BrowserSession(caller, csrf, is_anonymous=is_anonymous)

    def sign_in(self, key: str, address: str) -> str:
        """Exchange a key for a session, and return the value of its cookie.

        Raises:
            CapacityError: If the address has sent too many wrong keys.
            UnauthenticatedError: If the key is unknown.
            ForbiddenError: If it is an agent's key or token.
        """
        now = self.clock.monotonic()
        failures = [time for time in self._failures.pop(address, ()) if time > now - FAILURE_SECONDS]
        try:
            caller = self._identify(key, len(failures))
        except (CapacityError, ForbiddenError, UnauthenticatedError) as refusal:
            # While the address has to wait, further attempts do not make it wait longer.
            self._failures[address] = failures if isinstance(refusal, CapacityError) else [*failures, now]
            while len(self._failures) > MAX_ADDRESSES:
                self._failures.popitem(last=False)
            raise
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = BrowserSession(
            caller, secrets.token_urlsafe(32), caller.key, now + MAX_SECONDS, now, key
        )
        while len(self._sessions) > MAX_BROWSERS:
            self._sessions.popitem(last=False)
        return cookie

    def _identify(self, key: str, failures: int) -> Caller:
        if failures >= FAILURES:
            raise CapacityError(
                f"{FAILURES} wrong keys within {FAILURE_SECONDS:.0f} seconds from this address; wait as long",
                retry_after=int(FAILURE_SECONDS),
            )
        caller = self.keyring.identify(key)
        # Agents' tokens and the server's own key are not configured keys, so they do not open the console.
        if caller.key is None or caller.role < Role.TRAINER:
            raise ForbiddenError(
                "an agent's credential does not open the console; use the key of a trainer or an admin"
            )
        return caller

    def find(self, cookie: str | None) -> BrowserSession:
        """Return the session that a cookie names, or that of a browser that has to sign in."""
        if self.keyring.is_open:
            return self.open_for(self.keyring.identify(None))
        session = self._sessions.get(_digest(cookie or ""))
        if session is None or not self.is_valid(session):
            self.sign_out(cookie)
            return self.open_for(OPEN_CALLER, is_anonymous=True)
        session.used_at = self.clock.monotonic()
        self._sessions.move_to_end(_digest(cookie or ""))
        return session

    def is_valid(self, session: BrowserSession) -> bool:
        """Return whether a session has not ended and its key is still accepted; it is not extended."""
        if self.keyring.is_open:
            return True
        now = self.clock.monotonic()
        is_over = now >= session.ends_at or now >= session.used_at + IDLE_SECONDS
        return session.key is not None and not is_over and self.keyring.accepts(session.key)

    def sign_out(self, cookie: str | None) -> None:
        """Revoke a session; an unknown cookie is ignored."""
        self._sessions.pop(_digest(cookie or ""), None)


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()
