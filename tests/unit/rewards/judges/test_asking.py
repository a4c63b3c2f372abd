"""Corrections, cache, budget, accounting, record and replay."""

import threading

import anyio
import pytest

from ors_server.rewards.judges import (
    Budget,
    Completion,
    JudgeBudgetError,
    JudgeCache,
    JudgeError,
    JudgeOptions,
    JudgeSettingsError,
    Price,
    Question,
    RecordingJudge,
    ReplayingJudge,
    Sampling,
    ScriptedJudge,
    Usage,
    ask,
)
from ors_server.rewards.judges.judge_model import key_of
from ors_server.rewards.judges.replies import SCORE_SCHEMA, read_score

ASKED = [{"role": "user", "content": "How good is it?"}]
COUNTED = Completion("0.5", prompt_tokens=1000, completion_tokens=100, latency=2.0, retries=1)
PRICES = {"scripted": Price(prompt=2.0, completion=10.0)}


async def asked(model, **options):
    return await ask(model, Question(ASKED, SCORE_SCHEMA), read_score, JudgeOptions(**options))


async def test_an_unusable_reply_is_corrected_with_what_was_wrong():
    model = ScriptedJudge(["8 of 10", Completion("0.", is_cut=True), "", "0.8"])
    answered = await asked(model)
    assert answered.verdict.score == 0.8
    assert (answered.usage.calls, answered.usage.corrections) == (4, 3)
    conversation = model.asked[-1]
    assert conversation[1] == {"role": "assistant", "content": "8 of 10"}
    assert "states no score" in conversation[2]["content"]
    assert conversation[5]["content"] == "(nothing)"
    assert model.schemas == [SCORE_SCHEMA] * 4


async def test_after_three_corrections_it_is_an_error_that_says_what_it_cost():
    model = ScriptedJudge("no idea")
    with pytest.raises(JudgeError, match="no usable verdict in 4 replies") as caught:
        await asked(model)
    assert len(model.asked) == 4
    assert caught.value.extras["judge_calls"] == 4
    assert caught.value.extras["judge_corrections"] == 3


async def test_corrections_may_be_forbidden_but_not_multiplied():
    model = ScriptedJudge("no idea")
    with pytest.raises(JudgeError):
        await asked(model, corrections=0)
    assert len(model.asked) == 1
    with pytest.raises(JudgeSettingsError):
        JudgeOptions(corrections=4)
    with pytest.raises(JudgeSettingsError):
        JudgeOptions(samples=0)


async def test_whatever_a_model_raises_is_a_judges_error():
    with pytest.raises(JudgeError, match="RuntimeError: boom"):
        await asked(ScriptedJudge(RuntimeError("boom")))


async def test_an_error_after_a_correction_still_says_what_was_paid():
    with pytest.raises(JudgeError) as caught:
        await asked(ScriptedJudge(["no idea", JudgeError("gone", {"judge_retries": 2})]), prices=PRICES)
    assert caught.value.extras["judge_calls"] == 1
    assert caught.value.extras["judge_retries"] == 2
    assert caught.value.extras["judge_cost"] > 0


async def test_tokens_cost_time_and_retries_are_counted():
    answered = await asked(ScriptedJudge(COUNTED), prices=PRICES)
    assert answered.usage == Usage(
        calls=1, prompt_tokens=1000, completion_tokens=100, cost=pytest.approx(0.003), latency=2.0, retries=1
    )
    assert "judge_estimated_calls" not in answered.usage.as_extras()


async def test_tokens_that_an_endpoint_does_not_count_are_estimated_and_said_to_be():
    extras = (await asked(ScriptedJudge("0.5"))).usage.as_extras()
    assert extras["judge_prompt_tokens"] == len("How good is it?") / 3
    assert extras["judge_estimated_calls"] == 1
    assert "judge_cost" not in extras


@pytest.mark.parametrize(
    "cap", [{"most_calls": 2}, {"most_tokens": 2200}, {"most_cost": 0.006}], ids=["calls", "tokens", "cost"]
)
async def test_a_budget_stops_before_the_next_call(cap):
    model, budget = ScriptedJudge(COUNTED), Budget(**cap)
    for _ in range(2):
        await asked(model, budget=budget, prices=PRICES)
    with pytest.raises(JudgeBudgetError, match=f"of .* {next(iter(cap)).removeprefix('most_')}"):
        await asked(model, budget=budget, prices=PRICES)
    assert len(model.asked) == 2
    assert budget.spent.calls == 2


async def test_the_cap_on_calls_holds_however_many_ask_at_once():
    model, budget = ScriptedJudge("0.5"), Budget(most_calls=5)
    refused = []

    async def one():
        try:
            await asked(model, budget=budget)
        except JudgeBudgetError:
            refused.append(1)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
    assert (len(model.asked), len(refused)) == (5, 15)


async def test_a_cap_on_cost_needs_a_price():
    with pytest.raises(JudgeSettingsError, match="price"):
        await asked(ScriptedJudge("0.5"), budget=Budget(most_cost=1.0))


async def test_the_same_question_is_paid_for_once(tmp_path):
    cache = JudgeCache(tmp_path / "judge.sqlite")
    model, budget = ScriptedJudge(COUNTED), Budget(most_calls=1)
    first = await asked(model, cache=cache, budget=budget)
    second = await asked(model, cache=JudgeCache(tmp_path / "judge.sqlite"), budget=budget)
    assert first.verdict == second.verdict
    assert second.usage == Usage(cached=1)
    assert len(model.asked) == 1


async def test_a_failure_is_not_kept(tmp_path):
    cache = JudgeCache(tmp_path / "judge.sqlite")
    with pytest.raises(JudgeError):
        await asked(ScriptedJudge("no idea"), cache=cache)
    assert len(cache) == 0
    assert (await asked(ScriptedJudge("0.5"), cache=cache)).verdict.score == 0.5


def test_the_key_is_of_model_sampling_messages_and_schema():
    model = ScriptedJudge("")
    keys = [
        key_of(model, ASKED),
        key_of(model, ASKED, SCORE_SCHEMA),
        key_of(model, ASKED, sample=1),
        key_of(model, [*ASKED, *ASKED]),
        key_of(ScriptedJudge("", name="other"), ASKED),
        key_of(ScriptedJudge("", sampling=Sampling(temperature=1.0)), ASKED),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(ScriptedJudge("else"), [dict(reversed(ASKED[0].items()))]) == keys[0]


def test_threads_may_share_a_cache(tmp_path):
    cache = JudgeCache(tmp_path / "judge.sqlite")

    def fill(part):
        for number in range(20):
            cache.put(f"{part}-{number}", Completion(str(number)))
            cache.put("shared", Completion("x"))

    threads = [threading.Thread(target=fill, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(cache) == 81
    assert cache.get("3-7") == Completion("7")
    assert cache.get("nothing") is None


async def test_a_recording_replays_without_the_model(tmp_path):
    path = tmp_path / "judge.jsonl"
    recorded = await asked(RecordingJudge(ScriptedJudge(["8 of 10", "0.8"]), path))
    for _ in range(2):
        replayed = await asked(ReplayingJudge(path, name="scripted"))
        assert replayed.verdict == recorded.verdict
        assert replayed.usage.corrections == 1


async def test_a_question_that_was_not_recorded_is_an_error(tmp_path):
    path = tmp_path / "judge.jsonl"
    await asked(RecordingJudge(ScriptedJudge("0.8"), path))
    with pytest.raises(JudgeError, match=r"no reply of other.*How good is it"):
        await asked(ReplayingJudge(path, name="other"))


async def test_replies_to_a_question_that_was_asked_again_come_in_their_turn(tmp_path):
    path = tmp_path / "judge.jsonl"
    recorder = RecordingJudge(ScriptedJudge(["0.1", "0.2"]), path)
    await asked(recorder)
    await asked(recorder)
    replay = ReplayingJudge(path, name="scripted")
    assert [(await asked(replay)).verdict.score for _ in range(3)] == [0.1, 0.2, 0.2]


@pytest.mark.parametrize("text", ["{", "[]", '{"key": "k"}', '{"key": "k", "reply": {"other": 1}}'])
def test_a_file_that_is_no_recording_is_refused(tmp_path, text):
    path = tmp_path / "judge.jsonl"
    path.write_text(text)
    with pytest.raises(JudgeSettingsError, match="line 1"):
        ReplayingJudge(path, name="m")


async def test_a_reply_is_read_in_a_thread():
    threads = []

    def read(text):
        threads.append(threading.get_ident())
        return read_score(text)

    await ask(ScriptedJudge(["no idea", "0.8"]), Question(ASKED, SCORE_SCHEMA), read, JudgeOptions())
    assert len(threads) == 2
    assert threading.get_ident() not in threads
