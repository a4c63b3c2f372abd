"""The conformance suite of the Open Reward Standard, for any server by its URL.

```python
report = await check_server("http://127.0.0.1:8080")
for verdict in report.verdicts:
    print(verdict.requirement.id, verdict.outcome, verdict.reason)
```

The deep checks call the tools of an acceptance environment, and are skipped if the default environment has
no such tools. The suite opens and closes some hundred sessions: do not check a server that is used for
training.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from ors_server.conformance import (
    ors_checks_calls,
    ors_checks_discovery,
    ors_checks_sessions,
    ors_checks_streams,
)
from ors_server.conformance.ors_manifest import Requirement, read_requirements
from ors_server.conformance.ors_subject import Check, OrsSubject, find
from ors_server.conformance.report import ConformanceReport, RequirementVerdict, verdict_of

CHECKS: dict[str, Check] = {
    **ors_checks_discovery.CHECKS,
    **ors_checks_sessions.CHECKS,
    **ors_checks_calls.CHECKS,
    **ors_checks_streams.CHECKS,
}
"""Requirement id -> the check of it, for every requirement that is checked over the wire."""
SLOW = frozenset({"E57"})
"""Checks that take half a minute."""
RISKY = frozenset({"E79"})
"""Checks that a bad server does not survive; they run last and alone."""
CONCURRENT_CHECKS = 8
"""How many checks run at the same time."""
TIME_LIMIT = 90.0
"""Seconds that one check may take."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which requirements to check, and how."""

    only: frozenset[str] = frozenset()
    """Ids; empty for all."""
    api_key: str | None = None
    slow: bool = False
    """Whether to run the checks that take half a minute."""
    risky: bool = False
    """Whether to run the checks that a bad server does not survive."""

    def objection(self, requirement: Requirement) -> str | None:
        """Return why a requirement is not checked; `None` if it is checked."""
        if requirement.checked == "process":
            return "needs control of the server's process: its clock, its settings or its logs"
        if requirement.id in SLOW and not self.slow:
            return "takes half a minute; ask for the slow checks"
        if requirement.id in RISKY and not self.risky:
            return "a bad server does not survive it; ask for the risky checks"
        return None


ALL = Choice()
"""Everything that is neither slow nor risky."""


async def check_server(
    url: str, choice: Choice = ALL, on_verdict: Callable[[RequirementVerdict], None] = lambda _: None
) -> ConformanceReport:
    """Check the server at a URL such as `http://127.0.0.1:8080`; an unreachable one fails every check.

    Args:
        on_verdict: CallEvents with each verdict, in no particular order.
    """
    chosen = [r for r in read_requirements() if not choice.only or r.id in choice.only]
    verdicts: dict[str, RequirementVerdict] = {}

    def add(verdict: RequirementVerdict) -> None:
        verdicts[verdict.requirement.id] = verdict
        on_verdict(verdict)

    for requirement in chosen:
        if (objection := choice.objection(requirement)) is not None:
            add(RequirementVerdict(requirement, "skip", objection))
    due = [r for r in chosen if r.id not in verdicts]
    try:
        subject = await find(url, choice.api_key)
    except Exception as error:  # noqa: BLE001 (any failure is caused by the server)
        for requirement in due:
            add(replace(verdict_of(requirement, error), outcome="fail"))
    else:
        await _check_all(subject, due, add)
    return ConformanceReport(url, tuple(verdicts[r.id] for r in chosen))


async def _check_all(
    subject: OrsSubject, due: list[Requirement], add: Callable[[RequirementVerdict], None]
) -> None:
    slots = anyio.Semaphore(CONCURRENT_CHECKS)

    async def check(requirement: Requirement) -> None:
        async with slots:
            add(await _check(subject, requirement))

    async with anyio.create_task_group() as checks:
        # The slow checks first: they would otherwise run alone at the end.
        for requirement in sorted(due, key=lambda r: r.id not in SLOW):
            if requirement.id not in RISKY:
                checks.start_soon(check, requirement)
    # One after another, since the server may not survive the first.
    for requirement in due:
        if requirement.id in RISKY:
            await check(requirement)


async def _check(subject: OrsSubject, requirement: Requirement) -> RequirementVerdict:
    try:
        with anyio.fail_after(TIME_LIMIT):
            await CHECKS[requirement.id](subject)
    except Exception as error:  # noqa: BLE001 (an answer of an unforeseen shape must not end the suite)
        return verdict_of(requirement, error)
    return RequirementVerdict(requirement, "pass")
