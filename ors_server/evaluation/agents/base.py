"""The interface of agents."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.targets import Target
from ors_server.model.errors import ClientError
from ors_server.model.wire import JSONObject

SOURCE = "source"
"""Key of an agent's description: the version of its code."""


class AgentError(ClientError):
    """An agent cannot play, or failed while it played; the attempt has no return."""

    code = "agent"


class AgentSettingsError(ClientError):
    """The options of an agent are wrong, or it cannot play here."""

    code = "agent_settings"


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What an agent returns after an attempt."""

    stop_reason: str = "agent"
    """Why the agent stopped, if the episode was not over; words joined by `_`."""
    tokens_in: int | None = None
    """Tokens that a model read, if they were not reported by `AgentSession.spend`."""
    tokens_out: int | None = None
    cost: float | None = None


@runtime_checkable
class ChecksTarget(Protocol):
    """An agent that checks before a run whether it can play at all."""

    async def check(self, target: Target) -> None:
        """Raise `AgentSettingsError` if something that every attempt needs is missing; play nothing."""
        ...


class InSessionAgent:
    """The base of agents that play through the session and keep nothing open."""

    plays_outside = False

    async def aclose(self) -> None:
        """Close nothing."""


@runtime_checkable
class EvaluationAgent(Protocol):
    """Plays attempts, many at the same time."""

    plays_outside: bool
    """Whether calls bypass the agent's session, so that the episode must enforce a budget of steps."""

    def describe(self) -> JSONObject:
        """Return the agent's `kind`, `name` and options for the record; no secrets."""
        ...

    async def play(self, session: AgentSession) -> AgentReport:
        """Play one attempt until the episode is over or the agent stops.

        Raises:
            BudgetSpentError: If the attempt has used up its budget; an agent does not catch it.
            Exception: Any other one makes the attempt errored.
        """
        ...

    async def aclose(self) -> None:
        """Close every resource."""
        ...
