"""Episodes played again: what is the same, what is not, and what nobody can know."""

from dataclasses import replace

import pytest

from ors_server import EpisodePolicy, ToolOutput, tool
from ors_server.environments.loading import define
from ors_server.model.errors import OrsServerError
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.replaying.replay import ReplayRequest, replay_episode
from ors_server.replaying.replay_result import ReplayVerdict, StepVerdict
from ors_server.replaying.stage import open_local_stage
from tests.fixtures.shared_dice import DICE, Dice
from tests.unit.replaying.conftest import Casino


def fields(replay) -> dict[int, list[str]]:
    """Which fields of which steps differ."""
    return {
        step.number: [each.field for each in step.differences] for step in replay.steps if step.differences
    }


async def test_what_is_drawn_from_the_seed_is_the_same_again(record, again, casino):
    replay = await again(await record(casino, ["fair"] * 5), casino)
    assert replay.verdict is ReplayVerdict.IDENTICAL
    assert replay.count(StepVerdict.SAME) == 5
    assert replay.notes == ()


async def test_chance_of_its_own_in_a_text_is_found(record, again, casino):
    replay = await again(await record(casino, ["fair", "foul", "fair"]), casino)
    assert replay.verdict is ReplayVerdict.DIFFERENT
    assert fields(replay) == {2: ["blocks"]}
    (difference,) = replay.steps[1].differences
    assert difference.was != difference.now
    assert difference.was[0]["text"].startswith("You rolled")


async def test_chance_of_its_own_in_a_reward_is_found(record, again, casino):
    replay = await again(await record(casino, ["crooked"]), casino)
    assert fields(replay) == {1: ["reward", "components"]}


async def test_what_the_environment_declares_volatile_may_differ(record, again, anew):
    declared = anew(volatile=(r"rolled \d+",))
    replay = await again(await record(declared, ["foul", "fair"]), declared)
    assert replay.verdict is ReplayVerdict.IDENTICAL


async def test_a_reward_is_never_volatile(record, again, anew):
    declared = anew(volatile=(r".+",))
    assert fields(await again(await record(declared, ["crooked"]), declared)) == {1: ["reward", "components"]}


async def test_whoever_replays_may_call_more_volatile(record, again, casino):
    replay = await again(await record(casino, ["foul"]), casino, volatile=(r"\d+",))
    assert replay.verdict is ReplayVerdict.IDENTICAL


async def test_mistakes_refusals_and_the_authors_failures_are_the_same_again(record, again, casino):
    calls = ["cheat", "fly", ("say", {"words": 1}), "crash", "leave"]
    episode = await record(casino, calls)
    replay = await again(episode, casino)
    statuses = [step.status.value for step in episode.steps]
    assert statuses == ["graded", "refused", "refused", "failed", "graded"]
    assert (replay.verdict, len(replay.steps)) == (ReplayVerdict.IDENTICAL, 5)


async def test_a_tool_that_has_another_fate_is_found(record, again, casino, anew):
    @tool
    async def crash(self) -> ToolOutput:
        """Works now."""
        return ToolOutput.ongoing("cards", reward=1.0)

    replay = await again(await record(casino, ["crash"]), anew(crash=crash))
    assert fields(replay) == {1: ["status", "error_code", "blocks", "reward", "components"]}


async def test_an_episode_that_ends_too_early_is_found(record, again, casino, anew):
    @tool
    async def say(self, text: str) -> ToolOutput:
        """Ends."""
        return ToolOutput.final(text, reward=None)

    replay = await again(await record(casino, [("say", {"text": "a"}), "fair", "fair"]), anew(say=say))
    assert fields(replay) == {1: ["finished"], 2: ["status"]}
    assert replay.steps[2].verdict is StepVerdict.UNPLAYED
    assert replay.steps[2].why == "the replayed episode was over before step 2"


async def test_another_prompt_is_found_and_one_that_nobody_saw_is_not_asked_for(record, again, casino, anew):
    changed = anew(greeting="Lose.")
    seen = await again(await record(casino, ["fair"]), changed)
    assert seen.verdict is ReplayVerdict.DIFFERENT
    (difference,) = seen.differences
    assert (difference.field, difference.was, difference.now) == (
        "prompt",
        [{"type": "text", "text": "Play."}],
        [{"type": "text", "text": "Lose."}],
    )
    unseen = await again(await record(casino, ["fair"], prompt=False), changed)
    assert unseen.verdict is ReplayVerdict.IDENTICAL


async def test_session_ids_and_call_ids_are_those_of_the_record(record, again, casino):
    async def act(session) -> None:
        await session.submit("who", {}, call_id="my-own")

    assert (await again(await record(casino, act), casino)).verdict is ReplayVerdict.IDENTICAL


async def test_a_call_id_that_comes_twice_in_a_record_runs_twice(record, again, altered, casino):
    episode = await record(casino, ["fair", "fair"])
    episode = altered(episode, 2, call_id=episode.steps[0].call_id)
    assert (await again(episode, casino)).verdict is ReplayVerdict.IDENTICAL


async def test_secrets_are_given_anew(record, again, casino):
    episode = await record(casino, ["who"], secrets={"door": "sesame"})
    assert "sesame" in episode.steps[0].blocks[0].text
    assert fields(await again(episode, casino)) == {1: ["blocks"]}
    assert (await again(episode, casino, secrets={"door": "sesame"})).verdict is ReplayVerdict.IDENTICAL


class Closed(Casino):
    """A casino that cannot be entered."""

    async def setup(self) -> None:
        raise RuntimeError("closed today")


async def refused(session) -> None:
    with pytest.raises(OrsServerError, match="closed today"):
        await session.prompt()


async def test_a_setup_that_fails_again_is_the_same(record, again):
    replay = await again(await record(Closed, refused, prompt=False), Closed)
    assert (replay.verdict, replay.steps) == (ReplayVerdict.IDENTICAL, ())


async def test_a_setup_that_fails_now_or_failed_then_is_found(record, again, casino):
    for prompt in (True, False):
        now = await again(await record(casino, ["fair"], prompt=prompt), Closed)
        assert [(each.field, each.was) for each in now.differences] == [("setup", "done")]
        assert now.steps[0].verdict is StepVerdict.UNPLAYED
    then = await again(await record(Closed, refused, prompt=False), casino)
    assert [(each.field, each.was, each.now) for each in then.differences] == [("setup", "failed", "done")]
    assert {now.verdict, then.verdict} == {ReplayVerdict.DIFFERENT}


async def test_a_prompt_or_a_constructor_that_fails_now_is_found(record, again, casino, anew):
    def broken(self, *_args):
        raise RuntimeError("lost")

    episode = await record(casino, ["fair"])
    prompt = await again(episode, anew(get_prompt=broken))
    assert [(each.field, "lost" in each.now) for each in prompt.differences] == [("prompt", True)]
    made = await again(episode, anew(__init__=broken))
    assert [(each.field, "lost" in each.now) for each in made.differences] == [("setup", True)]


async def test_the_recorded_rules_hold_and_other_ones_of_today_are_told(record, again, casino, anew):
    episode = await record(casino, ["cheat", "cheat", "fair"], policy={"step_limit": 2})
    assert [step.reward for step in episode.steps] == [-0.25, -0.25]
    harsh = anew(policy=EpisodePolicy(tool_error_penalty=9.0))
    replay = await again(episode, harsh)
    assert replay.verdict is ReplayVerdict.IDENTICAL
    assert replay.notes == (
        "the environment's own tool_error_penalty is another now; the recorded one was used",
    )
    assert (await again(episode, casino)).notes == ()


async def test_other_surroundings_are_told_and_are_no_difference(record, again, casino, anew):
    episode = await record(casino, ["fair"])
    other = {"packages": {"python": "2.7"}, "sandbox": {"backend": "docker"}}
    origin = replace(episode.record.origin, server_version="0.0.9", **other)
    old = replace(episode, record=replace(episode.record, origin=origin, is_closed=False))
    replay = await again(old, anew(version="2"))
    assert replay.verdict is ReplayVerdict.IDENTICAL
    told = "\n".join(replay.notes)
    for sentence in (
        "still going on",
        "the version of casino was 1 and is 2",
        "the server's version was 0.0.9 and is 0",
        "the version of python was 2.7 and is",
        "the isolation was docker and is none",
    ):
        assert sentence in told


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ([{"id": "another"}], "task 0 of split 'train' is another one now; the recorded one was played"),
        ([], "the environment has no task 0 of split 'train' any more; the recorded one was played"),
    ],
    ids=["another", "none"],
)
async def test_another_task_of_today_is_told_and_the_recorded_one_is_played(
    record, again, casino, anew, tasks, told
):
    changed = anew(list_tasks=classmethod(lambda cls, split: tasks))
    replay = await again(await record(casino, ["fair"]), changed)
    assert (replay.verdict, replay.notes) == (ReplayVerdict.IDENTICAL, (told,))


async def test_a_task_that_is_given_by_value_is_replayed(record, again, casino):
    episode = await record(casino, ["fair"], split=None, index=None, task_spec={"id": "my own"})
    assert (await again(episode, casino)).verdict is ReplayVerdict.IDENTICAL


async def test_a_record_whose_task_was_changed_is_not_replayed(record, again, casino):
    episode = await record(casino, ["fair"])
    origin = replace(episode.record.origin, task_spec={"id": "forged"})
    replay = await again(replace(episode, record=replace(episode.record, origin=origin)), casino)
    assert replay.verdict is ReplayVerdict.FAILED
    assert "does not have the record's hash" in replay.failure


async def test_what_cannot_be_replayed_here_says_why(record, again, casino, anew):
    episode = await record(casino, ["fair"])
    unknown = replace(episode.record.origin, environment="no_such_environment")
    lost = await again(replace(episode, record=replace(episode.record, origin=unknown)))
    assert lost.verdict is ReplayVerdict.FAILED
    assert "no_such_environment" in lost.failure
    tools = replace(episode.record.origin, toolset="extra")
    toolless = await again(replace(episode, record=replace(episode.record, origin=tools)), casino)
    assert "unknown toolset 'extra'" in toolless.failure
    rules = replace(episode.record.origin, policy={"step_limit": "many"})
    ruleless = await again(replace(episode, record=replace(episode.record, origin=rules)), casino)
    assert "the record's policy cannot be read: step_limit" in ruleless.failure


async def test_one_environment_is_played_for_whatever_name_the_record_has(record, again, casino, anew):
    replay = await again(await record(casino, ["fair"]), anew(name="renamed"))
    assert replay.verdict is ReplayVerdict.IDENTICAL
    assert "the environment was casino and is renamed" in replay.notes


async def test_a_call_that_ran_out_of_time_is_given_the_same_time_again(record, again, casino):
    episode = await record(casino, ["wait"], policy={"call_time_limit": 0.05})
    replay = await again(episode, casino)
    assert replay.verdict is ReplayVerdict.IDENTICAL
    assert replay.notes == ("steps that ran out of time were given the same time again: 1",)


async def test_pictures_are_compared_and_details_too(record, again, altered, casino):
    episode = await record(casino, [("say", {"text": "a"})])
    picture = altered(episode, 1, blocks=(ImageBlock(data="AAAA", mimeType="image/png"),))
    assert fields(await again(picture, casino)) == {1: ["blocks"]}
    detailed = altered(episode, 1, blocks=(TextBlock(text="a", detail={"stream": "stdout"}),))
    assert fields(await again(detailed, casino)) == {1: ["blocks"]}


async def test_a_replay_without_steps_is_identical(record, again, casino):
    assert (await again(await record(casino, []), casino)).verdict is ReplayVerdict.IDENTICAL


class Sharing(Casino):
    async def setup(self):
        await self.context.acquire_resource(spec=DICE, scope="global")


async def test_what_sessions_share_goes_from_one_replayed_episode_to_the_next(record):
    episodes = [await record(Sharing, ["fair"], index=index) for index in range(3)]
    made = Dice.made
    async with open_local_stage([define(Sharing)]) as stage:
        replays = [await replay_episode(episode, stage, ReplayRequest()) for episode in episodes]
        assert Dice.ended == made
    assert [replay.verdict for replay in replays] == [ReplayVerdict.IDENTICAL] * 3
    assert (Dice.made, Dice.ended) == (made + 1, made + 1)
