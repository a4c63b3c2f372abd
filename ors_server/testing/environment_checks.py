"""The checks of environments, one function each, which raises `NotMetError` or `NotApplicableError`.

They are grouped by what they look at: tasks and tools, the judge of the reward, the record and the isolation,
tasks compared with each other, and the returns of known actions. A check states its requirement in its
decorator and looks at the environment under test (`EnvironmentSubject`), never the server.
"""

import json
import keyword
import math
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import anyio
from typing_extensions import override

from ors_server.conformance.expectations import NotApplicableError, NotMetError, expect
from ors_server.conformance.ors_manifest import Level
from ors_server.environments.loading import define
from ors_server.json_schemas import BadSchemaError, check_schema
from ors_server.model.errors import InvalidRequestError, UnknownTaskError
from ors_server.model.policy import TOOL_COMPONENT, WITHHELD, PenaltyCause
from ors_server.model.trajectory import EpisodeSummary, Step
from ors_server.model.wire import JSONObject
from ors_server.rewards.judges.judge_endpoint import JUDGE_VARIABLES
from ors_server.sandboxes.isolation_report import IsolatedResource
from ors_server.testing.environment_subject import (
    SEED,
    Actions,
    EnvironmentSubject,
    PlayedActions,
    Task,
    attempt,
)
from ors_server.testing.local_client import LocalSession, open_environment
from ors_server.testing.task_likeness import describe_overlap
from ors_server.testing.task_survey import TaskSurvey, survey_tasks
from ors_server.timing.loop_watch import UNNAMED

MAX_HELD = 0.25
"""Seconds for which async code may hold the event loop, also on a busy machine."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every MCP client and model interface accepts."""


_CheckFunction: TypeAlias = Callable[[EnvironmentSubject], Awaitable[None]]


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


def requirement(level: Level, text: str) -> Callable[[_CheckFunction], EnvironmentCheck]:
    """Turn a function into a check; the check's id is the function's name with hyphens."""
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
    # A second definition, so that a task that depends on state of the first one is noticed.
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
    async def check(task: Task, session: LocalSession) -> None:
        texts = [getattr(block, "text", "x").strip() for block in await session.blocks()]
        expect(any(texts), f"the prompt of {task} is empty")
        expect(await session.messages(), f"the conversation of {task} is empty")

    await subject.in_sessions(check)


@requirement(Level.MUST, "a prompt shows no field of answer_fields")
async def prompt_keeps_answers(subject: EnvironmentSubject) -> None:
    fields: Sequence[str] = getattr(subject.definition.source, "answer_fields", ())
    if not fields:
        raise NotApplicableError("the class declares no answer_fields")

    async def check(task: Task, session: LocalSession) -> None:
        prompt = await session.prompt()
        for name in fields:
            answer = str(task.spec.get(name, ""))
            # Whole words only: the answer 4 is not a part of a prompt with 42.
            match = answer and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", prompt)
            expect(not match, f"the prompt of {task} holds the value of {name!r}")

    await subject.in_sessions(check)


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
        expect(TOOL_NAME.fullmatch(name), f"tool name must match {TOOL_NAME.pattern}, got {name!r}")


@requirement(Level.SHOULD, "tools and parameters have names that Python takes")
async def python_names(subject: EnvironmentSubject) -> None:
    for tool in subject.definition.tools.values():
        for name in (tool.name, *(tool.spec.input_schema or {}).get("properties", {})):
            is_good = name.isidentifier() and not keyword.iskeyword(name)
            expect(
                is_good,
                f"expected a name that a Python method can have, got {name!r} (tool {tool.name!r})",
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
    # Only the calls of this check count.
    subject.holdings.clear()
    for task in (await subject.sample())[:1]:
        for actions in (subject.some_actions(task), subject.trial_actions()):
            await subject.play(task, actions)
    hold_seconds = {
        holding.name: holding.longest_s for holding in subject.holdings if holding.longest_s > MAX_HELD
    }
    # Code without a name is the engine's or the event loop's, and not the author's.
    hold_seconds.pop(UNNAMED, None)
    expect(
        not hold_seconds,
        "blocking code in async functions stops every session of the server: "
        + ", ".join(f"{name} for {seconds:.1f} s" for name, seconds in hold_seconds.items())
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
    # A game of chance differs by itself, so that it shows nothing about sessions at the same time.
    alone = [(await subject.played(task, actions)).results for actions in (gold, trial)]
    again = [(await subject.play(task, actions)).results for actions in (gold, trial)]
    if subject.comparable(alone) != subject.comparable(again):
        raise NotApplicableError("the same calls give different results each time, even alone")
    parallel = list(await subject.play_side_by_side(task, gold, trial))
    are_same = subject.comparable(alone) == subject.comparable(parallel)
    expect(are_same, f"two sessions of {task} at the same time disturb each other")


@requirement(Level.MUST, "an episode that is over answers no calls")
async def end_is_final(subject: EnvironmentSubject) -> None:
    task = (await subject.sample())[0]
    actions = list(subject.some_actions(task))
    # The last call is made twice: the second must be refused, even if the first did not end the episode.
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
    subject.sessions_created = 0
    await subject.play(task, subject.some_actions(task))
    expect(
        len(subject.teardowns) == subject.sessions_created,
        f"expected 1 teardown, counted {len(subject.teardowns)}",
    )


ANSWER = "The answer follows from the question, and this sentence is what a judge may read of it."
"""A text for every judge: shorter ones may count as no answer."""
_MISSING = re.compile(rf"no {JUDGE_VARIABLES.purpose} is configured: [^\"\\]*")


@requirement(Level.MUST, "a judge that the reward asks is configured here")
async def judge_is_configured(subject: EnvironmentSubject) -> None:
    if os.environ.get(JUDGE_VARIABLES.base_url) and os.environ.get(JUDGE_VARIABLES.model):
        return
    task = (await subject.sample())[0]
    own_actions = subject.some_actions(task)
    schemas = {tool.name: tool.input_schema or {} for tool in subject.definition.listing.tools}
    worded = [(tool, {**arguments, **_texts(schemas.get(tool, {}))}) for tool, arguments in own_actions]
    async with open_environment(
        subject.definition, sandbox=subject.sandboxes, resources=subject.resources
    ) as client:
        # Twice: the author's own calls may not reach the judge, and calls with a text may be refused by the
        # tool.
        for actions in (own_actions, worded):
            session = await client.create(split=task.split, index=task.index, seed=SEED)
            await _refuse_if_unjudged(session, actions)


async def _refuse_if_unjudged(session: LocalSession, actions: Actions) -> None:
    for tool, arguments in actions:
        await attempt(session, tool, arguments)
    for step in await session.steps():
        match = _MISSING.search(json.dumps([step.error, dict(step.metadata or {})], default=str))
        if match:
            raise NotMetError(
                f"{match[0]}; without a judge, no episode is graded (step {step.number}, {step.tool!r})"
            )


def _texts(schema: JSONObject) -> JSONObject:
    """Return an answer with content for each argument that may be any text."""
    texts = {name: json.dumps(property_) for name, property_ in schema.get("properties", {}).items()}
    return {name: ANSWER for name, text in texts.items() if '"string"' in text and '"enum"' not in text}


@requirement(Level.MUST, "an episode's record holds every call that ran, in order, with what it returned")
async def steps_are_recorded(subject: EnvironmentSubject) -> None:
    task, calls, steps, _ = await _play_recorded(subject)
    ran = [(tool, arguments) for tool, arguments, result in calls if "refused" not in result]
    recorded = [(step.tool, dict(step.arguments)) for step in steps]
    expect(recorded == ran, f"the record of {task} holds the calls {recorded}; {ran} ran")
    rewards = [result.get("reward") for _, _, result in calls if "refused" not in result]
    recorded_rewards = [step.reward for step in steps]
    expect(
        recorded_rewards == rewards,
        f"the record of {task} holds the rewards {recorded_rewards}; the calls returned {rewards}",
    )


@requirement(Level.MUST, "an episode counts its steps from 1, and its summary has their number")
async def steps_are_counted(subject: EnvironmentSubject) -> None:
    task, _, steps, summary = await _play_recorded(subject)
    numbers = [step.number for step in steps]
    expect(numbers == list(range(1, len(steps) + 1)), f"the steps of {task} have the numbers {numbers}")
    expect(summary.steps == len(steps), f"{task} has {len(steps)} steps; its summary counts {summary.steps}")


@requirement(Level.MUST, "the named parts of each reward add up to it, and the rewards to the return")
async def rewards_are_itemised(subject: EnvironmentSubject) -> None:
    task, _, steps, summary = await _play_recorded(subject)
    for step in steps:
        if step.reward is not None:
            parts = math.fsum(step.components.values())
            is_same = math.isclose(parts, step.reward, rel_tol=1e-9, abs_tol=1e-9)
            expect(
                is_same, f"step {step.number} of {task}: parts {dict(step.components)}, reward {step.reward}"
            )
    paid = math.fsum(step.reward or 0.0 for step in steps)
    is_same = math.isclose(paid, summary.episode_return, rel_tol=1e-9, abs_tol=1e-9)
    expect(is_same, f"the rewards of {task} add up to {paid}; its return is {summary.episode_return}")


@requirement(Level.MUST, "the parts of each reward have names that the policy lists before the episode")
async def reward_parts_are_known(subject: EnvironmentSubject) -> None:
    task, _, steps, _ = await _play_recorded(subject)
    policy = subject.definition.policy
    charged = {cause.value for cause in PenaltyCause if policy.penalty(cause)}
    listed = {TOOL_COMPONENT, WITHHELD} | charged
    for step in steps:
        unknown = sorted(set(step.components) - listed)
        expect(not unknown, f"step {step.number} of {task} pays {unknown}; the policy lists {sorted(listed)}")


@requirement(Level.SHOULD, "an agent's commands reach no network")
async def network_is_closed(subject: EnvironmentSubject) -> None:
    _expect_isolation(subject, (IsolatedResource.NETWORK,))


@requirement(Level.SHOULD, "an agent's commands reach no file and no process of the host")
async def host_is_out_of_reach(subject: EnvironmentSubject) -> None:
    _expect_isolation(
        subject, (IsolatedResource.FILES, IsolatedResource.SESSIONS, IsolatedResource.PROCESSES)
    )


@requirement(Level.SHOULD, "an agent's commands have limits on memory, processes and disk space")
async def resources_are_bounded(subject: EnvironmentSubject) -> None:
    _expect_isolation(subject, (IsolatedResource.MEMORY, IsolatedResource.PIDS, IsolatedResource.DISK))


def _expect_isolation(subject: EnvironmentSubject, resources: tuple[IsolatedResource, ...]) -> None:
    """Require that the sandbox isolates resources; without a sandbox, an agent runs no commands."""
    # A sandbox that may be needed counts: a declaration decides for each task.
    if not subject.definition.may_need_sandbox:
        return
    report = subject.sandboxes.report
    if report is None:
        raise NotApplicableError(f"there is no sandbox here: {subject.sandboxes.refusal}")
    open_ones = [resource.value for resource in resources if not report.isolates(resource)]
    expect(not open_ones, f"the sandbox backend {report.backend!r} does not isolate {', '.join(open_ones)}")


async def _play_recorded(
    subject: EnvironmentSubject,
) -> tuple[Task, list[tuple[str, JSONObject, JSONObject]], list[Step], EpisodeSummary]:
    """Play the first task, and return the calls with their results, the recorded steps and the summary."""
    task = (await subject.sample())[0]
    calls: list[tuple[str, JSONObject, JSONObject]] = []
    async with open_environment(
        subject.definition, sandbox=subject.sandboxes, resources=subject.resources
    ) as client:
        session = await client.create(split=task.split, index=task.index, seed=SEED)
        for tool, arguments in subject.some_actions(task):
            subject.on_progress(f"{task}: {tool}")
            calls.append((tool, dict(arguments), await attempt(session, tool, arguments)))
        return task, calls, list(await session.steps()), await session.summary()


@requirement(Level.MUST, "no task is in two splits of different types, such as train and test")
async def splits_are_disjoint(subject: EnvironmentSubject) -> None:
    text = (await _survey(subject)).leak_text
    expect(not text, f"{text}; keep what decides the solution in one split")


@requirement(Level.MUST, "tasks with the same prompt have the same gold, where nothing else decides it")
async def golds_agree(subject: EnvironmentSubject) -> None:
    text = (await _survey(subject)).contradiction_text
    expect(not text, f"{text}; correct the golds, or remove all but one of these tasks")


@requirement(Level.SHOULD, "every task differs from the others in what its agent is given")
async def tasks_are_distinct(subject: EnvironmentSubject) -> None:
    text = (await _survey(subject)).repeat_text
    expect(not text, f"{text}; a repeated task counts several times, so count it once")


@requirement(Level.SHOULD, "no task is nearly equal to one of a split of another type")
async def splits_are_unlike(subject: EnvironmentSubject) -> None:
    survey = await _survey(subject)
    types = {split.name: split.type for split in subject.definition.splits}
    if len(set(types.values())) < 2:  # noqa: PLR2004  (nothing to compare with)
        raise NotApplicableError("the splits are of one type")
    if survey.prompts_are_partial:
        raise NotApplicableError("tasks with nearly equal prompts may differ in their files")
    try:
        similar = await anyio.to_thread.run_sync(subject.texts.nearly_equal)
    except InvalidRequestError as error:
        raise NotApplicableError(str(error)) from error
    text = similar.across(types).describe("are nearly equal to", survey.compared)
    expect(not text, f"{text}; keep what decides the solution in one split")


@requirement(Level.SHOULD, "no task is in another set of tasks that is named (--against)")
async def tasks_are_new(subject: EnvironmentSubject) -> None:
    await _survey(subject)
    overlaps = [
        describe_overlap(name, await anyio.to_thread.run_sync(subject.texts.within, rows))
        for name, rows in subject.other_sets.items()
    ]
    expect(not any(overlaps), "; ".join(filter(None, overlaps)))


async def _survey(subject: EnvironmentSubject) -> TaskSurvey:
    """Compare the tasks when the first of these checks needs it."""
    if subject.survey is None:
        subject.survey = await survey_tasks(
            subject.definition, subject.resources, subject.on_progress, subject.texts.add
        )
    return subject.survey


# Returns of known actions are compared with `return_range`, if the class declares one. Otherwise a step that
# pays the end of `policy.reward_range` is enough; else the return is compared with those of other actions.
MAX_NAMED = 5
"""Maximum number of tasks that a verdict names."""
_MADE_UP = "made-up calls"

_CheckReturn: TypeAlias = Callable[[EnvironmentSubject, Task, PlayedActions], Awaitable[None]]


@requirement(Level.MUST, "gold_actions earn the greatest return")
async def gold_earns_the_most(subject: EnvironmentSubject) -> None:
    await _check_each(subject, "gold_actions", _check_gold)


@requirement(Level.MUST, "blank_actions earn no more than the least return")
async def blank_earns_the_least(subject: EnvironmentSubject) -> None:
    await _check_each(subject, "blank_actions", _check_blank)


async def _check_each(subject: EnvironmentSubject, name: str, check: _CheckReturn) -> None:
    find = subject.known_actions(name)
    failed: list[tuple[Task, NotMetError]] = []
    pairs = [(task, find(task.spec)) for task in await subject.known_tasks()]
    tasks = [(task, actions) for task, actions in pairs if actions is not None]
    if not tasks:
        raise NotApplicableError(f"{name} has no actions for any of {len(pairs)} tasks")
    # Every task is checked before the verdict, so that an author sees how many are wrong.
    for task, actions in tasks:
        try:
            await check(subject, task, await subject.played(task, actions))
        except NotMetError as error:
            failed.append((task, error))
    if failed:
        more = f", and {len(failed) - MAX_NAMED} more" if len(failed) > MAX_NAMED else ""
        named = ", ".join(str(task) for task, _ in failed[:MAX_NAMED])
        raise NotMetError(f"{len(failed)} of {len(tasks)} tasks ({named}{more}); the first: {failed[0][1]}")


async def _check_gold(subject: EnvironmentSubject, task: Task, played: PlayedActions) -> None:
    earned, declared = played.summary.episode_return, subject.definition.return_range
    if declared is not None:
        highest = declared[1]
        message = f"gold_actions must return {highest:g}, the high end of return_range, got {earned:g}"
        expect(_is_same(earned, highest), f"{message}: {played.results}")
        return
    bounds = subject.definition.policy.reward_range
    # A step with the greatest reward is enough: without `return_range` the greatest return is not known.
    if bounds is not None and played.summary.best_reward == bounds[1]:
        return
    for name, other in (await _compared_returns(subject, task, "blank_actions")).items():
        expect(
            earned > other,
            f"gold_actions return {earned:g} and {name} {other:g}: gold_actions must earn more than any "
            f"other actions; otherwise declare return_range = (lowest, highest): {played.results}",
        )


async def _check_blank(subject: EnvironmentSubject, task: Task, played: PlayedActions) -> None:
    earned, declared = played.summary.episode_return, subject.definition.return_range
    if declared is not None:
        lowest = declared[0]
        message = f"blank_actions must return at most {lowest:g}, the low end of return_range, got {earned:g}"
        expect(earned < lowest or _is_same(earned, lowest), f"{message}: {played.results}")
        return
    bounds = subject.definition.policy.reward_range
    if bounds is not None and played.summary.best_reward == bounds[0]:
        return
    returns = await _compared_returns(subject, task, "gold_actions")
    gold = returns.pop("gold_actions", None)
    if gold is not None:
        message = f"blank_actions return {earned:g} and gold_actions {gold:g}: blank_actions must earn less"
        expect(earned < gold, f"{message}: {played.results}")
        return
    for name, other in returns.items():
        message = f"blank_actions return {earned:g} and {name} {other:g}: no other actions may earn less"
        expect(earned <= other, f"{message}: {played.results}")


async def _compared_returns(subject: EnvironmentSubject, task: Task, name: str) -> dict[str, float]:
    """Return the returns of made-up calls, and of the known actions of a name if there are any."""
    returns: Mapping[str, PlayedActions] = {_MADE_UP: await subject.played(task, subject.trial_actions())}
    try:
        actions = subject.known_actions(name)(task.spec)
    except NotApplicableError:
        actions = None
    if actions is not None:
        returns = {name: await subject.played(task, actions), **returns}
    return {label: played.summary.episode_return for label, played in returns.items()}


def _is_same(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
