"""Conversations in sessions: what agents read, what is recorded, whose fault it is, copies and replays."""

import anyio
import pytest

from ors_server import Environment, FunctionUser, ModelUser, UserBudget, UserConversation, UserReply, tool
from ors_server.environments.loading import define
from ors_server.environments.simulated_user.conversation import spend_tokens
from ors_server.environments.simulated_user.user_errors import (
    UserBudgetError,
    UserError,
    UserMessageError,
    UserSettingsError,
)
from ors_server.model.errors import EnvironmentDefinitionError, OrsServerError
from ors_server.recovery.recorded_episode import RecordedEpisode
from ors_server.replaying.replay import replay_episode
from ors_server.replaying.replay_result import EpisodeReplay, ReplayVerdict
from ors_server.replaying.stage import open_local_stage
from ors_server.rewards.judges import Completion, ScriptedJudge
from ors_server.sessions.session_request import ForkRequest
from ors_server.store.memory import MemoryStore
from ors_server.testing import open_environment
from ors_server.testing.local_client import CallRefusedError
from tests.unit.environments.simulated_user.conftest import SCRIPT, Broken, Hotel, with_guest


async def record(environment: type[Environment], *calls: tuple[str, dict]) -> RecordedEpisode:
    """Play calls, and return the record."""
    store = MemoryStore()
    async with open_environment(environment, store=store) as client:
        session = await client.create(split="train", index=0, seed=5)
        for tool, arguments in calls:
            try:
                await session.submit(tool, arguments)
            except (CallRefusedError, OrsServerError):
                continue
        await session.aclose()
    (episode,) = [RecordedEpisode(record, tuple(steps)) async for record, steps in store.stream()]
    return episode


async def replayed(episode: RecordedEpisode, environment: type[Environment]) -> EpisodeReplay:
    async with open_local_stage([define(environment)]) as stage:
        return await replay_episode(episode, stage)


def write(text: str) -> tuple[str, dict]:
    return "message_user", {"text": text}


def turns(episode: RecordedEpisode) -> list[tuple[int, str, str, str]]:
    return [
        (step.number, turn["message"], turn["reply"], turn["user"])
        for step in episode.steps
        for turn in (step.metadata or {}).get("user_turns", ())
    ]


async def test_the_agent_reads_the_answer_and_the_record_has_the_conversation(hotel):
    episode = await record(hotel, write("Who are you?"), ("offer", {"room": "attic"}))
    assert [step.blocks[0].text for step in episode.steps] == ["I am Ada.", "Done."]
    assert turns(episode) == [
        (1, "Who are you?", "I am Ada.", "scripted"),
        (2, "Would the attic suit you?", "I want a room with a view.", "scripted"),
    ]
    assert episode.record.summary.episode_return == 1.0


async def test_an_empty_or_long_message_and_one_after_the_user_left_are_the_agents_mistakes(hotel):
    episode = await record(
        hotel,
        write(" \n"),
        write("x" * 101),
        *[write("hello")] * 4,
        write("again"),
        ("ask_kindly", {"text": ""}),
    )
    texts = [step.blocks[0].text for step in episode.steps]
    assert texts[0] == "The message is empty. Write a text for the user."
    assert texts[1] == "The message has 101 characters; at most 100 are allowed."
    assert texts[6] == "The user has left the conversation after 4 messages; continue alone."
    assert texts[7] == "not sent"
    assert len(turns(episode)) == 4
    assert episode.record.summary.episode_return == -0.75


async def test_a_user_who_used_up_the_tokens_has_left():
    hotel = with_guest(Broken(set()), user_budget=UserBudget(tokens=20))
    episode = await record(hotel, *[write("hello")] * 3)
    assert "The user has left" in episode.steps[2].blocks[0].text


async def test_a_failing_endpoint_is_the_machinerys_fault_and_never_a_reward():
    episode = await record(with_guest(Broken({2})), *[write("hello")] * 3)
    statuses = [(step.status.value, step.error_code, step.reward) for step in episode.steps]
    assert statuses == [
        ("ungraded", None, None),
        ("failed", "user_failed", None),
        ("ungraded", None, None),
    ]
    assert episode.steps[1].error == "the endpoint is away"
    assert [turn[2] for turn in turns(episode)] == ["0: hello", "1: hello"]
    assert episode.record.summary.episode_return == 0.0


async def test_what_a_tool_sent_before_its_bug_is_on_record(hotel):
    episode = await record(hotel, ("ask_twice", {}), write("hello"))
    assert episode.steps[0].status.value == "failed"
    assert [turn[:3] for turn in turns(episode)] == [
        (1, "your name", "I am Ada."),
        (1, "how many nights", "Two nights."),
        (2, "hello", "I want a room with a view."),
    ]
    replay = await replayed(episode, with_guest(Broken({1, 2, 3}), name="hotel"))
    assert (replay.verdict, [step.verdict.value for step in replay.steps]) == (
        ReplayVerdict.IDENTICAL,
        ["same", "same"],
    )


async def test_a_replay_repeats_the_record_and_asks_no_user():
    calls = [write("hello"), write(""), write("you"), ("offer", {"room": "attic"})]
    episode = await record(with_guest(Broken({3}), name="hotel"), *calls)
    other = Broken({1, 2, 3, 4})
    replay = await replayed(episode, with_guest(other, name="hotel"))
    assert [step.verdict.value for step in replay.steps] == ["same", "same", "same", "skipped"]
    assert other.asked == 0


async def test_an_environment_that_sends_something_else_now_is_told_apart(hotel):
    @tool
    async def offer(self, room: str) -> str:
        """Offers in other words."""
        return await self.user.send(f"Take the {room}!") + await self.user.send("Please.")

    episode = await record(hotel, write("hello"), ("offer", {"room": "attic"}))
    replay = await replayed(episode, type("Changed", (Hotel,), {"offer": offer}))
    assert replay.verdict is ReplayVerdict.DIFFERENT
    differences = {each.field: each.now for each in replay.steps[1].differences}
    assert differences["error_code"] == "user_record"


async def test_a_fork_and_a_restored_session_go_on_where_the_conversation_was(hotel):
    async with open_environment(hotel) as client:
        engine = client.engine

        async def write_to(session_id: str, text: str) -> str:
            call = await engine.find(session_id).call("message_user", {"text": text})
            return (await call.wait()).output.blocks[0].text

        first = (await client.create(split="train", index=0)).id
        assert await write_to(first, "hello") == "I want a room with a view."
        snapshot = await engine.find(first).snapshots.keep()
        assert await write_to(first, "and?") == "The price does not matter."
        (fork,) = await engine.fork(first, ForkRequest(snapshot_id=snapshot.id))
        assert await write_to(fork.origin.session_id, "hm") == "The price does not matter."
        await engine.find(first).snapshots.restore(snapshot.id)
        assert await write_to(first, "so") == "The price does not matter."


class Away(Hotel):
    """A user whose model never answers."""

    user_budget = UserBudget(failures=3)

    def make_user(self):
        return Failing(*[AWAY] * 9)


async def test_a_fork_carries_the_failed_answers_and_a_restored_session_keeps_them():
    async with open_environment(Away) as client:
        engine = client.engine

        async def write_to(session_id: str) -> str:
            call = await engine.find(session_id).call("message_user", {"text": "hello"})
            return str(getattr(await call.wait(), "error", None))

        first = (await client.create(split="train", index=0)).id
        early = await engine.find(first).snapshots.keep()
        for _ in range(2):
            assert "away" in await write_to(first)
        late = await engine.find(first).snapshots.keep()
        (fork,) = await engine.fork(first, ForkRequest(snapshot_id=late.id))
        assert "away" in await write_to(fork.origin.session_id)
        assert "has failed 3 times" in await write_to(fork.origin.session_id)
        await engine.find(first).snapshots.restore(early.id)
        assert "away" in await write_to(first)
        assert "has failed 3 times" in await write_to(first)


async def test_an_environment_that_takes_the_toolset_without_a_user_is_refused():
    class Alone(Hotel):
        make_user = Environment.make_user

    with pytest.raises(EnvironmentDefinitionError, match="must define make_user, which returns a user"):
        define(Alone)


async def test_an_environment_without_a_user_says_what_to_define():
    quiet = type("Quiet", (Hotel,), {"toolsets": (), "make_user": Environment.make_user})
    with pytest.raises(UserSettingsError, match=r"Quiet has no user: define make_user\(self\)"):
        _ = quiet({"id": "x"}).user


def test_an_attribute_named_user_replaces_the_conversation():
    own = type("Own", (Hotel,), {"user": "mine"})({"id": "x"})
    own.user = f"{own.user}, too"
    assert own.user == "mine, too"


class Sleepy:
    """Never answers."""

    name = "sleepy"

    async def reply(self, message: str, before: object, seed: int) -> UserReply:
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_user_who_is_too_slow_is_a_fault_and_the_seconds_of_an_episode_are_bounded():
    conversation = UserConversation(Sleepy(), budget=UserBudget(seconds=0.01))
    with pytest.raises(UserError, match="'sleepy' gave no answer within 0 seconds"):
        await conversation.send("hello")
    assert conversation.turns == ()
    spent = UserConversation(Sleepy(), budget=UserBudget(seconds=0.0))
    with pytest.raises(UserBudgetError, match="has used its 0 seconds"):
        await spent.send("hello")


class Watching:
    """Notes until when it may answer."""

    name = "watching"
    deadline = 0.0

    async def reply(self, message: str, before: object, seed: int) -> UserReply:
        self.deadline = anyio.current_effective_deadline()
        return UserReply("yes")


async def test_a_user_has_less_time_than_the_call_so_that_slowness_is_the_users_and_not_the_agents():
    user = Watching()
    with anyio.fail_after(100) as call:
        await UserConversation(user, budget=UserBudget(seconds=1000)).send("hello")
    assert user.deadline == pytest.approx(call.deadline - 1, abs=0.5)
    assert user.deadline < call.deadline


async def test_what_utf8_cannot_express_and_very_long_answers_are_cut():
    conversation = UserConversation(FunctionUser(lambda message, before: "y" * 9000 + message))
    reply = await conversation.send("\ud800")
    assert len(reply) == 8000
    assert conversation.turns[0].message == "\ud800"


async def test_messages_at_the_same_time_are_answered_one_after_another():
    conversation = UserConversation(FunctionUser(lambda message, before: f"{len(before)}"))
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(conversation.send, "hello")
    assert [turn.reply for turn in conversation.turns] == ["0", "1", "2", "3", "4"]


class Failing:
    """A user of a model: answers a script of texts; an exception is raised, `None` waits for ever."""

    name = "failing"

    def __init__(self, *script: str | Exception | None, tokens: int = 10) -> None:
        self.script = list(script)
        self.tokens = tokens
        self.requests = 0

    async def reply(self, message, before, seed):
        self.requests += 1
        said = self.script.pop(0)
        spend_tokens(self.tokens)
        if said is None:
            await anyio.sleep_forever()
        if isinstance(said, Exception):
            raise said
        return UserReply(said, self.tokens)


AWAY = UserError("away")


async def test_a_few_failed_answers_end_the_conversation():
    user = Failing(AWAY, "Hello.", AWAY, "", "never")
    conversation = UserConversation(user, budget=UserBudget(failures=3))
    for reason in ("away", None, "away", "gave an empty answer"):
        if reason is None:
            assert await conversation.send("Hi?") == "Hello."
        else:
            with pytest.raises(UserError, match=reason):
                await conversation.send("Hi?")
    for _ in range(20):
        with pytest.raises(UserBudgetError, match="has failed 3 times, so the conversation is over"):
            await conversation.send("Hi?")
    assert (user.requests, len(conversation.turns)) == (4, 1)


async def test_tokens_of_failed_answers_count_against_the_budget():
    user = Failing(*[AWAY] * 20, tokens=40)
    conversation = UserConversation(user, budget=UserBudget(tokens=100, failures=50))
    for _ in range(3):
        with pytest.raises(UserError):
            await conversation.send("Hi?")
    with pytest.raises(UserMessageError, match="has left"):
        await conversation.send("Hi?")
    assert user.requests == 3


async def test_seconds_of_failed_answers_count_against_the_budget():
    user = Failing(None, None)
    conversation = UserConversation(user, budget=UserBudget(seconds=0.05, failures=50))
    with pytest.raises(UserError, match="no answer within"):
        await conversation.send("Hi?")
    with pytest.raises(UserBudgetError, match=r"has used its 0\.05 seconds"):
        await conversation.send("Hi?")
    assert user.requests == 1


async def test_failed_answers_count_among_the_messages():
    user = Failing(AWAY, "Hello.", "never")
    conversation = UserConversation(user, budget=UserBudget(turns=2, failures=50))
    with pytest.raises(UserError):
        await conversation.send("Hi?")
    await conversation.send("Hi?")
    with pytest.raises(UserMessageError, match="has left"):
        await conversation.send("Hi?")
    assert user.requests == 2


async def test_a_model_whose_answers_are_unusable_uses_up_its_budget_of_tokens():
    model = ScriptedJudge(Completion("", prompt_tokens=49_000, completion_tokens=1_000))
    conversation = UserConversation(ModelUser(SCRIPT, model))
    for _ in range(40):
        with pytest.raises((UserError, UserMessageError)):
            await conversation.send("Hi?")
    assert len(model.asked) * 50_000 <= 100_000 + 50_000
