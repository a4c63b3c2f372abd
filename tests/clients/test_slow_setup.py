"""The clients wait for a setup of 80 seconds, which is longer than any of their time limits.

Both plays are started with the first test of the session and judged at its end, so that they cost little.
"""

import pytest

pytestmark = [pytest.mark.waits, pytest.mark.timeout(240), pytest.mark.requirement("E35")]


@pytest.mark.parametrize("client", ["openreward", "ors_sdk"])
def test_waits_for_a_setup_of_eighty_seconds_and_calls_once(slow_setups, client):
    seen = slow_setups[client].answer("slow_setup")
    assert seen["prompted"]["prompt"].startswith("Call the `echo` tool")
    for play in ("prompted", "called"):
        assert seen[play]["count"] == "1"
        assert seen[play]["ledger"] == ["setup"]
