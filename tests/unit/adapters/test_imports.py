"""`ors-server import` and `list --available`, with real packages."""

import json
from dataclasses import replace

import pytest

from ors_server.adapters import gymnasium_games, reasoning_gym_datasets
from ors_server.cli.main import main
from ors_server.environments.environment import Environment
from ors_server.environments.sources import Source, served_name, source_names
from ors_server.environments.tool import tool
from ors_server.evaluation.import_proofs import prove
from ors_server.installation import install_hint
from ors_server.model.wire import ToolOutput

pytestmark = pytest.mark.external


def test_what_could_be_had_is_listed_with_the_command_that_installs_it(capsys):
    assert main(["list", "--available", "--json"]) == 0
    sources = {each["source"]: each for each in json.loads(capsys.readouterr().out)}
    assert set(sources) == set(source_names())
    assert sources["reasoning_gym"]["installed"]
    assert len(sources["reasoning_gym"]["environments"]) == 105
    assert sources["gymnasium"]["install"] == install_hint("gymnasium")
    assert main(["list", "--available"]) == 0
    assert "105 (7 broken)" in capsys.readouterr().out
    assert main(["list", "--available", "reasoning_gym"]) == 0
    assert "reasoning_gym/puzzle24  (broken: it pays 1 for any four" in capsys.readouterr().out


def test_a_source_of_another_version_is_reported(capsys, monkeypatch):
    wrong = replace(gymnasium_games.SOURCE, requires=("gymnasium==0.1",))
    monkeypatch.setattr(gymnasium_games, "SOURCE", wrong)
    assert main(["list", "--available", "gymnasium", "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert not described["installed"]
    assert main(["import", "gymnasium/Taxi-v4"]) == 1
    assert (
        f"expected gymnasium==0.1, got version 1.4.0; run {install_hint('gymnasium')}"
        in capsys.readouterr().err
    )
    assert main(["list", "--available"]) == 0
    assert "gymnasium: expected gymnasium==0.1" in capsys.readouterr().err


def test_import_proves_each_environment(capsys):
    references = ["gymnasium/FrozenLake-v1", "reasoning_gym/leg_counting"]
    assert main(["import", *references, "--check", "--tasks", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["conformant"]
    lake, legs = printed["environments"]
    assert (lake["reference"], lake["name"], lake["tools"]) == (
        "gymnasium/FrozenLake-v1",
        "gymnasium_frozenlake-v1",
        ["act"],
    )
    for proof, tasks in ((lake, {"train": 725, "test": 72}), (legs, {"train": 1000, "test": 100})):
        assert proof["returns"]["oracle"]["mean"] == 1
        assert proof["returns"]["noop"]["mean"] == 0
        assert proof["is_repeatable"]
        assert proof["checks"]["fail"] == 0
        assert proof["tasks"] == tasks


def test_import_prints_a_table_and_leaves_broken_ones_out(capsys, monkeypatch):
    small = replace(reasoning_gym_datasets.SOURCE, list_names=lambda: ("chain_sum", "game_of_life_halting"))
    monkeypatch.setattr(reasoning_gym_datasets, "SOURCE", small)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["import", "reasoning_gym", "--check", "--tasks", "1"]) == 0
    printed = capsys.readouterr()
    assert "reasoning_gym/chain_sum" in printed.out
    assert "passed" in printed.out
    assert "left out: reasoning_gym/game_of_life_halting: it pays 1 for every answer" in printed.err
    assert main(["import", "reasoning_gym"]) == 0
    assert capsys.readouterr().out.split() == ["reasoning_gym/chain_sum"]
    assert main(["import", "reasoning_gym/game_of_life_halting"]) == 2
    assert "--include-broken plays it all the same" in capsys.readouterr().err
    assert main(["import", "reasoning_gym/game_of_life_halting", "--include-broken"]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["reasoning_gym/game_of_life_halting"]
    assert "broken: reasoning_gym/game_of_life_halting" in printed.err


class Wobbling(Environment):
    """Gives another prompt each time, and pays its own answer nothing."""

    name = served_name("made_up", "wobbling")
    count = 0

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"task": 1}]

    @classmethod
    def gold_actions(cls, task_spec):
        return [("answer", {})]

    def get_prompt(self):
        type(self).count += 1
        return f"Prompt {self.count}"

    @tool
    def answer(self) -> ToolOutput:
        """Answer."""
        return ToolOutput.final("no", reward=0.0)


def made_up(make) -> Source:
    return Source("made_up", (), "MIT", "", lambda: ("wobbling",), make)


async def test_what_cannot_be_relied_on_is_a_problem():
    proof = await prove(made_up(lambda _: Wobbling), "wobbling", tasks=1)
    assert not proof.is_repeatable
    assert "the same seed gave other prompts or returns the second time" in proof.problems
    assert any("gold-earns-the-most" in problem for problem in proof.problems)
    assert not any(" SHOULD " in problem for problem in proof.problems)
    assert any(" SHOULD reward-range" in remark for remark in proof.remarks)


def test_every_failed_check_is_named(capsys, monkeypatch):
    monkeypatch.setattr("ors_server.environments.sources.load_source", lambda _: made_up(lambda _: Wobbling))
    assert main(["import", "made_up/wobbling", "--check", "--tasks", "1"]) == 1
    printed = capsys.readouterr().err
    assert "gold-earns-the-most" in printed
    assert "SHOULD reward-range" in printed


def test_an_environment_that_cannot_be_made_is_reported(capsys, monkeypatch):
    def fail(name):
        raise ValueError("no such level")

    monkeypatch.setattr("ors_server.environments.sources.load_source", lambda _: made_up(fail))
    assert main(["import", "made_up/wobbling", "--check"]) == 1
    printed = capsys.readouterr()
    assert "not made" in printed.out
    assert "made_up/wobbling: making it failed: ValueError: no such level" in printed.err


def test_an_unknown_source_is_refused(capsys):
    assert main(["import", "reasoning-gym"]) == 2
    assert "unknown source 'reasoning-gym'; expected reasoning_gym" in capsys.readouterr().err
