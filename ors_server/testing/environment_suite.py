"""The conformance suite for environments.

```python
report = check_environment(MyEnvironment)
assert report.is_conformant, report
```

Five optional class members make more checks possible: `gold_actions` and `blank_actions`, class methods that
return the tool calls, as (name, arguments), with a task's greatest and least return; `return_range`, these
returns; `answer_fields`, the names of the task's fields that its prompt must not show; and `lint_findings`, a
class method that returns what the rules of a format find in its files: rule to findings, a line each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import anyio
from typing_extensions import override

from ors_server.conformance.expectations import NotApplicableError, NotMetError, expect
from ors_server.conformance.ors_manifest import Level
from ors_server.environments.boundary import describe_authors
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import definitions_of
from ors_server.model.errors import OrsServerError
from ors_server.model.wire import JSONObject
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sessions.session_services import open_sandboxes
from ors_server.testing import environment_checks as checks
from ors_server.testing.environment_checks import EnvironmentCheck
from ors_server.testing.environment_subject import EnvironmentSubject

TIME_LIMIT = 120.0
"""Seconds that one call may take, and the code of a check between two calls."""

MAX_FINDINGS = 5
"""Findings of a rule of the format that its verdict shows."""

ENVIRONMENT_CHECKS: tuple[EnvironmentCheck, ...] = (
    checks.tasks_exist,
    checks.tasks_are_json,
    checks.tasks_are_stable,
    checks.tasks_end,
    checks.tasks_share_keys,
    checks.splits_are_disjoint,
    checks.golds_agree,
    checks.tasks_are_distinct,
    checks.splits_are_unlike,
    checks.prompt_is_there,
    checks.prompt_keeps_answers,
    checks.tool_schemas,
    checks.tool_names,
    checks.python_names,
    checks.tools_are_described,
    checks.tools_survive,
    checks.event_loop_is_free,
    checks.reward_range,
    checks.gold_earns_the_most,
    checks.blank_earns_the_least,
    checks.judge_is_configured,
    checks.calls_are_repeatable,
    checks.sessions_are_apart,
    checks.end_is_final,
    checks.teardown_once,
    checks.steps_are_recorded,
    checks.steps_are_counted,
    checks.rewards_are_itemised,
    checks.reward_parts_are_known,
    checks.network_is_closed,
    checks.host_is_out_of_reach,
    checks.resources_are_bounded,
)
"""Every check, in the order of the report."""


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The result of one check of an environment."""

    environment: str
    """The environment's name."""
    check: EnvironmentCheck
    """What was checked."""
    outcome: Literal["pass", "fail", "skip"]
    """`skip` if it could not be run; the reason is in the message."""
    reason: str = ""
    """What was expected and what was found, or why nothing could be checked; empty for a pass."""

    @override
    def __str__(self) -> str:
        reason = self.reason or self.check.text
        return f"{self.outcome:4} {self.environment} {self.check.level} {self.check.id}: {reason}"


@dataclass(frozen=True, slots=True)
class EnvironmentReport:
    """The results of every check of environments."""

    verdicts: tuple[CheckVerdict, ...]
    """One for each check, in order."""

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
    other_sets: Mapping[str, Iterable[JSONObject]] = MappingProxyType({}),
    on_verdict: Callable[[CheckVerdict], None] = lambda _: None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> EnvironmentReport:
    """Check an environment; the parameters are those of `check_environment`.

    Args:
        tasks_per_split: Tasks of each split that are played, from 1.
        other_sets: Sets of tasks by name, in which no task may be.
        on_progress: Called with a description of each check and call that begins.

    Raises:
        UnknownEnvironmentError: If a reference is unknown.
        EnvironmentDefinitionError: If the class cannot be loaded.
    """
    chosen = frozenset(only)
    verdicts: list[CheckVerdict] = []
    for definition in definitions_of(environment):
        # Shared by all checks of an environment: starting a sandbox backend or a worker takes seconds.
        async with open_sandboxes([definition]) as sandboxes, ResourcePool() as resources:
            subject = EnvironmentSubject(definition, tasks_per_split, all_tasks, sandboxes, resources)
            subject.other_sets = other_sets
            against = [checks.tasks_are_new] if other_sets else []
            for check in (*ENVIRONMENT_CHECKS, *against, *_format_checks(definition, chosen)):
                if not chosen or check.id in chosen:
                    verdicts.append(await _run_check(check, subject, on_progress))
                    on_verdict(verdicts[-1])
    return EnvironmentReport(tuple(verdicts))


def _format_checks(definition: EnvironmentDefinition, chosen: frozenset[str]) -> list[EnvironmentCheck]:
    """Return a check for each rule of the format that a class is made of; most classes have none."""
    find: Callable[[], Mapping[str, Sequence[str]]] | None = getattr(definition.source, "lint_findings", None)
    if find is None:
        return []
    on_request: Sequence[str] = getattr(definition.source, "lint_on_request", ())
    return [
        _format_check(rule, findings)
        for rule, findings in find().items()
        if rule not in on_request or rule in chosen
    ]


def _format_check(rule: str, findings: Sequence[str]) -> EnvironmentCheck:
    async def report(subject: EnvironmentSubject) -> None:
        del subject  # the findings are of the files alone
        more = f"; and {len(findings) - MAX_FINDINGS} more" if len(findings) > MAX_FINDINGS else ""
        expect(not findings, "; ".join(findings[:MAX_FINDINGS]) + more)

    return EnvironmentCheck(rule, Level.SHOULD, "a rule of the format of the tasks", report)


async def _run_check(
    check: EnvironmentCheck, subject: EnvironmentSubject, on_progress: Callable[[str], None]
) -> CheckVerdict:
    name = subject.definition.name
    doing = check.id
    scope = anyio.CancelScope(deadline=anyio.current_time() + TIME_LIMIT)

    def progress(text: str) -> None:
        nonlocal doing
        doing = f"{check.id}: {text}"
        # The limit is for each call: a check may play many episodes, and only one that hangs is stopped.
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
