"""The fixture `audit` for pytest, which is there wherever the package is installed.

```python
def test_nothing_but_the_task_pays(audit):
    audit(MyEnvironment)
```
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from ors_server.audit.report import AuditReport


class AuditFixture(Protocol):
    """What the fixture `audit` is: see `run_audit`."""

    def __call__(
        self,
        environment: str | type,
        only: Iterable[str] = (),
        *,
        tasks: int | None = None,
        seed: int = 0,
        waivers: str | Path | None = None,
    ) -> "AuditReport":
        """Audit an environment; the test fails if a class does."""
        ...


@pytest.fixture(scope="session")
def audit() -> AuditFixture:
    """Audit an environment: `audit(MyEnvironment)` fails the test if a class fails that is not waived."""
    return run_audit


def run_audit(
    environment: str | type,
    only: Iterable[str] = (),
    *,
    tasks: int | None = None,
    seed: int = 0,
    waivers: str | Path | None = None,
) -> "AuditReport":
    """Audit an environment from a test that is not async, and return the report.

    The test fails if a class fails that is not waived; the message has the calls of each failure and how to
    close it.

    Args:
        environment: A class at the top level of its module, a reference as for the command line, or the URL
            of a server.
        only: Ids of the classes that are judged; empty for all.
        tasks: Tasks of each split that are played: 30 by default, 10 with a sandbox.
        seed: Of all sessions and of everything random.
        waivers: A file of waivers; by default `audit.toml` next to the environment's source, if it exists.

    Raises:
        UnknownHackClassError: If there is no class with an id.
        WaiverError: If the file of waivers cannot be read.
        AuditError: If the environment does not load or has no task.
    """
    import anyio  # noqa: PLC0415  (pytest loads this module in every project that has the package)

    from ors_server.audit import auditing, class_ids, report_text  # noqa: PLC0415  (as above)
    from ors_server.audit import waivers as waiving  # noqa: PLC0415  (as above)

    options = auditing.AuditOptions(tasks=tasks, only=class_ids.read_class_ids(only), seed=seed)
    file = waiving.find_waivers(environment) if waivers is None else Path(waivers)
    accepted = () if file is None else waiving.read_waivers(file)

    async def run() -> "AuditReport":
        return await auditing.audit(environment, options)

    report = waiving.apply_waivers(anyio.run(run), accepted)
    if report.failed:
        pytest.fail(report_text.text_of(report), pytrace=False)
    return report
