"""The pages about the server, its runs, two episodes side by side, and playing by hand."""

import html
import json
import logging
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ors_server.alarms import watched_runs
from ors_server.console.views import formats, forms
from ors_server.console.views.comparison import compare_steps
from ors_server.console.views.runs import ChosenRun, Mean, view_runs
from ors_server.model import logs
from ors_server.model.recording import task_digest
from ors_server.model.trajectory import StepStatus
from ors_server.sessions.session_request import SessionRequest
from ors_server.store.aggregates import MeanReturn
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.episode_order import OLDEST_FIRST
from ors_server.store.memory import MemoryStore
from tests.fixtures import console_record as made
from tests.unit.console.conftest import KEYS, opened
from tests.unit.console.test_sign_in import ADMIN, ORIGIN, TRAINER, csrf_of, sign_in

SCHEMA = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "What to run."},
        "name": {"type": "string"},
        "count": {"type": "integer", "default": 3},
        "loud": {"type": "boolean"},
        "mode": {"enum": ["fast", "slow", 7]},
        "limit": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "places": {"type": "array", "items": {"type": "string"}},
        "where": {"$ref": "#/$defs/Where"},
    },
    "required": ["command", "count"],
    "$defs": {"Where": {"type": "object", "description": "A place."}},
}


def test_a_form_has_a_field_for_each_kind_of_argument():
    fields = {field.name: field for field in forms.make_fields(SCHEMA, {}, {})}
    kinds = {name: field.kind for name, field in fields.items()}
    assert kinds == {
        "command": "long",
        "name": "text",
        "count": "number",
        "loud": "choice",
        "mode": "choice",
        "limit": "number",
        "places": "json",
        "where": "json",
    }
    assert fields["mode"].choices == ('"fast"', '"slow"', "7")
    assert fields["where"].hint == "A place."
    assert "Default: 3" in fields["count"].hint
    assert [name for name, field in fields.items() if field.is_required] == ["command", "count"]
    assert forms.make_fields(None, {}, {}) == ()


def test_a_filled_form_becomes_arguments():
    sent = {
        "arg:command": "ls\r\npwd",
        "arg:name": "",
        "arg:count": "4",
        "arg:loud": "true",
        "arg:mode": '"slow"',
        "arg:places": '["a"]',
        "arg:where": '{"x": 1}',
    }
    arguments, errors = forms.read_form(SCHEMA, sent)
    assert errors == {}
    assert arguments == {
        "command": "ls\npwd",
        "count": 4,
        "loud": True,
        "mode": "slow",
        "places": ["a"],
        "where": {"x": 1},
    }
    assert forms.read_form(SCHEMA, {"raw": '{"any": [1]}'}) == ({"any": [1]}, {})


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({"arg:count": "many"}, {"count"}),
        ({"arg:count": "1", "arg:places": "[1"}, {"places"}),
        ({}, {"count"}),
        ({"raw": "{"}, {""}),
        ({"raw": "[1]"}, {""}),
        ({"raw": "[" * 100_000}, {""}),
        ({"raw": '{"count": NaN}'}, {""}),
        *(({"arg:count": word}, {"count"}) for word in ("NaN", "Infinity", "-Infinity", "1e999")),
        ({"arg:count": "1", "arg:where": '{"x": NaN}'}, {"where"}),
    ],
)
def test_a_wrong_form_names_its_fields(sent, wrong):
    assert set(forms.read_form(SCHEMA, sent)[1]) == wrong


def test_a_call_is_a_command_that_a_shell_reads_as_one():
    line = forms.curl_line(
        "http://x", "s", made.step(1, "bash", {"command": "echo 'a' $(rm)"}), has_keys=True
    )
    assert line.startswith('curl http://x/_ors/sessions/s/calls -H "X-API-Key: $ORS_API_KEY" --json \'{')
    assert "'\"'\"'a'\"'\"'" in line


def test_a_long_call_is_a_command_that_reads_a_file():
    line = forms.curl_line("http://x", "s", made.step(1, "bash", {"command": "a" * 900_000}), has_keys=False)
    assert line == "curl http://x/_ors/sessions/s/calls --json @call.json"


async def test_the_file_of_a_call_is_what_the_command_sends(filled):
    client, ids = filled
    answer = await client.get(f"/console/episodes/{ids['shell']}/steps/1/call")
    (step,) = await client.app.manager.services.store.steps(ids["shell"], 0, 1)
    assert answer.json() == {"name": step.tool, "arguments": step.arguments}
    assert "filename*=UTF-8''call.json" in answer.headers["content-disposition"]


async def test_a_task_is_played_by_hand_to_its_record():
    async with opened() as client:
        page = await client.get("/console/environments/lamp")
        start = {"csrf": csrf_of(page), "environment": "lamp", "split": "train", "index": "0"}
        answer = await client.post("/console/play", data=start, headers=ORIGIN)
        assert answer.status_code == 303
        path = answer.headers["location"]
        page = await client.get(path)
        assert "Call press" in page.text
        token = csrf_of(page)
        called = await client.post(f"{path}/call", data={"csrf": token, "tool": "press"}, headers=ORIGIN)
        assert called.headers["location"] == f"{path}#s1"
        page = (await client.get(path)).text
        assert "It is on." in page
        assert "curl http://localhost:8080/_ors/sessions/" in page
        wrong = await client.post(
            f"{path}/call", data={"csrf": token, "tool": "press", "raw": "{"}, headers=ORIGIN
        )
        assert wrong.status_code == 422
        assert "not JSON" in wrong.text
        unknown = await client.post(f"{path}/call", data={"csrf": token, "tool": "fly"}, headers=ORIGIN)
        assert unknown.status_code == 404
        record = (await client.get(path.replace("/play/", "/episodes/"))).text
        assert "player" in record
        assert "human" in record


async def test_settings_are_for_admins():
    async with opened() as client:
        closed = await client.get("/console/settings")
        assert closed.status_code == 403
        assert "ORS_API_KEYS=" in closed.text
    async with opened(api_keys=KEYS) as client:
        await sign_in(client, TRAINER)
        assert (await client.get("/console/settings")).status_code == 403
        token = csrf_of(await client.get("/console/environments/lamp"))
        stop = await client.post("/console/settings/shutdown", data={"csrf": token}, headers=ORIGIN)
        assert stop.status_code == 403
    async with opened(api_keys=KEYS) as client:
        await sign_in(client, ADMIN)
        page = (await client.get("/console/settings")).text
        assert "<code>max_sessions</code>" in page
        assert all(role in page for role in ("tim", "ada", "al"))
        assert not any(key in page for key in (TRAINER, ADMIN))
        stop = await client.post(
            "/console/settings/shutdown", data={"csrf": csrf_of_text(page)}, headers=ORIGIN
        )
        assert stop.status_code == 404  # this application has nothing that could stop it


async def test_a_setting_from_the_environment_is_marked_as_no_default(monkeypatch):
    monkeypatch.setenv("ORS_MAX_SESSIONS", "7")
    async with opened(api_keys=KEYS) as client:
        await sign_in(client, ADMIN)
        rows = (await client.get("/console/settings")).text.split("<tr>")
        row = {
            name: next(row for row in rows if f"<code>{name}</code>" in row)
            for name in ("max_sessions", "port")
        }
        assert "<b>7</b>" in row["max_sessions"]
        assert "<b>" not in row["port"]


async def test_an_admin_renews_the_secret_of_agents_tokens():
    async with opened(api_keys=KEYS) as client:
        await sign_in(client, ADMIN)
        token = csrf_of(await client.get("/console/settings"))
        session = (await client.app.manager.create(SessionRequest(split="train", index=0))).origin.session_id
        path = f"/_ors/sessions/{session}/prompt"
        old = client.app.agent_token(session)
        assert (await client.get(path, headers={"x-api-key": old})).status_code == 200
        renewed = await client.post("/console/settings/secret", data={"csrf": token}, headers=ORIGIN)
        assert (renewed.status_code, renewed.headers["location"]) == (303, "/console/settings")
        assert (await client.get(path, headers={"x-api-key": old})).status_code == 401
        new = client.app.agent_token(session)
        assert (await client.get(path, headers={"x-api-key": new})).status_code == 200
        client.cookies.clear()
        await sign_in(client, TRAINER)
        page = await client.get("/console/environments/lamp")
        answer = await client.post("/console/settings/secret", data={"csrf": csrf_of(page)}, headers=ORIGIN)
        assert answer.status_code == 403
    async with opened(api_keys=KEYS, token_secret="s" * 32) as client:
        key = {"x-api-key": ADMIN}
        refused = await client.post("/_ors/token-secret", headers=key)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_supported")


def csrf_of_text(text):
    return re.search(r'name="csrf" value="([^"]+)"', text)[1]


async def test_each_action_of_an_admin_is_a_line_of_the_log(caplog):
    caplog.set_level(logging.INFO, logger=logs.ROOT)
    async with opened(api_keys=KEYS) as client:
        await sign_in(client, ADMIN)
        await client.get("/console/settings")
    text = caplog.text
    assert "console_sign_in" in text
    assert "show_settings" in text
    assert "ada" in text
    assert ADMIN not in text


async def test_the_overview_shows_failures_first(filled):
    client, ids = filled
    page = (await client.get("/console")).text
    assert "To connect" in page
    assert f"/console/episodes/{ids['live']}" in page
    assert "http://localhost:8080/mcp" in page


async def test_the_overview_says_what_needs_attention(monkeypatch):
    store = MemoryStore()
    begun = datetime.now(UTC) - timedelta(minutes=5, seconds=20)
    failed = made.origin("broken", created_at=begun)
    await made.write(store, failed, made.CHART_STEPS[:1], stop_reason="failed")
    async with opened(store) as client:
        assert "in the queue" not in (await client.get("/console")).text
        services = client.app.manager.services
        queues = {"gradings": {"waiting": 2}, "threads": {"waiting": 0}, "odd": 3, "new": {}}
        late = SimpleNamespace(summary=lambda: {"worst_seconds": 0.31})
        monkeypatch.setattr(type(services), "queues", lambda _: queues)
        monkeypatch.setattr(type(services.watch), "figures", lambda _: late)
        page = (await client.get("/console")).text
    alerts = re.search(r'<ul class="alerts">(.*?)</ul>', page, re.DOTALL)[1]
    assert (
        f'/episodes/{failed.episode_id}">An environment failed 5 min ago, at shell / test / 1.</a>' in alerts
    )
    assert "2 waiting in the queue gradings." in alerts
    assert "The event loop was 0.31 s late" in alerts
    assert alerts.count("<li") == 3


async def test_environments_show_tasks_and_tools():
    async with opened() as client:
        assert "Has a lamp." in (await client.get("/console/environments")).text
        page = (await client.get("/console/environments/lamp?split=none")).text
        assert "press" in page
        assert 'class="notice"' in page
        assert (await client.get("/console/environments/none")).status_code == 404


async def test_a_task_has_the_share_of_attempts_that_solved_it():
    store = MemoryStore()
    async with opened(store) as client:
        for reward in (1.0, 0.0):
            task = {"environment": "lamp", "task_spec": {}, "task_hash": task_digest({})}
            episode = made.origin(f"lamp{reward}", **task)
            step = made.step(1, "press", {}, reward=reward, finished=True)
            await made.write(store, episode, [step])
        page = (await client.get("/console/environments/lamp")).text
    assert re.search(r'<td class="num">50\s%</td><td class="num"><a [^>]+>2</a>', page)


async def test_runs_are_compared_over_the_tasks_that_both_played():
    store = MemoryStore()
    await made.fill_runs(store)
    low, mid, high = made.RUNS
    chosen = {
        run: ChosenRun(
            await store.page(EpisodeFilter(labels={"run": run}), limit=500, order=OLDEST_FIRST), None
        )
        for run in (high, low)
    }
    view = SimpleNamespace(**view_runs(await store.runs(), chosen, shows_all=False, axis="episode"))
    assert [run.name for run in view.runs] == [high, low, mid]
    best = view.chosen[0]
    own = [record.summary.episode_return for record in chosen[high].records]
    assert best.mean.value == pytest.approx(sum(own) / 48)
    assert best.figures.success == best.mean.value
    assert 0 <= best.mean.low < best.mean.value < best.mean.high <= 1
    difference = view.differences[0]
    assert difference.mean.value == pytest.approx(best.mean.value - view.chosen[1].mean.value)
    assert difference.mean.low > 0
    assert difference.better + difference.worse <= difference.tasks == 12
    spreads = [task.spread for task in view.tasks]
    assert spreads == sorted(spreads, reverse=True)
    both, only_high, only_low, neither = view.outcomes
    assert both + only_high + only_low + neither == 12
    assert only_low == sum(task.cells[0].solved == 0 < task.cells[1].solved for task in view.tasks)
    assert all(len(cell.squares) == cell.graded == 4 for task in view.tasks for cell in task.cells)
    chart = view.charts[0]
    lines = [series for series in chart.options["series"] if "name" in series]
    assert chart.headings[1:] == tuple(run.agent for run in view.chosen)
    assert [line["name"] for line in lines] == list(chart.headings[1:])
    assert len(chart.rows) == len(lines[0]["data"]) == 48 // 6  # windows of six episodes
    assert lines[0]["data"][3] == [21.0, pytest.approx(sum(own[18:24]) / 6)]
    assert chart.rows[3] == ("21", *(formats.amount(line["data"][3][1]) for line in lines))


def test_means_have_the_interval_of_their_kind():
    assert Mean.of(MeanReturn.of(0, 0.0, 0.0)) is None
    wilson = Mean.of(MeanReturn.of(10, 8.0, 8.0), is_share=True)
    assert (round(wilson.low, 3), round(wilson.high, 3)) == (0.49, 0.943)  # Wilson (1927), 8 of 10
    normal = Mean.of(MeanReturn.of(4, 2.0, 0.2**2 + 0.4**2 + 0.6**2 + 0.8**2))
    assert (normal.high or 0.0) - normal.value == pytest.approx(1.96 * 0.2582 / 2, abs=1e-3)
    alone = Mean.of(MeanReturn.of(1, 5.0, 25.0))
    assert (alone.value, alone.low, alone.high) == (5, None, None)


async def fill_curriculum(store, run="curriculum", episodes=400):
    """Write a run that learns, whose second half has one answer's worth of groups; each group is a task."""
    for number in range(episodes):
        is_late = number >= episodes // 2
        group = number // 4
        reward = 1.0 if is_late or number % 4 == 0 else 0.0
        where = made.origin(
            f"c{number:04}",
            labels={"run": run, "agent": "learner", "group": str(group), "step": str(number // 40)},
            task_hash=f"{group:064x}",
            created_at=made.BEGINNING + timedelta(minutes=number),
        )
        parts = {"tool": reward, "style": -0.1 * (not is_late)}
        refused = {"status": StepStatus.REFUSED, "error_code": "unknown_tool"} if number % 10 == 0 else {}
        call = made.step(1, "look", {"at": number}, **refused)
        last = made.step(2, "submit", {"answer": str(group)}, reward=reward, finished=True)
        await made.write(store, where, [call, replace(last, components=parts)])


def chart_of(page, name):
    options = json.loads(re.search(rf'id="c-{name}">(.*?)</script>', page)[1])
    return {series["name"]: series for series in options["series"] if "name" in series}, options


async def test_a_run_has_seven_charts_on_which_its_alarms_are_marked_where_they_opened(filled):
    client, _ = filled
    await fill_curriculum(client.app.manager.services.store)
    page = (await client.get("/console/runs?compare=curriculum")).text
    names = re.findall(r'data-chart="c-([^"]+)"', page)
    assert names == [
        *("returns", "success", "groups", "lengths", "components", "failures", "infrastructure"),
    ]
    groups, _ = chart_of(page, "groups")
    assert [line["data"][0][1] for line in groups.values()] == [0.0, 1.0, 0.0]
    assert [line["data"][-1][1] for line in groups.values()] == [0.0, 0.0, 1.0]
    components, _ = chart_of(page, "components")
    assert components["reward"]["data"][-1][1] == 1.0
    assert components["style"]["data"][0][1] == pytest.approx(-0.1)
    failures, _ = chart_of(page, "failures")
    assert failures["learner"]["data"][0][1] == pytest.approx(2 / 34)
    marks = groups["all fail"]["markLine"]["data"]
    assert [mark["label"]["formatter"] for mark in marks] == ["Dead groups"]
    opened = marks[0]["xAxis"]
    assert 200 < opened <= 400
    assert f"Alarm at episode {opened:.0f}, still open: Dead groups" in page


async def test_charts_of_runs_are_over_time_and_the_label_step_too(filled):
    client, _ = filled
    await fill_curriculum(client.app.manager.services.store)
    over_time = (await client.get("/console/runs?compare=curriculum&x=time")).text
    lines, options = chart_of(over_time, "returns")
    assert options["xAxis"]["type"] == "time"
    assert options["xAxis"]["min"] == lines["learner"]["data"][0][0]
    begun = made.BEGINNING + timedelta(minutes=8)  # the middle of the first 17 episodes
    assert lines["learner"]["data"][0][0] == begun.timestamp() * 1000
    assert f"{begun:%Y-%m-%d %H:%M:%S} UTC" in over_time
    by_step = (await client.get("/console/runs?compare=curriculum&x=step")).text
    lines, _ = chart_of(by_step, "success")
    assert {x for x, _ in lines["learner"]["data"]} == set(range(10))
    without = (await client.get(f"/console/runs?compare={made.RUNS[0]}")).text
    assert "x=step" not in without


async def test_a_long_run_that_nobody_has_read_has_no_chart_of_components(filled, monkeypatch):
    client, _ = filled
    await fill_curriculum(client.app.manager.services.store, episodes=40)
    monkeypatch.setattr(watched_runs, "MAX_STEPS_READ", 10)
    page = (await client.get("/console/runs?compare=curriculum")).text
    assert 'data-chart="c-returns"' in page
    assert 'data-chart="c-components"' not in page
    assert "ors-server watch --run NAME" in page
    await client.get("/_ors/runs/curriculum/alarms")
    assert 'data-chart="c-components"' in (await client.get("/console/runs?compare=curriculum")).text


async def test_the_overview_has_the_calls_per_minute_and_the_share_of_solved_episodes():
    store = MemoryStore()
    begun = datetime.now(UTC) - timedelta(minutes=2)
    for number, reward in enumerate((1.0, 1.0, 0.0)):
        steps = [made.step(n, "look", {}, started_at=begun) for n in range(1, 5)]
        last = made.step(5, "submit", {}, reward=reward, finished=True, started_at=begun)
        await made.write(store, made.origin(f"busy{number}"), [*steps, last])
    async with opened(store) as client:
        page = (await client.get("/console")).text
    assert "<dt>Calls per minute</dt><dd>3.0 <small>in the last 5</small>" in page
    assert "Calls by minute for an hour, 15 at most" in page
    assert f"<title>{begun:%H:%M} UTC: 15</title>" in page
    assert "<dt>Solved</dt><dd>67\N{NO-BREAK SPACE}%</dd>" in page


async def fill_run(store, run, returns, agent="a", environment="maze"):
    """Write an episode of a run for each return, each of a task with its number."""
    for number, value in enumerate(returns):
        task = {
            "environment": environment,
            "task_spec": {"n": number},
            "task_hash": task_digest({"n": number}),
        }
        labels = {"run": run, "agent": agent}
        episode = made.origin(f"{run}{environment}{number}", labels=labels, **task)
        await made.write(store, episode, [made.step(1, "press", {}, reward=value, finished=True)])


async def test_one_task_in_common_decides_nothing():
    store = MemoryStore()
    await fill_run(store, "first", [1.0], agent="strong")
    await fill_run(store, "second", [0.0], agent="weak")
    async with opened(store) as client:
        page = (await client.get("/console/runs?compare=first&compare=second")).text
    assert "beats" not in page
    assert "<b>strong</b> cannot be told from <b>weak</b>" in page
    assert "on the one task that both have played" in page


async def test_runs_of_one_agent_are_told_apart():
    store = MemoryStore()
    await fill_run(store, "base", [1.0, 1.0, 0.9, 1.0])
    await fill_run(store, "v2", [0.0, 0.1, 0.0, 0.0])
    async with opened(store) as client:
        page = (await client.get("/console/runs?compare=base&compare=v2")).text
    assert "<b>a (base)</b> beats <b>a (v2)</b>" in page
    assert "<dt>Only a (base)</dt><dd>3" in page
    assert page.count("</span>a (v2)</th>") == 1


async def test_equal_rows_of_two_environments_are_two_tasks():
    store = MemoryStore()
    await fill_run(store, "monday", [1.0, 1.0])
    await fill_run(store, "monday", [0.0, 0.0], environment="chess")
    async with opened(store) as client:
        page = (await client.get("/console/runs?compare=monday")).text
    assert len(re.findall(r'<th scope="row"><a [^>]*environment=maze', page)) == 2
    assert len(re.findall(r'<th scope="row"><a [^>]*environment=chess[^>]*>chess · ', page)) == 2


async def test_names_of_runs_may_have_commas():
    store = MemoryStore()
    await fill_run(store, "x,y", [1.0, 0.5])
    await fill_run(store, "x", [0.0, 0.5])
    async with opened(store) as client:
        page = (await client.get("/console/runs?compare=x%2Cy&compare=x")).text
        links = re.findall(r'<a href="([^"]+)#charts-title"', page)
        assert links
        for link in links:
            assert "Compare 2 runs" in (await client.get(html.unescape(link))).text
        alone = (await client.get("/console/runs?compare=x%2Cy")).text
    assert alone.count('<tr role="row" class="on">') == 1


async def test_a_bar_of_the_histogram_opens_its_episodes():
    store = MemoryStore()
    returns = [0.0, 0.05, 0.1, 0.1, 0.3, 0.45, 0.5, 0.7, 1.0, 1.0]
    await fill_run(store, "r", returns)
    async with opened(store) as client:
        page = (await client.get("/console/episodes")).text
        bars = re.findall(r'<a href="([^"]+)" aria-label="(\d+) from', page)
        assert sum(int(count) for _, count in bars) == len(returns)
        for link, count in bars:
            shown = (await client.get(html.unescape(link))).text
            assert f"<dt>Episodes</dt><dd>{count}</dd>" in shown


async def test_the_page_of_runs_has_its_charts_as_data(filled):
    client, _ = filled
    await made.fill_runs(client.app.manager.services.store)
    page = (await client.get(f"/console/runs?compare={made.RUNS[0]},{made.RUNS[2]}")).text
    assert page.count(" checked") >= 2
    assert 'id="c-returns"' in page
    assert "is behind" in page
    data = re.search(r'id="c-returns">(.*?)</script>', page)[1]
    assert "<" not in data
    empty = (await client.get("/console/runs?compare=none")).text
    assert "echarts" not in empty


def test_steps_are_aligned_by_call():
    left = made.SHELL_STEPS
    right = (*made.SHELL_STEPS[:2], *made.SHELL_STEPS[3:6], made.step(7, "bash", {"command": "ls"}))
    stretches = compare_steps(left, right)
    assert [(s.is_same, len(s.left), len(s.right)) for s in stretches] == [
        (True, 2, 2),
        (False, 1, 0),
        (True, 3, 3),
        (False, 4, 1),
    ]
    assert [s.is_first_difference for s in stretches] == [False, True, False, False]
    assert stretches[3].pairs[1][1] is None


async def test_two_episodes_are_compared(filled):
    client, ids = filled
    page = (await client.get(f"/console/compare?a={ids['shell']}&b={ids['live']}")).text
    assert "3 identical steps" in page
    assert 'id="first-difference"' in page
    offered = (await client.get(f"/console/compare?a={ids['shell']}")).text
    assert offered.count(f"?a={ids['shell']}&amp;b=") == 4
    assert (await client.get("/console/compare")).status_code == 404


async def test_open_alarms_are_shown_with_their_run(filled):
    client, _ = filled
    store = client.app.manager.services.store
    for number in range(100):
        origin = made.origin(
            f"bad{number:03}", labels={"run": "bad<b>", "agent": "a"}, task_hash=f"{number:064x}"
        )
        await made.write(store, origin, made.SHELL_STEPS[:1])
    await client.app._episodes.alarms.of("bad<b>").update()
    page = (await client.get("/console/runs?compare=bad%3Cb%3E")).text
    assert "Alarms of a" in page
    assert "An alarm proves nothing" in page
    assert re.search(r'<span class="mark warn">\d+ alarms?</span>', page)
    assert "bad<b>" not in page
    overview = (await client.get("/console")).text
    assert "Alarm of bad&lt;b&gt;: " in overview
