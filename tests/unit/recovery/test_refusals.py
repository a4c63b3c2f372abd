"""What cannot be rebuilt is closed, and says why; nothing is played on that might differ."""

import json
from dataclasses import replace
from typing import ClassVar

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server import Environment
from ors_server.environments.loading import define
from ors_server.model.episode import TRANSITIONS, EpisodeEvent, Phase
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.recovery.normalising import Normaliser
from ors_server.recovery.step_comparison import COMPARED, compare_steps
from ors_server.testing.store_promises import make_step
from tests.fixtures.recovered_journal import COUNTERS, Journal
from tests.unit.recovery.conftest import said, text_of

LIMIT = 30.0


class Unrepeatable(Journal):
    """Changes something outside of its sessions."""

    name = "journal"
    recoverable = False


class Newer(Journal):
    """Is another version."""

    name = "journal"
    version = "2"


class Noisy(Journal):
    """Has another prompt."""

    name = "journal"
    prompt_noise: ClassVar[str] = " Quickly."


class Broken(Journal):
    """Has a setup that fails."""

    name = "journal"

    def setup(self) -> None:
        raise RuntimeError("the answer is 42")


class Elsewhere(Journal):
    """Has another name."""

    name = "elsewhere"


async def interrupted(player, session_id: str) -> str:
    """Return why a session cannot be rebuilt, after checking that its record says the same."""
    answer = await player.send("POST", "/ping", session_id)
    assert answer.status_code == 410, answer.text
    detail = answer.json()["detail"]
    again = await player.send("GET", "/prompt", session_id)
    assert (again.status_code, again.json()["detail"]) == (410, detail)
    record = await player.record(session_id)
    assert (record["closed"], record["episode"]["phase"]) == (True, "deleted")
    assert record["episode"]["stop_reason"] == "interrupted"
    [incident] = [one for one in record["incidents"] if one["kind"] == "interrupted"]
    prefix, _, reason = detail.partition("cannot be rebuilt: ")
    assert prefix
    assert incident["text"] == reason
    return reason


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (Unrepeatable, "the environment 'journal' is declared as not recoverable"),
        (Newer, "the version of the environment 'journal' was 1 and is 2"),
        (Noisy, "its prompt differs from the record when it is played again: prompt"),
        (Broken, "its setup or prompt failed when it was repeated"),
        (Elsewhere, "its environment 'journal' is not served any more"),
    ],
)
async def test_another_environment_interrupts(lives, environment, reason):
    player = await lives.start()
    await player.create("s")
    await player.prompt("s")
    await player.call("s", "note", text="one")
    lives.kill()
    player = await lives.start(environment)
    assert await interrupted(player, "s") == reason


async def test_another_version_is_let_pass_if_that_is_allowed(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    lives.kill()
    player = await lives.start(Newer, recover_other_versions=True)
    assert text_of(await player.call("s", "note", text="two")) == "one, two"


@pytest.mark.parametrize("name", ["odd", "drift"])
async def test_a_step_that_differs_interrupts(lives, name):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    await player.call("s", name)
    lives.kill()
    player = await lives.start()
    field = {"odd": "blocks", "drift": "reward, components"}[name]
    assert (
        await interrupted(player, "s")
        == f"step 2 ({name!r}) differs from the record when it is played again: {field}"
    )
    assert COUNTERS["torn down"] == 1


async def test_lenient_lets_texts_pass_and_says_so(lives):
    player = await lives.start()
    await player.create("s")
    await player.prompt("s")
    first = await player.call("s", "odd", "c1")
    await player.call("s", "note", text="one")
    lives.kill()
    player = await lives.start(Noisy, recover="lenient")
    assert (await player.call("s", "odd", "c1")).content == first.content
    assert text_of(await player.call("s", "note", text="two")) == "one, two"
    [incident] = (await player.record("s"))["incidents"]
    assert (incident["kind"], incident["steps"]) == ("rebuilt", [1])
    assert incident["text"].endswith("the texts of steps 1 differed")


async def test_lenient_lets_no_reward_pass(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "drift")
    lives.kill()
    player = await lives.start(recover="lenient")
    assert "reward" in await interrupted(player, "s")


async def test_what_the_environment_declares_volatile_may_differ(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "odd")
    lives.kill()
    definition = replace(define(Journal), volatile=(r"number \d+",))
    player = await lives.start(definition)
    assert text_of(await player.call("s", "note", text="one")) == "one"


async def test_a_cancelled_step_interrupts(lives):
    player = await lives.start()
    await player.create("s")
    async with anyio.create_task_group() as group:
        group.start_soon(player.call, "s", "wait", "w")
        with anyio.fail_after(LIMIT):
            while not COUNTERS["waiting"]:
                await anyio.lowlevel.checkpoint()
        assert (await player.http.post("/_ors/sessions/s/calls/w/cancel")).json()["cancelled"]
    lives.kill()
    player = await lives.start()
    assert (await interrupted(player, "s")).startswith("step 1 cannot be repeated: its caller withdrew it")


async def test_a_step_that_the_machinery_failed_interrupts(lives):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "crash")
    lives.kill()
    lives.write(
        "UPDATE steps SET digest = '', body = json_replace(body, '$.error_code', 'store_unavailable')"
    )
    player = await lives.start()
    assert (await interrupted(player, "s")).startswith("step 1")


@pytest.mark.parametrize("is_followed", [True, False])
async def test_a_restored_snapshot_interrupts(lives, is_followed):
    player = await lives.start()
    await player.create("s")
    await player.call("s", "note", text="one")
    kept = (await player.http.post("/_ors/sessions/s/snapshots")).json()["snapshot_id"]
    await player.call("s", "note", text="two")
    assert (await player.http.post(f"/_ors/sessions/s/snapshots/{kept}/restore")).status_code == 200
    if is_followed:
        await player.call("s", "note", text="three")
    lives.kill()
    player = await lives.start()
    assert await interrupted(player, "s") == "it was restored to a snapshot, and snapshots are not on record"


async def test_a_snapshot_that_was_only_taken_does_not_interrupt(lives):
    player = await lives.start()
    await player.create("s")
    await player.http.post("/_ors/sessions/s/snapshots")
    lives.kill()
    player = await lives.start()
    assert text_of(await player.call("s", "note", text="one")) == "one"


async def test_secrets_interrupt_and_leave_no_trace_in_the_record(lives):
    player = await lives.start()
    await player.create("s", secrets={"key": "a-secret-of-many-letters"})
    lives.kill()
    player = await lives.start()
    assert await interrupted(player, "s") == "it was given secrets, which are not on record"
    assert (await player.record("s"))["creation"] is None
    assert b"a-secret-of-many-letters" not in lives.path.read_bytes()


async def test_the_key_that_openreward_sends_as_a_secret_is_not_needed(lives):
    player = await lives.start()
    secrets = {"api_key": "a-key-of-many-letters", "OPENREWARD_API_KEY": "a-key-of-many-letters"}
    await player.create("s", secrets=secrets)
    await player.call("s", "note", text="one")
    lives.kill()
    player = await lives.start()
    assert text_of(await player.call("s", "note", text="two")) == "one, two"
    assert b"a-key-of-many-letters" not in lives.path.read_bytes()


async def test_a_creation_after_an_interruption_makes_a_new_episode(lives):
    player = await lives.start()
    await player.create("s", secrets={"key": "a-secret-of-many-letters"})
    before = (await player.status("s"))["episode_id"]
    lives.kill()
    player = await lives.start()
    assert (await player.create("s", secrets={"key": "a-secret-of-many-letters"})).status_code == 200
    assert (await player.status("s"))["episode_id"] != before
    assert (await player.record(before))["episode"]["stop_reason"] == "interrupted"
    await player.send("POST", "/delete", "s")
    assert (await player.send("POST", "/ping", "s")).status_code == 404


async def test_a_task_that_was_edited_on_record_interrupts(lives):
    player = await lives.start()
    await player.create("s")
    lives.kill()
    lives.write("UPDATE episodes SET digest = '', body = json_replace(body, '$.task_spec.n', 99)")
    player = await lives.start()
    assert await interrupted(player, "s") == "its recorded task does not have the recorded hash"


async def test_steps_that_are_missing_on_record_interrupt(lives):
    player = await lives.start()
    await player.create("s")
    for text in ("one", "two"):
        await player.call("s", "note", text=text)
    lives.kill()
    lives.write("DELETE FROM steps WHERE number = 2")
    player = await lives.start()
    assert await interrupted(player, "s") == "its record lacks steps"


async def test_an_over_episode_needs_nothing_that_a_live_one_needs(lives):
    player = await lives.start()
    await player.create("s", secrets={"key": "a-secret-of-many-letters"})
    await player.call("s", "finish", "end", answer="42")
    lives.kill()
    player = await lives.start(type("Other", (Unrepeatable,), {"name": "journal", "version": "3"}))
    assert said(await player.call("s", "finish", "end", answer="42"))["output"]["finished"]


async def test_reasons_show_no_agent_what_the_environment_said(lives):
    keys = "trainer:t:trainer-key-0123456789"
    trainer = {"X-API-Key": "trainer-key-0123456789"}
    player = await lives.start(api_keys=keys)
    body = {"environment": "journal", "split": "train", "index": 0, "session_id": "s"}
    made = (await player.http.post("/_ors/sessions", json=body, headers=trainer)).json()
    token = {"X-API-Key": made["agent_token"]}
    await player.send("POST", "/journal/call", "s", {"name": "roll", "input": {}}, **token)
    lives.kill()
    player = await lives.start(Broken, api_keys=keys)
    answer = await player.send("GET", "/journal/prompt", "s", **token)
    assert (answer.status_code, "42" in answer.text) == (410, False)


@given(
    field=st.sampled_from(COMPARED),
    reward=st.floats(allow_nan=False, allow_infinity=False),
    text=st.text(min_size=1),
)
def test_any_changed_field_of_a_step_is_a_difference(field, reward, text):
    was = make_step(1, reward=0.1)
    changes = {
        "status": {"status": next(one for one in type(was.status) if one is not was.status)},
        "error_code": {"error_code": text},
        "blocks": {"blocks": (*was.blocks, *was.blocks)},
        "reward": {"reward": reward},
        "components": {"components": {"tool": reward}},
        "finished": {"finished": not was.finished},
    }
    now = replace(was, **changes[field])
    found = [difference.field for difference in compare_steps(was, now, Normaliser())]
    assert found == ([] if now == was else [field])


def test_every_open_phase_can_be_closed():
    live = set(Phase) - {Phase.DELETED, Phase.EXPIRED}
    for event in (EpisodeEvent.DELETE, EpisodeEvent.EXPIRE):
        assert {phase for phase, moved in TRANSITIONS if moved is event} == live


def test_recoverable_must_be_a_truth_value():
    with pytest.raises(EnvironmentDefinitionError, match="recoverable"):
        define(type("Wrong", (Journal,), {"name": "wrong", "recoverable": "yes"}))
    assert Environment.recoverable
    assert json.dumps(define(Unrepeatable).is_recoverable) == "false"
