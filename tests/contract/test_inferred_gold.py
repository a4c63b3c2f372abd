"""An audit without gold actions: a field of the tasks is taken for the answer where the rewards prove it.

An ordinary run audits one in three of those with such a field, and every second one without.
"""

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.judgement import AuditVerdict
from tests.fixtures import without_gold
from tests.fixtures.audited.development_answers import Mentions
from tests.fixtures.audited.honest import FirstUse
from tests.fixtures.ordinary_cases import every, leave_to_stress

SOME = AuditOptions(tasks=8, only=frozenset({"H3", "H4", "H18", "H22"}))


def notes(report):
    return [note for note in report.notes if "was taken for it" in note]


@pytest.mark.parametrize(
    ("environment", "field"),
    leave_to_stress(
        without_gold.WITH_ANSWER, lambda case: case[0] in (without_gold.Nested, without_gold.Lettered)
    ),
    ids=lambda given: getattr(given, "__name__", given),
)
async def test_the_field_that_is_paid_is_the_answer(environment, field):
    report = await audit(environment, SOME)
    (note,) = notes(report)
    assert f"the tasks' field '{field}', given to submit" in note
    assert report.gold_return is not None
    assert not report.failed
    verdicts = {one.id: one.verdict for one in report.classes}
    assert verdicts["H22"] is AuditVerdict.PASS


@pytest.mark.parametrize("environment", every(2, without_gold.WITHOUT_ANSWER), ids=lambda one: one.__name__)
async def test_what_is_not_proved_is_no_answer(environment):
    report = await audit(environment, SOME)
    assert notes(report) == []
    assert report.gold_return is None
    verdicts = {one.id: one for one in report.classes}
    assert verdicts["H3"].verdict is verdicts["H18"].verdict is AuditVerdict.NOT_JUDGED
    assert "no gold_actions" in verdicts["H18"].reason


async def test_a_hole_is_found_with_it_and_a_misprinted_answer_is_a_warning_at_most():
    report = await audit(Mentions, AuditOptions(tasks=8, only=frozenset({"H3", "H4"}), uses_gold=False))
    assert {one.id for one in report.failed} == {"H3", "H4"}
    report = await audit(without_gold.SomeWrong, AuditOptions(only=frozenset({"H18"})))
    assert [one.id for one in report.warned] == ["H18"]


async def test_what_else_may_be_paid_is_not_known_so_that_no_repetition_is_a_failure():
    report = await audit(FirstUse, AuditOptions(tasks=8, only=frozenset({"H5", "H19"}), uses_gold=False))
    assert not report.failed


async def test_a_server_by_its_url_is_judged_by_the_answers_of_its_tasks(serve_live):
    report = await audit(serve_live(Mentions).url, SOME)
    assert len(notes(report)) == 1
    assert {one.id for one in report.failed} == {"H3", "H4"}


async def test_a_canary_takes_the_place_of_texts_beside_numbers():
    report = await audit(without_gold.Mixed, AuditOptions(only=frozenset({"H9"})))
    assert [one.verdict for one in report.classes] == [AuditVerdict.PASS]
