"""The `submit` tool: ends the episode and grades the agent's work."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from typing_extensions import override

from ors_server.environments.argument_names import only_these_arguments
from ors_server.environments.boundary import AuthorRaisedError, call_author
from ors_server.environments.episode_rewards import grade_ending, noting_judgement, own_episode
from ors_server.environments.tool import ToolError, Toolset, tool
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError, ToolOutputError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import ToolOutput
from ors_server.rewards.result import RewardResult
from ors_server.rewards.result_output import graded_output, has_result
from ors_server.sandboxes.base import Sandbox
from ors_server.sandboxes.sandbox_errors import SandboxFileError, SandboxPathError


@dataclass(frozen=True, slots=True)
class Submission:
    """An agent's answer and work dir."""

    answer: str | None
    """`None` without an answer."""
    evidence: Evidence | None
    """The work dir, after every process of the agent was ended; `None` if the session has no sandbox."""


Judged: TypeAlias = ToolOutput | RewardResult | float
"""What `grade_submission` returns."""
Grade: TypeAlias = Callable[[Submission], Awaitable[Judged] | Judged]
"""An environment's `grade_submission`."""


class SubmitTools(Toolset):
    """Ends the episode with the reward of `grade_submission`, or of the class's `reward`."""

    @override
    @classmethod
    def check_environment(cls, environment: type) -> None:
        if not _grades_itself(environment) and getattr(environment, "reward", None) is None:
            raise EnvironmentDefinitionError(
                f"{environment.__name__} takes the submit tool and must define grade_submission or set reward"
            )

    @tool(exclusive=True)
    @only_these_arguments(final_answer="answer", result="answer", text="answer")
    async def submit(self, answer: str | None = None) -> ToolOutput:
        """Submit your work and end the episode. Call this once, when you are done.

        Your answer and the files in the work dir are graded as they are now and cannot be changed later.

        Args:
            answer: Your answer, if the task asks for one.
        """
        async with AsyncExitStack() as stack:
            evidence: Evidence | None = None
            sandbox = _sandbox_of(self.environment)
            if sandbox is not None:
                evidence = await stack.enter_async_context(gather_evidence(sandbox, final=True))
            submission = Submission(answer, evidence)
            own: type = self.environment.__class__
            if not _grades_itself(own):
                fields = {"submission": submission, "evidence": submission.evidence}
                result = await grade_ending(self.environment, submission.answer or "", fields)
                if result is None:  # a group reward, which scores finished rollouts
                    return ToolOutput.final("Submitted.", reward=None)
                return graded_output(result, "Submitted.", finished=True)
            with noting_judgement(self.environment, mistakes=ToolError):
                judged = await _judge(self.environment.grade_submission, submission)
                return _close(judged, own.__name__)


def _sandbox_of(environment: Any) -> Sandbox | None:
    try:
        sandbox: Sandbox = environment.sandbox
    except RuntimeError:  # the session is without one
        return None
    return sandbox


def _grades_itself(environment: type) -> bool:
    # By the module, since importing the base class here would close a cycle.
    home = next((base for base in environment.__mro__ if "grade_submission" in vars(base)), None)
    return home is not None and home.__module__ != "ors_server.environments.environment"


async def _judge(grade: Grade, submission: Submission) -> Any:
    try:
        return await call_author(grade, submission)
    except AuthorRaisedError as raised:
        raise raised.error from None  # a ToolError keeps its meaning; anything else is the author's failure
    except SandboxFileError as error:
        if isinstance(error, SandboxPathError) and error.is_never_valid:
            raise EnvironmentFailedError(
                f"grade_submission read a path that cannot be in a work dir: {error}"
            ) from error
        # Evidence that the agent made unreadable counts as wrong.
        environment = getattr(grade, "__self__", None)
        episode = own_episode(environment)
        policy = getattr(environment, "policy", None) if episode is None else episode.policy
        reward_range = policy.reward_range if isinstance(policy, EpisodePolicy) else None
        least = reward_range[0] if reward_range else 0.0
        return RewardResult(least, reason=f"the evidence cannot be read: {error}")


def _close(judged: Any, where: str) -> ToolOutput:
    if isinstance(judged, RewardResult):
        return graded_output(judged, "Submitted.", finished=True)
    if isinstance(judged, ToolOutput):
        if not has_result(judged):
            raise ToolOutputError(
                f"{where}.grade_submission returned no reward; raise an error if grading is not possible"
            )
        return judged.model_copy(update={"finished": True})
    if isinstance(judged, int | float) and not isinstance(judged, bool):
        return ToolOutput.final("Submitted.", reward=float(judged))
    kind = type(judged).__name__
    raise ToolOutputError(
        f"{where}.grade_submission must return a number, a RewardResult or a ToolOutput, got {kind}"
    )
