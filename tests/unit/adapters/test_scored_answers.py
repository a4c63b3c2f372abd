"""Answers that another package scores: an outage is never the answer's fault, a broken scorer is."""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from ors_server.adapters.scored_answers import TRIES, ScoredAnswer
from ors_server.model.errors import OrsServerError
from ors_server.resources.resource_errors import ResourceCallError, ResourceError, ResourceTimeoutError
from ors_server.testing.local_client import open_environment

SEED = 30
RIGHT = 1000
"""Right answers that a flaky endpoint scores."""
FRAMES = 'Traceback (most recent call last):\n  File "/lib/{file}", line 3, in post\n    return send()\n'


def raised(kind: str, message: str = "no", file: str = "scorers.py") -> ResourceCallError:
    trace = f"{FRAMES.format(file=file)}{kind}: {message}\n"
    return ResourceCallError(f"score raised {kind}: {message}", kind=kind, remote_traceback=trace)


OUTAGES = {
    "a connection": lambda: raised("APIConnectionError"),
    "a time-out of the endpoint": lambda: raised("ReadTimeout"),
    "a status": lambda: raised("HTTPStatusError", "503"),
    "too many requests": lambda: raised("RateLimitError"),
    "the system": lambda: raised("OSError", "[Errno 101] Network is unreachable"),
    "a cut reply": lambda: raised("JSONDecodeError", "line 1", file="site-packages/httpx/_models.py"),
    "a cause": lambda: ResourceCallError(
        "score raised ValueError: no",
        kind="ValueError",
        remote_traceback="openai.APIConnectionError: Connection error.\n\nThe above exception was ...\n"
        "ValueError: no\n",
    ),
    "a worker that does not answer": lambda: ResourceTimeoutError("no answer within 120 seconds"),
    "a pool": lambda: ResourceError("no worker"),
}


class Scripted(ScoredAnswer):
    """Scores by a script of what the scorer does with an answer."""

    name = "scripted"
    tasks: ClassVar[Any] = ({"id": "a", "messages": [], "choices": [], "answer": "right"},)
    failures: ClassVar[Iterator[Exception | None]]
    breaks: ClassVar[str] = ""

    @override
    async def _score(self, answer: str) -> dict[str, float | None]:
        if self.breaks and self.breaks in answer:
            raise raised("RecursionError", f"too deep at 0x{random.getrandbits(40):x}")
        failure = next(self.failures)
        if failure is not None:
            raise failure
        return {"exact": float(answer == "right")}


async def submit(environment: type[Scripted], answer: str, times: int = 1):
    """Submits in sessions of their own, and returns what each was paid and how many steps were unjudged."""
    figures = []
    async with open_environment(environment) as client:
        for _ in range(times):
            session = await client.create(split="test", index=0)
            try:
                output = await session.submit("submit", {"answer": answer})
                paid, finished = output.reward, output.finished
            except OrsServerError:
                paid, finished = None, False
            figures.append((paid, finished, (await session.summary()).unjudged_steps))
            await session.aclose()
    return figures


def scripted(failures: Iterator[Exception | None], **more: Any) -> type[Scripted]:
    return type("ScriptedHere", (Scripted,), {"failures": failures, **more})


def repeat(make) -> Iterator[Exception]:
    while True:
        yield make()


@pytest.mark.parametrize("outage", OUTAGES)
async def test_an_answer_pays_for_no_outage(outage):
    assert await submit(scripted(repeat(OUTAGES[outage])), "right") == [(None, False, 1)]


async def test_a_scorer_whose_endpoint_comes_back_is_asked_again():
    failures = [raised("APIConnectionError")] * (TRIES - 1)
    assert await submit(scripted(iter([*failures, None])), "right") == [(1.0, True, 0)]


async def test_a_flaky_endpoint_counts_no_right_answer_as_wrong():
    chance = random.Random(SEED)  # noqa: S311  (a simulation)

    def flaky() -> Iterator[Exception | None]:
        while True:
            kind = chance.choice(list(OUTAGES))
            yield OUTAGES[kind]() if chance.random() < 0.3 else None

    figures = await submit(scripted(flaky()), "right", times=RIGHT)
    assert [one for one in figures if one[0] not in {None, 1.0}] == []
    assert all((paid is None) == bool(unjudged) for paid, _, unjudged in figures)
    assert sum(paid == 1.0 for paid, _, _ in figures) > RIGHT / 2


async def test_an_answer_that_breaks_its_scorer_again_and_again_earns_the_least():
    environment = scripted(repeat(lambda: None), breaks="boom")
    assert await submit(environment, "boom") == [(0.0, True, 0)]


async def test_a_scorer_that_is_broken_without_the_answer_is_at_fault():
    environment = scripted(repeat(lambda: raised("KeyError", "'x'")))
    assert await submit(environment, "right") == [(None, False, 1)]


async def test_a_scorer_that_fails_in_another_way_the_second_time_is_at_fault():
    failures = [raised("KeyError", "'x'"), None, raised("TypeError", "not this")]
    assert await submit(scripted(iter(failures)), "right") == [(None, False, 1)]


async def test_a_scorer_that_succeeds_the_second_time_is_believed():
    assert await submit(scripted(iter([raised("KeyError", "'x'"), None, None])), "right") == [(1.0, True, 0)]
