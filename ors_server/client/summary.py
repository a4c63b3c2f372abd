"""The server's authoritative figures of an episode, as a client reads them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from ors_server.errors import NotSupportedError
from ors_server.wire import JSONObject

_LIVE = frozenset({"created", "ready", "playing"})


class Summary(BaseModel):
    """The authoritative figures of an episode, and which episode it is."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    session_id: str
    episode_id: str | None = None
    """Id of the record; no other episode ever has it."""
    environment: str
    environment_version: str = ""
    split: str | None = None
    index: int | None = None
    seed: int | None = None
    """What the environment draws its chances from."""
    task_hash: str = ""
    """SHA-256 of the task's canonical JSON."""
    policy: JSONObject = Field(default_factory=dict)
    """The rules in force."""
    labels: dict[str, str] = Field(default_factory=dict)

    phase: str
    steps: int
    episode_return: float = Field(alias="return")
    """Sum of the rewards of all steps, in step order."""
    withheld: float = 0.0
    """What was earned and charged and not paid yet, under a policy that pays at the end."""
    reward_sum: float = 0.0
    """The part of the return that tools paid."""
    penalty_sum: float = 0.0
    """The part that the policy charged; zero or negative."""
    penalties: dict[str, float] = Field(default_factory=dict)
    """The penalty sum by cause."""
    discounted_return: float = 0.0
    last_reward: float | None = None
    best_reward: float | None = None
    ungraded_steps: int = 0
    """Steps without a judgement."""
    failed_steps: int = 0
    """Steps in which the environment's own code failed."""
    pending_steps: int = 0
    """Steps that were played and that the server could not record yet; the figures count them."""
    stop_reason: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    last_call_at: datetime | None = None
    finished_at: datetime | None = None
    metrics: dict[str, float] = Field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether no further call will ever run."""
        return self.phase not in _LIVE

    @classmethod
    def of(cls, session: Mapping[str, Any]) -> Self:
        """Read what a server says of a session.

        Args:
            session: The session's JSON, as the control API or the MCP extension gives it.

        Raises:
            NotSupportedError: If there are no figures in it.
        """
        episode = session.get("episode")
        if not isinstance(episode, Mapping):
            raise NotSupportedError("the server's answer about the session has no figures of its episode")
        return cls.model_validate({**session, **episode})
