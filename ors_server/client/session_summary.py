"""The server's authoritative figures of an episode, as a client reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ors_server.client.client_errors import BrokenAnswerError, UnjudgedError
from ors_server.model.errors import NotSupportedError
from ors_server.model.failures import EpisodeFailure, FailureKind, failure_of
from ors_server.model.trajectory import EpisodeSummary
from ors_server.model.wire import JSONObject

_LIVE = frozenset({"created", "ready", "playing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(EpisodeSummary):
    """The authoritative figures of an episode, and which episode it is."""

    session_id: str
    episode_id: str | None = None
    """Id of the record."""
    environment: str
    environment_version: str = ""
    """The version that the class states."""
    split: str | None = None
    """`None` if the task was given by value."""
    index: int | None = None
    """Position of the task in its split, from 0; `None` if the task was given by value."""
    seed: int | None = None
    """Seed of the environment's random generator."""
    task_hash: str = ""
    """SHA-256 of the task's canonical JSON."""
    policy: JSONObject = field(default_factory=dict[str, Any])
    """The rules in force."""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    """Names that the creator gave: a run, an attempt, a group."""
    pending_steps: int = 0
    """Played steps that are not recorded yet; the figures count them."""
    created_at: datetime | None = None  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleVariableOverride]  # a server may not state it
    """UTC."""

    @property
    def is_over(self) -> bool:
        """Whether no further call will ever run."""
        return self.phase not in _LIVE

    @property
    def why_unjudged(self) -> str | None:
        """Why the episode has no return, in words; `None` if it has one, or has not ended."""
        if self.unjudged_steps:
            return (
                f"a judgement failed in {self.unjudged_steps} of {self.steps} steps, so that the episode has "
                f"no return; `ors-server episodes show {self.episode_id or self.session_id}` names the reason"
            )
        if self.stop_reason == "completed" and self.last_reward is None:
            return "the environment ended the episode without a reward: it could not be graded"
        return None

    @property
    def failure(self) -> EpisodeFailure | None:
        """What failed, at which stage, and whether the return is valid; `None` while the episode is open."""
        return failure_of(self)

    @property
    def why_invalid(self) -> str | None:
        """Why nothing should train on the return, in words; `None` if it is valid so far.

        An open episode counts as one that its agent gave up: it earned what it was paid.
        """
        failure = self.failure
        if self.failed_steps or self.phase == "failed":
            kind = FailureKind.STEP_FAILED if failure is None else failure.kind
            if kind is not FailureKind.JUDGEMENT_FAILED:
                return f"{kind}: the environment's own code failed"
        if self.why_unjudged is not None:
            return self.why_unjudged
        if failure is None or failure.valid:
            return None
        return f"{failure.kind}: the episode ended as {self.stop_reason}"

    def check_valid(self) -> None:
        """Raise `UnjudgedError` if nothing should train on the return."""
        reason = self.why_invalid
        if reason is not None:
            raise UnjudgedError(reason)

    def check_judged(self) -> None:
        """Raise `UnjudgedError` if the episode has no return."""
        reason = self.why_unjudged
        if reason is not None:
            raise UnjudgedError(reason)

    @classmethod
    def of(cls, session: Mapping[str, Any]) -> "Summary":
        """Read a session's JSON of the control API or the MCP extension; unknown names are ignored.

        Raises:
            NotSupportedError: If it has no figures of an episode.
            BrokenAnswerError: If the figures do not have their form.
        """
        episode = session.get("episode")
        if not isinstance(episode, Mapping):
            raise NotSupportedError("the server's answer about the session has no figures of its episode")
        try:
            return _reader().validate_python({**session, **episode})
        except ValidationError as error:
            raise BrokenAnswerError(f"the server's figures of the episode cannot be read: {error}") from error


@cache
def _reader() -> TypeAdapter[Summary]:
    return TypeAdapter(Summary)
