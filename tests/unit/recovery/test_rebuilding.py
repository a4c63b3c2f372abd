"""A session of a server that was killed goes on at the next one as if nothing had happened."""

import sqlite3
from datetime import datetime, timedelta

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from ors_server.app import create_app
from ors_server.model.clock import SystemClock
from ors_server.model.errors import SettingsError
from ors_server.model.settings import Settings
from ors_server.store.location import parse_location
from ors_server.store.sql.verification import verify
from tests.fixtures.recovered_journal import COUNTERS, Journal
from tests.unit.recovery.conftest import said, text_of

LIMIT = 30.0


def has_sign_of_life(lives) -> bool:
    connection = sqlite3.connect(lives.path)
    try:
        return bool(connection.execute("SELECT value FROM shared_values WHERE name = 'alive_at'").fetchall())
    finally:
        connection.close()


async def test_a_session_goes_on_where_its_record_ends(lives):
    player = await lives.start()
    await player.create("s", index=1)
    await player.prompt("s")
    first = await player.call("s", "note", "c1", text="one")
    rolled = text_of(await player.call("s", "roll"))
    before = await player.status("s")
    lives.kill()
    player = await lives.start()
    second = text_of(await player.call("s", "note", text="two"))
    after = await player.status("s")
    assert second == "one, two"
    assert (await player.call("s", "note", "c1", text="one")).content == first.content
    assert text_of(await player.call("s", "roll")) != rolled
    kept = (
        "episode_id",
        "seed",
        "split",
        "index",
        "policy",
        "visibility",
        "toolset",
        "credential_id",
        "labels",
    )
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert after["episode"]["return"] == before["episode"]["return"] + 2.0
    assert [step["number"] for step in await player.steps("s")] == [1, 2, 3, 4]
    assert (after["episode"]["created_at"], after["episode"]["started_at"]) == (
        before["episode"]["created_at"],
        before["episode"]["started_at"],
    )


async def test_the_seeded_chances_go_on(lives):
    player = await lives.start()
    request = {"environment": "journal", "split": "train", "index": 0, "seed": 7}
    for name in ("whole", "broken"):
        await player.http.post("/_ors/sessions", json={**request, "session_id": name})
        await player.call(name, "roll")
    whole = text_of(await player.call("whole", "roll"))
    lives.kill()
    player = await lives.start()
    assert text_of(await player.call("broken", "roll")) == whole


async def test_nothing_is_written_while_a_session_is_rebuilt(lives):
    player = await lives.start()
    await player.create("s")
    await player.prompt("s")
    await player.call("s", "note", text="one")
    before, steps = await player.record("s"), await player.steps("s")
    lives.kill()
    player = await lives.start()
    assert (await player.send("POST", "/ping", "s")).status_code == 200
    after = await player.record("s")
    assert [incident["kind"] for incident in after.pop("incidents")] == ["rebuilt"]
    del before["incidents"]
    assert after == before
    assert await player.steps("s") == steps


async def test_the_simulated_user_repeats_what_it_answered_and_then_answers_itself(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "talk", text="hello")
    lives.kill()
    player = await lives.start()
    assert text_of(await player.call("s", "talk", text="again")) == "you said again"
    assert COUNTERS["asked"] == 2
    lives.kill()
    player = await lives.start()
    assert text_of(await player.call("s", "talk", text="and again")) == "you said and again"
    assert COUNTERS["asked"] == 3


async def test_a_reward_reads_the_steps_that_it_read_the_first_time(lives):
    player = await lives.start()
    await player.create("s")
    names = ("roll", "count_steps", "roll", "count_steps")
    paid = [said(await player.call("s", name))["output"]["reward"] for name in names]
    assert paid == [None, 1.0, None, 3.0]
    lives.kill()
    player = await lives.start()
    assert said(await player.call("s", "count_steps"))["output"]["reward"] == 4.0


async def test_mistakes_and_failures_of_the_environment_are_repeated(lives):
    player = await lives.start()
    await player.create("s")
    for name in ("refuse", "crash", "note", "nothing", "block"):
        await player.call("s", name, f"c-{name}")
    answers = {
        name: (await player.call("s", name, f"c-{name}")).content
        for name in ("refuse", "crash", "note", "block")
    }
    lives.kill()
    player = await lives.start()
    for name, answer in answers.items():
        assert (await player.call("s", name, f"c-{name}")).content == answer
    assert (await player.status("s"))["episode"]["failed_steps"] == 1


async def test_an_episode_that_is_over_is_answered_from_its_record(lives):
    player = await lives.start()
    await player.create("s")
    prompt = (await player.prompt("s")).json()
    await player.call("s", "note", text="one")
    last = await player.call("s", "finish", "end", answer="42")
    status = await player.status("s")
    COUNTERS.clear()
    lives.kill()
    player = await lives.start()
    assert (await player.call("s", "finish", "end", answer="42")).content == last.content
    assert (await player.prompt("s")).json() == prompt
    messages = (await player.send("GET", "/journal/messages", "s")).json()
    assert messages[0]["blocks"] == prompt
    assert (await player.status("s"))["episode"] == status["episode"]
    assert said(await player.call("s", "note", text="two"))["reason"] == "episode_finished"
    assert (await player.send("POST", "/delete", "s")).status_code == 200
    assert (await player.record("s"))["episode"]["stop_reason"] == "completed"
    assert not COUNTERS


async def test_an_over_episode_whose_prompt_was_never_read_says_so(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "finish", answer="42")
    lives.kill()
    player = await lives.start()
    answer = await player.prompt("s")
    assert (answer.status_code, "never read" in answer.text) == (410, True)


async def test_a_creation_that_was_cut_off_in_its_setup_begins_it_again(lives):
    player = await lives.start()
    await player.create("s")
    lives.kill()
    lives.write("UPDATE standings SET phase = 'created', body = json_set(body, '$.phase', 'created')")
    lives.write("DELETE FROM moves")
    player = await lives.start()
    assert text_of(await player.call("s", "note", text="one")) == "one"
    record = await player.record("s")
    assert [move["event"] for move in record["transitions"]] == ["setup_done", "step"]


async def test_a_repeated_creation_is_answered_as_the_first_one(lives):
    player = await lives.start()
    first = await player.create("s")
    lives.kill()
    player = await lives.start()
    again = await player.create("s")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    other = await player.create("s", index=1)
    assert (other.status_code, other.json()["detail"]) == (400, "Session already exists")
    assert len((await player.http.get("/_ors/episodes")).json()["episodes"]) == 1


async def test_a_repeated_creation_of_a_session_that_was_not_rebuilt_is_refused(lives):
    player = await lives.start()
    await player.create("s")
    assert (await player.create("s")).status_code == 400


async def test_a_call_that_is_not_on_record_runs_once_in_a_rebuilt_session_only(lives):
    player = await lives.start()
    await player.create("s")
    lost = "0123456789abcdef" * 2
    refused = await player.call("s", "note", lost, text="one")
    assert "unknown task_id" in refused.text
    lives.kill()
    player = await lives.start()
    answer = await player.call("s", "note", lost, text="one")
    assert text_of(answer) == "one"
    assert (await player.call("s", "note", lost, text="one")).content == answer.content
    await player.create("new")
    assert "unknown task_id" in (await player.call("new", "note", lost, text="one")).text


async def test_requests_that_come_together_rebuild_a_session_once(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    lives.kill()
    COUNTERS.clear()
    player = await lives.start()
    answers = []

    async def ask() -> None:
        answers.append(await player.send("POST", "/ping", "s"))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
    assert {answer.status_code for answer in answers} == {200}
    assert (COUNTERS["set up"], COUNTERS["noted"]) == (1, 1)


async def test_a_client_that_leaves_does_not_stop_the_rebuilding(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    lives.kill()
    player = await lives.start()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await player.send("POST", "/ping", "s")
    assert text_of(await player.call("s", "note", text="two")) == "one, two"


async def test_an_id_of_nobody_is_unknown(lives):
    player = await lives.start()
    await player.create("s")
    lives.kill()
    player = await lives.start()
    assert (await player.send("POST", "/ping", "nobody")).status_code == 404
    assert (await player.call("nobody", "roll")).status_code == 404


async def test_a_rebuilt_session_counts_against_the_limits(lives):
    player = await lives.start()
    await player.create("one")
    await player.create("two")
    lives.kill()
    player = await lives.start(max_sessions=1)
    assert (await player.send("POST", "/ping", "one")).status_code == 200
    assert (await player.send("POST", "/ping", "two")).status_code == 429
    await player.send("POST", "/delete", "one")
    assert (await player.send("POST", "/ping", "two")).status_code == 200


async def test_an_agents_token_stays_valid_and_is_for_its_own_session(lives):
    keys = "trainer:t:trainer-key-0123456789"
    player = await lives.start(api_keys=keys)
    trainer = {"X-API-Key": "trainer-key-0123456789"}
    body = {"environment": "journal", "split": "train", "index": 0}
    made = [
        (await player.http.post("/_ors/sessions", json={**body, "session_id": name}, headers=trainer)).json()
        for name in ("mine", "other")
    ]
    lives.kill()
    player = await lives.start(api_keys=keys)
    token = {"X-API-Key": made[0]["agent_token"]}
    assert (await player.send("GET", "/journal/prompt", "other", **token)).status_code == 403
    assert COUNTERS["set up"] == 2
    assert (await player.send("GET", "/journal/prompt", "mine", **token)).status_code == 200
    minted = await player.http.post("/_ors/sessions/mine/token", headers=trainer)
    assert minted.json()["agent_token"] == made[0]["agent_token"]


async def test_time_without_a_server_is_not_played(lives):
    player = await lives.start()
    request = {"environment": "journal", "split": "train", "index": 0, "policy": {"time_limit": 600.0}}
    await player.http.post("/_ors/sessions", json={**request, "session_id": "s"})
    left = said(await player.call("s", "note", text="one"))["output"]["metadata"]["episode"]["time_remaining"]
    lives.kill()
    hour = 3600 * 10**6
    for table, column in (("episodes", "created_at"), ("standings", "touched_at")):
        lives.write(f"UPDATE {table} SET {column} = {column} - {hour}")  # noqa: S608
    lives.write("UPDATE standings SET touched_at = touched_at + ?", hour)
    for table in ("episodes", "standings", "steps", "moves"):
        for name in ("created_at", "started_at", "last_call_at", "at"):
            lives.write(
                f"UPDATE {table} SET digest = '', body = json_replace(body, '$.{name}', "  # noqa: S608
                f"strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(body, '$.{name}'), '-1 hour')) "
                f"WHERE json_extract(body, '$.{name}') IS NOT NULL"
            )
    player = await lives.start()
    answer = said(await player.call("s", "note", text="two"))["output"]
    now = answer["metadata"]["episode"]["time_remaining"]
    assert left - 30 < now <= left
    assert (await player.status("s"))["episode"]["phase"] == "playing"


class ShiftedClock(SystemClock):
    """The clock of a machine that is minutes away from the others'."""

    def __init__(self, minutes: float) -> None:
        self.shift = timedelta(minutes=minutes)

    def now(self) -> datetime:
        return super().now() + self.shift


async def test_servers_whose_clocks_are_minutes_apart_continue_an_episode_in_order(lives):
    request = {"environment": "journal", "split": "train", "index": 0, "policy": {"time_limit": 600.0}}
    left = [600.0]
    for number, minutes in enumerate((0, -7, 7, -3)):
        player = await lives.start(clock=ShiftedClock(minutes))
        if not number:
            await player.http.post("/_ors/sessions", json={**request, "session_id": "s"})
        output = said(await player.call("s", "note", text=f"n{number}"))["output"]
        assert output["blocks"][0]["text"] == ", ".join(f"n{count}" for count in range(number + 1))
        left.append(output["metadata"]["episode"]["time_remaining"])
        lives.kill()
    player = await lives.start()
    ended = said(await player.call("s", "finish", answer="42"))["output"]
    assert ended["finished"]
    # No shift of a clock is played time.
    assert left == sorted(left, reverse=True)
    assert left[-1] > 600.0 - LIMIT
    record = await player.record("s")
    assert [incident["kind"] for incident in record["incidents"]] == ["rebuilt"] * 4
    assert record["episode"]["stop_reason"] == "completed"
    moments = [step["started_at"] for step in await player.steps("s")]
    assert moments == sorted(moments)
    found = await anyio.to_thread.run_sync(verify, parse_location(str(lives.path)))
    assert not found.findings


async def test_what_is_older_than_the_idle_limit_is_closed(lives):
    player = await lives.start()
    await player.create("old")
    await player.create("over")
    await player.call("over", "finish", answer="42")
    lives.kill()
    lives.write("UPDATE standings SET touched_at = touched_at - ?", 3600 * 10**6)
    lives.write("DELETE FROM shared_values WHERE name = 'alive_at'")
    player = await lives.start(idle_seconds=900)
    assert (await player.send("POST", "/ping", "old")).status_code == 404
    with anyio.fail_after(LIMIT):
        while not (await player.record("over"))["closed"]:
            await anyio.lowlevel.checkpoint()
    old, over = await player.record("old"), await player.record("over")
    assert (old["closed"], old["episode"]["phase"], old["episode"]["stop_reason"]) == (
        True,
        "expired",
        "expired",
    )
    assert (over["episode"]["phase"], over["episode"]["stop_reason"]) == ("expired", "completed")


async def test_a_session_without_a_step_for_long_is_rebuilt_if_its_server_was_alive(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    with anyio.fail_after(LIMIT):
        while not has_sign_of_life(lives):
            await anyio.lowlevel.checkpoint()
    lives.kill()
    lives.write("UPDATE standings SET touched_at = touched_at - ?", 3600 * 10**6)
    player = await lives.start(idle_seconds=900)
    assert text_of(await player.call("s", "note", text="two")) == "one, two"


async def test_what_nobody_asks_for_is_closed_when_it_would_have_expired(lives):
    player = await lives.start()
    await player.create("s")
    lives.kill()
    lives.write("UPDATE standings SET touched_at = touched_at + ?", 3600 * 10**6)  # not old at the start
    player = await lives.start(idle_seconds=0.2)
    with anyio.fail_after(LIMIT):
        while not (record := await player.record("s"))["closed"]:
            await anyio.lowlevel.checkpoint()
    assert (record["episode"]["phase"], record["episode"]["stop_reason"]) == ("expired", "expired")


@pytest.mark.parametrize("tools", [["note"], ["note", "finish"], ["finish"]])
async def test_a_transition_that_the_kill_lost_is_written(lives, tools):
    player = await lives.start()
    await player.create("s")
    for name in tools:
        await player.call("s", name, **({"text": "one"} if name == "note" else {"answer": "42"}))
    await player.record("s")  # which waits until every transition is written
    lives.kill()
    lives.write("DELETE FROM moves WHERE position = (SELECT max(position) FROM moves)")
    player = await lives.start()
    for text in ("two", "three"):
        await player.call("s", "note", text=text)
    found = await anyio.to_thread.run_sync(verify, parse_location(str(lives.path)))
    assert found.findings == ()
    await player.send("POST", "/delete", "s")
    found = await anyio.to_thread.run_sync(verify, parse_location(str(lives.path)))
    assert found.findings == ()


async def test_a_session_that_waits_is_deleted_without_being_rebuilt(lives):
    player = await lives.start()
    await player.create("s")
    lives.kill()
    COUNTERS.clear()
    player = await lives.start()
    assert (await player.send("POST", "/delete", "s")).status_code == 200
    record = await player.record("s")
    assert (record["closed"], record["episode"]["stop_reason"]) == (True, "deleted")
    assert (await player.send("POST", "/ping", "s")).status_code == 404
    assert not COUNTERS


async def test_a_session_that_is_deleted_while_it_is_rebuilt_is_gone(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    lives.kill()
    player = await lives.start()
    async with anyio.create_task_group() as group:
        group.start_soon(player.send, "POST", "/ping", "s")
        group.start_soon(player.send, "POST", "/delete", "s")
    assert (await player.send("POST", "/ping", "s")).status_code == 404
    assert (await player.record("s"))["episode"]["stop_reason"] == "deleted"


async def test_a_server_that_shall_not_recover_knows_no_such_session(lives):
    player = await lives.start()
    await player.create("s")
    lives.kill()
    player = await lives.start(recover="off")
    assert (await player.send("POST", "/ping", "s")).status_code == 404
    assert not (await player.record("s"))["closed"]


async def test_a_record_that_another_server_writes_is_left_alone(lives):
    player = await lives.start()
    await player.create("s")
    second = await lives.start()
    assert (await second.send("POST", "/ping", "s")).status_code == 404
    assert (await player.send("POST", "/ping", "s")).status_code == 200
    assert not (await second.record("s"))["closed"]


async def test_a_fork_goes_on_too(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    made = (await player.http.post("/_ors/sessions/s/fork", json={"count": 1})).json()
    child = made["sessions"][0]["session_id"]
    await player.call(child, "note", text="two")
    lives.kill()
    player = await lives.start()
    assert text_of(await player.call(child, "note", text="three")) == "one, two, three"


@pytest.mark.parametrize("ends", ["suspend", "end"])
async def test_a_server_that_is_stopped_ends_or_suspends_its_sessions(lives, ends):
    player = await lives.start(on_stop=ends)
    await player.create("s")
    await player.call("s", "note", text="one")
    await lives.stack.aclose()
    assert COUNTERS["torn down"] == 1
    player = await lives.start()
    if ends == "end":
        assert (await player.send("POST", "/ping", "s")).status_code == 404
        assert (await player.record("s"))["episode"]["stop_reason"] == "shutdown"
    else:
        assert text_of(await player.call("s", "note", text="two")) == "one, two"


async def test_a_call_that_runs_when_the_server_is_suspended_is_left_out(lives):
    player = await lives.start(on_stop="suspend", teardown_seconds=0.2)
    await player.create("s")
    await player.call("s", "note", text="one")
    async with anyio.create_task_group() as group:
        group.start_soon(player.call, "s", "wait", "w")
        with anyio.fail_after(LIMIT):
            while not COUNTERS["waiting"]:
                await anyio.lowlevel.checkpoint()
        await player.app.end_sessions()
    await lives.stack.aclose()
    player = await lives.start()
    assert text_of(await player.call("s", "note", text="two")) == "one, two"
    assert [step["tool"] for step in await player.steps("s")] == ["note", "note"]


async def test_a_record_in_memory_cannot_be_suspended():
    with pytest.raises(SettingsError, match="on_stop=suspend leaves sessions to the next server"):
        create_app([Journal], Settings(store="memory", on_stop="suspend"))
