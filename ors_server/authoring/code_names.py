"""Names an environment's code while it runs, so that the log can name what blocks the event loop."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from ors_server.authoring.definition import EnvironmentDefinition, TaskSource
from ors_server.loop_watch import AuthorCode, running

P = ParamSpec("P")
T = TypeVar("T")


def name_code(definition: EnvironmentDefinition) -> EnvironmentDefinition:
    """Return a definition whose hooks and task methods run under their names.

    All but teardown and group scores are urgent: a client waits for them.
    """
    hooks, name = definition.hooks, definition.name
    named = replace(
        hooks,
        make=_named(hooks.make, name, "the constructor") if hooks.has_constructor else hooks.make,
        setup=hooks.setup and _named(hooks.setup, name, "setup"),
        teardown=hooks.teardown and _named(hooks.teardown, name, "teardown", is_urgent=False),
        prompt=_named(hooks.prompt, name, "the prompt"),
        messages=_named(hooks.messages, name, "the prompt"),
        task_tools=hooks.task_tools and _named(hooks.task_tools, name, "list_task_tools"),
        score_group=hooks.score_group and _named(hooks.score_group, name, "score_group", is_urgent=False),
        save=hooks.save and _named(hooks.save, name, "save_state"),
        load=hooks.load and _named(hooks.load, name, "load_state"),
    )
    return replace(definition, hooks=named, tasks=_NamedTasks(definition.tasks, name))


def _named(
    hook: Callable[P, Awaitable[T]], environment: str, part: str, *, is_urgent: bool = True
) -> Callable[P, Coroutine[Any, Any, T]]:
    code = AuthorCode(environment, part, is_urgent)

    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with running(code):
            return await hook(*args, **kwargs)

    return run


class _NamedTasks:
    """A task source whose methods run under their names."""

    def __init__(self, tasks: TaskSource, environment: str) -> None:
        self.list_tasks = _named(tasks.list_tasks, environment, "list_tasks")
        self.num_tasks = _named(tasks.num_tasks, environment, "num_tasks")
        self.get_task = _named(tasks.get_task, environment, "get_task")
        self.get_task_range = _named(tasks.get_task_range, environment, "get_task_range")
