"""The checks of environments, one function each, which raises `NotMetError` or `NotApplicableError`."""

import json
import keyword
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from typing_extensions import override

from ors_server.authoring.loading import define
from ors_server.errors import UnknownTaskError
from ors_server.loop_watch import UNNAMED
from ors_server.testing.environment_subject import EnvironmentSubject
from ors_server.testing.expectations import NotApplicableError, expect
from ors_server.testing.local_client import open_environment
from ors_server.testing.ors_manifest import Level

MAX_LISTED = 5000
"""Most tasks of a split that are compared with those of other splits."""
MOST_HELD = 0.25
"""Seconds for which async code may hold the event loop, also on a busy machine."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every MCP client and model interface takes."""


@dataclass(frozen=True, slots=True)
class EnvironmentCheck:
    """One requirement of an environment."""

    id: str
    level: Level
    text: str
    """The requirement, as a sentence."""
    run: Callable[[EnvironmentSubject], Awaitable[None]]
    """Raises if the requirement is not met."""

    @override
    def __str__(self) -> str:
        return self.id


async def check_tasks_exist(subject: EnvironmentSubject) -> None:
    """Judge `tasks-exist`."""
    await subject.sample()


async def check_tasks_are_json(subject: EnvironmentSubject) -> None:
    """Judge `tasks-are-json`."""
    for task in await subject.sample():
        try:
            text = json.dumps(task.spec, allow_nan=False)
        except (TypeError, ValueError) as error:
            expect(condition=False, message=f"{task} is not JSON: {error}")
        else:
            expect(json.loads(text) == task.spec, f"{task} changes when it is written as JSON and read again")


async def check_tasks_are_stable(subject: EnvironmentSubject) -> None:
    """Judge `tasks-are-stable`."""
    again = define(subject.definition.source).tasks
    for task in await subject.sample():
        expect(
            await again.get_task(task.split, task.index) == task.spec,
            f"{task} differs when it is requested again",
        )
        (ranged,) = await again.get_task_range(task.split, task.index, task.index + 1)
        expect(ranged == task.spec, f"{task} differs between get_task and get_task_range")


async def check_tasks_end(subject: EnvironmentSubject) -> None:
    """Judge `tasks-end`."""
    for split in subject.definition.splits:
        size = await subject.definition.tasks.num_tasks(split.name)
        try:
            await subject.definition.tasks.get_task(split.name, size)
        except UnknownTaskError:
            continue
        expect(
            condition=False, message=f"split {split.name!r} has {size} tasks but gives one at index {size}"
        )


async def check_tasks_share_keys(subject: EnvironmentSubject) -> None:
    """Judge `tasks-share-keys`."""
    shapes = {(task.split, tuple(sorted(task.spec))) for task in await subject.sample()}
    for split in {split for split, _ in shapes}:
        keys = [list(shape) for name, shape in shapes if name == split]
        expect(len(keys) == 1, f"tasks of split {split!r} have different keys: {keys}")


async def check_splits_are_disjoint(subject: EnvironmentSubject) -> None:
    """Judge `splits-are-disjoint`."""
    seen: dict[str, str] = {}
    for split in subject.definition.splits:
        size = min(MAX_LISTED, await subject.definition.tasks.num_tasks(split.name))
        for spec in await subject.definition.tasks.get_task_range(split.name, 0, size):
            text = json.dumps(spec, sort_keys=True, default=str)
            other = seen.setdefault(text, split.name)
            expect(other == split.name, f"splits {other!r} and {split.name!r} share the task {text[:80]}")


async def check_prompt_is_there(subject: EnvironmentSubject) -> None:
    """Judge `prompt-is-there`."""
    async with open_environment(subject.definition, sandbox=subject.sandboxes) as client:
        for task in await subject.sample():
            session = await client.create(split=task.split, index=task.index)
            blocks = await session.blocks()
            expect(
                any(getattr(block, "text", "x").strip() for block in blocks), f"the prompt of {task} is empty"
            )
            expect(await session.messages(), f"the conversation of {task} is empty")
            await session.aclose()


async def check_prompt_keeps_answers(subject: EnvironmentSubject) -> None:
    """Judge `prompt-keeps-answers`."""
    fields: tuple[str, ...] = tuple(getattr(subject.definition.source, "answer_fields", ()))
    if not fields:
        raise NotApplicableError("the class declares no answer_fields")
    async with open_environment(subject.definition, sandbox=subject.sandboxes) as client:
        for task in await subject.sample():
            session = await client.create(split=task.split, index=task.index)
            prompt = await session.prompt()
            for name in fields:
                answer = str(task.spec.get(name, ""))
                found = answer and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", prompt)
                expect(not found, f"the prompt of {task} holds the value of {name!r}")
            await session.aclose()


async def check_tool_schemas(subject: EnvironmentSubject) -> None:
    """Judge `tool-schemas`."""
    for tool in subject.definition.tools.values():
        schema = tool.spec.input_schema
        if schema is None:
            continue
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            expect(condition=False, message=f"the schema of {tool.name!r} is invalid: {error.message}")
        expect(schema.get("type") == "object", f"the schema of {tool.name!r} is not an object's")


async def check_tool_names(subject: EnvironmentSubject) -> None:
    """Judge `tool-names`."""
    for name in subject.definition.tools:
        expect(TOOL_NAME.fullmatch(name), f"a tool's name matches {TOOL_NAME.pattern}, not {name!r}")


async def check_python_names(subject: EnvironmentSubject) -> None:
    """Judge `python-names`."""
    for tool in subject.definition.tools.values():
        for name in (tool.name, *(tool.spec.input_schema or {}).get("properties", {})):
            is_good = name.isidentifier() and not keyword.iskeyword(name)
            expect(
                is_good, f"trainers make Python methods of tools; {name!r} (tool {tool.name!r}) is not a name"
            )


async def check_tools_are_described(subject: EnvironmentSubject) -> None:
    """Judge `tools-are-described`."""
    for tool in subject.definition.tools.values():
        expect(tool.spec.description.strip(), f"tool {tool.name!r} has no description; write a docstring")


async def check_reward_range(subject: EnvironmentSubject) -> None:
    """Judge `reward-range`."""
    expect(subject.definition.policy.reward_range is not None, "expected policy.reward_range to be declared")


async def check_tools_survive(subject: EnvironmentSubject) -> None:
    """Judge `tools-survive`."""
    for task in (await subject.sample())[:1]:
        for action in subject.trial_actions():
            played = await subject.played(task, [action])
            expect(not played.failures, f"valid arguments {action[1]} break a tool: {played.failures}")


async def check_loop_is_free(subject: EnvironmentSubject) -> None:
    """Judge `event-loop-is-free`."""
    subject.holdings.clear()
    for task in (await subject.sample())[:1]:
        for actions in (subject.some_actions(task), subject.trial_actions()):
            await subject.play(task, actions)
    held = {each.name: each.longest_s for each in subject.holdings if each.longest_s > MOST_HELD}
    held.pop(UNNAMED, None)
    expect(
        not held,
        "blocking code in async functions stops every session of the server: "
        + ", ".join(f"{name} for {seconds:.1f} s" for name, seconds in held.items())
        + "; await instead, or make it a plain def, which runs in a thread",
    )


async def check_calls_are_repeatable(subject: EnvironmentSubject) -> None:
    """Judge `calls-are-repeatable`."""
    for task in await subject.sample():
        actions = subject.some_actions(task)
        first = await subject.played(task, actions)
        second = await subject.play(task, actions)
        expect(
            subject.comparable(first.results) == subject.comparable(second.results),
            f"the same calls on {task} gave something else the second time",
        )


async def check_sessions_are_apart(subject: EnvironmentSubject) -> None:
    """Judge `sessions-are-apart`."""
    task = (await subject.sample())[0]
    gold, trial = subject.some_actions(task), subject.trial_actions()
    alone = [(await subject.played(task, actions)).results for actions in (gold, trial)]
    again = [(await subject.play(task, actions)).results for actions in (gold, trial)]
    if subject.comparable(alone) != subject.comparable(again):
        raise NotApplicableError("the same calls give something else each time, alone too")
    beside = list(await subject.play_side_by_side(task, gold, trial))
    are_same = subject.comparable(alone) == subject.comparable(beside)
    expect(are_same, f"two sessions of {task} at the same time disturb each other")


async def check_end_is_final(subject: EnvironmentSubject) -> None:
    """Judge `end-is-final`."""
    task = (await subject.sample())[0]
    actions = list(subject.some_actions(task))
    played = await subject.play(task, [*actions, *actions[-1:]])
    ends = [position for position, result in enumerate(played.results) if result.get("finished")]
    if not ends:
        raise NotApplicableError("the calls do not end the episode")
    later = played.results[ends[0] + 1 :]
    expect(all("refused" in result for result in later), f"{task} answers calls after its end: {later}")


async def check_teardown(subject: EnvironmentSubject) -> None:
    """Judge `teardown-once`."""
    task = (await subject.sample())[0]
    subject.teardowns.clear()
    subject.made = 0
    await subject.play(task, subject.some_actions(task))
    expect(len(subject.teardowns) == subject.made, f"expected 1 teardown, counted {len(subject.teardowns)}")
