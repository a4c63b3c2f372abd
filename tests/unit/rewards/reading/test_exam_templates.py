"""The held-out exam of labelled responses stays apart from the halves that rewards are tuned on."""

import pytest

from tests.fixtures.response_templates import load_templates, make_cases
from tests.script_modules import load_script


def test_the_exam_loads_only_on_request() -> None:
    assert {template.half for template in load_templates()} == {"dev", "test"}
    assert {template.half for template in load_templates(exam=True)} == {"exam"}


def test_no_text_of_the_exam_occurs_in_the_halves() -> None:
    texts = {(template.reward, template.domain, template.text) for template in load_templates()}
    exam = {(template.reward, template.domain, template.text) for template in load_templates(exam=True)}
    assert not texts & exam


def test_cases_of_the_exam_are_made_without_the_contexts_of_the_halves() -> None:
    cases = make_cases(0, load_templates(exam=True))
    assert {case.half for case in cases} == {"exam"}
    assert any(case.is_in_context for case in cases)
    assert {case.label for case in cases} == {"pay", "not", "contested"}


def test_failing_cases_of_the_exam_are_shown_only_in_an_audit(capsys: pytest.CaptureFixture[str]) -> None:
    show = load_script("score_responses")._show
    cases = make_cases(0, load_templates(exam=True)[:20])
    show(cases, 5, shows_test=False)
    assert not capsys.readouterr().out
    show(cases, 5, shows_test=True)
    assert capsys.readouterr().out.count("\n") == 5
