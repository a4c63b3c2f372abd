"""The pytest plugin of the trusted process: reports the collected tests and their results to the server."""

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import pytest

from ors_server.grading.remote_agent import RemoteAgent

_MAX_TEXT = 4_000

Tell = Callable[[dict[str, Any]], None]


class Recorder:
    """Reports each test under a name without values, the same for blank and real modules."""

    def __init__(self, tell: Tell, agent: RemoteAgent | None, *, shown: bool) -> None:
        self._tell = tell
        self._agent = agent
        self._shown = shown
        self._names: dict[str, str] = {}
        self._problems: dict[str, str | None] = {}
        self._called: set[str] = set()
        self._failures_before = 0

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a file, folder or class that cannot be collected."""
        if report.failed:
            self._tell({"uncollected": report.nodeid, "text": report.longreprtext[-_MAX_TEXT:]})

    def pytest_internalerror(self, excrepr: object) -> None:
        """Report a defect in pytest or in a plugin of the tests."""
        self._tell({"internal": str(excrepr)[-_MAX_TEXT:]})

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Report the names of all tests; those of one parametrised test are numbered from 1."""
        plain = [item.nodeid.partition("[")[0] for item in session.items]
        totals, seen = Counter(plain), Counter[str]()
        for item, name in zip(session.items, plain, strict=True):
            seen[name] += 1
            numbered = totals[name] > 1 or "[" in item.nodeid
            self._names[item.nodeid] = f"{name}[{seen[name]}]" if numbered else name
        self._tell({"collected": list(self._names.values())})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember how many tests were stopped before this one."""
        self._problems[nodeid] = None
        self._failures_before = len(self._agent.failures) if self._agent is not None else 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Remember why a phase did not pass: the name of the error alone, unless tests may be quoted."""
        report = yield
        if call.when == "call":
            self._called.add(item.nodeid)
        if report.passed and not hasattr(report, "wasxfail"):
            return report
        what = call.excinfo.typename if call.excinfo is not None else "not as marked"
        reason = f"{what} in {call.when}"
        if self._shown:
            reason = f"{reason}\n{report.longreprtext[-_MAX_TEXT:]}"
        self._problems[item.nodeid] = self._problems.get(item.nodeid) or reason
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a failure that was reported in any other way too (such as subtests)."""
        if not report.passed:
            self._problems[report.nodeid] = self._problems.get(report.nodeid) or f"failed in {report.when}"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Report the result of a test."""
        problem = self._problems[nodeid]
        if nodeid not in self._called:
            problem = problem or "did not run"
        if self._agent is not None and len(self._agent.failures) > self._failures_before:
            problem = self._agent.failures[self._failures_before]
        self._tell({"result": self._names[nodeid], "problem": problem})

    @pytest.fixture
    def place(self) -> Callable[[Any], Any]:
        """Copy a plain value to the agent's code; returns its mirror."""
        return self._require_agent().place

    @pytest.fixture
    def fetch(self) -> Callable[[Any], Any]:
        """Return a copy of a mirror's object, as a plain value."""
        return self._require_agent().fetch

    @pytest.fixture
    def ask(self) -> Callable[..., bool]:
        """Return the result of the agent's own operator: `ask("==", one, other)`; see `RemoteAgent.ask`."""
        return self._require_agent().ask

    def _require_agent(self) -> RemoteAgent:
        if self._agent is None:
            raise RuntimeError("nothing is run while tests are only counted")
        return self._agent
