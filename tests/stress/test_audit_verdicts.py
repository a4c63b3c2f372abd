"""The verdicts of the page are those of an audit today."""

import pytest

from ors_server.adapters.bfcl import PACKAGE
from tests.clients.conftest import client_python
from tests.script_modules import load_script

verdicts = load_script("audit_verdicts")
OTHERS = ("reasoning_gym/ab", "gymnasium/FrozenLake-v1", "bfcl/multi_turn_base")


@pytest.mark.stress
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("reference", [*verdicts.BUNDLED, *OTHERS])
def test_an_audit_comes_to_the_verdict_of_the_page(reference, monkeypatch):
    monkeypatch.setenv(PACKAGE.variable, str(client_python("bfcl")))
    row = verdicts.audit(reference)
    assert isinstance(row, dict), row
    assert row["verdict"] == verdicts.read_data()[reference]["verdict"]
