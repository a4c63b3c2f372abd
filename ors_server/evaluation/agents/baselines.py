"""Baselines that need no model: the best actions, no actions, random actions."""

from collections.abc import Sequence
from random import Random

from typing_extensions import override

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport, AgentSettingsError, InSessionAgent
from ors_server.evaluation.agents.random_arguments import draw_arguments
from ors_server.evaluation.targets import Actions, Target
from ors_server.wire import JSONObject, TerminalToolSpec, ToolListing

GOLD = "gold_actions"
BLANK = "blank_actions"
RANDOM_STEPS = 10
"""Most calls of the random agent by default."""


class _Baseline(InSessionAgent):
    """What baselines share."""

    kind = ""

    def describe(self) -> JSONObject:
        """Return the baseline's name."""
        return {"kind": self.kind, "name": self.kind}


class OracleAgent(_Baseline):
    """Makes the calls of `gold_actions` of the environment's class, which earn the most."""

    kind = "oracle"

    async def check(self, target: Target) -> None:
        """Raise `AgentSettingsError` if the gold actions are not known here."""
        if not target.knows_actions(GOLD):
            raise AgentSettingsError(self._lack(target.environment, target.name))

    def _lack(self, environment: str, name: str, index: int | None = None) -> str:
        if name.startswith(("http://", "https://")):
            return (
                f"the oracle agent plays environments of this process, and {name} is a server, which does "
                f"not send its gold actions: evaluate the environment by its name, module or path"
            )
        if index is not None:
            return f"`{GOLD}(task_spec)` of {environment} has no actions for the task with the index {index}"
        return f"the oracle agent needs `{GOLD}(task_spec)`, and {environment} does not define it"

    async def play(self, session: AgentSession) -> AgentReport:
        """Make the gold calls; raises `AgentError` if they are not known here."""
        actions = await session.known_actions(GOLD)
        if actions is None:
            raise AgentError(self._lack(session.environment, session.target_name, session.index))
        return await make_calls(session, actions)


class NoopAgent(_Baseline):
    """Does no work.

    It makes the calls of the class's `blank_actions`, such as a blank submission. Without that method it
    sends an empty message to the terminal tool; without such a tool it makes no call.
    """

    kind = "noop"

    async def play(self, session: AgentSession) -> AgentReport:
        """Do no work."""
        actions = await session.known_actions(BLANK)
        if actions is None:
            last = (await session.tools()).terminal_tool
            actions = [] if last is None else [(last.name, final_message(last, ""))]
        return await make_calls(session, actions)


class RandomAgent(_Baseline):
    """Calls random tools with random arguments that their schemas allow, drawn from the attempt's seed."""

    kind = "random"

    def __init__(self, steps: int = RANDOM_STEPS) -> None:
        """Set the most calls; raises `AgentSettingsError` if that is less than 1."""
        if steps < 1:
            raise AgentSettingsError(f"the random agent makes at least 1 call, not {steps}")
        self._steps = steps

    @override
    def describe(self) -> JSONObject:
        return {**super().describe(), "steps": self._steps}

    async def play(self, session: AgentSession) -> AgentReport:
        """Play random tools with random arguments."""
        rng, listing = session.rng, await session.tools()
        for _ in range(self._steps):
            action = _draw(listing, rng)
            if action is None or session.is_over:
                break
            await session.call(*action)
        return AgentReport()


async def make_calls(
    session: AgentSession, actions: Actions | Sequence[tuple[str, JSONObject]]
) -> AgentReport:
    """Make calls in order until the episode is over."""
    for tool, arguments in actions:
        if session.is_over:
            break
        await session.call(tool, arguments)
    return AgentReport()


def final_message(tool: TerminalToolSpec, text: str) -> JSONObject:
    """Return the arguments with which a terminal tool receives an agent's last message."""
    return {} if tool.arg is None else {tool.arg: text}


def _draw(listing: ToolListing, rng: Random) -> tuple[str, JSONObject] | None:
    choices = [(tool.name, tool.input_schema) for tool in listing.tools]
    if listing.terminal_tool is not None:
        last = listing.terminal_tool
        part = final_message(last, "")
        schema = {"properties": {name: {"type": "string"} for name in part}, "required": list(part)}
        choices.append((last.name, {"type": "object", **schema}))
    if not choices:
        return None
    name, schema_or_none = rng.choice(choices)
    return name, draw_arguments(schema_or_none, rng)
