"""What comparing tasks adds to an audit: leaks are H9, contradictions H18, repeats a note."""

import json

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import ClassReport
from ors_server.audit.task_findings import with_task_findings


@pytest.fixture
def declared(tmp_path):
    def make(**splits):
        text = 'prompt = "question"\nanswer = "answer"\nreward = "exact_match_reward"\n[splits]\n'
        for split, rows in splits.items():
            lines = [json.dumps({"question": question, "answer": answer}) for question, answer in rows]
            (tmp_path / f"{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))
            text += f'{split} = "{split}.jsonl"\n'
        (tmp_path / "environment.toml").write_text(text)
        return str(tmp_path)

    return make


OWN = [(f"Spell {word}", word) for word in ("copper", "lantern", "harbor", "meadow", "velvet", "candle")]


async def test_an_audit_reports_leaks_contradictions_and_repeats(declared):
    folder = declared(
        train=[*OWN, ("Spell a", "b"), ("Spell a", "c"), OWN[0]], test=[OWN[1], ("Spell z", "z")]
    )
    report = await audit(folder, AuditOptions(only=frozenset({"H9", "H18"})))
    found = {each.id: each for each in report.classes}
    assert found["H9"].verdict is found["H18"].verdict is AuditVerdict.FAIL
    assert "1 of 2 tasks of split 'test'" in found["H9"].findings[0].message
    assert "1 of 9 tasks of split 'train' have the prompt" in found["H18"].findings[0].message
    assert [note for note in report.notes if "(indices 0 and 8)" in note]


async def test_an_audit_of_tasks_that_differ_says_nothing_of_them(declared):
    report = await audit(declared(train=OWN[:4], test=OWN[4:]), AuditOptions(only=frozenset({"H9"})))
    assert report.failed == []
    assert report.notes == ()


def test_only_classes_that_are_judged_get_findings():
    reports = [ClassReport(id="H2", verdict=AuditVerdict.PASS)]
    texts = {"H9": "leaks", "H18": "contradictions", "": "repeats"}
    added = with_task_findings(reports, texts, frozenset({"H2", "H18"}))
    assert [(each.id, each.verdict) for each in added] == [
        ("H2", AuditVerdict.PASS),
        ("H18", AuditVerdict.FAIL),
    ]
    assert with_task_findings(reports, {"": "repeats"}) == reports
