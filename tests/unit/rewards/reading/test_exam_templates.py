"""The held-out sets of labelled responses stay apart from the halves that rewards are tuned on."""

import pytest

from tests.fixtures.response_templates import HELD_OUT, HeldOut, load_templates, make_cases
from tests.script_modules import load_script


def test_the_halves_load_without_the_held_out_sets() -> None:
    assert {template.half for template in load_templates()} == {"dev", "test"}


@pytest.mark.parametrize("name", HELD_OUT)
def test_a_held_out_set_loads_only_on_request(name: HeldOut) -> None:
    assert {template.half for template in load_templates(held_out=name)} == {name}


@pytest.mark.parametrize("name", HELD_OUT)
def test_no_text_of_a_held_out_set_occurs_elsewhere(name: HeldOut) -> None:
    others = {None, *HELD_OUT} - {name}
    elsewhere = [template for other in others for template in load_templates(held_out=other)]
    texts = {(template.reward, template.domain, template.text) for template in elsewhere}
    assert all(
        (template.reward, template.domain, template.text) not in texts
        for template in load_templates(held_out=name)
    )


@pytest.mark.parametrize("name", HELD_OUT)
def test_cases_of_a_held_out_set_are_made_without_the_contexts_of_the_halves(name: HeldOut) -> None:
    cases = make_cases(0, load_templates(held_out=name))
    assert {case.half for case in cases} == {name}
    assert any(case.is_in_context for case in cases)
    assert {case.label for case in cases} >= {"pay", "not"}


def test_failing_cases_of_the_exam_are_shown_only_in_an_audit(capsys: pytest.CaptureFixture[str]) -> None:
    show = load_script("score_responses")._show
    cases = make_cases(0, load_templates(held_out="exam")[:20])
    show(cases, 5, shows_held_out=False)
    assert not capsys.readouterr().out
    show(cases, 5, shows_held_out=True)
    assert capsys.readouterr().out.count("\n") == 5
