"""What a run asks of an agent."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ors_server.errors import ClientError
from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.targets import Target
from ors_server.wire import JSONObject


class AgentError(ClientError):
    """An agent cannot play, or failed while it played; the attempt has no return."""

    code = "agent"


class AgentSettingsError(ClientError):
    """An agent cannot be made of what it was told."""

    code = "agent_settings"


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What an agent says of an attempt that it has played to the end."""

    stop_reason: str = "agent"
    """Why the agent stopped, where the episode was not over; one word, or several joined by `_`."""
    tokens_in: int | None = None
    """Tokens that a model read, where the session was not told already."""
    tokens_out: int | None = None
    cost: float | None = None


@runtime_checkable
class ChecksTarget(Protocol):
    """An agent that can say before a run that it could play none of its attempts."""

    async def check(self, target: Target) -> None:
        """Look at what is needed, and play nothing.

        Args:
            target: Where the run is to be played.

        Raises:
            AgentSettingsError: If every attempt would fail for want of something.
        """
        ...


@runtime_checkable
class EvaluationAgent(Protocol):
    """Plays attempts, many at the same time."""

    plays_outside: bool
    """Whether calls do not go through the agent's session, so that the episode must keep a limit on steps."""

    def describe(self) -> JSONObject:
        """Return what the agent is, for the record: `kind`, `name`, settings; no secrets."""
        ...

    async def play(self, session: AgentSession) -> AgentReport:
        """Play one attempt until the episode is over or the agent gives up.

        Raises:
            BudgetSpentError: If the attempt has used up what it was given; an agent lets it pass.
            Exception: Anything else: the attempt has errored.
        """
        ...

    async def aclose(self) -> None:
        """Let go of every resource."""
        ...
