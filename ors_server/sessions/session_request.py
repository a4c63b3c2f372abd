"""Requests for sessions and forks, and the status of a session."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ors_server.trajectory import EpisodeOrigin, EpisodeSummary, UserTurn
from ors_server.visibility import Visibility
from ors_server.wire import JSONObject

MAX_FORKS = 64
"""Most forks per request."""

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

    def as_json(self) -> dict[str, Any]:
        """Render the status with JSON types."""
        origin = self.origin
        return {
            **{name: getattr(origin, name) for name in _ORIGIN_SHOWN},
            "labels": dict(origin.labels),
            "packages": dict(origin.packages),
            "sandbox": origin.sandbox,
            "forked_from": None if origin.forked_from is None else asdict(origin.forked_from),
            "visibility": self.visibility.value,
            "idle_seconds": self.idle_seconds,
            "running_calls": self.running_calls,
            "setup_error": self.setup_error,
            "pending_steps": self.pending_steps,
            "episode": self.summary.as_json(),
        }
