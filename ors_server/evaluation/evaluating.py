"""Evaluations from Python: what `ors-server eval` does, for a program or a notebook."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ors_server.clock import SystemClock
from ors_server.evaluation.agents.agent_choice import choose_agent
from ors_server.evaluation.agents.base import EvaluationAgent
from ors_server.evaluation.agents.callable_agent import CallableAgent
from ors_server.evaluation.folder import RUN_FILE, RunFolder, read_run
from ors_server.evaluation.planning import RunOptions, check_agent, check_same, go_on, plan_run
from ors_server.evaluation.runner import RunControls, Runner
from ors_server.evaluation.runs import Run
from ors_server.evaluation.targets import Target
from ors_server.store.open import open_reader


async def evaluate(
    target: Target,
    agent: str | EvaluationAgent | Callable[..., Any],
    folder: str | Path,
    wish: RunOptions | None = None,
    conduct: RunControls | None = None,
) -> Run:
    """Play a run, or go on with the one in the folder.

    Args:
        target: Where it is played: what `open_local_target` or `open_server_target` gives.
        agent: Who plays: as for the command line, an agent (which stays open), or a callable that is given an
            `AgentSession`.
        folder: The run's; made, or holding a run that was begun with the same agent and wish.
        wish: Which tasks, how often, with what budget; every test task once by default.
        conduct: How many at a time, and what the whole run may use up.

    Returns:
        The run as it stands in its folder; `ors_server.evaluation.folder.read_attempts` reads the attempts.

    Raises:
        RunError: If the wish makes no sense, or the folder's run is another one.
        AgentSettingsError: If there is no such agent.
        OrsServerError: If the target cannot be asked.
        OSError: If an outcome cannot be written.
    """
    wish, written = wish or RunOptions(), RunFolder(folder)
    player, is_own = await _player(agent, wish)
    try:
        if (written.path / RUN_FILE).exists():
            run = read_run(folder)
            wish = go_on(run, wish)
            check_same(run, target, player.describe())
            await check_agent(player, target)
        else:
            run = await plan_run(wish, target, player.describe(), SystemClock().now())
            await check_agent(player, target)
            written.begin(run)
        return await Runner(target, player, written, conduct).play(run, wish.budget, wish.policy)
    finally:
        if is_own:
            await player.aclose()


async def _player(
    agent: str | EvaluationAgent | Callable[..., Any], wish: RunOptions
) -> tuple[EvaluationAgent, bool]:
    """Return the agent, and whether it was made here."""
    options = wish.agent_options or {}
    if isinstance(agent, str):
        return await choose_agent(agent, options, open_reader), True
    if isinstance(agent, EvaluationAgent):
        return agent, False
    name = f"{agent.__module__}:{getattr(agent, '__qualname__', type(agent).__qualname__)}"
    return CallableAgent(agent, name, options), True
