"""Proves environments of other packages: baselines play them, the shipped checks judge them, twice alike."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from ors_server.conformance.ors_manifest import Level
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import define
from ors_server.environments.sources import FORCE, Source
from ors_server.evaluation.agents.base import AgentSettingsError
from ors_server.evaluation.evaluating import evaluate
from ors_server.evaluation.folder import read_attempts
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.planning import RunOptions
from ors_server.evaluation.runner import RunControls
from ors_server.evaluation.runs import Attempt
from ors_server.model.errors import OrsServerError
from ors_server.model.wire import JSONObject
from ors_server.testing.environment_subject import spread
from ors_server.testing.environment_suite import inspect_environment
from ors_server.testing.local_client import open_environment

AGENTS = ("oracle", "noop", "random")
_NO_GOLD = "has no actions for the task"
TASKS = 3
"""Tasks that each agent plays by default."""


@dataclass(frozen=True, slots=True)
class ReturnFigures:
    """Returns of one agent."""

    mean: float
    least: float
    greatest: float
    episodes: int


@dataclass(frozen=True, slots=True)
class ImportProof:
    """What is known of one environment after it was played."""

    reference: str
    name: str
    """Under which it is served."""
    version: str
    tasks: dict[str, int]
    """Number of tasks by split."""
    tools: tuple[str, ...]
    returns: dict[str, ReturnFigures | None]
    """By agent; `None` for an oracle without gold actions."""
    is_repeatable: bool
    """Whether prompts, and the returns of random calls with one seed, were the same twice."""
    checks: dict[str, int]
    """Number of checks of the suite by outcome: `pass`, `fail`, `skip`."""
    problems: tuple[str, ...]
    """What failed; empty if the environment can be relied on."""
    remarks: tuple[str, ...]
    """Checks that failed and that an environment only should pass."""

    def describe(self) -> JSONObject:
        """Return it as JSON."""
        return asdict(self)


async def prove(
    source: Source,
    name: str,
    *,
    tasks: int = TASKS,
    on_progress: Callable[[str], None] = lambda _: None,
) -> ImportProof:
    """Play and check one environment of a source, a broken one too.

    Args:
        tasks: Tasks of the split for tests that each agent plays, and tasks per split of the checks.
        on_progress: Called with a description of what begins.

    Raises:
        OrsServerError: If it cannot be made.
    """
    reference = f"{source.name}/{name}{FORCE if name in source.broken else ''}"
    on_progress(f"{reference}: loading")
    definition = define(await anyio.to_thread.run_sync(lambda: source.load(name, is_forced=True)))
    problems: list[str] = []
    played = {agent: await _play(definition, agent, tasks, on_progress, problems) for agent in AGENTS}
    # Once more with the same seed; problems were already reported by the first time.
    again = await _play(definition, "random", tasks, on_progress, [])
    prompts = [await _prompts(definition, tasks, problems) for _ in range(2)]
    is_repeatable = prompts[0] == prompts[1] and _outcomes(played["random"]) == _outcomes(again)
    if not is_repeatable:
        problems.append("the same seed gave other prompts or returns the second time")
    report = await inspect_environment(
        definition, tasks_per_split=tasks, on_progress=lambda text: on_progress(f"{reference}: {text}")
    )
    outcomes = [verdict.outcome for verdict in report.verdicts]
    failed = list(report.failed())
    problems += [str(verdict) for verdict in failed if verdict.check.level is Level.MUST]
    sizes = {split.name: await definition.tasks.num_tasks(split.name) for split in definition.splits}
    return ImportProof(
        reference,
        definition.name,
        definition.version,
        sizes,
        tuple(tool.name for tool in definition.listing.tools),
        {agent: _figures(attempts) for agent, attempts in played.items()},
        is_repeatable,
        {outcome: outcomes.count(outcome) for outcome in ("pass", "fail", "skip")},
        tuple(problems),
        tuple(str(verdict) for verdict in failed if verdict.check.level is not Level.MUST),
    )


async def _play(
    definition: EnvironmentDefinition,
    agent: str,
    tasks: int,
    on_progress: Callable[[str], None],
    problems: list[str],
) -> list[Attempt]:
    on_progress(f"{definition.name}: {agent}")
    split = _test_split(definition)
    size = await definition.tasks.num_tasks(split)
    options = RunOptions(split=split, tasks=",".join(map(str, spread(size, tasks))))
    with tempfile.TemporaryDirectory(prefix="ors-import-") as folder:
        try:
            async with open_local_target(definition) as target:
                await evaluate(target, agent, Path(folder) / "run", options, RunControls(concurrency=1))
        except AgentSettingsError:  # no gold actions
            return []
        attempts = list(read_attempts(Path(folder) / "run"))
    # An oracle without actions for single tasks is not a failure of the environment.
    errors = [
        attempt.error
        for attempt in attempts
        if attempt.error and "has no actions for the task" not in attempt.error
    ]
    if errors:
        problems.append(f"{len(errors)} of {len(attempts)} episodes of the {agent} failed: {errors[0]}")
    return sorted(attempts, key=lambda attempt: attempt.index)


def _test_split(definition: EnvironmentDefinition) -> str:
    tests = [split.name for split in definition.splits if split.type == "test"]
    return (tests or [split.name for split in definition.splits])[0]


async def _prompts(definition: EnvironmentDefinition, tasks: int, problems: list[str]) -> list[str]:
    split = _test_split(definition)
    prompts: list[str] = []
    async with open_environment(definition) as client:
        for index in spread(await definition.tasks.num_tasks(split), tasks):
            try:
                session = await client.create(split=split, index=index, seed=0)
                prompts.append(await session.prompt())
            except OrsServerError as error:
                problems.append(f"the prompt of task {index} failed: {error}")
    return prompts


def _outcomes(attempts: Sequence[Attempt]) -> list[tuple[int, float | None, int]]:
    return [(attempt.index, attempt.episode_return, attempt.steps) for attempt in attempts]


def _figures(attempts: Sequence[Attempt]) -> ReturnFigures | None:
    returns = [attempt.episode_return for attempt in attempts if attempt.episode_return is not None]
    if not returns:
        return None
    return ReturnFigures(sum(returns) / len(returns), min(returns), max(returns), len(returns))
