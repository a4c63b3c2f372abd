"""Baselines that need no model: the best play, no play, and play by chance."""

from collections.abc import Sequence
from random import Random

from typing_extensions import override

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport, AgentSettingsError
from ors_server.evaluation.agents.random_arguments import draw_arguments
from ors_server.evaluation.targets import Actions, Target
from ors_server.wire import JSONObject, TerminalToolSpec, ToolListing

GOLD = "gold_actions"
BLANK = "blank_actions"
RANDOM_STEPS = 10
"""Calls after which the random agent gives up, unless it is told otherwise."""


class _Scripted:
    """What baselines share: they hold nothing."""

    plays_outside = False
    kind = ""

    def describe(self) -> JSONObject:
        """Return the baseline's name."""
        return {"kind": self.kind, "name": self.kind}

    async def aclose(self) -> None:
        """Nothing is held."""


class OracleAgent(_Scripted):
    """Makes the calls that the environment's author says earn the most: its class's `gold_actions`."""

    kind = "oracle"

    async def check(self, target: Target) -> None:
        """Refuse a target whose gold is not known here.

        Args:
            target: Where the run is to be played.

        Raises:
            AgentSettingsError: If it is not known.
        """
        if not target.knows_actions(GOLD):
            raise AgentSettingsError(self._lack(target.environment, target.name))

    def _lack(self, environment: str, name: str) -> str:
        if name.startswith(("http://", "https://")):
            return (
                f"the oracle agent plays environments of this process, and {name} is a server, which tells "
                f"nobody its gold: evaluate the environment by its name, module or path"
            )
        return f"the oracle agent needs `{GOLD}(task_spec)`, and {environment} does not define it"

    async def play(self, session: AgentSession) -> AgentReport:
        """Make the gold calls.

        Raises:
            AgentError: If nobody here knows them: the class has none, or the target is another server.
        """
        actions = await session.known_actions(GOLD)
        if actions is None:
            raise AgentError(self._lack(session.environment, session.target_name))
        return await make_calls(session, actions)


class NoopAgent(_Scripted):
    """Does no work.

    It makes the calls of the class's `blank_actions` where there are any, such as a blank submission. Where
    nobody knows them it says nothing to a terminal tool; where there is none it leaves without a call.
    """

    kind = "noop"

    async def play(self, session: AgentSession) -> AgentReport:
        """Do no work."""
        actions = await session.known_actions(BLANK)
        if actions is None:
            last = (await session.tools()).terminal_tool
            actions = [] if last is None else [(last.name, final_message(last, ""))]
        return await make_calls(session, actions)


class RandomAgent(_Scripted):
    """Calls random tools with random arguments that their schemas allow, drawn from the attempt's seed."""

    kind = "random"

    def __init__(self, steps: int = RANDOM_STEPS) -> None:
        """Set the length.

        Args:
            steps: Calls after which it gives up, at least 1.

        Raises:
            AgentSettingsError: If it could make none.
        """
        if steps < 1:
            raise AgentSettingsError(f"the random agent makes at least 1 call, not {steps}")
        self._steps = steps

    @override
    def describe(self) -> JSONObject:
        return {**super().describe(), "steps": self._steps}

    async def play(self, session: AgentSession) -> AgentReport:
        """Play by chance."""
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
    """Make calls in order until the episode is over.

    Args:
        actions: The calls.
    """
    for tool, arguments in actions:
        if session.is_over:
            break
        await session.call(tool, arguments)
    return AgentReport()


def final_message(tool: TerminalToolSpec, text: str) -> JSONObject:
    """Return the arguments with which a terminal tool takes an agent's last message.

    Args:
        tool: The tool.
        text: The message.
    """
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
