"""The conformance suite of the Open Reward Standard: plays any server by its URL and judges it.

```python
report = await check_server("http://127.0.0.1:8080")
for verdict in report.verdicts:
    print(verdict.requirement.id, verdict.outcome, verdict.reason)
```

The deep checks call the tools of an acceptance environment and are skipped where the default environment
has none of them. The suite opens some hundred sessions, and closes them; it wants a server that nobody
trains on.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import anyio

from ors_server.testing import ors_checks_calls, ors_checks_discovery, ors_checks_sessions, ors_checks_streams
from ors_server.testing.ors_manifest import REQUIREMENTS, Level, Requirement
from ors_server.testing.ors_subject import NotApplicableError, NotMetError, Subject, find
from ors_server.testing.ors_wire import BrokenWireError

Check = Callable[[Subject], Awaitable[None]]
Outcome = Literal["pass", "fail", "skip"]

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
AT_ONCE = 8
"""How many checks run at the same time."""
TIME_LIMIT = 90.0
"""Seconds that one check may take."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a server stands to one requirement."""

    requirement: Requirement
    outcome: Outcome
    reason: str = ""
    """What was expected and what came, or why the requirement could not be judged; empty for a pass."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a server stands to every requirement that was asked about, in the manifest's order."""

    url: str
    verdicts: tuple[Verdict, ...]

    @property
    def is_conformant(self) -> bool:
        """Whether no MUST failed."""
        return not any(self.failed(Level.MUST))

    def failed(self, level: Level) -> Iterator[Verdict]:
        """Gives the requirements of a level that are not met."""
        return (v for v in self.verdicts if v.outcome == "fail" and v.requirement.level is level)


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
        """Says why a requirement is not checked, or None if it is."""
        if requirement.checked == "process":
            return "needs power over the server's process: its clock, its settings or its logs"
        if requirement.id in SLOW and not self.slow:
            return "takes half a minute; ask for the slow checks"
        if requirement.id in RISKY and not self.risky:
            return "a bad server does not survive it; ask for the risky checks"
        return None


ALL = Choice()
"""Everything that is neither slow nor risky."""


async def check_server(
    url: str, choice: Choice = ALL, on_verdict: Callable[[Verdict], None] = lambda _: None
) -> Report:
    """Checks a server.

    Args:
        url: where it is, for example `http://127.0.0.1:8080`.
        choice: which requirements to check.
        on_verdict: called with each verdict as it falls, in no particular order.

    Returns:
        One verdict for each chosen requirement. A server that cannot be reached fails them all.
    """
    chosen = [r for r in REQUIREMENTS if not choice.only or r.id in choice.only]
    verdicts: dict[str, Verdict] = {}

    def note(verdict: Verdict) -> None:
        verdicts[verdict.requirement.id] = verdict
        on_verdict(verdict)

    for requirement in chosen:
        if (objection := choice.objection(requirement)) is not None:
            note(Verdict(requirement, "skip", objection))
    due = [r for r in chosen if r.id not in verdicts]
    try:
        subject = await find(url, choice.api_key)
    except Exception as error:  # noqa: BLE001 (whatever it is, the server caused it)
        for requirement in due:
            note(replace(_judge(requirement, error), outcome="fail"))
    else:
        await _check_all(subject, due, note)
    return Report(url, tuple(verdicts[r.id] for r in chosen))


async def _check_all(subject: Subject, due: list[Requirement], note: Callable[[Verdict], None]) -> None:
    places = anyio.Semaphore(AT_ONCE)

    async def check(requirement: Requirement) -> None:
        async with places:
            note(await _check(subject, requirement))

    async with anyio.create_task_group() as checks:
        for requirement in sorted(due, key=lambda r: r.id not in SLOW):
            if requirement.id not in RISKY:
                checks.start_soon(check, requirement)
    for requirement in due:
        if requirement.id in RISKY:
            await check(requirement)


async def _check(subject: Subject, requirement: Requirement) -> Verdict:
    try:
        with anyio.fail_after(TIME_LIMIT):
            await CHECKS[requirement.id](subject)
    except Exception as error:  # noqa: BLE001 (an answer of an unforeseen shape must not end the suite)
        return _judge(requirement, error)
    return Verdict(requirement, "pass")


def _judge(requirement: Requirement, error: BaseException) -> Verdict:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, NotApplicableError):
        return Verdict(requirement, "skip", str(error))
    if isinstance(error, NotMetError | BrokenWireError):
        return Verdict(requirement, "fail", str(error))
    if isinstance(error, TimeoutError):
        return Verdict(requirement, "fail", "the server did not answer in time")
    return Verdict(requirement, "fail", f"an answer had an unexpected shape: {type(error).__name__}: {error}")
