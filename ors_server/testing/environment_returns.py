"""Checks the returns of gold and blank actions.

A return is compared with `return_range`, if the class declares one. Otherwise, a step that pays the end of
`policy.reward_range` is enough; else the return is compared with those of the other known actions.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from ors_server.conformance.expectations import NotApplicableError, NotMetError, expect
from ors_server.conformance.ors_manifest import Level
from ors_server.testing.environment_checks import requirement
from ors_server.testing.environment_subject import EnvironmentSubject, PlayedActions, Task

MAX_NAMED = 5
"""Most tasks that a verdict names."""
_MADE_UP = "made-up calls"

_Judge: TypeAlias = Callable[[EnvironmentSubject, Task, PlayedActions], Awaitable[None]]


@requirement(Level.MUST, "gold_actions earn the greatest return")
async def gold_earns_the_most(subject: EnvironmentSubject) -> None:
    await _check_each(subject, "gold_actions", _judge_gold)


@requirement(Level.MUST, "blank_actions earn no more than the least return")
async def blank_earns_the_least(subject: EnvironmentSubject) -> None:
    await _check_each(subject, "blank_actions", _judge_blank)


async def _check_each(subject: EnvironmentSubject, name: str, judge: _Judge) -> None:
    find = subject.known_actions(name)
    wrong: list[tuple[Task, NotMetError]] = []
    known = [(task, find(task.spec)) for task in await subject.known_tasks()]
    tasks = [(task, actions) for task, actions in known if actions is not None]
    if not tasks:
        raise NotApplicableError(f"{name} has no actions for any of {len(known)} tasks")
    for task, actions in tasks:
        try:
            await judge(subject, task, await subject.played(task, actions))
        except NotMetError as error:
            wrong.append((task, error))
    if wrong:
        more = f", and {len(wrong) - MAX_NAMED} more" if len(wrong) > MAX_NAMED else ""
        named = ", ".join(str(task) for task, _ in wrong[:MAX_NAMED])
        raise NotMetError(f"{len(wrong)} of {len(tasks)} tasks ({named}{more}); the first: {wrong[0][1]}")


async def _judge_gold(subject: EnvironmentSubject, task: Task, played: PlayedActions) -> None:
    earned, declared = played.summary.episode_return, subject.definition.return_range
    if declared is not None:
        greatest = declared[1]
        message = f"gold_actions return {earned:g}, not {greatest:g}, the most of return_range"
        expect(_is_same(earned, greatest), f"{message}: {played.results}")
        return
    bounds = subject.definition.policy.reward_range
    if bounds is not None and played.summary.best_reward == bounds[1]:
        return
    for name, other in (await _others(subject, task, "blank_actions")).items():
        expect(
            earned > other,
            f"gold_actions return {earned:g} and {name} {other:g}; gold earns more than anything else, or "
            f"declare return_range = (least, greatest): {played.results}",
        )


async def _judge_blank(subject: EnvironmentSubject, task: Task, played: PlayedActions) -> None:
    earned, declared = played.summary.episode_return, subject.definition.return_range
    if declared is not None:
        least = declared[0]
        message = f"blank_actions return {earned:g}, more than {least:g}, the least of return_range"
        expect(earned < least or _is_same(earned, least), f"{message}: {played.results}")
        return
    bounds = subject.definition.policy.reward_range
    if bounds is not None and played.summary.best_reward == bounds[0]:
        return
    others = await _others(subject, task, "gold_actions")
    gold = others.pop("gold_actions", None)
    if gold is not None:
        message = f"blank_actions return {earned:g} and gold_actions {gold:g}; blank ones earn less"
        expect(earned < gold, f"{message}: {played.results}")
        return
    for name, other in others.items():
        message = f"blank_actions return {earned:g} and {name} {other:g}; nothing earns less than blank ones"
        expect(earned <= other, f"{message}: {played.results}")


async def _others(subject: EnvironmentSubject, task: Task, name: str) -> dict[str, float]:
    """Return the returns of made-up calls, and of the known actions of a name if there are any."""
    returns: Mapping[str, PlayedActions] = {_MADE_UP: await subject.played(task, subject.trial_actions())}
    try:
        known = subject.known_actions(name)(task.spec)
    except NotApplicableError:
        known = None
    if known is not None:
        returns = {name: await subject.played(task, known), **returns}
    return {each: played.summary.episode_return for each, played in returns.items()}


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
