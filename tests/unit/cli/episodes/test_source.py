"""A server's record read over HTTP, where the server does what it should not."""

import json
from contextlib import aclosing
from datetime import UTC, datetime

import httpx2
import pytest

from ors_server.cli.command_output import CommandError
from ors_server.cli.server_record import ServerRecord
from ors_server.doors.control.episodes import EpisodeStepPage
from ors_server.model.errors import ClientError, EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeOrigin, first_summary
from ors_server.store.episode_filter import ALL
from ors_server.store.lookup import find_episode
from tests.fixtures.recorded_episodes import step_of

EVENTS = "text/event-stream"
FIGURES = json.dumps(
    first_summary(EpisodeOrigin("s", "game", "1", "1", {}, "0", None, None, datetime.now(UTC), {})).as_json()
)


def problem(detail, code="internal_error"):
    return json.dumps({"detail": detail, "code": code, "blame": "us", "mistakes": None})


@pytest.fixture
def source_of():
    """Makes a source whose server gives one answer, or fails."""

    def make(status=200, body="", kind="application/json", error=None):
        def answer(request):
            if error is not None:
                raise error
            return httpx2.Response(status, content=body, headers={"content-type": kind})

        transport = httpx2.MockTransport(answer)
        return ServerRecord(httpx2.AsyncClient(transport=transport, base_url="http://server/_ors"))

    return make


async def told_by(source):
    async with aclosing(source.follow("some", 0)) as told:
        return [each async for each in told]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"body": "<html>"}, "not as this version knows it: : Invalid JSON"),
        ({"status": 502, "body": "<html>"}, "refused with 502: Bad Gateway"),
        ({"status": 502, "body": "[1]"}, "refused with 502: Bad Gateway"),
        ({"status": 500, "body": problem("sorry")}, "refused with 500: sorry"),
        ({"status": 401, "body": problem("who?")}, r"who\? \(set ORS_API_KEY\)"),
        ({"status": 404, "body": '{"detail": "Not Found"}'}, "refused with 404: Not Found"),
        ({"error": httpx2.ConnectError("no route")}, "cannot reach http://server/_ors/: no route"),
        ({"error": httpx2.ReadTimeout("")}, "cannot reach http://server/_ors/: ReadTimeout"),
        ({"body": '{"episodes": 3}'}, "not as this version knows it"),
    ],
)
async def test_an_answer_that_is_none_is_told_in_words(source_of, answer, complaint):
    source = source_of(**answer)
    for ask in (source.page(ALL), source.totals(ALL), source.find("some"), source.steps("some", 0, 1)):
        with pytest.raises(CommandError, match=complaint):
            await ask


async def test_an_entry_of_a_page_without_its_fields_is_told_in_words(source_of):
    source = source_of(body=json.dumps({"episodes": [{"episode_id": 1}], "next_cursor": None}))
    with pytest.raises(CommandError, match=r"not as this version knows it: episodes\.0\.episode_id"):
        await source.page(ALL)


async def test_only_an_episode_that_is_not_on_record_is_not_found(source_of):
    source = source_of(status=404, body=problem("no episode 'some'", "episode_not_found"))
    assert await source.find("some") is None
    with pytest.raises(EpisodeNotFoundError, match="no episode 'some'"):
        await find_episode(source, "some")
    with pytest.raises(EpisodeNotFoundError, match="no episode 'some'"):
        await told_by(source)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"body": "", "kind": EVENTS}, "ended the stream before the episode's end"),
        ({"body": ": ping\n\nevent: news\ndata: 1\n\n", "kind": EVENTS}, "before the episode's end"),
        ({"body": f"event: error\ndata: {problem('gone')}\n\n", "kind": EVENTS}, "the stream: gone"),
        ({"body": "event: error\ndata: ?\n\n", "kind": EVENTS}, "not as this version knows it"),
        ({"body": "event: step\ndata: {}\n\n", "kind": EVENTS}, "not as this version knows it"),
        ({"body": "{}"}, "lost http://server/_ors/: .*text/event-stream"),
        ({"status": 503, "body": problem("later")}, "refused with 503: later"),
        ({"error": httpx2.ReadError("reset")}, "lost http://server/_ors/: reset"),
    ],
)
async def test_a_stream_that_ends_badly_is_told_in_words(source_of, answer, complaint):
    with pytest.raises(ClientError, match=complaint):
        await told_by(source_of(**answer))


async def test_a_stream_ends_with_the_figures(source_of):
    body = f"event: summary\ndata: {FIGURES}\n\nevent: end\ndata: {FIGURES}\n\nevent: step\ndata: {{}}\n\n"
    (summary,) = await told_by(source_of(body=body, kind=EVENTS))
    assert summary.phase == "created"


async def test_steps_without_an_end_are_given_up_after_a_thousand_pages(source_of):
    page = EpisodeStepPage(episode_id="some", total=1, steps=[step_of(1)])
    with pytest.raises(CommandError, match=r"steps of some within 1,000 pages, got 1,000 steps so far"):
        await source_of(body=page.model_dump_json()).steps("some")
