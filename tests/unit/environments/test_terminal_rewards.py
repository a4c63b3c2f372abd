"""A class's own reward: what is refused, what ends with it, and what a submission earns."""

from typing import Any

import pytest
from typing_extensions import override

from ors_server import (
    BaseReward,
    EpisodePolicy,
    Submission,
    TextBlock,
    ToolOutput,
    graded_output,
    math_equal_reward,
    reward,
    terminal,
    tool,
)
from ors_server.environments.loading import define
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.model.policy import RewardRangeError
from ors_server.testing import open_environment, play
from tests.fixtures.judged_environment import TASK, Sums, ending


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


async def test_a_reward_is_prepared_with_the_task_when_a_session_begins():
    prepared: list[Any] = []

    @reward(prepare=prepared.append)
    def exact(final_response: str, answer: str) -> float:
        return float(final_response == answer)

    async with open_environment(ending(exact)) as client:
        assert prepared == []
        await client.create(split="train", index=0)
    assert prepared == [TASK]


async def test_a_reward_that_cannot_be_prepared_fails_the_session_and_says_so():
    def start(task):
        raise OSError("no model there")

    @reward(prepare=start)
    def exact(final_response: str, answer: str) -> float:
        return float(final_response == answer)

    async with open_environment(ending(exact)) as client:
        with pytest.raises(EnvironmentFailedError, match=r"exact\.prepare failed: OSError: no model there"):
            await client.create(split="train", index=0)
