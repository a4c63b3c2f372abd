"""Every reader of an episode, for every way in which a judgement fails: none of them has a number for it.

An ordinary run plays one in five of the pairs, each reader and each way among them.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import httpx2
import pytest

from ors_server.app import create_app
from ors_server.cli.episodes_list import show_return, sum_up
from ors_server.cli.episodes_show import summary_lines
from ors_server.cli.regrade_command import RegradeSummary
from ors_server.client import AppTransport, Move, UnjudgedError
from ors_server.client import play as client_play
from ors_server.client.session_summary import Summary
from ors_server.doors.control.episodes import EpisodeEntry
from ors_server.evaluation.attempt_runner import AttemptEnd, Ending, judge
from ors_server.evaluation.runs import AttemptKey, AttemptStatus
from ors_server.export.chat import ConversationOptions
from ors_server.export.episode_file import read_episode
from ors_server.export.episodes import UNJUDGED, ExportCounts, judged_return
from ors_server.export.formats import FORMATS, export_rows, make_format
from ors_server.export.preferences import Pairing, export_preferences
from ors_server.model.settings import Settings
from ors_server.model.trajectory import UNJUDGED_STATUSES, EpisodeRecord, Step
from ors_server.replaying.regrading import Regraded, paid_by_tools
from ors_server.rewards import RewardResult, RewardStatus
from ors_server.store.episode_filter import ALL, EpisodeFilter
from ors_server.store.location import parse_location
from ors_server.store.open import open_store
from ors_server.store.sql.verification import verify
from ors_server.testing.local_client import LocalSession, open_environment
from tests.fixtures.evaluation_plays import ScriptedAgent, attempt_with
from tests.fixtures.failed_judgements import BONUS, WAYS
from tests.fixtures.ordinary_cases import cover_both

TRAINING = ("openai", "sharegpt", "trl", "verl")


@dataclass(frozen=True)
class PlayedEpisode:
    """An episode in which a judgement failed, as its readers get it."""

    session: LocalSession
    summary: Summary
    record: EpisodeRecord
    steps: Sequence[Step]
    store: object
    path: str


@pytest.fixture
async def play(tmp_path):
    """Plays an episode in which a judgement fails in one way, and keeps its server open."""
    async with AsyncExitStack() as stack:

        async def play_it(way, **policy):
            path = str(tmp_path / "episodes.db")
            store = await open_store(path)
            client = await stack.enter_async_context(open_environment(WAYS[way].environment(), store=store))
            session = await client.create(split="train", index=0, policy=policy)
            await session.prompt()
            await WAYS[way].play(client, session)
            await session.aclose()
            summary = await client.client.summary(session.id)
            record = await store.find(session.id)
            assert record is not None
            steps = await store.steps(record.origin.episode_id)
            return PlayedEpisode(session, summary, record, steps, store, path)

        yield play_it


def everything(episode):
    return stream((episode.record, episode.steps))


async def stream(*episodes):
    for each in episodes:
        yield each


async def the_step(episode):
    unjudged = [step for step in episode.steps if step.is_unjudged]
    assert len(unjudged) == 1
    assert (unjudged[0].reward, dict(unjudged[0].components)) == (None, {})
    assert unjudged[0].metadata["reward_reason"]


async def the_summary(episode):
    assert episode.summary.unjudged_steps == episode.record.summary.unjudged_steps == 1
    assert judged_return(episode.record.summary) is None
    assert episode.record.summary.as_json()["unjudged_steps"] == 1


async def the_control_api(episode):
    entry = EpisodeEntry.of(episode.record).model_dump(mode="json", by_alias=True)
    assert entry["episode"]["unjudged_steps"] == 1
    assert [one.origin async for one, _ in episode.store.stream(EpisodeFilter(unjudged=True))]
    assert not [one async for one in episode.store.stream(EpisodeFilter(unjudged=False))]


async def the_totals(episode):
    totals = await episode.store.totals(ALL)
    assert (totals.unjudged, totals.mean_return, totals.least_return) == (1, None, None)
    first, second, third = sum_up(1, totals).splitlines()
    assert first.endswith("mean return - (- to -)")
    assert second == "the mean is over 0 graded; left out: 1 unjudged"
    assert "ors-server regrade --unjudged" in third


async def the_command_line(episode):
    assert show_return(episode.record.summary) == "unjudged"
    lines = [text for text, _ in summary_lines(episode.record.summary, is_closed=True)]
    assert any(line.startswith("  unjudged") for line in lines)


async def the_evaluation_of_a_command_agent(episode):
    fields = judge(AttemptEnd(Ending("agent"), episode.summary), success_at=0.0)
    assert fields["status"] is AttemptStatus.ERRORED
    assert "failed in 1 of" in fields["error"]
    assert fields["last_reward"] is None
    assert "episode_return" not in fields


async def the_exports(episode):
    for name in TRAINING:
        counts = ExportCounts()
        form = make_format(name)
        rows = [row async for row in export_rows(everything(episode), form, counts, include_unfinished=True)]
        assert (rows, dict(counts.left_out)) == ([], {UNJUDGED: 1}), name
    (row,) = [row async for row in export_rows(everything(episode), make_format("episodes"), ExportCounts())]
    assert (row["return"], row["unjudged_steps"]) == (None, 1)
    assert set(FORMATS) == {*TRAINING, "episodes", "steps", "plain"}


async def the_preferences(episode):
    counts = ExportCounts()
    options = ConversationOptions({})
    pairs = export_preferences(episode.store, ALL, Pairing(), options, counts)
    assert [row async for row in pairs] == []
    assert dict(counts.left_out) == {UNJUDGED: 1}


async def a_file_of_an_older_server(episode):
    (row,) = [row async for row in export_rows(everything(episode), make_format("plain"), ExportCounts())]
    del row["record"]["summary"]["unjudged_steps"]
    record, _ = read_episode(json.dumps(row))
    assert record.summary.unjudged_steps == 1


async def the_regrading(episode):
    paid = paid_by_tools(episode.record, tuple(episode.steps))
    assert paid is None
    summary = RegradeSummary()
    origin, stated = episode.record.origin, episode.record.summary.episode_return
    summary.add(Regraded(origin, paid, stated, RewardResult(1.0)))
    assert (summary.only_now, summary.before.count) == (1, 0)


async def the_bridges(episode):
    with pytest.raises(UnjudgedError, match="a judgement failed in 1 of"):
        episode.summary.check_judged()


async def the_store(episode):
    await episode.store.aclose()
    assert [finding.text for finding in verify(parse_location(episode.path)).findings] == []


CONSUMERS: Sequence[Callable[[PlayedEpisode], Awaitable[None]]] = (
    the_step,
    the_summary,
    the_control_api,
    the_totals,
    the_command_line,
    the_evaluation_of_a_command_agent,
    the_exports,
    the_preferences,
    a_file_of_an_older_server,
    the_regrading,
    the_bridges,
    the_store,
)


@pytest.mark.parametrize(
    ("consumer", "way"),
    cover_both(5, CONSUMERS, list(WAYS)),
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
async def test_no_reader_has_a_number_for_an_episode_in_which_a_judgement_failed(play, way, consumer):
    await consumer(await play(way))


@pytest.mark.parametrize("way", WAYS)
async def test_a_policy_that_pays_at_the_end_pays_nothing(play, way):
    episode = await play(way, emit="final")
    assert [step.reward for step in episode.steps] == [None] * len(episode.steps)
    summary = episode.summary
    assert (summary.episode_return, summary.last_reward) == (0.0, None)
    assert summary.withheld >= BONUS
    await the_store(episode)


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_charged_for_a_judgement_that_failed(play, way):
    episode = await play(way)
    (unjudged,) = [step for step in episode.steps if step.is_unjudged]
    others = sum(step.reward or 0.0 for step in episode.steps if step is not unjudged)
    assert episode.summary.episode_return == pytest.approx(others)


@pytest.mark.parametrize("way", ["at the end", "in the middle", "in parallel"])
async def test_an_agent_of_an_evaluation_that_plays_itself_has_no_return_either(way):
    async def play(session):
        await session.call("bonus")
        if way == "in the middle":
            await session.call("check", {"answer": "42"})
        async with anyio.create_task_group() as tasks:
            if way == "in parallel":
                tasks.start_soon(session.call, "look")
                await anyio.lowlevel.checkpoint()
            await session.call("finish", {"answer": "42"})

    place = AttemptKey("train", 0, 1)
    attempt, _ = await attempt_with(WAYS[way].environment(), ScriptedAgent(play), place)
    assert (attempt.status, attempt.episode_return, attempt.last_reward) == ("errored", None, None)
    assert attempt.error is not None
    assert "a judgement failed in 1 of" in attempt.error


async def test_an_agent_of_the_client_has_no_return_either():
    moves = iter([Move("bonus", {}), Move("check", {"answer": "42"}), Move("finish", {"answer": "42"})])
    way = WAYS["in the middle"]
    async with (
        open_environment(way.environment()) as client,
        client.client.episode("judged", split="train", index=0) as episode,
    ):
        played = await client_play(episode, lambda _: next(moves))
    assert (played.episode_return, played.finished, played.summary.unjudged_steps) == (None, True, 1)


def test_the_statuses_without_a_number_are_those_of_rewards():
    def has_number(status):
        try:
            return RewardResult(1.0, status).reward is not None
        except ValueError:
            return False

    assert {status.value for status in RewardStatus if not has_number(status)} == UNJUDGED_STATUSES


@pytest.mark.parametrize(
    ("unjudged", "parts"),
    [
        ("null", ("event: end", '"reward":null')),
        ("error", ("event: error", "the judgement of 'finish' failed")),
    ],
)
async def test_the_door_answers_as_the_setting_says(unjudged, parts):
    app = create_app([WAYS["at the end"].environment()], Settings(unjudged=unjudged))
    async with (
        app.running(),
        app.client() as client,
        client.episode("judged", split="train", index=0) as episode,
        httpx2.AsyncClient(transport=AppTransport(app), base_url="http://127.0.0.1") as http,
    ):
        answer = await http.post(
            "/judged/call",
            json={"name": "finish", "input": {"answer": "42"}},
            headers={"X-Session-ID": episode.session_id, "X-API-Key": app.keyring.own_key},
        )
        summary = await episode.summary()
    assert [part for part in parts if part not in answer.text] == []
    assert (summary.unjudged_steps, summary.stop_reason) == (1, "completed")
