"""The verdicts of the page are those of an audit today."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("audit_verdicts", ROOT / "scripts" / "audit_verdicts.py")
verdicts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(verdicts)
OTHERS = ("reasoning_gym/chain_sum", "gymnasium/FrozenLake-v1", "bfcl/multi_turn_base")


@pytest.mark.stress
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("reference", [*verdicts.BUNDLED, *OTHERS])
def test_an_audit_comes_to_the_verdict_of_the_page(reference):
    row = verdicts.audit(reference)
    assert isinstance(row, dict), row
    assert row["verdict"] == verdicts.read_data()[reference]["verdict"]
