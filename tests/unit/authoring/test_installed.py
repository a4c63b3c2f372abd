"""What installed packages offer: one that is broken, or wants another's name, stops nobody."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from ors_server.authoring import loading
from ors_server.authoring.loading import installed_environments, usable_environments
from ors_server.cli.main import main

BUNDLED = "ors_server_tasks.math_word_problems:MathWordProblems"


@dataclass
class Offered:
    """An entry point of a package that is not really there."""

    package: str
    name: str
    value: str

    @property
    def dist(self):
        return SimpleNamespace(name=self.package)


@pytest.fixture
def offer(monkeypatch):
    def offer(*rows):
        points = [Offered(*row) for row in rows]
        monkeypatch.setattr(loading, "entry_points", lambda group: points)

    return offer


def test_a_bundled_name_is_not_replaced_and_the_other_package_is_named(offer):
    offer(
        ("aaa", "math_word_problems", "aaa.thing:Thing"),
        ("ors-server", "math_word_problems", BUNDLED),
        ("zzz", "math_word_problems", "zzz.thing:Thing"),
    )
    assert installed_environments() == {"math_word_problems": BUNDLED}
    told: list[str] = []
    assert usable_environments(told.append) == ["math_word_problems"]
    assert [f"aaa.thing:Thing of {name}" in " ".join(told) for name in ("aaa", "zzz")] == [True, False]
    assert all("has the name" in text for text in told)
    assert len(told) == 2


@pytest.mark.parametrize(
    "value", ["no_such_module_at_all:Thing", "ors_server.wire:NoSuchClass", "ors_server.wire:TextBlock"]
)
def test_a_broken_entry_point_does_not_stop_list(offer, capsys, value):
    offer(("broken", "broken", value), ("ors-server", "math_word_problems", BUNDLED))
    assert main(["list"]) == 0
    shown = capsys.readouterr()
    assert "math_word_problems" in shown.out
    assert f"left out broken ({value} of broken)" in shown.err


def test_another_name_for_a_class_with_a_bundled_name_is_left_out(offer):
    offer(("other", "arithmetic", BUNDLED), ("ors-server", "math_word_problems", BUNDLED))
    told: list[str] = []
    assert usable_environments(told.append) == ["math_word_problems"]
    assert "arithmetic" in told[0]
    assert "has its name 'math_word_problems' already" in told[0]
