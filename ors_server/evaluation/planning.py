"""Turns what somebody wishes to have evaluated into a run; a run that goes on stays the same."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from secrets import token_hex
from typing import Any

from ors_server.deprecation import deprecated_names
from ors_server.evaluation.agents.base import ChecksTarget, EvaluationAgent
from ors_server.evaluation.budgets import UsageBudget
from ors_server.evaluation.runner import RunError
from ors_server.evaluation.runs import Run
from ors_server.evaluation.seeds import SEEDS
from ors_server.evaluation.targets import Target
from ors_server.wire import JSONObject, Split

WISH = "wish"
"""Where a run's configuration keeps what was wished for."""
TEST = "test"
_find_old = deprecated_names(
    __name__, {"Wish": "ors_server.evaluation.planning:RunOptions"}, removed_in="0.3"
)
MOST_NAME = 80
"""Characters of a run's name before its time."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is to be played; `None` leaves a setting to its default, or to the run that goes on."""

    target: str | None = None
    environment: str | None = None
    agent: str | None = None
    """As `choose_agent` reads it."""
    agent_options: JSONObject | None = None
    split: str | None = None
    tasks: str | None = None
    """Places in the split: numbers and slices such as `0:100`, separated by commas; all by default."""
    limit: int | None = None
    """Most tasks, the first of the chosen ones."""
    attempts: int | None = None
    """At each task; 1 by default."""
    seed: int | None = None
    """0 by default."""
    success_at: float | None = None
    """1.0 by default."""
    steps: int | None = None
    """Of each attempt, as the three that follow."""
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    policy: JSONObject | None = None
    """Overrides of the environment's policy."""

    @property
    def budget(self) -> UsageBudget:
        """What each attempt may use up.

        Raises:
            BudgetError: If a limit is not a positive number.
        """
        return UsageBudget(self.steps, self.tokens, self.cost, self.seconds)


async def plan_run(wish: RunOptions, target: Target, agent: JSONObject, now: datetime) -> Run:
    """Make a run of a wish.

    Args:
        wish: What is wished for.
        target: Where it is played.
        agent: What the agent says of itself.
        now: The time, UTC.

    Raises:
        RunError: If the wish makes no sense.
        OrsServerError: If the target cannot be asked.
    """
    split = choose_split(await target.splits(), wish.split)
    indices = choose_tasks(wish.tasks, await target.num_tasks(split), wish.limit)
    whole = replace(
        wish,
        target=target.name,
        environment=target.environment,
        split=split,
        attempts=1 if wish.attempts is None else wish.attempts,
        seed=0 if wish.seed is None else wish.seed,
        success_at=1.0 if wish.success_at is None else wish.success_at,
    )
    _check(whole)
    name = _safe(f"{target.environment}-{agent.get('name', 'agent')}")[:MOST_NAME]
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
        config={WISH: {name: value for name, value in asdict(whole).items() if value is not None}},
    )


def wish_of(run: Run) -> RunOptions:
    """Return what was wished for when a run began.

    Args:
        run: The run.

    Raises:
        RunError: If it was not begun by a wish.
    """
    known = {field.name for field in fields(RunOptions)}
    kept: Mapping[str, Any] = run.config.get(WISH) or {}
    if not kept or not set(kept) <= known:
        raise RunError(f"the run {run.run_id} does not say how it was begun, so it cannot go on")
    return RunOptions(**kept)


def go_on(run: Run, wish: RunOptions) -> RunOptions:
    """Return the wish of a run that goes on, provided that what is said now says the same.

    Args:
        run: The run.
        wish: What is said now.

    Raises:
        RunError: If something differs.
    """
    begun = wish_of(run)
    differences = [
        f"{field.name.replace('_', ' ')} was {_shown(getattr(begun, field.name))} and is now {_shown(now)}"
        for field in fields(RunOptions)
        if (now := getattr(wish, field.name)) is not None and now != getattr(begun, field.name)
    ]
    if differences:
        raise RunError(
            f"the run {run.run_id} goes on only as it was begun: {'; '.join(differences)}; leave that out, "
            "or begin a new run"
        )
    return begun


def check_same(run: Run, target: Target, agent: JSONObject) -> None:
    """See to it that target and agent are those with which a run was begun.

    Args:
        run: The run.
        target: Where it would go on.
        agent: What the agent says of itself.

    Raises:
        RunError: If something differs.
    """
    was, now = run.versions.get("environment"), target.versions.get("environment")
    if run.environment != target.environment or was != now:
        raise RunError(
            f"the run {run.run_id} played {run.environment!r}, version {was}; here is "
            f"{target.environment!r}, version {now}: begin a new run"
        )
    if run.agent != agent:
        raise RunError(f"the run {run.run_id} was played by {run.agent}, not by {agent}: begin a new run")


async def check_agent(agent: EvaluationAgent, target: Target) -> None:
    """Refuse a run of which no attempt could be played, before the first one begins.

    Args:
        agent: Who plays.
        target: Where.

    Raises:
        AgentSettingsError: If the agent says so: there is no gold, key, package or program.
    """
    if isinstance(agent, ChecksTarget):
        await agent.check(target)


def choose_split(splits: Sequence[Split], name: str | None) -> str:
    """Return the split that is meant: the one that is named, else that for tests, else the only one.

    Args:
        splits: The environment's.
        name: What was said.

    Raises:
        RunError: If there is no such split, or it is not clear which one.
    """
    names = [split.name for split in splits]
    if name is not None:
        if name not in names:
            raise RunError(f"there is no split {name!r}; there are {', '.join(names)}")
        return name
    if TEST in names:
        return TEST
    tests = [split.name for split in splits if split.type == TEST]
    found = tests or names
    if len(found) == 1:
        return found[0]
    raise RunError(f"name a split: {', '.join(names)}")


def choose_tasks(text: str | None, size: int, limit: int | None = None) -> tuple[int, ...]:
    """Return the places of the tasks that are meant, in order, each once.

    Args:
        text: Numbers and slices with Python's rules, separated by commas; `None` for all.
        size: How many tasks the split has.
        limit: Most tasks.

    Raises:
        RunError: If that cannot be read, or means no task.
    """
    found: dict[int, None] = {}
    for part in (":" if text is None else text).split(","):
        found |= dict.fromkeys(_places(part.strip(), size))
    chosen = tuple(found)[: limit if limit is None else max(0, limit)]
    if not chosen:
        raise RunError(f"no task is left of {size}: --tasks {text or ':'}, --limit {limit}")
    return chosen


def _places(part: str, size: int) -> range:
    try:
        numbers = [int(word) if word.strip() else None for word in part.split(":")]
        if len(numbers) == 1 and numbers[0] is not None:
            return _one(numbers[0], size)
        return range(*slice(*numbers).indices(size)) if 1 < len(numbers) <= len("abc") else _unreadable(part)
    except (ValueError, TypeError):
        return _unreadable(part)


def _one(index: int, size: int) -> range:
    place = index + size if index < 0 else index
    if not 0 <= place < size:
        raise RunError(f"there is no task {index}; the split has {size}")
    return range(place, place + 1)


def _unreadable(part: str) -> range:
    raise RunError(f"tasks are numbers and slices such as 0:100 or 3,5,9, not {part!r}")


def _check(wish: RunOptions) -> None:
    if (wish.attempts or 0) < 1:
        raise RunError(f"each task is attempted at least once, not {wish.attempts} times")
    if not 0 <= (wish.seed or 0) < SEEDS:
        raise RunError(f"a seed is a number from 0 to 2**53 - 1, not {wish.seed}")
    _ = wish.budget


def _safe(text: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in text).strip("-.")


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)


def __getattr__(name: str) -> object:
    return _find_old(name)
