"""The loop between an episode and an agent that is a function."""

import pytest

from ors_server.client import Move, SumMismatchError, play


async def test_an_agent_sees_the_task_the_tools_and_what_its_moves_came_to(place):
    seen = []

    def agent(turn):
        seen.append((turn.messages[0].blocks[0].text, turn.last and turn.last.reward, len(turn.results)))
        assert "climb" in {tool.name for tool in turn.tools}
        return Move("climb", {"reward": 0.25, "top": len(turn.results) == 2})

    async with place.client.episode(split="train", index=0) as episode:
        played = await play(episode, agent)
    assert seen == [("Climb train-0.", None, 0), ("Climb train-0.", 0.25, 1), ("Climb train-0.", 0.25, 2)]
    assert (played.episode_return, played.finished, len(played.results)) == (0.75, True, 3)
    assert played.summary.episode_return == 0.75


async def test_an_agent_may_think_give_up_and_is_stopped_where_it_does_not_stop(place):
    async def agent(turn):
        return None if turn.results else Move("climb")

    async with place.client.episode(split="train", index=0) as episode:
        played = await play(episode, agent)
    assert (played.finished, len(played.results), played.summary.steps) == (False, 1, 1)
    async with place.client.episode(split="train", index=0) as episode:
        played = await play(episode, lambda turn: Move("climb", {"reward": 0.1}), max_calls=3)
    assert len(played.results) == 3


async def test_without_figures_the_clients_own_sum_is_all_there_is_and_otherwise_a_mismatch_is_told(place):
    async def agent(turn):
        call = await place.app.manager.find(episode.session_id).call("climb", {"reward": 0.5})
        await call.wait()

    async with place.client.episode(split="train", index=0) as episode:
        with pytest.raises(SumMismatchError):
            await play(episode, agent)
    async with place.client.episode(split="train", index=0, visibility="visible") as owned:
        place.client.reach.connection.http.headers["X-API-Key"] = owned.access["agent_token"]
        async with place.client.attach(owned.session_id) as episode:
            played = await play(episode, lambda turn: Move("climb", {"reward": 0.5, "top": True}))
    assert (played.episode_return, played.summary) == (0.5, None)
