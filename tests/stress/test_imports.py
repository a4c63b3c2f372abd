"""Every dataset of reasoning-gym is proved: the oracle earns 1, and those that are listed as broken are."""

import json

import pytest

from ors_server.adapters.reasoning_gym_datasets import BROKEN, DATASETS
from ors_server.cli.main import main


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_every_dataset_is_paid_for_its_own_answers(capsys):
    assert main(["import", "reasoning_gym", "--check", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    proofs = {proof["reference"].removeprefix("reasoning_gym/"): proof for proof in printed["environments"]}
    assert set(proofs) == set(DATASETS) - set(BROKEN)
    assert {each["reference"].removeprefix("reasoning_gym/") for each in printed["broken"]} == set(BROKEN)
    for name, proof in proofs.items():
        assert proof["returns"]["oracle"]["least"] == 1, name
        assert proof["returns"]["noop"]["greatest"] <= 0.06, name
        assert proof["is_repeatable"], name
