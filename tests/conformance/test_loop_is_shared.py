"""A real server goes on answering while clients try to hold it up: some of the probes of the stress suite.

What is compared is the processor time of the server's main thread during one answer, and not the wall.
"""

from collections.abc import Iterator

import pytest

from tests.fixtures.lag_harness import HEAD, Harness, harness
from tests.fixtures.lag_probes import DOORS
from tests.fixtures.loop_slices import yardstick

PROBES = (
    "ors call: 2,000,000 values",
    "ors call: 250,000 keys",
    "ors call: 24,000 keys",
    "ors call: 45,000 values",
    "ors call: a text of 4 MiB",
    "ors call: numbers of 4,000 digits",
    "ors call: deep and far",
    "ors call: backslashes",
    "ors call: unknown fields",
    "mcp call: 2,000,000 values",
    "mcp call: a text of 4 MiB",
    "mcp call, 2026-07-28: says 7 MiB of controls",
    "mcp call, 2025-11-25: says 7 MiB of controls",
    "control call: says 7 MiB of controls",
    "mcp: a batch",
    "ors create: a spec of 40,000 values",
    "a query of many parts",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Harness]:
    with harness("tests/fixtures/lag_environment.py", flags=("--allow-unsandboxed",)) as running:
        yield running


@pytest.mark.parametrize("name", PROBES)
def test_a_hostile_request_holds_up_nobody(server, name):
    lag = server.measure(name, DOORS[name])
    assert lag.said.startswith(("200", "400", "413", "422")), lag.said
    assert lag.cpu < 2 * yardstick(), f"{HEAD}\n{lag.row()}"
