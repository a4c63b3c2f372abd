"""Transcripts become as short as they can be, and stay what they show."""

import random

import pytest

from ors_server.audit.auditing import minimise
from ors_server.audit.plays import Call, CallPlan, PlayResult


class ScriptedPlayer:
    """Pays whatever a function says, and counts the plays."""

    def __init__(self, pay):
        self.pay = pay
        self.count = 0

    async def play(self, plays):
        self.count += len(plays)
        return [PlayResult(total=self.pay(one.calls)) for one in plays]


def texts_of(calls):
    return [arguments.get("text", "") for _, arguments in calls]


async def test_calls_that_earn_nothing_go():
    calls: list[Call] = [*[("wait", {})] * 7, ("pick", {}), *[("wait", {})] * 5]
    player = ScriptedPlayer(lambda some: float(("pick", {}) in some))
    found = await minimise(player, CallPlan("test", 0, tuple(calls)), 1.0)
    assert found.calls == (("pick", {}),)


@pytest.mark.parametrize("seed", range(20))
async def test_a_text_shrinks_around_what_pays(seed):
    rng = random.Random(seed)  # noqa: S311  (a test)
    word = "".join(rng.choice("abc") for _ in range(4))
    noise = ["".join(rng.choice("xyz ") for _ in range(rng.randint(0, 60))) for _ in range(2)]
    text = noise[0] + word + noise[1]
    player = ScriptedPlayer(lambda calls: float(any(word in one for one in texts_of(calls))))
    found = await minimise(player, CallPlan("test", 0, (("say", {"text": text}),)), 1.0)
    (short,) = texts_of(found.calls)
    assert word in short
    assert len(short) <= len(text)
    assert player.count <= 300


async def test_a_transcript_that_every_change_breaks_stays():
    play = CallPlan("test", 0, (("a", {"text": "long text"}), ("b", {})))
    assert await minimise(ScriptedPlayer(lambda calls: float(calls == play.calls)), play, 1.0) == play


async def test_what_becomes_honest_is_no_transcript():
    play = CallPlan("test", 0, (("say", {"text": "xViennax"}),))
    player = ScriptedPlayer(lambda calls: float("Vienna" in texts_of(calls)[0]) if calls else 0.0)
    found = await minimise(player, play, 1.0, lambda one: texts_of(one.calls) != ["Vienna"])
    assert texts_of(found.calls) != ["Vienna"]


async def test_texts_that_make_a_finding_are_not_shortened():
    calls: list[Call] = [("wait", {}), ("say", {"text": "(lambda: int('13'[::-1]))()"}), ("wait", {})]
    player = ScriptedPlayer(lambda some: float(any("int" in text for text in texts_of(some))))
    found = await minimise(player, CallPlan("test", 0, tuple(calls)), 1.0, keeps_texts=True)
    assert found.calls == (calls[1],)
