"""`GET /metrics`: figures of calls, episodes, sessions, requests and the record, in Prometheus' format."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import anyio.lowlevel
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ors_server import Environment, EpisodePolicy, Split, TextBlock, ToolError, ToolOutput, create_app, tool
from ors_server.alarms.watched_runs import POLL_SECONDS
from ors_server.app import App
from ors_server.doors.metric_families import merge
from ors_server.environments.loading import define
from ors_server.errors import OrsServerError
from ors_server.model.settings import Settings
from ors_server.model.trajectory import Step, StepStatus
from ors_server.sessions.call_meters import MAX_TOOLS, OTHER_TOOLS, EnvironmentMeters
from ors_server.testing import FakeClock
from tests.fixtures.loopback import listening


class Steps(Environment):
    """One tool that pays, one that fails the agent, one that fails by itself."""

    policy = EpisodePolicy(invalid_call_penalty=0.25)

    @classmethod
    def list_splits(cls):
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split):
        return [{"number": 1}]

    def get_prompt(self):
        return [TextBlock(text="Work.")]

    @tool
    def work(self, reward: float) -> ToolOutput:
        """Pay a reward, and end with 1."""
        return ToolOutput(blocks=[TextBlock(text="ok")], reward=reward, finished=reward == 1.0)

    @tool
    def stumble(self) -> ToolOutput:
        """Fail as an agent's mistake."""
        raise ToolError("a stone")

    @tool
    def break_down(self) -> ToolOutput:
        """Fail as an author's mistake."""
        raise RuntimeError("a defect")


def samples_of(text):
    """Return the value of each sample by its name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples, name, **labels):
    return samples.get((name, *sorted(labels.items())))


async def scrape(url, key=None):
    async with httpx2.AsyncClient(base_url=url) as client:
        return await client.get("/metrics", headers={} if key is None else {"X-API-Key": key})


async def play(app, calls):
    client = app.client()
    async with client.episode("steps", split="train", index=0) as episode:
        for name, arguments in calls:
            with suppress(OrsServerError):  # a refused or failed call is what some tests want
                await episode.call(name, arguments)


@pytest.fixture
async def served():
    app = create_app([Steps], Settings(store="memory"))
    async with listening(app) as url:
        yield app, url


async def test_calls_rewards_penalties_and_ends_are_counted(served):
    app, url = served
    await play(
        app, [("work", {"reward": 0.5}), ("stumble", {}), ("break_down", {}), ("work", {"reward": 1.0})]
    )
    await play(app, [("invented", {}), ("work", {"reward": "text"})])
    answer = await scrape(url)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = samples_of(answer.text)

    def calls(tool_name, outcome):
        return value(samples, "ors_calls_total", environment="steps", tool=tool_name, outcome=outcome)

    assert calls("work", "graded") == 2
    assert calls("stumble", "tool_error") == 1
    assert calls("break_down", "failed") == 1
    assert calls("(unknown)", "refused") == 1
    assert calls("work", "refused") == 1
    assert value(samples, "ors_call_failures_total", environment="steps", code="tool_failed") == 1
    assert value(samples, "ors_penalties_total", environment="steps", cause="invalid_call") == 2
    assert value(samples, "ors_penalty_amount_total", environment="steps", cause="invalid_call") == 0.5
    ended = {key: count for key, count in samples.items() if key[0] == "ors_episodes_ended_total"}
    assert sum(ended.values()) == 2
    assert value(samples, "ors_episode_return_count", environment="steps") == 1
    assert value(samples, "ors_episode_return_sum", environment="steps") == 1.5
    assert value(samples, "ors_episode_return_bucket", environment="steps", le="1.0") == 0
    assert value(samples, "ors_episode_steps_count", environment="steps") == 2
    assert value(samples, "ors_tool_seconds_count", environment="steps") == 3
    assert value(samples, "ors_store_seconds_count", environment="steps") == 6


async def test_live_sessions_requests_queues_and_the_process_are_shown(served):
    app, url = served
    async with app.client().episode("steps", split="train", index=0) as episode:
        await episode.call("work", {"reward": 0.5})
        samples = samples_of((await scrape(url)).text)
        assert value(samples, "ors_sessions", environment="steps", phase="playing") == 1
    await scrape(url)
    samples = samples_of((await scrape(url)).text)
    assert value(samples, "ors_sessions", environment="steps", phase="playing") is None
    assert value(samples, "ors_http_requests_total", door="metrics", method="GET", status="200") == 2
    assert value(samples, "ors_http_requests_total", door="control", method="POST", status="201") == 1
    assert value(samples, "ors_http_open_requests") == 1
    assert value(samples, "ors_queue_capacity", queue="threads") > 0
    assert value(samples, "ors_store_up") == 1
    assert value(samples, "ors_store_queued_writes") == 0
    assert value(samples, "process_cpu_seconds_total") > 0


async def test_agents_and_strangers_do_not_see_metrics():
    settings = Settings(store="memory", api_keys="trainer:t:" + "k" * 32 + ",agent:a:" + "a" * 32)
    app = create_app([Steps], settings)
    async with listening(app) as url:
        assert (await scrape(url)).status_code == 401
        assert (await scrape(url, "a" * 32)).status_code == 403
        assert (await scrape(url, "k" * 32)).status_code == 200


async def test_names_that_a_policy_invents_make_no_series(served):
    app, url = served
    await asyncio.gather(*(play(app, [(f"invented_{number}", {})]) for number in range(20)))
    text = (await scrape(url)).text
    assert "invented_" not in text
    assert (
        value(samples_of(text), "ors_calls_total", environment="steps", tool="(unknown)", outcome="refused")
        == 20
    )


def test_tools_beyond_the_bound_are_counted_together():
    meters = EnvironmentMeters()
    step = Step(
        number=1,
        call_id="c",
        tool="",
        arguments={},
        status=StepStatus.GRADED,
        blocks=(),
        reward=1.0,
        components={},
        finished=False,
        error=None,
        error_code=None,
        metadata=None,
        started_at=datetime.now(UTC),
        duration=0.5,
    )
    for number in range(MAX_TOOLS + 5):
        for _ in range(2):
            meters.count_step(replace(step, tool=f"tool_{number}"), 0.0)
    assert len(meters.calls) == MAX_TOOLS + 1
    assert meters.calls[OTHER_TOOLS, "graded"].calls == 10
    assert meters.calls["tool_0", "graded"].calls == 2


def test_hosts_are_told_apart_and_one_that_is_down_is_shown():
    text = b'# TYPE ors_calls counter\nors_calls_total{tool="t"} 3.0\n'
    samples = samples_of(merge({"h0": text, "h1": text, "h2": None}).decode())
    assert value(samples, "ors_calls_total", tool="t", host="h0") == 3
    assert value(samples, "ors_calls_total", tool="t", host="h1") == 3
    assert [value(samples, "ors_host_up", host=host) for host in ("h0", "h1", "h2")] == [1, 1, 0]


async def test_alarms_of_runs_are_metrics_log_events_and_an_answer(caplog):
    clock = FakeClock()
    app = App([define(Steps)], Settings(store="memory"), clock=clock)
    async with listening(app) as url, httpx2.AsyncClient(base_url=url) as http:
        client = app.client()
        for _ in range(100):
            async with client.episode("steps", split="train", index=0, labels={"run": "first"}) as episode:
                with suppress(OrsServerError):
                    await episode.call("break_down", {})
        await clock.advance(POLL_SECONDS)
        with anyio.fail_after(30):
            while not (samples := samples_of((await scrape(url)).text)).get(
                ("ors_alarm", ("alarm", "infrastructure"), ("run", "first"))
            ):
                await anyio.lowlevel.checkpoint()
        answer = (await http.get("/_ors/runs/first/alarms")).json()
        other = (await http.get("/_ors/runs/other/alarms")).json()
    assert value(samples, "ors_alarm", run="first", alarm="infrastructure") == 1
    assert answer["episodes"] == 100
    alarm = next(alarm for alarm in answer["alarms"] if alarm["alarm"] == "infrastructure")
    assert (alarm["value"], alarm["threshold"], len(alarm["episodes"])) == (1.0, 0.02, 5)
    assert other == {"episodes": 0, "alarms": []}
    assert any("alarm_opened" in record.getMessage() for record in caplog.records)
