"""Audits of episodes that are made, without a store between them."""

from collections.abc import Callable, Iterable

import pytest

from ors_server.audit.recorded.digest import DigestedEnvironment
from ors_server.audit.recorded.recorded_audit import report_of
from ors_server.audit.recorded.recorded_report import RecordedReport
from tests.fixtures.recorded_episodes import Played


@pytest.fixture
def judge() -> Callable[..., RecordedReport]:
    def run(played: Iterable[Played], gold_tools=None, success_at=None, seed=0) -> RecordedReport:
        environments: dict[str, DigestedEnvironment] = {}
        for one in played:
            name = one.environment
            environments.setdefault(name, DigestedEnvironment(name)).add(one.record, one.steps)
        return report_of(environments, gold_tools=gold_tools or {}, success_at=success_at, seed=seed)

    return run
