"""The environment under test: its tasks, known actions, and the results of playing them."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias, cast

from typing_extensions import override

from ors_server.conformance.expectations import NotApplicableError, expect
from ors_server.environments.definition import EnvironmentDefinition, Instance
from ors_server.model.errors import OrsServerError
from ors_server.model.trajectory import EpisodeSummary
from ors_server.model.wire import JSONObject
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sessions.session_services import NO_SANDBOXES, Sandboxes
from ors_server.testing.local_client import CallRefusedError, LocalSession, open_environment
from ors_server.testing.schema_examples import example_arguments
from ors_server.testing.task_likeness import TaskTexts
from ors_server.testing.task_survey import TaskSurvey
from ors_server.timing.loop_watch import LoopHold
from ors_server.timing.workers import LingeringThread

SEED = 0
"""Seed of every episode: only what the environment itself does may differ between two."""

Actions: TypeAlias = Sequence[tuple[str, JSONObject]]
"""Tool calls, as (name, arguments) in order."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task and its position."""

    split: str
    index: int
    spec: JSONObject

    @override
    def __str__(self) -> str:
        return f"task {self.index} of split {self.split!r}"


@dataclass(frozen=True, slots=True)
class PlayedActions:
    """The results of a sequence of calls."""

    results: list[JSONObject]
    """One per call: its blocks, reward and end, or why it was refused or failed."""
    summary: EpisodeSummary
    tools: list[str]
    """Names of the tools that the session offered."""

    @property
    def failures(self) -> list[str]:
        """Descriptions of the calls that failed without a mistake of the agent."""
        return [result["failed"] for result in self.results if "failed" in result]


@dataclass(slots=True)
class EnvironmentSubject:
    """An environment under test."""

    definition: EnvironmentDefinition
    tasks_per_split: int
    """How many tasks of each split are played."""
    plays_all_gold: bool = False
    """Whether `gold_actions` and `blank_actions` are played for every task, and not for a sample."""
    sandboxes: Sandboxes = NO_SANDBOXES
    """Prepared once for all episodes."""
    resources: ResourcePool = field(default_factory=ResourcePool)
    """The resources that the sessions of all episodes share; closed by the caller."""
    sessions_created: int = 0
    """Number of sessions that were created."""
    teardowns: list[int] = field(default_factory=list[int])
    """Identity of each instance that was torn down."""
    holdings: list[LoopHold] = field(default_factory=list[LoopHold])
    """Code that held the event loop in the episodes that were played."""
    on_progress: Callable[[str], None] = lambda _: None
    """CallEvents with a description of each call before it is made."""
    survey: TaskSurvey | None = None
    """How the tasks compare with each other; made by the first check that needs it."""
    texts: TaskTexts = field(default_factory=TaskTexts)
    """The texts of the tasks that the survey has read."""
    other_sets: Mapping[str, Iterable[JSONObject]] = field(default_factory=dict[str, Iterable[JSONObject]])
    """Sets of tasks by name, none of which may have a task of the environment."""
    _known: dict[str, PlayedActions] = field(default_factory=dict[str, PlayedActions])

    async def sample(self) -> list[Task]:
        """Return the first, the last, and evenly spaced tasks of each split."""
        return await self._tasks(self.tasks_per_split)

    async def known_tasks(self) -> list[Task]:
        """Return the tasks whose known actions are played: a sample, or all of them."""
        return await self._tasks(None if self.plays_all_gold else self.tasks_per_split)

    async def _tasks(self, per_split: int | None) -> list[Task]:
        tasks: list[Task] = []
        for split in self.definition.splits:
            size = await self.definition.tasks.num_tasks(split.name)
            for index in spread(size, size if per_split is None else per_split):
                spec = await self.definition.tasks.get_task(split.name, index)
                tasks.append(Task(split.name, index, spec))
        expect(tasks, "expected at least one task in one split")
        return tasks

    def known_actions(self, name: str) -> Callable[[JSONObject], Actions | None]:
        """Return the class's `gold_actions` or `blank_actions`, or raise `NotApplicableError`.

        For a task whose actions are not known, it returns `None`.
        """
        method: Any = getattr(self.definition.source, name, None)
        if not callable(method):
            raise NotApplicableError(f"the class has no method {name}(task_spec)")
        return cast("Callable[[JSONObject], Actions | None]", method)

    def some_actions(self, task: Task) -> Actions:
        """Return the gold actions, or a made-up call of every tool if there are none."""
        try:
            actions = self.known_actions("gold_actions")(task.spec)
        except NotApplicableError:
            actions = None
        return self.trial_actions() if actions is None else actions

    def trial_actions(self) -> Actions:
        """Return one made-up call of every shared tool."""
        return [(tool.name, example_arguments(tool.input_schema)) for tool in self.definition.listing.tools]

    async def played(self, task: Task, actions: Actions) -> PlayedActions:
        """Play an episode, or return the results of an earlier one with the same calls."""
        # An episode takes seconds where it has a sandbox; several checks look at the same calls.
        key = repr((task.split, task.index, list(actions)))
        if key not in self._known:
            self._known[key] = await self.play(task, actions)
        return self._known[key]

    async def play(self, task: Task, actions: Actions) -> PlayedActions:
        """Play an episode; all episodes of a task have the same seed."""
        async with open_environment(
            self._watched(), sandbox=self.sandboxes, resources=self.resources
        ) as client:
            session = await client.create(split=task.split, index=task.index, seed=SEED)
            self.sessions_created += 1
            tools = [tool.name for tool in (await session.tools()).tools]
            await session.prompt()
            results = [await self._attempt(task, session, action) for action in actions]
            played = PlayedActions(results, await session.summary(), tools)
            engine = client.app.manager
        # Read after the application has ended, because its end may hold the loop, too.
        self.holdings += engine.services.watch.figures().held_by
        return played

    async def play_side_by_side(
        self, task: Task, first: Actions, second: Actions
    ) -> tuple[list[JSONObject], ...]:
        """Play two episodes of one task in turn, call by call, and return the results of each."""
        results: tuple[list[JSONObject], ...] = ([], [])
        async with open_environment(
            self._watched(), sandbox=self.sandboxes, resources=self.resources
        ) as client:
            order: dict[str, Any] = {"split": task.split, "index": task.index, "seed": SEED}
            sessions = [await client.create(**order) for _ in results]
            self.sessions_created += len(sessions)
            for position in range(max(len(first), len(second))):
                for session, actions, into in zip(sessions, (first, second), results, strict=True):
                    if position < len(actions):
                        into.append(await self._attempt(task, session, actions[position]))
        return results

    async def in_sessions(self, check: Callable[[Task, LocalSession], Awaitable[None]]) -> None:
        """Call a function with each sampled task and a new session of it."""
        async with open_environment(
            self.definition, sandbox=self.sandboxes, resources=self.resources
        ) as client:
            for task in await self.sample():
                session = await client.create(split=task.split, index=task.index)
                await check(task, session)
                await session.aclose()

    async def _attempt(self, task: Task, session: LocalSession, action: tuple[str, JSONObject]) -> JSONObject:
        self.on_progress(f"{task}: {action[0]}")
        return await attempt(session, *action)

    def _watched(self) -> EnvironmentDefinition:
        # The checks count teardowns without changing the author's class.
        hooks = self.definition.hooks
        teardown = hooks.teardown

        async def watched(instance: Instance, thread: LingeringThread) -> None:
            self.teardowns.append(id(instance))
            if teardown is not None:
                await teardown(instance, thread)

        return replace(self.definition, hooks=replace(hooks, teardown=watched))

    def comparable(self, value: Any) -> Any:
        """Return a JSON value without the texts that the environment declares volatile."""
        if isinstance(value, str):
            return reduce(lambda text, pattern: re.sub(pattern, "", text), self.definition.volatile, value)
        if isinstance(value, list):
            return [self.comparable(item) for item in cast("Sequence[Any]", value)]
        if isinstance(value, dict):
            return {key: self.comparable(item) for key, item in cast("JSONObject", value).items()}
        return value


async def attempt(session: LocalSession, tool: str, arguments: JSONObject) -> JSONObject:
    """Make a call and describe its output, refusal or failure."""
    try:
        output = await session.submit(tool, arguments)
    except CallRefusedError as error:
        return {"refused": error.reason.value}
    except OrsServerError as error:
        return {"failed": f"{tool}: {error}"}
    blocks: Any = [json.loads(block.model_dump_json()) for block in output.blocks]
    return {"blocks": blocks, "reward": output.reward, "finished": output.finished}


def spread(size: int, count: int) -> list[int]:
    """Return `count` of `size` positions, evenly spaced from the first to the last."""
    last = max(1, min(size, count) - 1)
    return sorted({round(step * (size - 1) / last) for step in range(min(size, count))})
