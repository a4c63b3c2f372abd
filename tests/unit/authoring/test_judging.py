"""Rewards inside environments: what is filled in by name, when they are asked, what a failure comes to."""

import asyncio
import copy
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import anyio
import pytest
from typing_extensions import override

from ors_server import (
    BaseReward,
    Environment,
    EpisodePolicy,
    GroupCandidate,
    ImageBlock,
    Message,
    Submission,
    TextBlock,
    ToolError,
    ToolOutput,
    Toolset,
    efficiency_reward,
    graded_output,
    math_equal_reward,
    math_equal_reward_tool,
    reward,
    task_success,
    terminal,
    tool,
)
from ors_server.authoring.loading import define
from ors_server.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.policy import RewardRangeError
from ors_server.rewards.errors import RewardDefinitionError
from ors_server.testing import open_environment, play

pytestmark = pytest.mark.anyio
TASK = {"answer": "42", "question": "6 * 7?"}


class Sums(Environment):
    """One question, and tools that ask rewards."""

    seen: ClassVar[list[Any]] = []

    @override
    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train"]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[dict[str, Any]]:
        return [dict(TASK)]

    @override
    def get_prompt(self) -> list[str | ImageBlock]:
        return ["Answer:", ImageBlock(data="", mimeType="image/png"), self.task_spec["question"]]

    @tool
    def add(self, a: int, b: int) -> str:
        """Adds."""
        return str(a + b)

    @tool
    async def err(self) -> ToolOutput:
        """Fails."""
        raise ToolError("no such thing")

    @tool
    async def finish(self, answer: str) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput(blocks=[TextBlock(text=f"You said {answer}.")], finished=True)


def asking(asked: Any, **fields: Any) -> type[Sums]:
    """An environment whose tool `ask` asks a reward; it keeps the results in `results`."""

    class Asking(Sums):
        results: ClassVar[list[Any]] = []

        @tool
        async def ask(self, guess: str) -> ToolOutput:
            """Asks."""
            result = await self.grade(asked, final_response=guess, **fields)
            self.results.append(result)
            return graded_output(result, "Asked.")

    return Asking


def ending(named: Any, **more: Any) -> type[Sums]:
    """An environment of which a reward is the class's own."""
    return type("Ending", (Sums,), {"reward": named, **more})


# What is filled in


def test_a_tool_asks_a_reward_about_the_answer_and_the_task():
    with play(asking(math_equal_reward)) as episode:
        assert [episode.call("ask", guess=guess).reward for guess in ("41", "84/2")] == [0.0, 1.0]


def test_a_reward_sees_the_prompt_and_every_step_that_was_answered_but_not_the_running_one():
    seen = []

    def look(trajectory, step, metadata, final_response):
        seen.append((trajectory, step, metadata))
        return 0

    with play(asking(look)) as episode:
        episode.call("add", a=6, b=7)
        episode.call("err")
        episode.call("ask", guess="x" * 1500)
    ((trajectory, step, metadata),) = seen
    assert (step, metadata, trajectory.task) == (3, TASK, "Answer:\n\n6 * 7?")
    assert [(done.action, done.action_input, done.result) for done in trajectory.steps] == [
        ("add", {"a": 6, "b": 7}, "13"),
        ("err", {}, "no such thing"),
    ]
    assert [done.error for done in trajectory.steps] == [None, "no such thing"]
    assert (len(trajectory.outcome), len(trajectory.final_response)) == (1000, 1500)
    assert [message["role"] for message in trajectory] == ["user", *["assistant", "tool"] * 2, "assistant"]
    assert trajectory.metadata == TASK


def test_a_reward_of_tools_tells_whether_one_was_used():
    with play(asking(math_equal_reward_tool)) as episode:
        assert episode.call("ask", guess="42").reward == 0.0
        assert episode.call("ask", guess="42").reward == 1.0
        assert episode.call("ask", guess="41").reward == 0.1


def test_rewards_of_a_trajectory_alone_are_asked_about_the_session():
    with play(asking(efficiency_reward)) as episode:
        paid = [episode.call("ask", guess="").reward for _ in range(4)]
    assert paid == [1.0, 1.0, 0.9, 0.8]
    with play(asking(task_success)) as episode:
        episode.call("err")
        assert episode.call("ask", guess="").reward == 0.0


def test_fields_given_win_over_those_of_the_episode():
    given = {"answer": "7", "step": 99, "metadata": {"x": 1}}

    def look(answer, step, metadata):
        return {"reward": 1, "answer": answer, "step": step, **metadata}

    with play(asking(look, **given)) as episode:
        output = episode.call("ask", guess="")
    assert output.metadata is not None
    assert output.metadata["reward_extras"] == {"answer": "7", "step": 99, "x": 1}


def test_a_conversation_that_is_given_is_the_trajectory():
    said = [{"role": "user", "content": "Hm?"}, {"role": "assistant", "content": "Ah."}]

    def look(trajectory, final_response):
        return {"reward": len(trajectory), "task": trajectory.task, "said": final_response}

    class Given(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks."""
            return graded_output(await self.grade(look, trajectory=said))

    with play(Given) as episode:
        output = episode.call("ask")
    assert (output.reward, output.metadata and output.metadata["reward_extras"]) == (
        2.0,
        {"task": "Hm?", "said": "Ah."},
    )


def test_a_tasks_field_cannot_pass_for_what_the_agent_said():
    class Unasked(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks without a response."""
            return graded_output(await self.grade(math_equal_reward))

    with play(Unasked, task_spec={**TASK, "final_response": "42", "trajectory": [], "step": 5}) as episode:
        output = episode.call("ask")
    assert output.reward is None
    assert "needs final_response" in (output.metadata or {})["reward_reason"]


def test_a_toolset_asks_as_its_environment_does():
    class Grader(Toolset):
        @tool
        async def judge(self, guess: str) -> ToolOutput:
            """Judges."""
            return graded_output(await self.grade(final_response=guess))

    with play(ending(math_equal_reward, toolsets=(Grader,))) as episode:
        assert episode.call("judge", guess="42").reward == 1.0


def test_concurrent_calls_know_their_own_numbers():
    seen = []

    def note(step):
        seen.append(step)
        return 0.0

    class Both(Sums):
        gate: ClassVar[anyio.Event]

        @tool(concurrent=True)
        async def ask(self, last: bool) -> ToolOutput:  # noqa: FBT001
            """Asks when both run."""
            if last:
                self.gate.set()
            await self.gate.wait()
            return graded_output(await self.grade(note))

    async def run():
        Both.gate = anyio.Event()
        async with open_environment(Both) as client, anyio.create_task_group() as tasks:
            session = await client.create(split="train", index=0)
            await session.call("add", a=1, b=1)
            tasks.start_soon(partial(session.call, "ask", last=False))
            tasks.start_soon(partial(session.call, "ask", last=True))

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(run)
    assert seen == [2, 2]


async def test_a_reward_may_be_asked_from_setup_to_teardown():
    seen = []

    def look(trajectory):
        return len(trajectory.steps)

    class Eager(Sums):
        async def _note(self) -> None:
            result = await self.grade(look)
            seen.append((result.reward, (await self.grade(lambda step: 1)).status.value))

        @override
        async def setup(self) -> None:
            await self._note()

        @override
        async def teardown(self) -> None:
            await self._note()

    async with open_environment(Eager) as client:
        session = await client.create(split="train", index=0)
        await session.call("add", a=1, b=2)
        await session.aclose()
    assert seen == [(0.0, "error"), (1.0, "error")]


async def test_an_instance_without_a_session_grades_with_its_task_and_what_is_given():
    environment = ending(math_equal_reward)(dict(TASK))
    assert (await environment.grade(final_response="42")).reward == 1.0
    result = await environment.grade(lambda trajectory: len(trajectory.steps), final_response="x")
    assert result.reward == 0.0


def test_a_copy_that_an_author_makes_of_the_instance_plays_the_same_episode():
    class Thinking(Sums):
        @override
        def __setattr__(self, name: str, value: Any) -> None:
            assert not name.startswith("_")
            super().__setattr__(name, value)

        @tool
        async def ask(self) -> ToolOutput:
            """Asks a copy."""
            return graded_output(await copy.deepcopy(self).grade(lambda trajectory: len(trajectory.steps)))

    with play(Thinking) as episode:
        episode.call("add", a=1, b=1)
        assert episode.call("ask").reward == 1.0


# What a failure comes to


class Hostile(Exception):  # noqa: N818
    """An error that cannot be told."""

    @override
    def __str__(self) -> str:
        raise SystemExit


def raising(error: BaseException) -> Any:
    def judge(final_response):
        raise error

    return judge


def raising_later(error: BaseException) -> Any:
    async def judge(final_response):
        raise error

    return judge


FAILURES = {
    "it raises": (raising(ValueError("hm")), "error", "ValueError: hm"),
    "it raises later": (raising_later(ValueError("hm")), "error", "ValueError: hm"),
    "it exits": (raising(SystemExit(3)), "error", "SystemExit"),
    "it exits later": (raising_later(SystemExit(3)), "error", "SystemExit"),
    "its error cannot be told": (raising(Hostile()), "error", "SystemExit"),
    "it cancels itself": (raising_later(asyncio.CancelledError("me")), "error", "CancelledError: me"),
    "it blames the agent": (raising(ToolError("told")), "error", "ToolError: told"),
    "NaN": (lambda final_response: float("nan"), "error", "finite"),
    "infinity": (lambda final_response: {"reward": float("inf")}, "error", "finite"),
    "no number": (lambda final_response: "1.0", "error", "a str came"),
    "nothing": (lambda final_response: None, "error", "a NoneType came"),
    "out of its range": (reward(range=(0.0, 1.0))(lambda final_response: 1.5), "error", "outside"),
    "a field that is not there": (lambda colour: 1.0, "error", "needs colour"),
    "an extra that is NaN": (lambda final_response: {"reward": 1, "x": float("nan")}, "error", "extras"),
    "an extra that is no JSON": (lambda final_response: {"reward": 1, "x": object()}, "error", "extras"),
    "bad gold": (math_equal_reward, "bad_gold", "gold"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_a_status_and_no_number(name):
    judge, status, why = FAILURES[name]
    task = {**TASK, "answer": ""} if status == "bad_gold" else TASK
    environment = asking(judge)
    with play(environment, task_spec=task) as episode:
        output = episode.call("ask", guess="42")
        summary = episode.summary
    assert (output.reward, output.finished) == (None, False)
    assert output.metadata is not None
    assert output.metadata["reward_status"] == status
    assert why in output.metadata["reward_reason"]
    assert (summary.episode_return, summary.ungraded_steps, summary.failed_steps) == (0.0, 1, 0)
    with play(ending(judge), task_spec=task) as episode:
        output = episode.call("finish", answer="42")
        summary = episode.summary
    assert (output.reward, output.finished) == (None, True)
    assert (output.metadata or {})["reward_status"] == status
    assert (summary.stop_reason, summary.failed_steps, summary.ungraded_steps) == ("completed", 0, 1)


def test_a_prompt_that_fails_leaves_a_reward_of_trajectories_without_a_number_and_others_alone():
    class Mute(Sums):
        @override
        def get_prompt(self) -> list[str | ImageBlock]:
            raise LookupError("no prompt today")

        @tool
        async def ask(self, whole: bool) -> ToolOutput:  # noqa: FBT001
            """Asks."""
            asked = efficiency_reward if whole else math_equal_reward
            return graded_output(await self.grade(asked, final_response="42"))

    with play(Mute) as episode:
        blind = episode.call("ask", whole=True)
        assert episode.call("ask", whole=False).reward == 1.0
    assert (blind.reward, (blind.metadata or {})["reward_status"]) == (None, "error")
    assert "no prompt today" in (blind.metadata or {})["reward_reason"]


def test_a_reward_reads_the_prompt_that_the_agent_was_told():
    tasks = []

    class Fickle(Sums):
        told = 0

        @override
        def get_prompt(self) -> list[str | ImageBlock]:
            self.told += 1
            return [f"Prompt {self.told}"]

    def look(trajectory):
        tasks.append(trajectory.task)
        return 0.0

    fickle = type("Asking", (Fickle,), {"reward": staticmethod(look), "toolsets": ("submit",)})
    for asks_before in (True, False):
        with play(fickle) as episode:
            told = episode.prompt if asks_before else "Prompt 1"
            episode.call("submit", answer="")
            assert (tasks.pop(), told) == ("Prompt 1", "Prompt 1")


async def test_an_episode_inside_another_ones_call_is_not_that_call():
    seen: list[str] = []

    class Inner(Sums):
        @override
        async def setup(self) -> None:
            seen.append((await self.grade(lambda step: step)).status.value)

    class Outer(Sums):
        @tool
        async def nest(self) -> ToolOutput:
            """Plays another episode."""
            async with open_environment(Inner) as client:
                session = await client.create(split="train", index=0)
                await session.call("add", a=1, b=1)
            return graded_output(await self.grade(lambda step: step))

    async with open_environment(Outer) as client:
        session = await client.create(split="train", index=0)
        await session.call("add", a=1, b=1)
        assert (await session.call("nest")).reward == 2.0
    assert seen == ["error"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_reward_that_would_outlast_its_call_is_given_up_and_the_agent_is_not_to_blame(is_async):
    released = threading.Event()

    def hang(final_response):
        released.wait(30)
        return 1.0

    async def hang_later(final_response):
        await anyio.sleep_forever()

    environment = asking(hang_later if is_async else hang)
    environment.policy = EpisodePolicy(call_time_limit=0.5, timeout_penalty=1.0)
    try:
        with play(environment) as episode:
            output = episode.call("ask", guess="42")
            assert episode.summary.penalty_sum == 0.0
            released.set()
    finally:
        released.set()
    assert (output.reward, output.metadata and output.metadata["reward_status"]) == (None, "limit")


async def test_what_is_no_reward_is_the_authors_error_and_not_a_status():
    environment = Sums(dict(TASK))
    with pytest.raises(RewardDefinitionError, match="names no reward"):
        await environment.grade()
    with pytest.raises(RewardDefinitionError, match="a callable"):
        await environment.grade("math_equal_reward")
    with play(asking(None)) as episode, pytest.raises(RewardDefinitionError, match="names no reward"):
        episode.call("ask", guess="42")


# The class's own reward


class Counting(BaseReward):
    """Counts how often it was asked, over all sessions."""

    def __init__(self) -> None:
        self.asked = 0

    @override
    def call(self, final_response: str) -> float:
        self.asked += 1
        return float(self.asked)


def test_a_class_of_a_reward_is_made_once_for_all_sessions():
    definition = define(ending(Counting))
    for expected in (1.0, 2.0):
        with play(definition) as episode:
            assert episode.call("finish", answer="").reward == expected


class Needy(Counting):
    """Cannot be made without arguments."""

    def __init__(self, key: str) -> None:
        super().__init__()


def by_position(final_response, /):
    return 1.0


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("math_equal_reward", "a callable"),
        (0.0, "a callable"),
        (Needy, "TypeError"),
        (by_position, "by position only"),
        (lambda self, answer: 1.0, "is a method"),
        (BaseReward, "TypeError"),
    ],
)
def test_a_bad_reward_is_refused_when_the_class_is_loaded_and_named(bad, why):
    with pytest.raises(EnvironmentDefinitionError, match=r"Ending\.reward") as refused:
        define(ending(bad))
    assert why in str(refused.value)


def test_an_output_that_ends_the_episode_without_a_reward_is_graded_by_the_argument_named_answer():
    with play(ending(math_equal_reward)) as episode:
        output = episode.call("finish", answer="42.0")
        (step,) = episode.steps
    assert (output.reward, output.finished, output.blocks[0]) == (1.0, True, TextBlock(text="You said 42.0."))
    assert (step.status, step.reward, step.components) == ("graded", 1.0, {"tool": 1.0})


def test_an_answer_that_cannot_be_read_is_the_least_and_is_told_apart():
    with play(ending(math_equal_reward)) as episode:
        output = episode.call("finish", answer="")
        (step,) = episode.steps
    assert (output.reward, step.status) == (0.0, "graded")
    assert (step.metadata or {})["reward_status"] == "unparsed_answer"


class Ends(Sums):
    """Several ways to end."""

    reward = math_equal_reward

    @tool
    async def stop(self) -> ToolOutput:
        """Ends with a text."""
        return ToolOutput.final("I give 42", reward=None)

    @tool
    async def number(self, answer: int | None = None) -> ToolOutput:
        """Ends with a number."""
        return ToolOutput(finished=True)

    @tool
    async def paid(self, answer: str) -> ToolOutput:
        """Ends with a reward of its own."""
        return ToolOutput.final(reward=0.25)

    @tool
    async def judged(self, answer: str) -> ToolOutput:
        """Ends with a judgement of its own that came to nothing."""
        return graded_output(await self.grade(lambda: 1 / 0), finished=True)

    @terminal
    @tool
    async def last(self, message: str) -> ToolOutput:
        """Takes the last message."""
        return ToolOutput(finished=True)


@pytest.mark.parametrize(
    ("name", "arguments", "reward_"),
    [
        ("stop", {}, 1.0),
        ("number", {"answer": 42}, 1.0),
        ("number", {}, 0.0),
        ("paid", {"answer": "42"}, 0.25),
        ("judged", {"answer": "42"}, None),
        ("last", {"message": "So it is \\boxed{42}"}, 1.0),
        ("last", {"message": "So it is \\boxed{43}"}, 0.0),
    ],
)
def test_what_counts_as_the_final_response_of_an_ending(name, arguments, reward_):
    with play(Ends) as episode:
        output = episode.call(name, **arguments)
    assert (output.reward, output.finished) == (reward_, True)


@pytest.mark.parametrize(("answer", "said"), [(42, "42"), (None, ""), ("4 2", "4 2")])
def test_the_final_response_is_the_answer_as_text(answer, said):
    class Says(Sums):
        reward = staticmethod(lambda final_response: {"reward": 0, "said": final_response})

        @tool
        async def end(self, answer: int | str | None) -> ToolOutput:
            """Ends."""
            return ToolOutput(finished=True)

    with play(Says) as episode:
        output = episode.call("end", answer=answer)
    assert (output.metadata or {})["reward_extras"] == {"said": said}


def test_a_step_that_does_not_end_the_episode_is_not_graded():
    with play(Ends) as episode:
        assert episode.call("add", a=1, b=1).reward is None


@pytest.mark.parametrize("toolsets", [(), ("submit",)])
def test_a_number_outside_the_policys_range_is_an_error_and_ends_the_episode(toolsets):
    policy = EpisodePolicy(reward_range=(0.0, 1.0))
    environment = ending(lambda final_response: 7.0, policy=policy, toolsets=toolsets)
    with play(environment) as episode:
        output = episode.call("submit" if toolsets else "finish", answer="")
    assert (output.reward, output.finished) == (None, True)
    assert (output.metadata or {})["reward_status"] == "error"
    with pytest.raises(RewardRangeError):
        policy.admit(7.0)
    clipping = ending(lambda final_response: 7.0, policy=policy.model_copy(update={"clip_rewards": True}))
    with play(clipping) as episode:
        assert episode.call("finish", answer="").reward == 1.0


# submit


def test_submit_asks_the_reward_with_the_answer_and_the_submission():
    def look(final_response, submission, evidence, answer):
        return {"reward": float(final_response == answer), "same": submission.answer == final_response}

    with play(ending(look, toolsets=("submit",))) as episode:
        output = episode.call("submit", answer="42")
    assert (output.reward, output.finished, output.blocks[0]) == (1.0, True, TextBlock(text="Submitted."))
    assert (output.metadata or {})["reward_extras"] == {"same": True}


def test_a_submission_without_an_answer_is_an_empty_one():
    with play(ending(math_equal_reward, toolsets=("submit",))) as episode:
        output = episode.call("submit")
    assert (output.reward, (output.metadata or {})["reward_status"]) == (0.0, "unparsed_answer")


def test_grade_submission_goes_before_the_reward_and_may_return_what_it_came_to():
    class Own(Sums):
        toolsets = ("submit",)
        reward = math_equal_reward

        @override
        async def grade_submission(self, submission: Submission) -> Any:
            return await self.grade(final_response=submission.answer, answer="43")

    with play(Own) as episode:
        assert episode.call("submit", answer="43").reward == 1.0
    with play(Own, task_spec={"question": "", "answer": ""}) as episode:
        output = episode.call("submit", answer=None)
    assert (output.reward, output.finished) == (None, True)
    assert (output.metadata or {})["reward_status"] == "error"


def test_submit_needs_somebody_who_grades():
    with pytest.raises(EnvironmentDefinitionError, match="grade_submission or set reward"):
        define(ending(None, toolsets=("submit",)))


# Groups


def candidates(*texts: str) -> list[GroupCandidate]:
    return [
        GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text=text)])]) for text in texts
    ]


def longest(rollouts, answer, metadata):
    most = max(len(rollout.final_response) for rollout in rollouts)
    return [{"reward": len(rollout.final_response) == most, "gold": answer} for rollout in rollouts]


async def test_a_reward_that_takes_rollouts_scores_groups_and_ends_no_episode():
    environment = ending(longest, toolsets=("submit",))
    assert define(environment).listing.supports_score_group
    async with open_environment(environment) as client:
        session = await client.create(split="train", index=0)
        scores = await session.score_group(candidates("a", "bc", "de"))
        assert [score.reward for score in scores] == [0.0, 1.0, 1.0]
        assert scores[0].metadata == {"reward_extras": {"gold": "42"}}
        output = await session.call("submit", answer="x")
        assert (output.reward, output.finished) == (None, True)
        assert "reward_status" not in (output.metadata or {})
        session = await client.create(split="train", index=0)
        assert (await session.call("finish", answer="x")).reward is None


async def test_a_group_that_could_not_be_judged_is_a_failure_and_no_score():
    def broken(rollouts):
        return [1.0, float("nan")]

    async with open_environment(ending(broken)) as client:
        session = await client.create(split="train", index=0)
        with pytest.raises(EnvironmentFailedError, match=r"did not judge candidate 1 \(error\)"):
            await session.score_group(candidates("a", "b"))


async def test_an_environments_own_scoring_goes_before_its_reward():
    environment = ending(longest, score_group=lambda self, group: [0.5 for _ in group])
    async with open_environment(environment) as client:
        session = await client.create(split="train", index=0)
        assert [score.reward for score in await session.score_group(candidates("a"))] == [0.5]


def test_a_reward_of_single_rollouts_scores_no_groups():
    assert not define(ending(math_equal_reward)).listing.supports_score_group


# Resources, snapshots, forks


async def test_a_sessions_tools_and_rewards_share_one_context_which_ends_after_teardown():
    seen: list[Any] = []

    class Shared(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks."""
            seen.append(self.context)
            return graded_output(await self.grade(lambda context: float(context is seen[0])))

        @override
        def teardown(self) -> None:
            seen.append(self.context._closed)

    async with open_environment(Shared) as client:
        first, other = [await client.create(split="train", index=0) for _ in range(2)]
        assert (await first.call("ask")).reward == 1.0
        assert (await other.call("ask")).reward == 0.0
        assert (seen[0].rollout_id, seen[1].rollout_id) == (first.id, other.id)
        await first.aclose()
        assert seen[2] is None
        assert seen[0]._closed.is_set()
        assert seen[1]._closed is None


async def test_a_reward_that_takes_the_context_finds_the_messages_so_far_in_it():
    roles: list[list[str]] = []

    async def count(context):
        roles.append([message["role"] for message in context.trajectory])
        return 1.0

    class Counted(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks."""
            return graded_output(await self.grade(count))

    async with open_environment(Counted) as client:
        session = await client.create(split="train", index=0)
        for _ in range(2):
            assert (await session.call("ask")).reward == 1.0
        assert roles == [["user"], ["user", "assistant", "tool"]]


def test_an_instance_without_a_session_has_no_context():
    with pytest.raises(RuntimeError, match="no context here"):
        _ = Sums(dict(TASK)).context


class Copied(Sums):
    """Can be copied."""

    reward = efficiency_reward

    @override
    def save_state(self) -> dict[str, Any]:
        return {}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        pass

    @tool
    async def ask(self) -> ToolOutput:
        """Asks."""
        return graded_output(await self.grade(lambda trajectory: len(trajectory.steps)))


async def test_a_fork_grades_the_steps_that_it_shares_and_its_own():
    async with open_environment(Copied) as client:
        session = await client.create(split="train", index=0)
        await session.call("add", a=1, b=1)
        (copy,) = await session.fork()
        await session.call("add", a=1, b=1)
        assert (await copy.call("ask")).reward == 1.0
        assert (await session.call("ask")).reward == 2.0
        assert (await copy.call("finish", answer="")).reward == 0.9
        snapshot = await client.engine.snapshot(session.id)
        await client.engine.restore(session.id, snapshot.id)
        assert (await session.call("ask")).reward == 3.0
