"""The client against a server of ours: questions, episodes, figures, and the end of sessions."""

import anyio
import pytest

from ors_server import EpisodePolicy, ToolOutput, tool
from ors_server.client import AsyncClient, ClientOptions, Patience, SumMismatchError
from ors_server.client.connection import Connection
from ors_server.model import errors
from ors_server.sessions.session_request import SessionRequest


async def test_it_asks_what_is_served_and_once_which_environment_is_the_default_one(place):
    await place.client.splits()
    await place.client.splits()
    assert place.network.count("/list_environments") == 1
    client = place.client
    assert await client.environments() == ["slope"]
    assert [split.name for split in await client.splits()] == ["train", "test"]
    assert await client.num_tasks("train", "slope") == 3
    assert await client.task("test", 1) == {"name": "test-1"}
    assert await client.tasks("train", 1) == [{"name": "train-1"}, {"name": "train-2"}]
    assert {tool.name for tool in (await client.tools()).tools} >= {"climb", "rest"}


async def test_what_is_not_there_is_named_by_the_servers_own_errors(place):
    with pytest.raises(errors.UnknownSplitError, match="nonesuch"):
        await place.client.num_tasks("nonesuch")
    with pytest.raises(errors.UnknownTaskError):
        await place.client.task("train", 99)
    with pytest.raises(errors.UnknownEnvironmentError):
        async with place.client.episode("nonesuch", split="train", index=0):
            pass
    with pytest.raises(errors.SessionNotFoundError):
        await place.client.summary("nonesuch")


@pytest.mark.parametrize("question", ["tools", "splits", "num_tasks", "task", "tasks"])
async def test_every_question_about_an_unknown_environment_is_told_from_an_unknown_session(place, question):
    arguments = {"num_tasks": ("train",), "task": ("train", 0), "tasks": ("train",)}.get(question, ())
    with pytest.raises(errors.UnknownEnvironmentError, match="'nonesuch'; expected one of slope"):
        await getattr(place.client, question)(*arguments, environment="nonesuch")


async def test_an_episode_is_played_and_its_sum_is_the_servers_return(place):
    async with place.client.episode("slope", split="train", index=1, seed=5, labels={"run": "a"}) as episode:
        assert await episode.prompt() == "Climb train-1."
        assert [message.role for message in await episode.messages()] == ["user"]
        assert "climb" in {tool.name for tool in (await episode.tools()).tools}
        first = await episode.call("climb", {"reward": 0.1})
        assert (first.reward, first.step, first.text, first.is_error) == (0.1, 1, "higher", False)
        assert first.metadata["episode"]["return"] == 0.1
        for reward in (0.2, 0.3, None):
            await episode.call("climb", {"reward": reward})
        summary = await episode.check()
        assert episode.ledger.total == summary.episode_return == 0.1 + 0.2 + 0.3
        assert (summary.steps, summary.seed, summary.labels, summary.environment) == (
            4,
            5,
            {"run": "a"},
            "slope",
        )
        assert (summary.split, summary.index, summary.environment_version) == ("train", 1, "7")
        assert (episode.finished, summary.is_over) == (False, False)
        assert (await episode.call("climb", {"reward": 1.0, "top": True})).finished
        assert episode.finished
    final = await episode.check()
    assert (final.phase, final.stop_reason, final.is_over) == ("deleted", "completed", True)
    steps = await place.client.steps(episode.session_id)
    assert [step["reward"] for step in steps] == [0.1, 0.2, 0.3, None, 1.0]


async def test_mistakes_of_the_agent_are_answers_and_charges_are_counted(place):
    async with place.client.episode(split="train", index=0, policy={"step_limit": 9}) as episode:
        unknown = await episode.call("fly")
        assert (unknown.reward, unknown.refusal, unknown.is_error) == (-0.1, "not_found", True)
        refused = await episode.call("stumble")
        assert (refused.reward, refused.text, refused.is_error) == (-0.2, "ouch", True)
        assert (await episode.check()).policy["step_limit"] == 9


async def test_a_refusal_that_costs_nothing_is_a_step_all_the_same(open_place, slope):
    free = type("Free", (slope,), {"policy": slope.policy.model_copy(update={"invalid_call_penalty": 0.0})})
    async with open_place(free) as place, place.client.episode(split="train", index=0) as episode:
        result = await episode.call("climb", {"reward": "much"})
        assert (result.refusal, result.reward, result.finished) == ("input_validation", None, False)
        assert episode.ledger.steps == (await episode.check()).steps == 1


async def test_calls_after_the_end_are_refused_and_are_no_steps(place):
    async with place.client.episode(split="train", index=0) as episode:
        await episode.call("climb", {"reward": 1.0, "top": True})
        late = await episode.call("climb", {"reward": 1.0})
        assert (late.refusal, late.finished, late.step) == ("episode_finished", True, None)
        summary = await episode.check()
        assert (summary.episode_return, summary.steps) == (1.0, 1)


async def test_a_fault_of_the_environment_is_raised_and_pays_nothing(place, slope):
    async with place.client.episode(split="train", index=0) as episode:
        with pytest.raises(errors.ToolFailedError, match="the ground gave way"):
            await episode.call("collapse")
        summary = await episode.check()
        assert (summary.steps, summary.failed_steps, episode.ledger.steps) == (1, 1, 0)
    assert slope.runs == ["collapse"]


async def test_the_same_call_id_gives_the_same_answer_and_runs_nothing(place, slope):
    async with place.client.episode(split="train", index=0) as episode:
        first = await episode.call("climb", {"reward": 0.5}, call_id="mine")
        again = await episode.call("climb", {"reward": 0.5}, call_id="mine")
        assert again == first
        with pytest.raises(errors.CallIdReusedError, match="'mine' is taken by a call of 'climb'"):
            await episode.call("climb", {"reward": 0.9}, call_id="mine")
        await episode.check()
    assert slope.runs == ["climb"]


async def test_calls_side_by_side_are_summed_in_the_order_of_their_steps(place):
    rewards = [0.1, 0.7, 1e16, -1e16, 0.3]
    async with place.client.episode(split="train", index=0) as episode:
        async with anyio.create_task_group() as tasks:
            for reward in rewards:
                tasks.start_soon(episode.call, "climb", {"reward": reward})
        summary = await episode.check()
    assert sorted(episode.ledger.rewards) == sorted(rewards)
    assert summary.steps == 5


async def test_somebody_elses_rewards_are_missed(place):
    async with place.client.episode(split="train", index=0) as episode:
        await episode.call("climb", {"reward": 0.5})
        engine = place.app.manager
        await (await engine.find(episode.session_id).call("climb", {"reward": 0.25})).wait()
        with pytest.raises(SumMismatchError, match=r"is 0\.5 and the server states 0\.75") as caught:
            await episode.check()
    assert caught.value.blame is errors.Blame.MACHINERY


async def test_secrets_reach_the_environment_and_a_long_result_arrives_as_it_left(place):
    async with place.client.episode(split="train", index=0, secrets={"KEY": "v"}) as episode:
        assert (await episode.call("whisper")).text == '{"KEY": "v"}'
    text = "  é\n\t" + " " * 9_000 + "x"
    async with place.client.episode(split="train", index=0) as episode:
        assert (await episode.call("speak", {"text": text})).text == text


async def test_the_session_is_deleted_when_the_body_raises_or_is_cancelled(place):
    with pytest.raises(KeyError, match="mine"):
        async with place.client.episode(split="train", index=0) as episode:
            raise KeyError("mine")
    assert (await place.client.summary(episode.session_id)).phase == "deleted"
    with anyio.CancelScope() as scope:
        async with place.client.episode(split="train", index=0) as episode:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (await place.client.summary(episode.session_id)).phase == "deleted"


async def test_an_end_that_the_server_does_not_answer_is_no_error_of_the_player(place):
    async with place.client.episode(split="train", index=0) as episode:
        place.network.plan(episode.session_id, *[(400, {})] * 9)
    assert place.network.count(episode.session_id) == 1


async def test_a_session_of_somebody_else_is_joined_and_left_alive(place):
    status = await place.app.manager.create(SessionRequest(environment="slope", split="train", index=0))
    session_id = status.origin.session_id
    await (await place.app.manager.find(session_id).call("climb", {"reward": 0.1})).wait()
    async with place.client.attach(session_id) as episode:
        await episode.call("climb", {"reward": 0.2})
        assert (await episode.check()).episode_return == 0.1 + 0.2
        assert set(episode.access) == {"agent_token", "agent_url", "mcp_url"}
        assert episode.access["agent_token"] not in repr(episode.place)
    assert (await place.client.summary(session_id)).phase == "playing"


async def test_an_agent_plays_its_own_session_and_may_not_read_figures(open_place):
    trainer = "trainer-key-of-sixteen"
    async with open_place(key=trainer, api_keys=f"trainer:t:{trainer}") as place:
        async with place.client.episode(split="train", index=0) as owned:
            options = ClientOptions(transport=place.network, patience=place.options.patience)
            async with (
                AsyncClient("http://localhost:8080", owned.access["agent_token"], options=options) as agent,
                agent.attach(owned.session_id) as episode,
            ):
                result = await episode.call("climb", {"reward": 0.5})
                assert (result.text, result.reward) == ("higher", None)
                with pytest.raises(errors.ForbiddenError):
                    await episode.check()
                with pytest.raises(errors.ForbiddenError):
                    await agent.num_tasks("train")
        with pytest.raises(errors.UnauthenticatedError):
            async with AsyncClient("http://localhost:8080", options=options) as nobody:
                await nobody.splits()


async def test_signs_of_life_are_sent_until_the_session_is_gone(open_place):
    async with (
        open_place(patience=Patience(ping_seconds=10.0)) as place,
        place.client.episode(split="train", index=0) as episode,
    ):
        place.network.plan("/ping", (500, {}))
        with anyio.fail_after(10):
            while place.network.count("/ping") < 3:
                await anyio.lowlevel.checkpoint()
            await place.app.manager.delete(episode.session_id)
            await anyio.wait_all_tasks_blocked()
        seen = place.network.count("/ping")
        await anyio.wait_all_tasks_blocked()
        assert place.network.count("/ping") == seen
        with pytest.raises(errors.SessionNotFoundError):
            await episode.call("climb")


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://[", "http://", ""])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(errors.InvalidRequestError, match="URL"):
        AsyncClient(url)


async def test_what_is_no_ors_server_is_said_to_be_none(place):
    place.network.plan("/splits", 200)
    with pytest.raises(errors.MachineryError, match="is the URL that of an ORS server"):
        await place.client.splits()
    assert isinstance(place.client.server.connection, Connection)


@pytest.mark.parametrize("by_mcp", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.1])
async def test_a_call_that_was_not_run_says_why_charged_or_not(open_place, slope, by_mcp, penalty):
    @tool
    async def pretend(_self) -> ToolOutput:
        """Runs, and says otherwise."""
        return ToolOutput(metadata={"error": {"code": "not_found"}, "refused": "not_found"})

    policy = EpisodePolicy(invalid_call_penalty=penalty)
    async with open_place(type("Own", (slope,), {"policy": policy, "pretend": pretend})) as place:
        make = place.client.mcp_episode if by_mcp else place.client.episode
        async with make(split="train", index=0) as episode:
            refusals = [
                (await episode.call(name, arguments)).refusal
                for name, arguments in (
                    ("fly", {}),
                    ("climb", {"reward": "high"}),
                    ("pretend", {}),
                    ("climb", {"top": True}),
                    ("climb", {}),
                )
            ]
    assert refusals == ["not_found", "input_validation", None, None, "episode_finished"]


async def test_a_mismatch_names_the_steps_of_others_and_who_they_may_be(place):
    async with place.client.episode(split="train", index=0) as episode:
        await episode.call("climb", {"reward": 0.5})
        async with place.client.attach(episode.session_id) as other:
            for n in range(7):
                await other.call("climb", {"reward": 0.125}, call_id=f"theirs-{n}")
        with pytest.raises(SumMismatchError) as told:
            await episode.check()
    assert told.value.strangers[0] == "step 2 (climb, call 'theirs-0')"
    assert len(told.value.strangers) == 7
    assert "step 6 (climb, call 'theirs-4') and 2 more. Possible players: an agent" in str(told.value)


async def test_a_mismatch_without_anybody_elses_steps_says_so(place):
    async with place.client.episode(split="train", index=0) as episode:
        await episode.call("climb", {"reward": 0.5}, call_id="mine")
        episode.ledger.opening = 1.0
        with pytest.raises(SumMismatchError, match="so no other client has played") as told:
            await episode.check()
    assert told.value.strangers == ()
