"""The conformance suite for environments.

```python
report = check_environment(MyEnvironment)
assert report.is_conformant, report
```

Four optional class members make more checks possible: `gold_actions` and `blank_actions`, class methods that
return the tool calls, as (name, arguments), with a task's greatest and least return; `return_range`, these
returns; and `answer_fields`, the names of the task's fields that its prompt must not show.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import anyio
from typing_extensions import override

from ors_server.authoring.boundary import describe_authors
from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.errors import OrsServerError
from ors_server.sessions.sandboxing import open_sandboxes
from ors_server.testing import environment_checks as checks
from ors_server.testing import environment_returns as returns
from ors_server.testing.environment_checks import EnvironmentCheck
from ors_server.testing.environment_subject import EnvironmentSubject
from ors_server.testing.expectations import NotApplicableError, NotMetError
from ors_server.testing.local_client import definitions_of
from ors_server.testing.ors_manifest import Level

TIME_LIMIT = 120.0
"""Seconds that one call may take, and the code of a check between two calls."""

ENVIRONMENT_CHECKS: tuple[EnvironmentCheck, ...] = tuple(
    EnvironmentCheck(*row)
    for row in (
        ("tasks-exist", Level.MUST, "at least one split has a task", checks.check_tasks_exist),
        (
            "tasks-are-json",
            Level.MUST,
            "a task is JSON and survives being written",
            checks.check_tasks_are_json,
        ),
        (
            "tasks-are-stable",
            Level.MUST,
            "a split and an index always lead to the same task",
            checks.check_tasks_are_stable,
        ),
        ("tasks-end", Level.MUST, "there is no task past the last one", checks.check_tasks_end),
        (
            "tasks-share-keys",
            Level.SHOULD,
            "the tasks of a split have the same keys",
            checks.check_tasks_share_keys,
        ),
        (
            "splits-are-disjoint",
            Level.SHOULD,
            "no task is in two splits",
            checks.check_splits_are_disjoint,
        ),
        ("prompt-is-there", Level.MUST, "every task has a prompt", checks.check_prompt_is_there),
        (
            "prompt-keeps-answers",
            Level.MUST,
            "a prompt shows no field of answer_fields",
            checks.check_prompt_keeps_answers,
        ),
        (
            "tool-schemas",
            Level.MUST,
            "every tool's schema is valid JSON Schema of an object",
            checks.check_tool_schemas,
        ),
        ("tool-names", Level.MUST, "every tool has a name that MCP clients take", checks.check_tool_names),
        (
            "python-names",
            Level.SHOULD,
            "tools and parameters have names that Python takes",
            checks.check_python_names,
        ),
        (
            "tools-are-described",
            Level.SHOULD,
            "every tool has a description",
            checks.check_tools_are_described,
        ),
        (
            "tools-survive",
            Level.MUST,
            "no tool breaks on arguments that its schema allows",
            checks.check_tools_survive,
        ),
        (
            "event-loop-is-free",
            Level.MUST,
            "no async tool, hook or reward blocks the event loop, which all sessions share",
            checks.check_loop_is_free,
        ),
        ("reward-range", Level.SHOULD, "the policy declares the range of rewards", checks.check_reward_range),
        (
            "gold-earns-the-most",
            Level.MUST,
            "gold_actions earn the greatest return",
            returns.check_gold,
        ),
        (
            "blank-earns-the-least",
            Level.MUST,
            "blank_actions earn no more than the least return",
            returns.check_blank,
        ),
        (
            "calls-are-repeatable",
            Level.SHOULD,
            "the same calls on a task give the same outputs",
            checks.check_calls_are_repeatable,
        ),
        (
            "sessions-are-apart",
            Level.MUST,
            "sessions side by side do not disturb each other",
            checks.check_sessions_are_apart,
        ),
        ("end-is-final", Level.MUST, "an episode that is over answers no calls", checks.check_end_is_final),
        ("teardown-once", Level.MUST, "each instance is torn down exactly once", checks.check_teardown),
    )
)
"""Every check, in the order of the report."""


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The result of one check of an environment."""

    environment: str
    check: EnvironmentCheck
    outcome: Literal["pass", "fail", "skip"]
    reason: str = ""
    """What was expected and what came, or why there was nothing to judge; empty for a pass."""

    @override
    def __str__(self) -> str:
        reason = self.reason or self.check.text
        return f"{self.outcome:4} {self.environment} {self.check.level} {self.check.id}: {reason}"


@dataclass(frozen=True, slots=True)
class EnvironmentReport:
    """The results of every check of environments."""

    verdicts: tuple[CheckVerdict, ...]

    @property
    def is_conformant(self) -> bool:
        """Whether no MUST failed."""
        return not any(verdict.check.level is Level.MUST for verdict in self.failed())

    def failed(self) -> Iterator[CheckVerdict]:
        """Yield the failures of any level."""
        return (verdict for verdict in self.verdicts if verdict.outcome == "fail")

    @override
    def __str__(self) -> str:
        return "\n".join(str(verdict) for verdict in self.verdicts)


def check_environment(
    environment: type | str | EnvironmentDefinition,
    *,
    only: Iterable[str] = (),
    tasks_per_split: int = 3,
    all_tasks: bool = False,
) -> EnvironmentReport:
    """Check an environment, from a test that is not async.

    Args:
        environment: A class, a reference as for the command line, or a definition.
        only: Ids of checks; empty for all.
        tasks_per_split: How many tasks of each split are played.
        all_tasks: Whether `gold_actions` and `blank_actions` are played for every task.

    Raises:
        UnknownEnvironmentError: If a reference is unknown.
        EnvironmentDefinitionError: If the class cannot be loaded.
    """

    async def run() -> EnvironmentReport:
        return await inspect_environment(
            environment, only=only, tasks_per_split=tasks_per_split, all_tasks=all_tasks
        )

    return anyio.run(run)


async def inspect_environment(
    environment: type | str | EnvironmentDefinition,
    *,
    only: Iterable[str] = (),
    tasks_per_split: int = 3,
    all_tasks: bool = False,
    on_verdict: Callable[[CheckVerdict], None] = lambda _: None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> EnvironmentReport:
    """Check an environment; the parameters are those of `check_environment`.

    Args:
        on_progress: Called with a description of each check and call that begins.

    Raises:
        UnknownEnvironmentError: If a reference is unknown.
        EnvironmentDefinitionError: If the class cannot be loaded.
    """
    chosen = frozenset(only)
    verdicts: list[CheckVerdict] = []
    for definition in definitions_of(environment):
        async with open_sandboxes([definition]) as sandboxes:
            subject = EnvironmentSubject(definition, tasks_per_split, all_tasks, sandboxes)
            for check in ENVIRONMENT_CHECKS:
                if not chosen or check.id in chosen:
                    verdicts.append(await _judge(check, subject, on_progress))
                    on_verdict(verdicts[-1])
    return EnvironmentReport(tuple(verdicts))


async def _judge(
    check: EnvironmentCheck, subject: EnvironmentSubject, on_progress: Callable[[str], None]
) -> CheckVerdict:
    name = subject.definition.name
    doing = check.id
    scope = anyio.CancelScope(deadline=anyio.current_time() + TIME_LIMIT)

    def progress(text: str) -> None:
        nonlocal doing
        doing = f"{check.id}: {text}"
        scope.deadline = anyio.current_time() + TIME_LIMIT
        on_progress(doing)

    on_progress(doing)
    subject.on_progress = progress
    try:
        with scope:
            await check.run(subject)
        if scope.cancelled_caught:
            return CheckVerdict(name, check, "fail", f"{doing} took longer than {TIME_LIMIT:.0f} seconds")
    except NotApplicableError as error:
        return CheckVerdict(name, check, "skip", str(error))
    except (NotMetError, OrsServerError) as error:
        return CheckVerdict(name, check, "fail", str(error))
    except Exception as error:  # noqa: BLE001  (author code outside the engine, such as gold_actions)
        return CheckVerdict(name, check, "fail", describe_authors(error))
    return CheckVerdict(name, check, "pass")
