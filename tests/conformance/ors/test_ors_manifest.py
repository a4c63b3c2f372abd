"""The manifest, the checks and the tests know the same requirements."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from ors_server.conformance.ors_manifest import Level, read_requirements
from ors_server.conformance.ors_suite import CHECKS, RISKY, SLOW
from tests.conformance.ors.test_ors_requirements import MET

REQUIREMENTS = read_requirements()
IDS = {requirement.id for requirement in REQUIREMENTS}
TESTS = Path(__file__).parents[2]
WHERE = (TESTS / "conformance" / "ors", TESTS / "clients")


def demanded() -> Counter[str]:
    """Counts the tests of each requirement by reading their marks; those of a table are its keys."""
    ids = Counter[str](MET)
    for path in (file for folder in WHERE for file in sorted(folder.glob("test_*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr="requirement"), args=[ast.Constant(value=str(key))]):
                    ids[key] += 1
    return ids


def test_every_requirement_has_an_id_and_every_one_checked_over_the_wire_a_check():
    assert len(IDS) == len(REQUIREMENTS)
    assert set(CHECKS) == {r.id for r in REQUIREMENTS if r.checked == "wire"}
    assert set(CHECKS) >= SLOW | RISKY


def test_every_requirement_is_demanded_by_a_test_and_no_other_is():
    assert IDS - set(demanded()) == set()
    assert set(demanded()) - IDS == set()


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: r.id)
def test_every_requirement_says_what_it_rests_on(requirement):
    assert requirement.level in Level
    assert requirement.section == "practice" or "/" in requirement.section
    assert requirement.text
