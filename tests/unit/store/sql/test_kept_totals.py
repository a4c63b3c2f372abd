"""Totals of closed episodes are kept, and are what the episodes add up to in every case."""

import sqlite3
from dataclasses import replace
from datetime import timedelta
from functools import partial

import anyio
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ors_server.model.trajectory import Fork, StepStatus, Transition
from ors_server.store.episode_filter import ALL, EpisodeFilter
from ors_server.store.episode_order import parse_order
from ors_server.store.location import parse_location
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from ors_server.store.sql.maintenance import prune
from ors_server.store.sql.pruning import Retention
from ors_server.store.sql.verification import verify
from ors_server.testing.store_promises import MORNING, after, make_origin, make_step
from tests.fixtures.older_records import FIGURES

FILTERS = [
    EpisodeFilter(),
    EpisodeFilter(environment="chess"),
    EpisodeFilter(labels={"run": "a"}),
    EpisodeFilter(labels={"run": "a", "agent": "x"}, phase="finished"),
    EpisodeFilter(closed=True),
    EpisodeFilter(closed=False),
    EpisodeFilter(stop_reason="failed", unjudged=False),
    EpisodeFilter(unjudged=True),
    EpisodeFilter(live=True),
    EpisodeFilter(live=False, environment=("maze", "go")),
    EpisodeFilter(labels={"run": ""}),
    EpisodeFilter(min_return=0.5),
    EpisodeFilter(split="train"),
    EpisodeFilter(split=("test", "train"), has=("refused",), live=False),
    EpisodeFilter(has=("failed",)),
    EpisodeFilter(has=("penalty", "refused")),
    EpisodeFilter(has=("ungraded",), environment="maze"),
]
ENDS = st.sampled_from(
    [
        {"phase": "finished", "stop_reason": "completed"},
        {"phase": "deleted", "stop_reason": "deleted", "last_reward": None},
        {"phase": "failed", "stop_reason": "failed", "failed_steps": 1},
        {"phase": "deleted", "stop_reason": "step_limit", "unjudged_steps": 1},
        {"phase": "finished", "stop_reason": "completed", "last_reward": None, "refused_steps": 2},
        {"phase": "finished", "stop_reason": "completed", "penalised_steps": 1, "refused_steps": 1},
        {"phase": "finished", "stop_reason": "completed", "ungraded_steps": 3},
    ]
)
PLAYS = st.lists(
    st.tuples(
        st.sampled_from([("maze", "train"), ("chess", "train"), ("maze", "test"), ("chess", None)]),
        st.sampled_from([{}, {"run": "a"}, {"run": "a", "agent": "x"}, {"run": "b", "agent": "\0"}]),
        st.integers(0, 3),
        st.sampled_from([-1.0, 0.0, 0.1, 1.0, 1e300]),
        ENDS,
        st.sampled_from(["open", "close", "close twice", "note after the end"]),
    ),
    max_size=8,
)


async def play(store, number, *parts):
    (environment, split), labels, steps, value, end, close = parts
    origin = make_origin(number, environment=environment, split=split, labels=labels)
    await store.open(origin)
    for step in range(1, steps + 1):
        await store.append(
            origin.episode_id, make_step(step, tool=f"tool {step % 2}"), partial(after, origin, step)
        )
    last = after(origin, steps, episode_return=value, **end)
    if close == "open":
        store.record_transition(
            origin.episode_id, Transition("end", last.phase, last.stop_reason, MORNING), last
        )
        return
    await store.close(origin.episode_id, last)
    if close == "close twice":
        await store.close(origin.episode_id, replace(last, episode_return=value / 2))
    if close == "note after the end":
        late = replace(last, phase="expired")
        store.record_transition(origin.episode_id, Transition("expire", "expired", None, MORNING), late)


def kept_findings(where):
    words = ("totals", "kept", "list of tools")
    return [
        finding
        for finding in verify(parse_location(where)).findings
        if any(word in finding.text for word in words)
    ]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plays=PLAYS)
def test_kept_totals_are_those_of_memory_and_of_the_episodes(plays, tmp_path_factory):
    where = str(tmp_path_factory.mktemp("kept") / "record.db")

    async def run():
        memory, store = MemoryStore(), await open_store(where)
        try:
            for target in (memory, store):
                for number, parts in enumerate(plays):
                    await play(target, number, *parts)
            for episode_filter in FILTERS:
                told = [await target.totals(episode_filter) for target in (memory, store)]
                assert replace(told[1], mean_return=None) == replace(told[0], mean_return=None)
                assert (
                    told[1].mean_return == pytest.approx(min(told[0].mean_return or 0, 1e150), rel=1e-9)
                    or not told[0].graded
                )
                runs = [await target.runs(episode_filter) for target in (memory, store)]
                assert [run.episodes for run in runs[0]] == [run.episodes for run in runs[1]]
                assert [run.success for run in runs[0]] == [run.success for run in runs[1]]
            counted = [await target.calls_by_minute(MORNING) for target in (memory, store)]
            assert counted[0] == counted[1]
        finally:
            await store.aclose()

    anyio.run(run)
    assert kept_findings(where) == []


async def test_pruned_episodes_leave_the_totals(records):
    store = await records.open()
    for number in range(5):
        await play(
            store,
            number,
            ("maze", "train"),
            {"run": "ab"[number % 2]},
            1,
            number,
            {"stop_reason": "completed"},
            "close",
        )
    await store.aclose()
    prune(parse_location(str(records.path)), Retention(episodes=2), MORNING)
    store = await open_store(str(records.path))
    try:
        totals = await store.totals()
        runs = await store.runs()
        calls = await store.calls_by_minute(MORNING)
    finally:
        await store.aclose()
    assert [minute.calls for minute in calls] == [5]  # pruning changes no count of calls
    assert (totals.episodes, totals.least_return, totals.greatest_return) == (2, 3.0, 4.0)
    assert [(run.run, run.episodes) for run in runs] == [("a", 1), ("b", 1)]
    assert kept_findings(str(records.path)) == []


async def test_a_total_that_was_edited_is_found(records):
    store = await records.open()
    await play(store, 1, ("maze", "train"), {"run": "a"}, 2, 1.0, {"stop_reason": "completed"}, "close")
    await store.aclose()
    with sqlite3.connect(records.path) as connection:
        connection.execute("UPDATE totals SET episodes = 3, return_sum = 7")
        connection.execute("UPDATE tool_uses SET tool = 'other' WHERE tool = 'tool 1'")
        connection.execute("UPDATE call_minutes SET calls = calls - 1")
    connection.close()
    found = {finding.text.partition(" of ")[0] for finding in kept_findings(str(records.path))}
    minute = (
        f"1 calls are kept for the minute {MORNING:%Y-%m-%d %H:%M} UTC, and 2 that began in it are on record"
    )
    assert {"the kept episodes", "the kept return_sum", "the list", minute} == {
        text.removesuffix(" of tools") for text in found
    }


@pytest.mark.parametrize("kind", ["refused", "failed"])
async def test_a_minute_that_lost_calls_of_a_kind_is_found(records, kind):
    store = await records.open()
    await play(store, 1, ("maze", "train"), {}, 2, 1.0, {"stop_reason": "completed"}, "close")
    await store.aclose()
    with sqlite3.connect(records.path) as connection:
        connection.execute(f"UPDATE steps SET status = '{kind}' WHERE number = 1")  # noqa: S608  (a word of ours)
    connection.close()
    minute = f"for the minute {MORNING:%Y-%m-%d %H:%M} UTC, and 1 that began in it are on record"
    assert f"0 {kind} calls are kept {minute}" in {
        finding.text for finding in kept_findings(str(records.path))
    }


async def test_steps_have_columns_for_their_tool_status_blame_and_time(records):
    store, origin = await records.open(), make_origin(1)
    await store.open(origin)
    kinds = [
        {"tool": "walk"},
        {"tool": "fly\0", "status": StepStatus.REFUSED, "error_code": "unknown_tool", "error": "no"},
        {"status": StepStatus.FAILED, "error_code": "tool_failed", "error": "no"},
        {"status": StepStatus.FAILED, "error_code": "store_unavailable", "error": "no"},
        {"status": StepStatus.CANCELLED, "error_code": "call_cancelled", "error": "no"},
    ]
    for number, changes in enumerate(kinds, 1):
        await store.append(origin.episode_id, make_step(number, **changes), partial(after, origin, number))
    await store.aclose()
    rows = records.rows("SELECT tool, status, blame, duration FROM steps ORDER BY number")
    assert rows == [
        ("walk", "graded", None, 0.25),
        ("fly\N{SYMBOL FOR NULL}", "refused", "agent", 0.25),
        ("walk", "failed", "author", 0.25),
        ("walk", "failed", "machinery", 0.25),
        ("walk", "cancelled", "client", 0.25),
    ]
    assert records.rows("SELECT tool FROM tool_uses ORDER BY tool") == [
        ("fly\N{SYMBOL FOR NULL}",),
        ("walk",),
    ]


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
async def test_a_record_of_the_previous_schema_gets_columns_and_totals(where, records, request):
    place = str(records.path)
    if where == "postgresql":
        place = request.getfixturevalue("postgres").create_database()
    store = await open_store(place)
    kinds = [
        {"tool": "walk"},
        {"tool": "fly\0", "status": StepStatus.REFUSED, "error_code": "unknown_tool", "error": "no"},
        {
            "status": StepStatus.FAILED,
            "error_code": "tool_failed",
            "error": "no",
            "reward": None,
            "components": {},
        },
        {"status": StepStatus.CANCELLED, "error_code": "call_cancelled", "error": "no"},
    ]
    for number, parts in enumerate(
        [
            (
                ("maze", "test"),
                {"run": "a", "agent": "x\0"},
                0,
                1.0,
                {"phase": "deleted", "stop_reason": "deleted"},
                "close",
            ),
            (("chess", None), {}, 2, 0.2, {"phase": "finished", "stop_reason": "completed"}, "close"),
            (("chess", "train"), {}, 1, 0.1, {"phase": "playing"}, "open"),
        ]
    ):
        await play(store, number, *parts)
    origin = make_origin(7, forked_from=Fork("parent", 1), labels={"run": "b"})
    await store.open(origin)
    for number, changes in enumerate(kinds, 1):
        await store.append(origin.episode_id, make_step(number, **changes), partial(after, origin, number))
    counts = {"failed_steps": 1, "refused_steps": 1, "ungraded_steps": 1, "penalised_steps": 3}
    times = {"started_at": MORNING, "finished_at": MORNING + timedelta(seconds=9)}
    last = after(origin, 4, phase="finished", stop_reason="completed", **counts, **times)
    await store.close(origin.episode_id, last)
    before = await told_of(store)
    await store.aclose()
    run_statements(place, [*FIGURES, "UPDATE alembic_version SET version_num = '0005'"])
    store = await open_store(place)
    try:
        assert await told_of(store) == before
        found = await store.page(EpisodeFilter(forked_from="parent", has=("refused", "failed"), tool="fly\0"))
        assert [record.summary for record in found] == [last]
        (slowest, *_) = await store.page(ALL, order=parse_order("-duration"))
        assert slowest.origin == origin
    finally:
        await store.aclose()
    assert kept_findings(place) == []
    texts = [finding.text for finding in verify(parse_location(place)).findings]
    assert not [text for text in texts if "columns" in text]


async def told_of(store):
    figures = (await store.totals(), await store.runs(), await store.by_task())
    return *figures, await store.calls_by_minute(MORNING)


def run_statements(place, statements):
    if place.startswith("postgresql"):
        with psycopg.connect(place, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)
        return
    database = sqlite3.connect(place)
    with database:
        for statement in statements:
            database.execute(statement)
    database.close()
