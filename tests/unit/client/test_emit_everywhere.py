"""An environment that pays at the end is told the same through every door, and never contradicts itself."""

import pytest

from ors_server.app import create_app
from ors_server.model.settings import Settings

PLAY = [("climb", {"reward": 0.1}), ("fly", {}), ("climb", {}), ("stumble", {}), ("climb", {"reward": 0.7})]
EARNED = 0.0 + 0.1 - 0.1 - 0.2 + 0.7


@pytest.fixture(params=["ors", "mcp", "mcp of the handshake"])
def open_episode(request):
    def opened(place, **wishes):
        wanted = {"split": "train", "index": 0, "policy": {"emit": "final"}, **wishes}
        if request.param == "ors":
            return place.client.episode("slope", **wanted)
        era = "auto" if request.param == "mcp" else "legacy"
        return place.client.mcp_episode("slope", era=era, **wanted)

    return opened


async def test_nothing_is_paid_before_the_end_and_everything_with_it(place, open_episode):
    async with open_episode(place) as episode:
        results = [await episode.call(tool, arguments) for tool, arguments in PLAY]
        assert [result.reward for result in results] == [None] * 5
        standings = [result.metadata["episode"] for result in results]
        assert [standing["return"] for standing in standings] == [0.0] * 5
        assert [standing["components"] for standing in standings] == [
            {"tool": 0.1},
            {"invalid_call": -0.1},
            {},
            {"tool_error": -0.2},
            {"tool": 0.7},
        ]
        before = await episode.check()
        assert (before.episode_return, before.withheld, before.last_reward) == (0.0, EARNED, None)
        assert standings[-1]["withheld"] == EARNED
        assert before.reward_sum + before.penalty_sum == pytest.approx(before.withheld)
        last = await episode.call("climb", {"top": True})
        assert (last.reward, last.metadata["episode"]["return"]) == (EARNED, EARNED)
        assert last.metadata["episode"]["components"] == {"withheld": EARNED}
        after = await episode.check()
        assert (after.episode_return, after.withheld, after.last_reward) == (EARNED, 0.0, EARNED)
        assert (after.ungraded_steps, after.steps) == (2, 6)
        assert episode.ledger.last_reward == episode.ledger.total == EARNED
    steps = await place.client.steps(episode.session_id)
    assert [step["status"] for step in steps] == [
        "graded",
        "refused",
        "ungraded",
        "graded",
        "graded",
        "ungraded",
    ]
    assert [step["reward"] for step in steps] == [None] * 5 + [EARNED]
    for step in steps:
        if step["reward"] is not None:
            assert sum(step["components"].values()) == step["reward"]


async def test_the_step_that_a_limit_makes_the_last_one_pays(place, open_episode):
    async with open_episode(place, policy={"emit": "final", "step_limit": 2}) as episode:
        await episode.call("climb", {"reward": 0.5})
        last = await episode.call("fly")
        assert (last.reward, last.finished, last.is_error) == (0.4, True, True)
        assert (await episode.check()).stop_reason == "step_limit"


async def test_an_episode_that_is_deleted_or_ends_by_a_fault_says_what_it_withheld(place, open_episode):
    async with open_episode(place) as episode:
        await episode.call("climb", {"reward": 0.5})
    final = await episode.check()
    assert (final.phase, final.episode_return, final.withheld) == ("deleted", 0.0, 0.5)
    async with open_episode(place, policy={"emit": "final", "step_limit": 2}) as episode:
        await episode.call("climb", {"reward": 0.5})
        with pytest.raises(Exception, match="the ground gave way"):
            await episode.call("collapse")
        final = await episode.check()
        assert (final.stop_reason, final.episode_return, final.withheld) == ("step_limit", 0.0, 0.5)


async def test_a_fork_takes_what_is_held_along(open_place, slope):
    copied = type("Copied", (slope,), {"save_state": lambda self: {}, "load_state": lambda self, state: None})
    async with open_place(copied) as place:
        wanted = {"split": "train", "index": 0, "policy": {"emit": "final"}}
        async with place.client.episode(**wanted) as parent:
            await parent.call("climb", {"reward": 0.5})
            http = place.client.reach.connection.http
            made = (await http.post(f"/_ors/sessions/{parent.session_id}/fork", json={})).json()["sessions"][
                0
            ]
            async with place.client.attach(made["session_id"]) as fork:
                assert (await fork.call("climb", {"reward": 0.25, "top": True})).reward == 0.75
                assert (await fork.check()).episode_return == 0.75


async def test_whoever_serves_may_say_when_rewards_are_paid(open_place, slope):
    strict = type(
        "Strict",
        (slope,),
        {"name": "strict", "policy": slope.policy.model_copy(update={"overridable": frozenset()})},
    )
    async with open_place(slope, strict, emit="final") as place:
        paid = {}
        for name in ("slope", "strict"):
            async with place.client.episode(name, split="train", index=0) as episode:
                paid[name] = (await episode.call("climb", {"reward": 0.5})).reward
        assert paid == {"slope": None, "strict": 0.5}
        async with place.client.episode("slope", split="train", index=0, policy={"emit": "dense"}) as episode:
            assert (await episode.call("climb", {"reward": 0.5})).reward == 0.5
    app = create_app([slope], Settings())
    async with app.running():
        assert app.manager.environment("slope").policy.emit == "dense"
