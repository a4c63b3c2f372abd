"""No probe holds the event loop: a process asks for the server's health while each one runs.

Run alone it prints a table: `pytest -m stress -s tests/stress/test_lag.py`. The bound leaves out what the
machine kept the server's main thread and the asking process from running.
"""

import pytest

from tests.fixtures.lag_harness import FAILED, HEAD, harness
from tests.fixtures.lag_probes import ALL, control

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]
MOST = 0.15
"""Seconds beyond the control probe that an answer may take."""
ENVIRONMENTS = ("tests/fixtures/lag_environment.py", "code", "shell")


def test_no_probe_holds_up_the_server():
    assert len(ALL) >= 60
    with harness(*ENVIRONMENTS) as server:
        server.measure("warm up", control)
        usual = server.measure("control", control)
        rows = [server.measure(name, probe) for name, probe in ALL.items()]
    print(HEAD, *(lag.row() for lag in (usual, *rows)), sep="\n")  # noqa: T201  (the table is what it is for)
    unmeasured = [lag.row() for lag in rows if lag.said.startswith(FAILED)]
    assert not unmeasured, "\n".join(unmeasured)
    slow = [lag.row() for lag in rows if lag.held > usual.held + MOST]
    assert not slow, "\n".join(["held up by:", HEAD, *slow])
