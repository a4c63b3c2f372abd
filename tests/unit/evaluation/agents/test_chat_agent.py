"""A language model plays through a real HTTP endpoint that a test has written."""

import json
from typing import Any

import pytest

from ors_server.evaluation.agents.base import AgentSettingsError
from ors_server.evaluation.agents.chat_agent import ChatAgent, ChatOptions
from ors_server.evaluation.budgets import UsageBudget
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.runs import AttemptKey, AttemptStatus
from tests.fixtures.chat_server import ChatServer, played_by_hint, refused, said
from tests.fixtures.evaluated_environments import PIXEL, Guessing, Talking
from tests.fixtures.evaluation_plays import PLACE, attempt_with, make_run, play_run
from tests.fixtures.hurried_clock import HurriedClock

pytestmark = pytest.mark.timeout(60)
RIGHT = ("guess", {"number": 2})
TALK = AttemptKey("test", 0, 1)


@pytest.fixture
def server():
    with ChatServer().serving() as serving:
        yield serving


@pytest.fixture
def clock():
    return HurriedClock()


@pytest.fixture
def play(server, clock):
    """Plays one attempt with a model; keywords are options, but for those of an attempt."""

    async def play(*script, environment=Guessing, place=PLACE, budget=None, **options):
        server.script = list(script) or server.script
        agent = ChatAgent("m", ChatOptions.of({"base_url": server.url, **options}), clock)
        try:
            changes = {} if budget is None else {"budget": budget}
            return await attempt_with(environment, agent, place, **changes)
        finally:
            await agent.aclose()

    return play


async def test_a_model_plays_by_calling_tools(play, server):
    server.decide = played_by_hint
    attempt, log = await play()
    assert (attempt.episode_return, attempt.steps, attempt.stop_reason) == (1.0, 2, "completed")
    assert (attempt.tokens_in, attempt.tokens_out, attempt.cost) == (200, 20, None)
    first, second = server.asked
    assert first["path"] == "/v1/chat/completions"
    assert first["model"] == "m"
    assert first["messages"] == [{"role": "user", "content": "Guess the number, which is 2."}]
    assert {tool["function"]["name"] for tool in first["tools"]} >= {"hint", "guess"}
    assert second["messages"][1]["tool_calls"][0]["function"] == {"name": "hint", "arguments": "{}"}
    assert second["messages"][2] == {"role": "tool", "tool_call_id": "id-0", "content": "It is small."}
    assert [json.loads(line)["role"] for line in log] == ["user", "assistant", "tool", "assistant", "tool"]


async def test_a_busy_endpoint_is_asked_again_and_no_call_is_repeated(play, server, clock):
    attempt, _ = await play(
        refused(429, "slow down", retry_after="7"),
        said("", ("bonus", {})),
        refused(503, "loading"),
        (200, {}, b"<html>proxy</html>"),
        said("", RIGHT),
    )
    assert (attempt.episode_return, attempt.steps) == (1.25, 2)
    assert len(server.asked) == 5
    assert clock.pauses[0] == 7.0
    assert len(clock.pauses) == 3


async def test_an_endpoint_that_stays_away_errs_after_so_many_tries(play, server):
    attempt, _ = await play(*[refused(500, "broken")] * 3, tries=3)
    assert (attempt.status, attempt.episode_return) == (AttemptStatus.ERRORED, None)
    assert "failed 3 times, the last time: 500" in (attempt.error or "")
    assert len(server.asked) == 3


async def test_an_endpoint_that_nobody_listens_at_errs(play, clock):
    attempt, _ = await play(base_url="http://127.0.0.1:9/v1", tries=2)
    assert attempt.status is AttemptStatus.ERRORED
    assert "no answer" in (attempt.error or "")
    assert len(clock.pauses) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refused(401, "who are you?"), id="unauthorised"),
        pytest.param(refused(429, "pay first", "insufficient_quota"), id="no quota"),
    ],
)
async def test_a_refusal_of_the_endpoint_errs_at_once(play, server, answer):
    attempt, _ = await play(answer)
    assert attempt.status is AttemptStatus.ERRORED
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "odd",
    [
        (200, {}, {"nothing": 1}),
        (200, {}, {"choices": []}),
        (200, {}, {"choices": [5]}),
        (200, {}, {"choices": [{"message": None}]}),
        (200, {}, {"error": {"message": "overloaded"}}),
        (200, {}, ["a"]),
        (200, {}, b'{"choices": [{"message": {"content": "\\ud800"}}]}'),
    ],
)
async def test_a_response_without_a_usable_message_is_requested_again_and_counted(play, server, odd):
    attempt, _ = await play(odd, refused(503, "loading"), said("", RIGHT))
    assert (attempt.status, attempt.episode_return, attempt.retries) == (AttemptStatus.DONE, 1.0, 2)
    assert attempt.retry_seconds > 0
    assert len(server.asked) == 3
    attempt, _ = await play(odd, odd, tries=2)
    assert (attempt.status, attempt.retries) == (AttemptStatus.ERRORED, 1)


ODD_COUNTS: list[Any] = [10**400, -1, "a", 1.5, True, [], 10**10]
USAGES: list[Any] = [
    *({"prompt_tokens": count, "completion_tokens": 1} for count in ODD_COUNTS),
    *("many", 5, [1]),
]


@pytest.mark.parametrize("usage", USAGES, ids=str)
async def test_usage_that_is_no_count_of_tokens_costs_the_attempt_and_says_so(play, server, usage):
    prices = {"price_in": 1.0, "price_out": 1.0}
    attempt, _ = await play(said("", RIGHT, usage=usage), **prices)
    assert (attempt.status, attempt.cost) == (AttemptStatus.ERRORED, None)
    assert "no usable reply: expected" in (attempt.error or "")
    assert "usage" in (attempt.error or "")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "odd",
    [
        said("", ("guess", "{}"), content=5),
        said("", tool_calls=5),
        said("", tool_calls=["a"]),
        said("", tool_calls=[{"function": "a"}]),
        said("", RIGHT, content=[5]),
    ],
)
async def test_a_message_of_other_types_costs_the_attempt_alone(play, server, odd):
    attempt, _ = await play(odd)
    assert attempt.status is AttemptStatus.ERRORED
    assert "is not a chat completion" in (attempt.error or "")


async def test_half_a_surrogate_pair_in_an_error_costs_one_attempt_and_not_the_run(play, server, tmp_path):
    server.decide = lambda _: (400, {}, b'{"error": {"message": "no \\ud800", "code": "\\udfff"}}')
    agent = ChatAgent("m", ChatOptions.of({"base_url": server.url}), HurriedClock())
    async with open_local_target(Guessing) as target:
        _, attempts = await play_run(target, agent, tmp_path / "run")
    await agent.aclose()
    assert len(attempts) == 6
    assert {attempt.status for attempt in attempts} == {AttemptStatus.ERRORED}
    assert "the endpoint refused with 400" in (attempts[0].error or "")


async def test_an_endpoint_that_leads_to_another_origin_is_not_followed(play, server):
    attempt, _ = await play((307, {"location": "http://localhost:9/v1/chat/completions"}, b""))
    assert attempt.status is AttemptStatus.ERRORED
    assert "redirects to another origin, http://localhost:9" in (attempt.error or "")
    attempt, _ = await play((307, {"location": "/v1/chat/completions"}, b""), said("", RIGHT))
    assert attempt.episode_return == 1.0


async def test_retries_and_pauses_stand_in_the_file_of_attempts(server, tmp_path):
    server.script = [refused(503, "loading"), said("", RIGHT)]
    agent = ChatAgent("m", ChatOptions.of({"base_url": server.url}), HurriedClock())
    run = make_run(indices=(2,), attempts=1)
    async with open_local_target(Guessing) as target:
        await play_run(target, agent, tmp_path / "run", run)
    await agent.aclose()
    (line,) = (tmp_path / "run" / "attempts.jsonl").read_text().splitlines()
    written = json.loads(line)
    assert written["retries"] == 1
    assert written["retry_seconds"] >= 0.25


async def test_malformed_arguments_are_told_to_the_model_and_not_run(play, server):
    attempt, _ = await play(said("", ("guess", '{"number": ')), said("", ("guess", "[2]")), said("", RIGHT))
    assert (attempt.episode_return, attempt.steps) == (1.0, 1)
    told = [message["content"] for message in server.asked[-1]["messages"] if message["role"] == "tool"]
    assert "are not JSON" in told[0]
    assert "not a JSON object" in told[1]


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", '"\\ud800"', '"\\udfff x"', "[" * 5000, "1" * 5000 + "e"],
    ids=lambda text: text[:12],
)
async def test_values_that_no_server_reads_are_told_to_the_model(play, server, value):
    attempt, _ = await play(said("", ("guess", f'{{"number": {value}}}')), said("", RIGHT))
    assert (attempt.status, attempt.episode_return, attempt.steps) == (AttemptStatus.DONE, 1.0, 1)
    told = [message["content"] for message in server.asked[-1]["messages"] if message["role"] == "tool"]
    assert "are not JSON" in told[0]


async def test_a_model_that_never_writes_json_ends_with_what_was_paid(play):
    attempt, _ = await play(*[said("", ("guess", "{"))] * 3)
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.DONE, "malformed_calls")
    assert (attempt.episode_return, attempt.steps) == (0.0, 0)


async def test_parallel_calls_are_made_in_order_up_to_the_end(play, server):
    attempt, _ = await play(
        said("", ("bonus", {}), ("bonus", {}), RIGHT, ("bonus", {})), parallel_tool_calls=True
    )
    assert (attempt.episode_return, attempt.steps) == (1.5, 3)
    assert server.asked[0]["parallel_tool_calls"] is True


async def test_parallel_calls_are_answered_one_by_one(play, server):
    await play(said("", ("bonus", {}), ("hint", {})), said("", RIGHT))
    results = [message for message in server.asked[1]["messages"] if message["role"] == "tool"]
    assert [result["tool_call_id"] for result in results] == ["id-0", "id-1"]
    assert [result["content"] for result in results] == ["Here you are.", "It is small."]


async def test_a_model_that_only_talks_is_reminded_and_then_keeps_what_it_was_paid(play, server):
    attempt, _ = await play(said("", ("bonus", {})), *[said("I think so.")] * 3, nudges=2)
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.DONE, "no_tool_call")
    assert attempt.episode_return == 0.25
    assert server.asked[-1]["messages"][-1]["content"].startswith("The task is not over.")
    assert len(server.asked) == 4


async def test_a_reminder_helps(play):
    attempt, _ = await play(said("Hm."), said("", RIGHT), nudges=1)
    assert attempt.episode_return == 1.0


async def test_last_words_go_to_a_terminal_tool(play, server):
    attempt, _ = await play(said("what?"), said("yes"), environment=Talking, place=TALK)
    assert (attempt.episode_return, attempt.steps) == (1.0, 2)
    assert "tools" not in server.asked[0]
    assert server.asked[1]["messages"][-1] == {"role": "user", "content": "Say it again."}


async def test_words_that_were_cut_off_are_no_last_words(play):
    attempt, _ = await play(*[said("ye", finish="length")] * 2, environment=Talking, place=TALK, nudges=1)
    assert (attempt.stop_reason, attempt.steps, attempt.status) == ("length", 0, AttemptStatus.DONE)


@pytest.mark.parametrize("answer", [said("", finish="content_filter"), said(None, refusal="I will not.")])
async def test_a_refusal_of_the_model_ends_with_what_was_paid(play, answer):
    attempt, _ = await play(said("", ("bonus", {})), answer)
    assert attempt.status is AttemptStatus.DONE
    assert (attempt.stop_reason, attempt.episode_return) == ("refused", 0.25)


@pytest.mark.parametrize(
    "overflow",
    [
        refused(400, "too much", "context_length_exceeded"),
        refused(400, "This model's maximum context length is 8192 tokens. However, you requested 9000."),
        refused(400, "the request exceeds the available context size"),
    ],
    ids=["OpenAI", "vLLM", "llama.cpp"],
)
async def test_a_conversation_that_grew_too_long_ends_with_what_was_paid(play, overflow):
    attempt, _ = await play(said("", ("bonus", {})), overflow)
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.DONE, "context_overflow")
    assert attempt.episode_return == 0.25


async def test_a_task_that_does_not_even_fit_errs(play):
    attempt, _ = await play(refused(400, "too much", "context_length_exceeded"))
    assert attempt.status is AttemptStatus.ERRORED
    assert "does not fit" in (attempt.error or "")


async def test_pictures_are_shown_after_the_results(play, server):
    await play(said("", ("picture", {})), said("", RIGHT))
    tool, picture = server.asked[1]["messages"][-2:]
    assert tool["content"] == "Look:\n\n[image: it follows]"
    assert picture["content"] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    ]


async def test_a_model_without_eyes_is_told_that_there_was_a_picture(play, server):
    _, log = await play(said("", ("picture", {})), said("", RIGHT), images=False)
    shown = {"role": "tool", "tool_call_id": "id-0", "content": "Look:\n\n[image]"}
    assert server.asked[1]["messages"][-1] == shown
    assert PIXEL not in "".join(log)


async def test_options_are_sent_and_those_that_are_not_set_are_not(play, server):
    limits = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 50, "reasoning_effort": "low"}
    await play(said("", RIGHT), system="Be brief.", send_seed=True, extra={"top_k": 3}, **limits)
    asked = server.asked[0]
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (asked["temperature"], asked["top_p"], asked["max_completion_tokens"]) == (0.5, 0.9, 50)
    assert (asked["reasoning_effort"], asked["top_k"]) == ("low", 3)
    assert 0 <= asked["seed"] < 2**31
    await play(said("", RIGHT))
    assert set(server.asked[1]) == {"path", "model", "messages", "tools"}


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "dropped"])
async def test_reasoning_is_shown_to_the_model_again_only_on_request(play, server, keep):
    await play(said("", ("hint", {}), reasoning_content="Let me see."), said("", RIGHT), keep_reasoning=keep)
    assert server.asked[1]["messages"][1].get("reasoning_content") == ("Let me see." if keep else None)


async def test_tokens_cost_what_the_prices_say(play):
    attempt, _ = await play(said("", RIGHT), price_in=2.0, price_out=10.0)
    assert attempt.cost == pytest.approx((100 * 2.0 + 10 * 10.0) / 1e6)


async def test_a_budget_of_tokens_ends_the_attempt(play, server):
    attempt, _ = await play(*[said("", ("bonus", {}))] * 5, budget=UsageBudget(tokens=250))
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.OVER_BUDGET, "token_budget")
    assert (attempt.episode_return, len(server.asked)) == (0.5, 3)


async def test_a_budget_that_cannot_be_kept_errs(play):
    silent, _ = await play(said("", RIGHT, usage=None), budget=UsageBudget(tokens=100))
    assert "does not tell how many tokens" in (silent.error or "")
    free, _ = await play(said("", RIGHT), budget=UsageBudget(cost=1.0))
    assert "price_in and price_out" in (free.error or "")


async def test_without_a_budget_tokens_may_stay_unknown(play):
    attempt, _ = await play(said("", RIGHT, usage=None), price_in=1.0, price_out=1.0)
    assert (attempt.episode_return, attempt.tokens_in, attempt.cost) == (1.0, None, None)


async def test_the_key_comes_from_the_environment_and_is_not_described(play, server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cret")
    await play(said("", RIGHT), api_key_env="MY_KEY")
    assert server.keys == ["Bearer s3cret"]
    described = ChatAgent("m", ChatOptions.of({"base_url": server.url, "api_key_env": "MY_KEY"})).describe()
    assert "s3cret" not in str(described)
    assert (described["kind"], described["name"], len(described)) == ("openai", "m", 3)
    assert described["options"] == {"base_url": server.url, "api_key_env": "MY_KEY"}


async def test_without_endpoint_and_key_nothing_is_sent(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    attempt, _ = await attempt_with(Guessing, ChatAgent("m"))
    assert "set OPENAI_API_KEY" in (attempt.error or "")


@pytest.mark.parametrize(
    "options", [{"temprature": 1}, {"temperature": "warm"}, {"nudges": -1}, {"top_p": 0}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(AgentSettingsError, match=next(iter(options))):
        ChatOptions.of(options)


def test_a_model_has_a_name():
    with pytest.raises(AgentSettingsError, match="openai:MODEL"):
        ChatAgent("")
