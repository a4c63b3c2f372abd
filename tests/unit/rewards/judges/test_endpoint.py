"""The transport, against a real HTTP server that misbehaves."""

import json
import subprocess
import sys
import threading

import anyio
import pytest

from ors_server.installation import install_hint
from ors_server.rewards import judges
from ors_server.rewards.judges import (
    EndpointJudge,
    EndpointOptions,
    JudgeError,
    JudgeOptions,
    JudgeSettingsError,
    Question,
    Sampling,
    ask,
)
from ors_server.rewards.judges.replies import SCORE_SCHEMA, read_score
from tests.fixtures.hostile_servers import MIB, packed
from tests.fixtures.hurried_clock import HurriedClock
from tests.fixtures.loop_slices import measured_slices, yardstick

ASKED = [{"role": "user", "content": "How good is it?"}]
OPENAI = ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "ADMIN_KEY")


def endpoint(server, clock=None, **settings):
    options = EndpointOptions(**{"time_limit": 10.0, **settings.pop("options", {})})
    return EndpointJudge(
        "m", base_url=server.url, api_key="k", options=options, clock=clock or HurriedClock(), **settings
    )


async def test_a_question_is_sent_as_a_chat_completion(server):
    server.play({"text": "fine"})
    judge = endpoint(server, sampling=Sampling(temperature=0.5, max_tokens=7, seed=10, extra={"top_p": 0.9}))
    completion = await judge.complete(ASKED, SCORE_SCHEMA, sample=2)
    assert (completion.text, completion.prompt_tokens, completion.completion_tokens) == ("fine", 100, 10)
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer k"
    schema = asked.body.pop("response_format")
    assert schema["json_schema"] == {"name": "verdict", "strict": True, "schema": SCORE_SCHEMA}
    assert asked.body == {
        "model": "m",
        "messages": ASKED,
        "temperature": 0.5,
        "max_tokens": 7,
        "seed": 12,
        "top_p": 0.9,
    }


async def test_nothing_of_the_policys_environment_reaches_the_judge(server, monkeypatch):
    for name in OPENAI:
        monkeypatch.setenv(f"OPENAI_{name}", "http://captured.invalid")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-captured: captured\nAuthorization: Bearer captured")
    monkeypatch.setenv("ORS_JUDGE_BASE_URL", server.url)
    monkeypatch.setenv("ORS_JUDGE_API_KEY", "own")
    monkeypatch.setenv("ORS_JUDGE_MODEL", "own-model")
    server.play({"text": "fine"})
    await EndpointJudge.from_environment().complete(ASKED)
    (asked,) = server.asked
    assert asked.headers["authorization"] == "Bearer own"
    assert asked.body["model"] == "own-model"
    assert "captured" not in json.dumps(asked.headers)
    assert not any(name.startswith("openai-") for name in asked.headers)


@pytest.mark.parametrize("missing", ["ORS_JUDGE_BASE_URL", "ORS_JUDGE_MODEL"])
async def test_what_is_not_set_up_is_named(missing, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://captured.invalid")
    monkeypatch.setenv("ORS_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ORS_JUDGE_MODEL", "m")
    monkeypatch.delenv(missing)
    with pytest.raises(JudgeSettingsError, match=missing):
        EndpointJudge.from_environment()


async def test_a_named_model_needs_no_default(monkeypatch):
    monkeypatch.setenv("ORS_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv("ORS_JUDGE_MODEL", raising=False)
    assert EndpointJudge.from_environment("other").name == "other"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_what_may_pass_is_tried_again_with_growing_pauses(server, status):
    server.play({"status": status}, {"status": status}, {"status": status}, {"text": "fine"})
    clock = HurriedClock()
    completion = await endpoint(server, clock, options={"first_wait": 1.0}).complete(ASKED)
    assert (completion.text, completion.retries) == ("fine", 3)
    assert completion.latency == pytest.approx(sum(clock.pauses))
    for wait, longest in zip(clock.pauses, (1.0, 2.0, 4.0), strict=True):
        assert longest / 2 <= wait <= longest


async def test_an_endpoint_that_says_when_to_come_back_is_obeyed_within_reason(server):
    told = [{"status": 429, "headers": {"retry-after": after}} for after in ("7", "9999", "soon", "nan")]
    server.play(*told, {"text": "fine"})
    clock = HurriedClock()
    await endpoint(server, clock, options={"longest_wait": 20.0}).complete(ASKED)
    assert 7 <= clock.pauses[0] <= 8
    assert clock.pauses[1] == 20.0
    assert all(wait <= 4.0 for wait in clock.pauses[2:])


async def test_an_endpoint_that_never_recovers_is_an_error_that_says_so(server):
    server.play({"status": 500, "text": "the GPU is on fire"})
    with pytest.raises(JudgeError, match=r"failed 3 times.*the GPU is on fire") as caught:
        await endpoint(server, options={"most_retries": 2}).complete(ASKED)
    assert len(server.asked) == 3
    assert caught.value.extras == {"judge_retries": 2}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_not_tried_again(server, status):
    server.play({"status": status, "text": "no such model"})
    with pytest.raises(JudgeError, match=r"refused.*no such model"):
        await endpoint(server).complete(ASKED, SCORE_SCHEMA)
    assert len(server.asked) == 1


async def test_an_endpoint_that_takes_no_schema_is_asked_without_one_from_then_on(server):
    server.play({"status": 400, "text": "response_format json_schema is not supported"}, {"text": "fine"})
    judge = endpoint(server)
    assert (await judge.complete(ASKED, SCORE_SCHEMA)).retries == 0
    await judge.complete(ASKED, SCORE_SCHEMA)
    assert ["response_format" in asked.body for asked in server.asked] == [True, False, False]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "This model does not support Structured Outputs"),
        (404, "No endpoints found that can handle the requested parameters"),
        (422, "unknown field: guided_json"),
        (500, "failed to compile the grammar"),
        (501, "JSON schema is not implemented"),
    ],
)
async def test_a_refusal_of_the_schema_in_any_words_leads_to_a_question_without_one(server, status, text):
    server.play({"status": status, "text": text}, {"text": "fine"})
    assert (await endpoint(server).complete(ASKED, SCORE_SCHEMA)).text == "fine"
    assert ["response_format" in asked.body for asked in server.asked] == [True, False]


async def test_an_endpoint_that_does_not_answer_is_given_up(server):
    server.play({"waits": True})
    with anyio.fail_after(20), pytest.raises(JudgeError, match="failed 2 times"):
        await endpoint(server, options={"time_limit": 0.2, "most_retries": 1}).complete(ASKED)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "act",
    [
        {"text": "cut", "is_short": True},
        {"body": b"<html>Bad gateway</html>", "headers": {"content-type": "text/html"}},
        {"body": b'{"choices": [{"message": {"content": "fi'},
        {"body": b"[1, 2]"},
        {"body": b"[" * 100_000},
        {"body": b""},
    ],
    ids=["short", "html", "truncated", "array", "deep", "empty"],
)
async def test_a_body_that_is_no_completion_is_tried_again(server, act):
    server.play(act, {"text": "fine"})
    completion = await endpoint(server).complete(ASKED)
    assert (completion.text, completion.retries) == ("fine", 1)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "out of credit"}},
        {"choices": []},
        {"choices": [{"message": "hello"}]},
        {"choices": 3},
        {"choices": [{"message": {"content": "fi"}, "error": {"message": "no capacity"}}]},
    ],
)
async def test_a_completion_without_a_message_is_tried_again(server, body):
    broken = {"body": json.dumps(body).encode()}
    server.play(broken, broken, {"text": "fine"})
    completion = await endpoint(server).complete(ASKED)
    assert (completion.text, completion.retries) == ("fine", 2)
    server.play(broken)
    with pytest.raises(JudgeError, match=r"failed 2 times.*(no choices|out of credit|no capacity)"):
        await endpoint(server, options={"most_retries": 1}).complete(ASKED)


async def test_a_completion_that_refuses_the_schema_is_asked_for_without_it(server):
    error = {"error": {"message": "response_format is not supported"}}
    server.play({"body": json.dumps(error).encode()}, {"text": "fine"})
    assert (await endpoint(server).complete(ASKED, SCORE_SCHEMA)).text == "fine"
    assert ["response_format" in asked.body for asked in server.asked] == [True, False]


async def test_nobody_at_the_address_is_an_error(server):
    judge = EndpointJudge(
        "m", base_url="http://127.0.0.1:9/v1", options=EndpointOptions(most_retries=1), clock=HurriedClock()
    )
    with pytest.raises(JudgeError, match="failed 2 times"):
        await judge.complete(ASKED)


async def test_no_more_requests_are_under_way_than_allowed(server):
    server.play({"text": "fine", "waits": True})
    judge = endpoint(server, options={"at_once": 2})
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(judge.complete, ASKED)
            await anyio.to_thread.run_sync(server.wait_for_requests, 2)
            server.let_go.set()
    assert len(server.asked) == 10
    assert server.most == 2


async def test_connections_are_kept_within_a_with_statement_and_closed_after_it(server):
    server.play({"text": "fine"})
    async with endpoint(server) as judge:
        assert [(await judge.complete(ASKED)).text for _ in range(2)] == ["fine", "fine"]
    assert (await judge.complete(ASKED)).text == "fine"


async def test_one_judge_serves_several_event_loops(server):
    server.play({"text": "fine"})
    judge = endpoint(server)
    texts = []
    threads = [
        threading.Thread(target=lambda: texts.append(anyio.run(judge.complete, ASKED).text)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, 20.0)
    assert texts == ["fine"] * 4


async def test_unusable_replies_over_the_wire_are_corrected(server):
    server.play(
        {"text": "I would say it is fine"},
        {"text": '{"reason": "r", "sco', "finish": "length"},
        {"text": "Score: 0.4"},
    )
    answered = await ask(endpoint(server), Question(ASKED, SCORE_SCHEMA), read_score, JudgeOptions())
    assert answered.verdict.score == 0.4
    assert (answered.usage.calls, answered.usage.corrections, answered.usage.prompt_tokens) == (3, 2, 300)
    last = server.asked[-1].body["messages"]
    assert [message["role"] for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert "cut off" in last[-1]["content"]


async def test_a_missing_package_names_the_extra():
    program = (
        "import sys, anyio; sys.modules['openai'] = None\n"
        "from ors_server.rewards.judges import EndpointJudge\n"
        "anyio.run(EndpointJudge('m', base_url='http://127.0.0.1:9').complete, [])\n"
    )
    done = await anyio.run_process([sys.executable, "-c", program], check=False, stderr=subprocess.PIPE)
    assert b"JudgeSettingsError" in done.stderr
    assert install_hint("judges").encode() in done.stderr


async def test_the_package_is_not_imported_until_a_question_is_asked():
    program = (
        "import sys, ors_server.rewards.judges, ors_server.rewards.judged; print('openai' in sys.modules)"
    )
    done = await anyio.run_process([sys.executable, "-c", program])
    assert done.stdout.strip() == b"False"


def test_the_old_name_of_the_options_warns():
    with pytest.warns(DeprecationWarning, match="EndpointOptions"):
        assert judges.Manners is EndpointOptions
    with pytest.warns(DeprecationWarning, match="use options="):
        judge = EndpointJudge("m", base_url="http://127.0.0.1:9/v1", manners=EndpointOptions(at_once=2))
    assert judge.options.at_once == 2
    with pytest.raises(TypeError, match="no argument patience"):
        EndpointJudge("m", base_url="http://127.0.0.1:9/v1", patience=EndpointOptions())


@pytest.mark.parametrize("count", [10**400, -1, "a", 1.5, True, []], ids=str)
async def test_a_usage_that_is_no_count_of_tokens_is_an_error_that_quotes_it(server, count):
    server.play({"text": "fine", "usage": {"prompt_tokens": count, "completion_tokens": 1}})
    with pytest.raises(JudgeError, match=r"expected usage\.prompt_tokens .* from 0 to 1,000,000,000, got"):
        await endpoint(server).complete(ASKED)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        ({"body": packed(b"a", 200 * MIB), "headers": {"content-encoding": "gzip"}}, "16,777,216 bytes"),
        ({"body": b"{}", "headers": {"content-encoding": "br"}}, "expected gzip or deflate"),
        ({"status": 307, "headers": {"location": "http://localhost:9/"}}, "redirects to another origin"),
    ],
)
async def test_a_reply_beyond_a_bound_is_not_requested_again(server, act, problem):
    server.play(act)
    with pytest.raises(JudgeError, match=problem):
        await endpoint(server).complete(ASKED)
    assert len(server.asked) == 1


async def test_a_reply_of_many_values_does_not_hold_the_event_loop(server):
    server.play({"body": b"[" + b"[]," * (5 * MIB) + b"1]"})
    with measured_slices() as slices, pytest.raises(JudgeError, match="more than 500000 values"):
        await endpoint(server, options={"most_retries": 0}).complete(ASKED)
    assert slices.worst < yardstick(), slices.where
