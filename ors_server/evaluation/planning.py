"""Turns options into a run; a run that is resumed keeps its options."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from secrets import token_hex
from typing import Any

from ors_server.deprecation import deprecated_names
from ors_server.evaluation.agents.base import SOURCE, ChecksTarget, EvaluationAgent
from ors_server.evaluation.attempt_runner import RUN_LABELS
from ors_server.evaluation.budgets import UsageBudget
from ors_server.evaluation.runner import RunError
from ors_server.evaluation.runs import OPTIONS_KEY, Run, version_differences
from ors_server.evaluation.targets import Target
from ors_server.model.trajectory import SEEDS
from ors_server.model.wire import JSONObject, Split
from ors_server.rewards.reward_errors import RewardDefinitionError

TEST = "test"
_find_old = deprecated_names(
    __name__, {"Wish": "ors_server.evaluation.planning:RunOptions"}, removed_in="0.3"
)
MAX_NAME = 80
"""Characters of a run's name before its time."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to play; `None` selects the default, or the value of the run that is resumed."""

    target: str | None = None
    environment: str | None = None
    agent: str | None = None
    """As `choose_agent` reads it."""
    agent_options: JSONObject | None = None
    split: str | None = None
    tasks: str | None = None
    """Indices: numbers and slices such as `0:100`, separated by commas; all by default."""
    limit: int | None = None
    """Maximum number of tasks; the first of `tasks` are taken."""
    attempts: int | None = None
    """At each task; 1 by default."""
    seed: int | None = None
    """0 by default."""
    success_at: float | None = None
    """1.0 by default."""
    steps: int | None = None
    """Budget of each attempt, like the three below."""
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    policy: JSONObject | None = None
    """Overrides of the environment's policy."""
    labels: Mapping[str, str] | None = None
    """Labels of every episode, in addition to `RUN_LABELS`, which the run sets itself."""

    @property
    def budget(self) -> UsageBudget:
        """The budget of each attempt; raises `BudgetError` if a limit is not a positive number."""
        return UsageBudget(self.steps, self.tokens, self.cost, self.seconds)


async def plan_run(options: RunOptions, target: Target, agent: JSONObject, now: datetime) -> Run:
    """Return a new run; `agent` is the agent's description of itself.

    Raises:
        RunError: If the options contradict each other or the target.
        OrsServerError: If the target does not answer.
    """
    split = choose_split(await target.splits(), options.split)
    indices = choose_tasks(options.tasks, await target.num_tasks(split), options.limit)
    whole = replace(
        options,
        target=target.name,
        environment=target.environment,
        split=split,
        attempts=1 if options.attempts is None else options.attempts,
        seed=0 if options.seed is None else options.seed,
        success_at=1.0 if options.success_at is None else options.success_at,
    )
    _check(whole)
    # The run's id is also the name of its folder.
    title = f"{target.environment}-{agent.get('name', 'agent')}"
    name = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in title).strip("-.")[:MAX_NAME]
    return Run(
        run_id=f"{name}-{now:%Y%m%d-%H%M%S}-{token_hex(3)}",
        agent=agent,
        target=target.name,
        environment=target.environment,
        split=split,
        indices=indices,
        attempts=whole.attempts or 1,
        seed=whole.seed or 0,
        success_at=whole.success_at if whole.success_at is not None else 1.0,
        started_at=now,
        versions=dict(target.versions),
        config={OPTIONS_KEY: {name: value for name, value in asdict(whole).items() if value is not None}},
    )


def options_of(run: Run) -> RunOptions:
    """Return the options with which a run was started; raises `RunError` if it does not have them."""
    names = {field.name for field in fields(RunOptions)}
    options: Mapping[str, Any] = run.config.get(OPTIONS_KEY) or {}
    # A run of a newer version may have options that this version does not know, and would ignore.
    if not options or not set(options) <= names:
        raise RunError(f"the run {run.run_id} does not record its options, so it cannot be resumed")
    return RunOptions(**options)


def resume_options(run: Run, options: RunOptions) -> RunOptions:
    """Return the options of a resumed run; raises `RunError` if one that is given again differs."""
    begun = options_of(run)
    differences = [
        f"{field.name.replace('_', ' ')} was {_shown(getattr(begun, field.name))} and is now {_shown(now)}"
        for field in fields(RunOptions)
        if (now := getattr(options, field.name)) is not None and now != getattr(begun, field.name)
    ]
    if differences:
        raise RunError(
            f"the run {run.run_id} is resumed with the options of its start only: {'; '.join(differences)}; "
            "leave these options out, or begin a new run"
        )
    return begun


def check_same(run: Run, target: Target, agent: JSONObject) -> None:
    """Check that target and agent are those of a run; raises `RunError` if not."""
    was, now = run.versions.get("environment"), target.versions.get("environment")
    if run.environment != target.environment or was != now:
        raise RunError(
            f"the run {run.run_id} played {run.environment!r}, version {was}; here is "
            f"{target.environment!r}, version {now}: begin a new run"
        )
    differences = version_differences([run.versions, target.versions])
    if differences:
        # Other versions of packages may grade otherwise; their attempts belong into another run.
        raise RunError(
            f"the run {run.run_id} was played with other versions than those here ({differences}), and their "
            "results would be mixed: install the versions of its start, or begin a new run"
        )
    if SOURCE not in run.agent:  # a run of an earlier version does not record the hash of its agent's file
        agent = {key: value for key, value in agent.items() if key != SOURCE}
    if run.agent != agent and {**run.agent, SOURCE: None} == {**agent, SOURCE: None}:
        raise RunError(
            f"the file of the agent {agent.get('name')} has changed since the run {run.run_id} began, and "
            "the results of two agents would be mixed: restore the file, or begin a new run"
        )
    if run.agent != agent:
        raise RunError(f"the run {run.run_id}: expected its agent {run.agent}, got {agent}; begin a new run")


async def check_agent(agent: EvaluationAgent, target: Target) -> None:
    """Check that the agent can play at the target at all.

    Raises:
        AgentSettingsError: If gold actions, a key, a package or a program are missing.
    """
    if isinstance(agent, ChecksTarget):
        await agent.check(target)


def check_reward(target: Target) -> None:
    """Check that the reward of an environment in this process can judge; a server's is not known.

    Raises:
        RunError: If a package or a judge is missing without which it judges nothing.
    """
    reward = None if target.definition is None else target.definition.reward
    if reward is None:
        return
    try:
        reward.check_usable({})
    except RewardDefinitionError as error:
        raise RunError(f"{reward.name} cannot judge any attempt: {error}") from error


def choose_split(splits: Sequence[Split], name: str | None) -> str:
    """Return the named split, else that for tests, else the only one; raises `RunError` without one."""
    names = [split.name for split in splits]
    if name is not None:
        if name not in names:
            raise RunError(f"unknown split {name!r}: expected one of {', '.join(names)}")
        return name
    if TEST in names:
        return TEST
    tests = [split.name for split in splits if split.type == TEST]
    candidates = tests or names
    if len(candidates) == 1:
        return candidates[0]
    raise RunError(f"name a split: {', '.join(names)}")


def choose_tasks(text: str | None, size: int, limit: int | None = None) -> tuple[int, ...]:
    """Return the indices of tasks, in the given order, each once, at most `limit`.

    Args:
        text: Numbers and slices with Python's rules, separated by commas; `None` for all.
        size: Number of tasks of the split.

    Raises:
        RunError: If the text cannot be read, or selects no task.
    """
    indices: dict[int, None] = {}
    for part in (":" if text is None else text).split(","):
        indices |= dict.fromkeys(_indices_of(part.strip(), size))
    chosen = tuple(indices)[: limit if limit is None else max(0, limit)]
    if not chosen:
        selection = [
            *([] if text is None else [f"--tasks {text}"]),
            *([] if limit is None else [f"--limit {limit}"]),
        ]
        why = f"{' and '.join(selection)} select none" if selection and size else "the split is empty"
        raise RunError(f"no task is left: {why} of the {size} tasks; they are numbered from 0")
    return chosen


def _indices_of(part: str, size: int) -> range:
    try:
        numbers = [int(word) if word.strip() else None for word in part.split(":")]
        if len(numbers) == 1 and numbers[0] is not None:
            return _single(numbers[0], size)
        return range(*slice(*numbers).indices(size)) if 1 < len(numbers) <= len("abc") else _unreadable(part)
    except (ValueError, TypeError):
        return _unreadable(part)


def _single(index: int, size: int) -> range:
    position = index + size if index < 0 else index
    if not 0 <= position < size:
        raise RunError(f"unknown task {index}: the split has {size}, numbered from 0")
    return range(position, position + 1)


def _unreadable(part: str) -> range:
    raise RunError(f"tasks must be numbers and slices such as 0:100 or 3,5,9, got {part!r}")


def _check(options: RunOptions) -> None:
    if (options.attempts or 0) < 1:
        raise RunError(f"attempts must be at least 1, got {options.attempts}")
    if not 0 <= (options.seed or 0) < SEEDS:
        raise RunError(f"a seed must be between 0 and 2**53 - 1, got {options.seed}")
    own = sorted(RUN_LABELS & set(options.labels or {}))
    if own:
        raise RunError(f"a label must have another name than {', '.join(sorted(RUN_LABELS))}, got {own[0]}")
    # The property checks the limits.
    _ = options.budget


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)


def __getattr__(name: str) -> object:
    return _find_old(name)
