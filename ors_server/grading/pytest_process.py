"""The trusted process of hidden tests: pytest, the tests, and mirrors of the agent's code.

First the tests are counted with blank modules, in a fork that leaves no traces. Then, if the
server requests it, they run with mirrors. The verdict is sent by a pipe and confirmed by the exit status.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from ors_server.grading.blank import install_blanks
from ors_server.grading.channel import AgentChannel, take_standard_streams
from ors_server.grading.encoding import to_text
from ors_server.grading.recorder import Recorder
from ors_server.grading.remote_agent import RemoteAgent

MEMORY_BYTES = 1 << 30
"""Most memory of this process: an agent's code can return much, often."""


def main() -> None:
    """Count, run, and exit with pytest's status."""
    channel = take_standard_streams()
    orders = json.loads(channel.receive() or b"{}")
    _set_limits(orders["processor_s"])
    _count(channel, orders)
    if channel.receive() != b"run":
        os._exit(0)
    agent = RemoteAgent(channel, orders["modules"], orders["classes"])
    agent.install()
    status = _run_pytest(orders, Recorder(_teller(channel), agent, shown=orders["shown"]), [])
    _teller(channel)({"end": status})
    sys.exit(status)


def _set_limits(processor_s: int) -> None:
    for which, value in ((resource.RLIMIT_DATA, MEMORY_BYTES), (resource.RLIMIT_CPU, processor_s)):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _count(channel: AgentChannel, orders: dict[str, Any]) -> None:
    # In a fork, so that no module that the tests import with blank modules stays in this process.
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    tell = _teller(channel)
    try:
        install_blanks(orders["modules"])
        tell({"counted": _run_pytest(orders, Recorder(tell, None, shown=True), ["--collect-only"])})
    except BaseException as error:  # noqa: BLE001 # in every case the fork must not continue as its parent
        tell({"internal": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _teller(channel: AgentChannel) -> Any:
    def tell(told: dict[str, Any]) -> None:
        channel.send(b"V" + to_text(told))

    return tell


def _run_pytest(orders: dict[str, Any], recorder: Recorder, options: list[str]) -> int:
    # pytest explains a failed assertion by comparing the values again, which are as large and as odd as the
    # agent likes.
    explained = "rewrite" if orders["shown"] else "plain"
    folder = Path(orders["folder"])
    tests = folder / "tests"
    arguments = [
        *("-c", str(folder / "pytest.ini"), "--rootdir", str(tests), "--basetemp", str(folder / "scratch")),
        *("-p", "no:cacheprovider", "--import-mode=importlib", "--continue-on-collection-errors"),
        *("-q", "--tb=short", f"--assert={explained}", *options, str(tests)),
    ]
    os.chdir(tests)
    return int(pytest.main(arguments, plugins=[recorder]))
