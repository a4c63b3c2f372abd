"""The submit tool ends the episode with the environment's judgement, or not at all."""

import pytest

from ors_server import Environment, Submission, ToolError, ToolOutput
from ors_server.environments.loading import define
from ors_server.environments.toolsets.submit import SubmitTools
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError, ToolOutputError
from ors_server.model.policy import EpisodePolicy
from ors_server.sandboxes.sandbox_errors import SandboxClosedError
from tests.fixtures.single_task import SingleTask


class Judge(Environment):
    """Judges as a test says."""

    def __init__(self, verdict):
        super().__init__({})
        self.verdict = verdict
        self.seen: list[Submission] = []

    async def grade_submission(self, submission):
        self.seen.append(submission)
        if isinstance(self.verdict, BaseException):
            raise self.verdict
        return self.verdict


async def submit(verdict, answer=None):
    judge = Judge(verdict)
    return await SubmitTools(judge).submit(answer), judge


@pytest.mark.parametrize(("verdict", "reward"), [(0.5, 0.5), (1, 1.0), (0.0, 0.0), (-2.5, -2.5)])
async def test_a_number_becomes_the_reward_and_ends_the_episode(verdict, reward):
    output, judge = await submit(verdict, "42")
    assert (output.reward, output.finished) == (reward, True)
    assert judge.seen == [Submission("42", None)]


async def test_an_output_is_kept_and_ends_the_episode():
    output, _ = await submit(ToolOutput.ongoing("Well done.", reward=1.0, metadata={"why": "all"}))
    assert output == ToolOutput.final("Well done.", reward=1.0, metadata={"why": "all"})


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (None, "must return a number, a RewardResult or a ToolOutput, got NoneType"),
        ("1.0", "got str"),
        (True, "got bool"),
        (ToolOutput.final("Hm.", reward=None), "returned no reward"),
    ],
)
async def test_no_judgement_is_the_authors_error_and_no_zero(verdict, said):
    with pytest.raises(ToolOutputError, match=said):
        await submit(verdict)


async def test_a_grader_that_raises_is_not_a_grade():
    with pytest.raises(ZeroDivisionError):
        await submit(ZeroDivisionError())
    with pytest.raises(ToolError, match="write an answer"):
        await submit(ToolError("write an answer"))
    with pytest.raises(ValueError, match="finite"):
        await submit(float("nan"))


async def test_a_grader_may_be_an_ordinary_function():
    class Plain(Judge):
        def grade_submission(self, submission):
            return float(len(submission.answer))

    assert (await SubmitTools(Plain(None)).submit("four")).reward == 4.0


class Place(Judge):
    """Has a sandbox from the start."""

    def __init__(self, sandbox, grade):
        super().__init__(None)
        self._sandbox = sandbox
        self.judge_it = grade

    async def grade_submission(self, submission):
        return await self.judge_it(submission)


async def test_nothing_of_the_agents_is_left_when_the_work_is_judged(real):
    async with real() as place:
        sandbox = place.sandbox
        await sandbox.exec(
            "echo good >work.txt; (while :; do echo bad >work.txt; sleep 0.01; done) >/dev/null 2>&1 & x=1"
        )

        async def grade(submission):
            await sandbox.write_file("work.txt", b"judged\n")
            assert await submission.evidence.read_file("work.txt") == b"judged\n"
            return 1.0

        output = await SubmitTools(Place(sandbox, grade)).submit()
        assert (output.reward, output.finished) == (1.0, True)
        after = await sandbox.exec("sleep 0.2; cat work.txt; jobs; echo ${x-gone}")
        assert after.stdout.text == "judged\ngone\n"


@pytest.mark.parametrize(("policy", "least"), [(EpisodePolicy(reward_range=(-1.0, 1.0)), -1.0), (None, 0.0)])
async def test_evidence_that_cannot_be_read_is_paid_the_least_with_the_reason(scripted, policy, least):
    async def grade(submission):
        return float((await submission.evidence.read_file("none")).decode())

    place = await scripted()
    judged = Place(place.sandbox, grade)
    judged.policy = policy
    output = await SubmitTools(judged).submit()
    assert (output.reward, output.finished) == (least, True)
    assert "no such file" in output.metadata["reward_reason"]


async def test_a_path_that_names_no_place_in_a_work_dir_is_the_graders_error(real):
    async def grade(submission):
        return float((await submission.evidence.read_file("/etc/answer")).decode())

    async with real() as place:
        with pytest.raises(EnvironmentFailedError, match="outside the work dir"):
            await SubmitTools(Place(place.sandbox, grade)).submit()


async def test_a_dead_sandbox_is_the_machinerys_fault(scripted):
    async def grade(submission):
        return 1.0

    place = await scripted()
    await place.sandbox.aclose()
    with pytest.raises(SandboxClosedError):
        await SubmitTools(Place(place.sandbox, grade)).submit()


def test_an_environment_that_cannot_judge_is_refused_when_it_is_loaded():
    class Silent(SingleTask):
        toolsets = ("submit",)

    with pytest.raises(EnvironmentDefinitionError, match="Silent takes the submit tool and must define"):
        define(Silent)

    class Heir(Silent):
        def grade_submission(self, submission):
            return 1.0

    assert [tool.name for tool in define(Heir).listing.tools] == ["submit"]
    assert define(Heir).sandbox is None
