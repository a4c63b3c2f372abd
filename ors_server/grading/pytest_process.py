"""The trusted process of hidden tests: pytest, the tests, and mirrors of the agent's code.

First the tests are counted with blank modules, in a fork that leaves no traces. Then, if the server requests
it, they run with mirrors. A plugin reports the collected tests and their results. The verdict is sent by a
pipe and confirmed by the exit status.

What is collected with blank modules is what the author wrote. A test file that needs more of the agent's code
than names while it is collected is the author's mistake; the agent's code cannot cause it.
"""

import json
import os
import resource
import sys
import types
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ors_server.grading.channel import VERDICT, AgentChannel, take_standard_streams
from ors_server.grading.encoding import to_text
from ors_server.grading.remote_agent import RemoteAgent


class NeedsAgentError(Exception):
    """A test file uses the agent's code outside its tests and fixtures."""


class Blank:
    """Replaces anything in the agent's module; it has a name and can be passed on."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> "Blank":
        if name.startswith("__"):
            raise AttributeError(name)
        return Blank(f"{self.__name__}.{name}")

    def _refuse(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
        raise NeedsAgentError(
            f"{self.__name__} is used while the tests are collected; use it in tests and fixtures only"
        )

    __call__ = __iter__ = __len__ = __getitem__ = __bool__ = __contains__ = _refuse
    __add__ = __radd__ = __sub__ = __mul__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse
    __mro_entries__ = __enter__ = __exit__ = __int__ = __float__ = __index__ = _refuse


class BlankModule(types.ModuleType):
    """A module from which every name can be imported."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            raise NeedsAgentError(f"import by name what the tests need of {self.__name__}, not *")
        if name.startswith("__"):
            raise AttributeError(name)
        below = sys.modules.get(f"{self.__name__}.{name}")
        return below if isinstance(below, BlankModule) else Blank(name)


def install_blanks(modules: Sequence[str]) -> None:
    """Make `import` find blank modules.

    Args:
        modules: Names of modules, with dots for those in packages.
    """
    for module in modules:
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            sys.modules[name] = BlankModule(name)


_MAX_TEXT = 4_000

SendReport = Callable[[dict[str, Any]], None]


class Recorder:
    """Reports each test under a name without values, the same for blank and real modules."""

    def __init__(self, send_report: SendReport, agent: RemoteAgent | None, *, shown: bool) -> None:
        self._send_report = send_report
        self._agent = agent
        self._shown = shown
        self._names: dict[str, str] = {}
        self._problems: dict[str, str | None] = {}
        self._called: set[str] = set()
        self._failures_before = 0

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a file, folder or class that cannot be collected."""
        if report.failed:
            self._send_report({"uncollected": report.nodeid, "text": report.longreprtext[-_MAX_TEXT:]})

    def pytest_internalerror(self, excrepr: object) -> None:
        """Report a defect in pytest or in a plugin of the tests."""
        self._send_report({"internal": str(excrepr)[-_MAX_TEXT:]})

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Report the names of all tests; those of one parametrised test are numbered from 1."""
        plain = [item.nodeid.partition("[")[0] for item in session.items]
        totals, seen = Counter(plain), Counter[str]()
        for item, name in zip(session.items, plain, strict=True):
            seen[name] += 1
            numbered = totals[name] > 1 or "[" in item.nodeid
            self._names[item.nodeid] = f"{name}[{seen[name]}]" if numbered else name
        self._send_report({"collected": list(self._names.values())})

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
        self._send_report({"result": self._names[nodeid], "problem": problem})

    @pytest.fixture
    def place(self) -> Callable[[Any], Any]:
        """Copy a plain value to the agent's code; returns its mirror."""
        return self._require_agent().copy_to_agent

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


MEMORY_BYTES = 1 << 30
"""Maximum memory of this process: an agent's code can return much, often."""


def main() -> None:
    """Count, run, and exit with pytest's status."""
    channel = take_standard_streams()
    settings = json.loads(channel.receive() or b"{}")
    _set_limits(settings["processor_s"])
    _count(channel, settings)
    # The agent's modules cannot be loaded, and the server fails every counted test.
    if channel.receive() != b"run":
        os._exit(0)
    agent = RemoteAgent(channel, settings["modules"], settings["classes"])
    agent.install()
    status = _run_pytest(settings, Recorder(_reporter(channel), agent, shown=settings["shown"]), [])
    _reporter(channel)({"end": status})
    # The server compares it with the reported status.
    sys.exit(status)


def _set_limits(processor_s: int) -> None:
    for which, value in ((resource.RLIMIT_DATA, MEMORY_BYTES), (resource.RLIMIT_CPU, processor_s)):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _count(channel: AgentChannel, settings: dict[str, Any]) -> None:
    # In a fork, so that no module that the tests import with blank modules stays in this process.
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    send_report = _reporter(channel)
    try:
        install_blanks(settings["modules"])
        send_report(
            {"counted": _run_pytest(settings, Recorder(send_report, None, shown=True), ["--collect-only"])}
        )
    except BaseException as error:  # noqa: BLE001 # in every case the fork must not continue as its parent
        send_report({"internal": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _reporter(channel: AgentChannel) -> Any:
    def send_report(fields: dict[str, Any]) -> None:
        channel.send(VERDICT + to_text(fields))

    return send_report


def _run_pytest(settings: dict[str, Any], recorder: Recorder, options: list[str]) -> int:
    # pytest explains a failed assertion by comparing the values again, which are as large and as odd as the
    # agent likes.
    explained = "rewrite" if settings["shown"] else "plain"
    folder = Path(settings["folder"])
    tests = folder / "tests"
    arguments = [
        *("-c", str(folder / "pytest.ini"), "--rootdir", str(tests), "--basetemp", str(folder / "scratch")),
        *("-p", "no:cacheprovider", "--import-mode=importlib", "--continue-on-collection-errors"),
        *("-q", "--tb=short", f"--assert={explained}", *options, str(tests)),
    ]
    os.chdir(tests)
    return int(pytest.main(arguments, plugins=[recorder]))
