"""Whatever breaks between client and server, a call runs once, is paid once, and is answered if it can be."""

import anyio
import pytest

from ors_server.client import CallTimeoutError, Patience, UnreachableError
from ors_server.model import errors

ACCIDENTS = {
    "refused": ["refuse"],
    "lost": ["lose"],
    "lost twice": ["lose", "lose"],
    "cut in its id": [("cut", 10)],
    "cut after its id": [("cut", 80)],
    "cut in its result": [("cut", 120)],
    "a gateway that gave up": [502, 504],
    "starting": [(503, {"x-backend-state": "starting", "retry-after": "2"})],
    "busy": [(429, {"retry-after": "7"})],
    "everything": ["refuse", (503, {}), "lose", ("cut", 90), 502],
}


@pytest.mark.parametrize("accidents", ACCIDENTS.values(), ids=ACCIDENTS)
async def test_a_call_runs_once_and_its_answer_is_not_missed(place, slope, accidents):
    async with place.client.episode(split="train", index=0) as episode:
        place.network.plan("/call", *accidents)
        result = await episode.call("climb", {"reward": 0.7, "top": True})
        assert (result.reward, result.finished) == (0.7, True)
        assert (await episode.check()).episode_return == 0.7
    assert slope.runs == ["climb"]
    assert place.network.count("/call") == len(accidents) + 1


async def test_the_server_says_how_long_to_wait(place):
    async with place.client.episode(split="train", index=0) as episode:
        place.clock.pauses.clear()
        place.network.plan("/call", (503, {"retry-after": "30"}), (429, {"retry-after": "soon"}))
        await episode.call("climb")
    asked, own = place.clock.pauses
    assert 30.0 <= asked <= 31.0
    assert own <= 0.4


async def test_pauses_grow_and_have_a_limit(open_place):
    patience = Patience(ping_seconds=5_000.0, attempts=100, longest_pause=3.0)
    async with (
        open_place(patience=patience) as place,
        place.client.episode(split="train", index=0) as episode,
    ):
        place.clock.pauses.clear()
        place.network.plan("/call", *["lose"] * 12)
        await episode.call("climb")
    assert len(place.clock.pauses) == 12
    assert max(place.clock.pauses) <= 3.0
    assert place.clock.pauses[0] < 0.3 < place.clock.pauses[-1]


async def test_patience_ends(place, slope):
    async with place.client.episode(split="train", index=0) as episode:
        place.network.plan("/call", *["refuse"] * 99)
        with pytest.raises(UnreachableError, match="refused"):
            await episode.call("climb", {"reward": 0.5})
        assert episode.ledger.unanswered
        place.network.plan("/call", *[(503, {"retry-after": "100"})] * 99)
        with pytest.raises(errors.MachineryError, match="not now"):
            await episode.call("climb", {"reward": 0.5})
        place.network.plan("/call")
        await episode.check()
    assert slope.runs == []
    assert place.clock.monotonic() < 1_300.0


async def test_a_call_that_was_paid_and_never_answered_is_a_mismatch_until_it_is_asked_for_again(place):
    async with place.client.episode(split="train", index=0) as episode:
        place.network.plan("/call", *["lose"] * 99)
        with pytest.raises(UnreachableError):
            await episode.call("climb", {"reward": 0.5}, call_id="mine")
        place.network.plan("/call")
        with pytest.raises(errors.OrsServerError, match="never answered: mine"):
            await episode.check()
        assert (await episode.call("climb", {"reward": 0.5}, call_id="mine")).reward == 0.5
        await episode.check()


async def test_the_clients_own_time_limit_ends_the_wait_and_not_the_call(open_place, slope):
    slope.gate = anyio.Event()
    patience = Patience(ping_seconds=5_000.0, call_seconds=0.01)
    try:
        async with (
            open_place(patience=patience) as place,
            place.client.episode(split="train", index=0) as episode,
        ):
            with pytest.raises(CallTimeoutError, match="it may still run"):
                await episode.call("rest", call_id="mine")
            slope.gate.set()
            place.client.server.connection.patience = Patience(ping_seconds=5_000.0)
            assert (await episode.call("rest", call_id="mine")).text == "rested"
            assert (await episode.check()).steps == 1
    finally:
        slope.gate = None
    assert slope.runs == ["rest"]


async def test_a_session_whose_creation_was_not_answered_is_found_again_and_no_other(place):
    place.network.plan("/sessions", "lose", 502)
    async with place.client.episode(split="train", index=0) as episode:
        assert "agent_token" in episode.access
        await episode.call("climb", {"reward": 1.0})
        await episode.check()
    assert place.network.count("/_ors/sessions") == 3
    async with place.client.episode(split="train", index=0, session_id="mine"):
        with pytest.raises(errors.SessionExistsError):
            async with place.client.episode(split="train", index=0, session_id="mine"):
                pass


async def test_questions_are_repeated_too(place):
    place.network.plan("/num_tasks", "lose", 502, ("cut", 3), (503, {}))
    assert await place.client.num_tasks("train") == 3


async def test_a_fault_is_explained_over_a_broken_network_too(place, slope):
    async with place.client.episode(split="train", index=0) as episode:
        place.network.plan("/calls", "lose", 502)
        with pytest.raises(errors.ToolFailedError, match="ground"):
            await episode.call("collapse")
        await episode.check()
    assert slope.runs == ["collapse"]


async def test_a_record_that_could_not_be_written_is_asked_for_until_it_is(place, slope):
    store = place.app.manager.services.store
    append, fails = store.append, [True, True, True]

    async def unsure(*step):
        if fails:
            fails.pop()
            raise errors.StoreError("the disk is full")
        await append(*step)

    store.append = unsure
    async with place.client.episode(split="train", index=0) as episode:
        assert (await episode.call("climb", {"reward": 0.5})).reward == 0.5
        assert (await episode.check()).steps == 1
    assert slope.runs == ["climb"]


async def test_a_page_instead_of_a_stream_is_no_answer(place):
    async with place.client.episode(split="train", index=0) as episode:
        place.network.plan("/call", 200)
        with pytest.raises(errors.MachineryError, match="text/event-stream"):
            await episode.call("climb")
