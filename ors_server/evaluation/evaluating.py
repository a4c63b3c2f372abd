"""Evaluations from Python: what `ors-server eval` does, for a program or a notebook."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ors_server.evaluation.agents.agent_choice import choose_agent
from ors_server.evaluation.agents.base import EvaluationAgent
from ors_server.evaluation.agents.callable_agent import CallableAgent
from ors_server.evaluation.folder import RUN_FILE, RunFolder, read_run
from ors_server.evaluation.planning import RunOptions, check_agent, check_same, plan_run, resume_options
from ors_server.evaluation.runner import RunControls, Runner
from ors_server.evaluation.runs import Run
from ors_server.evaluation.targets import Target
from ors_server.model.clock import SystemClock
from ors_server.store.open import open_reader


async def evaluate(
    target: Target,
    agent: str | EvaluationAgent | Callable[..., Any],
    folder: str | Path,
    options: RunOptions | None = None,
    controls: RunControls | None = None,
) -> Run:
    """Play a new run, or resume the one in the folder, and return it as its folder has it.

    `ors_server.evaluation.folder.read_attempts` reads its attempts.

    Args:
        target: Made by `open_local_target` or `open_server_target`.
        agent: The text for `--agent`; an agent, which stays open; or a callable that takes an `AgentSession`.
        folder: The run's; new, or with a run of the same agent and options.
        options: Which tasks, how often, with which budget; every test task once by default.
        controls: Concurrency, and the budget of the whole run.

    Raises:
        RunError: If the options contradict each other, or the folder has another run.
        AgentSettingsError: If the agent is not known or cannot play here.
        OrsServerError: If the target does not answer.
        OSError: If a result cannot be written.
    """
    options, written = options or RunOptions(), RunFolder(folder)
    player, is_own = await _player(agent, options.agent_options or {})
    try:
        # A folder with a run resumes it, so that a program that is started again continues where it stopped.
        if (written.path / RUN_FILE).exists():
            run = read_run(folder)
            options = resume_options(run, options)
            check_same(run, target, player.describe())
            await check_agent(player, target)
        else:
            run = await plan_run(options, target, player.describe(), SystemClock().now())
            await check_agent(player, target)
            written.begin(run)
        runner = Runner(target, player, written, controls)
        return await runner.play(run, options.budget, options.policy, options.labels)
    finally:
        if is_own:
            await player.aclose()


async def _player(
    agent: str | EvaluationAgent | Callable[..., Any], options: Mapping[str, Any]
) -> tuple[EvaluationAgent, bool]:
    """Return the agent, and whether it was created here and must be closed."""
    if isinstance(agent, str):
        return await choose_agent(agent, options, open_reader), True
    if isinstance(agent, EvaluationAgent):
        return agent, False
    name = f"{agent.__module__}:{getattr(agent, '__qualname__', type(agent).__qualname__)}"
    return CallableAgent(agent, name, options), True
