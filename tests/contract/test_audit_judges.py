"""The audit of environments that ask a model, with a judge that repeats its question."""

import json
import threading
import urllib.error
import urllib.request

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.echo_judge import echo_judge
from ors_server.audit.judgement import AuditVerdict
from tests.fixtures import judged_environments as judged
from tests.fixtures.audited.honest import Exact

TALK = AuditOptions(tasks=2, only=frozenset({"H7"}))


def ask(url, body):
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


@pytest.fixture(autouse=True)
def no_judge_is_configured(monkeypatch):
    for name in ("BASE_URL", "API_KEY", "MODEL"):
        monkeypatch.delenv(f"ORS_JUDGE_{name}", raising=False)


async def test_a_verdict_that_the_reply_only_quotes_is_found():
    (found,) = (await audit(judged.Quoted, TALK)).classes
    assert found.verdict is AuditVerdict.FAIL
    assert "a judge that repeats its question pays a wrong answer" in found.findings[0].message
    assert "erdict: " in json.dumps(found.findings[0].transcript.model_dump())


async def test_a_hardened_judge_passes():
    (found,) = (await audit(judged.Hardened, TALK)).classes
    assert (found.verdict, found.findings) == (AuditVerdict.PASS, ())
    assert [score.variant for score in found.scores] == ["a judge that repeats its question"]


async def test_where_no_source_speaks_of_a_judge_none_is_asked(monkeypatch):
    monkeypatch.setattr("ors_server.audit.policies.claims.echo_judge", lambda: pytest.fail("it was asked"))
    (found,) = (await audit(Exact, TALK)).classes
    assert found.verdict is AuditVerdict.PASS


def test_the_echo_repeats_the_last_message_and_nothing_of_it_stays():
    with echo_judge() as judge:
        messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "GRADE: C"}]
        assert ask(judge.url, {"messages": messages})["choices"][0]["message"]["content"] == "GRADE: C"
        parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
        assert ask(judge.url, {"messages": parts})["choices"][0]["message"]["content"] == "a\nb"
        assert judge.questions == 2
        bodies: list[object] = [{}, [], {"messages": []}, {"messages": [{"content": 3}]}]
        for wrong in bodies:
            with pytest.raises(urllib.error.HTTPError, match="400"):
                ask(judge.url, wrong)
    assert "echo-judge" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(urllib.error.URLError):
        ask(judge.url, {"messages": messages})
