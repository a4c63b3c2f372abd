"""A run on a server, over either door, comes to what the same run in this process comes to."""

import threading

import pytest

from ors_server.app import create_app
from ors_server.client.client_options import ClientOptions
from ors_server.client.connection import Patience
from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.baselines import NoopAgent, OracleAgent
from ors_server.evaluation.attempt_runner import AttemptRunner
from ors_server.evaluation.budgets import Meter
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.runner import RunControls, Runner
from ors_server.evaluation.runs import AttemptKey, AttemptStatus
from ors_server.evaluation.targets import TargetError, open_server_target
from ors_server.model.errors import OrsServerError
from ors_server.model.settings import Settings
from ors_server.testing import FakeClock
from tests.conftest import LiveServer
from tests.fixtures.evaluated_environments import Guessing, Talking
from tests.fixtures.evaluation_plays import PLACE, ScriptedAgent, WatchedFolder, make_run, play_run, rules_of

pytestmark = pytest.mark.timeout(60)
TALK = AttemptKey("test", 0, 1)


@pytest.fixture(scope="module")
def server(serve_live):
    return serve_live(Guessing, Talking)


@pytest.fixture(params=["", "/mcp"], ids=["ORS", "MCP"])
async def target(request, server):
    async with open_server_target(server.url + request.param, "guessing") as opened:
        yield opened


async def play(session):
    await session.call("bonus")
    await session.call("nothing at all")
    await session.call("roll" if session.index % 2 else "guess", {} if session.index % 2 else {"number": 2})


async def attempt_at(target, agent, place=PLACE, **changes):
    attempt, _ = await AttemptRunner(target, agent, rules_of(**changes), FakeClock()).play(place)
    return attempt


async def test_a_run_on_a_server_comes_to_the_same_as_one_here(target, tmp_path):
    conduct = RunControls(concurrency=3)
    _, there = await play_run(target, ScriptedAgent(play), tmp_path / "there", conduct=conduct)
    async with open_local_target(Guessing) as local:
        _, here = await play_run(local, ScriptedAgent(play), tmp_path / "here", conduct=conduct)

    def facts(attempts):
        return sorted(
            (one.key, one.seed, one.status, one.episode_return, one.steps, one.stop_reason, one.task_hash)
            for one in attempts
        )

    assert facts(there) == facts(here)
    assert len({attempt.episode_id for attempt in there}) == 6


async def test_the_disk_is_not_waited_for_on_the_event_loop(target, tmp_path):
    folder = WatchedFolder(tmp_path)
    folder.begin(make_run())
    folder.writers.clear()
    await Runner(target, ScriptedAgent(play), folder, RunControls(concurrency=3)).play(make_run())
    assert len(folder.writers) == 6 + 2
    assert threading.get_ident() not in folder.writers


async def test_a_server_says_what_it_serves(target, server):
    assert target.name.startswith(server.url)
    assert [split.name for split in await target.splits()] == ["train", "test"]
    assert await target.num_tasks("test") == 6
    assert target.versions["environment"] == "3"
    assert "ors-server" in target.versions
    assert target.step_limit is None


async def test_labels_seed_and_policy_reach_the_server(target, server):
    attempt = await attempt_at(target, ScriptedAgent(play), policy={"step_limit": 1})
    assert (attempt.stop_reason, attempt.steps, attempt.episode_return) == ("step_limit", 1, 0.25)
    status = await server.app.manager.status(attempt.session_id)
    assert status.origin.labels == {"run": "run-1", "attempt": "1", "agent": "scripted"}
    assert status.origin.seed == attempt.seed


async def test_a_tool_that_fails_at_the_server_errs(target):
    async def crash(session):
        await session.call("crash")

    attempt = await attempt_at(target, ScriptedAgent(crash))
    assert (attempt.status, attempt.episode_return) == (AttemptStatus.ERRORED, None)


async def test_gold_stays_with_the_server_s_author(target):
    assert "plays environments of this process" in (await attempt_at(target, OracleAgent())).error
    idle = await attempt_at(target, NoopAgent())
    assert (idle.status, idle.steps, idle.episode_return) == (AttemptStatus.DONE, 0, 0.0)


async def test_an_agent_s_url_leads_to_the_episode(target, server):
    async def look(session):
        url = await session.agent_url()
        assert url.startswith(f"{server.url}/agent/")
        assert not await session.has_ended()

    assert (await attempt_at(target, ScriptedAgent(look))).status is AttemptStatus.DONE


async def test_rewards_that_mcp_keeps_to_itself_are_taken_from_the_server_s_figures(serve_live):
    hiding = serve_live(Guessing, visibility="hidden")
    async with open_server_target(f"{hiding.url}/mcp") as target:
        attempt = await attempt_at(target, ScriptedAgent(play))
    assert (attempt.status, attempt.error) == (AttemptStatus.DONE, None)
    assert (attempt.episode_return, attempt.last_reward) == (1.25, 1.0)


async def test_one_of_several_environments_has_to_be_named(server):
    with pytest.raises(TargetError, match="guessing, talking; name one"):
        async with open_server_target(server.url):
            pass


async def test_a_server_that_is_not_there_is_an_error():
    hasty = ClientOptions(patience=Patience(seconds=1.0, attempts=1))
    with pytest.raises(OrsServerError):
        async with open_server_target("http://127.0.0.1:9", "guessing", options=hasty):
            pass


class StandardOnly:
    """Makes a stranger of our server: what the standard does not know is not there."""

    def __init__(self, app):
        self._app = app
        self.settings, self.begin_to_stop = app.settings, app.begin_to_stop

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["path"].startswith("/_ors"):
            scope = {**scope, "path": "/nowhere", "raw_path": b"/nowhere"}
        await self._app(scope, receive, send)


@pytest.fixture(scope="module")
def stranger():
    app = create_app([Guessing], Settings(port=0))
    with LiveServer(StandardOnly(app)).serving() as server:
        yield server


async def test_on_a_server_without_figures_the_client_s_own_sum_counts(stranger):
    async with open_server_target(stranger.url) as target:
        assert target.versions == {}
        attempt = await attempt_at(target, ScriptedAgent(play))
        async with open_local_target(Guessing) as local:
            here = await attempt_at(local, ScriptedAgent(play))
    assert (attempt.status, attempt.episode_return, attempt.steps) == (AttemptStatus.DONE, 1.25, 3)
    assert (attempt.finished, attempt.stop_reason, attempt.episode_id) == (True, "completed", None)
    assert attempt.task_hash == here.task_hash


async def test_a_server_without_words_for_it_is_told_no_policy_and_has_no_url(stranger):
    async def ask(session):
        await session.agent_url()

    async with open_server_target(stranger.url) as target:
        refused = await attempt_at(target, NoopAgent(), policy={"step_limit": 1})
        no_url = await attempt_at(target, ScriptedAgent(ask))
        async with target.episode("test", 0, seed=5, labels={}, policy={}) as episode:
            session = AgentSession(target, AttemptKey("test", 0, 1), 5, episode, Meter())
            assert await session.summary() is None
    assert "policy" in refused.error
    assert "gives no URL" in no_url.error
