"""Requests for sessions and forks, the status of a session, and the quotas that requests count against."""

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ors_server.model.errors import CapacityError
from ors_server.model.failures import failure_of
from ors_server.model.trajectory import EpisodeOrigin, EpisodeSummary, UserTurn
from ors_server.model.visibility import Visibility
from ors_server.model.wire import JSONObject
from ors_server.sessions.key_limits import VISITOR_PREFIX, LimitsOf, no_key_limits

IDS_KEPT = 10_000

CLIENT_SECRETS = frozenset({"api_key", "OPENREWARD_API_KEY"})
"""Names of the secrets that the `openreward` client sends by itself."""


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
            whose = "your address" if credential_id.startswith(VISITOR_PREFIX) else "this credential"
            _check(self._by_credential[credential_id], allowed, whose)
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


def _check(alive: int, limit: int | None, place: str) -> None:
    if limit is not None and alive >= limit:
        raise CapacityError(f"{place} is at maximum capacity ({limit} sessions); retry later")


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


MAX_FORKS = 64
"""Maximum number of forks per request."""

_ORIGIN_SHOWN = (
    *("session_id", "episode_id", "environment", "environment_version", "server_version", "task_hash"),
    *("split", "index", "policy", "credential_id", "seed", "toolset"),
)
"""Fields of an episode's origin that its session's status repeats."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A request for a session: a task by value, or by split and index."""

    environment: str | None = None
    """Name, in any case; `None` for the default environment."""
    session_id: str | None = None
    """The client's own id; `None` lets the server make one."""
    task_spec: JSONObject | None = field(default=None, repr=False)
    split: str | None = None
    index: int | None = None
    toolset: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Overrides of the environment's policy, by field name."""
    visibility: Visibility | None = None
    credential_id: str | None = None
    seed: int | None = None
    """What the environment draws its chances from, in [0, 2**53); `None` draws one."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the creator calls the episode; recorded, and never shown to the agent."""
    user_turns: Sequence[UserTurn] | None = field(default=None, repr=False)
    """What the simulated user repeats instead of answering, in a replay."""


def needs_secrets(request: SessionRequest) -> bool:
    """Return whether a session cannot be made again without its secrets, which no record has.

    The `openreward` client sends its own API key as two secrets with every creation. They are for services
    of its maker, so that a session is made again without them.
    """
    return not request.secrets.keys() <= CLIENT_SECRETS


_RECOGNISED = sorted({item.name for item in fields(SessionRequest)} - {"secrets", "user_turns"})
"""Fields of a request by which its repeat is recognised."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)


def creation_digest(request: SessionRequest) -> str | None:
    """Return a digest of a request by which a repeat of it is recognised.

    Returns:
        `None` if there is nothing to recognise: the server makes the id, or the session needs secrets, which
        no record has in any form.
    """
    if request.session_id is None or needs_secrets(request) or request.user_turns is not None:
        return None
    values = {name: getattr(request, name) for name in _RECOGNISED}
    try:
        text = _ENCODER.encode(values)
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A request for copies of a live session."""

    count: int = 1
    """How many."""
    snapshot_id: str | None = None
    """From when; from now by default."""
    credential_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session as a trainer sees it."""

    origin: EpisodeOrigin
    summary: EpisodeSummary
    visibility: Visibility
    idle_seconds: float | None
    """Seconds since the last request; `None` once the session is gone."""
    running_calls: int
    setup_error: str | None
    pending_steps: int = 0
    """Steps that were played and wait to be written; the summary counts them, the record has them later."""
    waits: bool = False
    """Whether an earlier server left it open, so that the next request that names it rebuilds it."""

    def as_json(self) -> dict[str, Any]:
        """Render the status with JSON types."""
        origin, failure = self.origin, failure_of(self.summary)
        return {
            **{name: getattr(origin, name) for name in _ORIGIN_SHOWN},
            "labels": dict(origin.labels),
            "packages": dict(origin.packages),
            "sandbox": origin.sandbox,
            "image": origin.image,
            "forked_from": None if origin.forked_from is None else asdict(origin.forked_from),
            "visibility": self.visibility.value,
            "idle_seconds": self.idle_seconds,
            "running_calls": self.running_calls,
            "setup_error": self.setup_error,
            "pending_steps": self.pending_steps,
            "waits": self.waits,
            "episode": {
                **self.summary.as_json(),
                "failure": None if failure is None else asdict(failure),
            },
        }
