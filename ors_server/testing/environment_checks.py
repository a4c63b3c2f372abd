"""The checks of environments, one function each, which raises `NotMetError` or `NotApplicableError`."""

import json
import keyword
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import override

from ors_server.conformance.expectations import NotApplicableError, NotMetError, expect
from ors_server.conformance.ors_manifest import Level
from ors_server.environments.loading import define
from ors_server.json_schemas import BadSchemaError, check_schema
from ors_server.model.errors import UnknownTaskError
from ors_server.testing.environment_subject import EnvironmentSubject, Task
from ors_server.testing.local_client import LocalSession
from ors_server.timing.loop_watch import UNNAMED

MAX_HELD = 0.25
"""Seconds for which async code may hold the event loop, also on a busy machine."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every MCP client and model interface takes."""


_Judge: TypeAlias = Callable[[EnvironmentSubject], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EnvironmentCheck:
    """One requirement of an environment."""

    id: str
    """Such as `gold-earns-the-most`."""
    level: Level
    """Whether the check must hold or only should."""
    text: str
    """The requirement, as a sentence."""
    run: Callable[[EnvironmentSubject], Awaitable[None]]
    """Raises if the requirement is not met."""

    @override
    def __str__(self) -> str:
        return self.id


def requirement(level: Level, text: str) -> Callable[[_Judge], EnvironmentCheck]:
    """Make a check of a function; the check's id is the function's name with hyphens."""
    return lambda run: EnvironmentCheck(run.__name__.replace("_", "-"), level, text, run)


@requirement(Level.MUST, "at least one split has a task")
async def tasks_exist(subject: EnvironmentSubject) -> None:
    await subject.sample()


@requirement(Level.MUST, "a task is JSON and survives being written")
async def tasks_are_json(subject: EnvironmentSubject) -> None:
    for task in await subject.sample():
        try:
            text = json.dumps(task.spec, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise NotMetError(f"{task} is not JSON: {error}") from error
        expect(json.loads(text) == task.spec, f"{task} changes when it is written as JSON and read again")


@requirement(Level.MUST, "a split and an index always lead to the same task")
async def tasks_are_stable(subject: EnvironmentSubject) -> None:
    again = define(subject.definition.source).tasks
    for task in await subject.sample():
        expect(
            await again.get_task(task.split, task.index) == task.spec,
            f"{task} differs when it is requested again",
        )
        (ranged,) = await again.get_task_range(task.split, task.index, task.index + 1)
        expect(ranged == task.spec, f"{task} differs between get_task and get_task_range")


@requirement(Level.MUST, "there is no task past the last one")
async def tasks_end(subject: EnvironmentSubject) -> None:
    for split in subject.definition.splits:
        size = await subject.definition.tasks.num_tasks(split.name)
        try:
            await subject.definition.tasks.get_task(split.name, size)
        except UnknownTaskError:
            continue
        raise NotMetError(f"split {split.name!r} has {size} tasks but gives one at index {size}")


@requirement(Level.SHOULD, "the tasks of a split have the same keys")
async def tasks_share_keys(subject: EnvironmentSubject) -> None:
    shapes = {(task.split, tuple(sorted(task.spec))) for task in await subject.sample()}
    for split in {split for split, _ in shapes}:
        keys = [list(shape) for name, shape in shapes if name == split]
        expect(len(keys) == 1, f"tasks of split {split!r} have different keys: {keys}")


@requirement(Level.MUST, "every task has a prompt")
async def prompt_is_there(subject: EnvironmentSubject) -> None:
    async def judge(task: Task, session: LocalSession) -> None:
        texts = [getattr(block, "text", "x").strip() for block in await session.blocks()]
        expect(any(texts), f"the prompt of {task} is empty")
        expect(await session.messages(), f"the conversation of {task} is empty")

    await subject.in_sessions(judge)


@requirement(Level.MUST, "a prompt shows no field of answer_fields")
async def prompt_keeps_answers(subject: EnvironmentSubject) -> None:
    fields: Sequence[str] = getattr(subject.definition.source, "answer_fields", ())
    if not fields:
        raise NotApplicableError("the class declares no answer_fields")

    async def judge(task: Task, session: LocalSession) -> None:
        prompt = await session.prompt()
        for name in fields:
            answer = str(task.spec.get(name, ""))
            found = answer and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", prompt)
            expect(not found, f"the prompt of {task} holds the value of {name!r}")

    await subject.in_sessions(judge)


@requirement(Level.MUST, "every tool's schema is valid JSON Schema of an object")
async def tool_schemas(subject: EnvironmentSubject) -> None:
    for tool in subject.definition.tools.values():
        schema = tool.spec.input_schema
        if schema is None:
            continue
        try:
            check_schema(schema)
        except BadSchemaError as error:
            raise NotMetError(f"the schema of {tool.name!r} is invalid: {error}") from error
        expect(schema.get("type") == "object", f"the schema of {tool.name!r} is not an object's")


@requirement(Level.MUST, "every tool has a name that MCP clients take")
async def tool_names(subject: EnvironmentSubject) -> None:
    for name in subject.definition.tools:
        expect(TOOL_NAME.fullmatch(name), f"a tool's name matches {TOOL_NAME.pattern}, not {name!r}")


@requirement(Level.SHOULD, "tools and parameters have names that Python takes")
async def python_names(subject: EnvironmentSubject) -> None:
    for tool in subject.definition.tools.values():
        for name in (tool.name, *(tool.spec.input_schema or {}).get("properties", {})):
            is_good = name.isidentifier() and not keyword.iskeyword(name)
            expect(
                is_good, f"trainers make Python methods of tools; {name!r} (tool {tool.name!r}) is not a name"
            )


@requirement(Level.SHOULD, "every tool has a description")
async def tools_are_described(subject: EnvironmentSubject) -> None:
    for tool in subject.definition.tools.values():
        expect(tool.spec.description.strip(), f"tool {tool.name!r} has no description; write a docstring")


@requirement(Level.SHOULD, "the policy declares the range of rewards")
async def reward_range(subject: EnvironmentSubject) -> None:
    expect(subject.definition.policy.reward_range is not None, "expected policy.reward_range to be declared")


@requirement(Level.MUST, "no tool breaks on arguments that its schema allows")
async def tools_survive(subject: EnvironmentSubject) -> None:
    for task in (await subject.sample())[:1]:
        for action in subject.trial_actions():
            played = await subject.played(task, [action])
            expect(not played.failures, f"valid arguments {action[1]} break a tool: {played.failures}")


@requirement(Level.MUST, "no async tool, hook or reward blocks the event loop, which all sessions share")
async def event_loop_is_free(subject: EnvironmentSubject) -> None:
    subject.holdings.clear()
    for task in (await subject.sample())[:1]:
        for actions in (subject.some_actions(task), subject.trial_actions()):
            await subject.play(task, actions)
    held = {holding.name: holding.longest_s for holding in subject.holdings if holding.longest_s > MAX_HELD}
    held.pop(UNNAMED, None)
    expect(
        not held,
        "blocking code in async functions stops every session of the server: "
        + ", ".join(f"{name} for {seconds:.1f} s" for name, seconds in held.items())
        + "; await instead, or make it a plain def, which runs in a thread",
    )


@requirement(Level.SHOULD, "the same calls on a task give the same outputs")
async def calls_are_repeatable(subject: EnvironmentSubject) -> None:
    for task in await subject.sample():
        actions = subject.some_actions(task)
        first = await subject.played(task, actions)
        second = await subject.play(task, actions)
        expect(
            subject.comparable(first.results) == subject.comparable(second.results),
            f"the same calls on {task} gave something else the second time",
        )


@requirement(Level.MUST, "sessions side by side do not disturb each other")
async def sessions_are_apart(subject: EnvironmentSubject) -> None:
    task = (await subject.sample())[0]
    gold, trial = subject.some_actions(task), subject.trial_actions()
    alone = [(await subject.played(task, actions)).results for actions in (gold, trial)]
    again = [(await subject.play(task, actions)).results for actions in (gold, trial)]
    if subject.comparable(alone) != subject.comparable(again):
        raise NotApplicableError("the same calls give something else each time, alone too")
    beside = list(await subject.play_side_by_side(task, gold, trial))
    are_same = subject.comparable(alone) == subject.comparable(beside)
    expect(are_same, f"two sessions of {task} at the same time disturb each other")


@requirement(Level.MUST, "an episode that is over answers no calls")
async def end_is_final(subject: EnvironmentSubject) -> None:
    task = (await subject.sample())[0]
    actions = list(subject.some_actions(task))
    played = await subject.play(task, [*actions, *actions[-1:]])
    ends = [position for position, result in enumerate(played.results) if result.get("finished")]
    if not ends:
        raise NotApplicableError("the calls do not end the episode")
    later = played.results[ends[0] + 1 :]
    expect(all("refused" in result for result in later), f"{task} answers calls after its end: {later}")


@requirement(Level.MUST, "each instance is torn down exactly once")
async def teardown_once(subject: EnvironmentSubject) -> None:
    task = (await subject.sample())[0]
    subject.teardowns.clear()
    subject.made = 0
    await subject.play(task, subject.some_actions(task))
    expect(len(subject.teardowns) == subject.made, f"expected 1 teardown, counted {len(subject.teardowns)}")
