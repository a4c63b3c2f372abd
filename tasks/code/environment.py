"""The environment: a sandbox with a file to write or fix, and hidden tests that grade it."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from ors_server import EpisodePolicy, IndexedTasks, JSONObject, SandboxLimits, Submission, ToolOutput
from ors_server_tasks.code.catalogue import SPLITS, load_problem
from ors_server_tasks.code.grading import judge
from ors_server_tasks.code.problem import Problem

EDITION = "1.1"
"""Changes whenever a task or one of its texts changes."""


class CodeTasks(IndexedTasks):
    """Functions, classes and programs to write, and files to fix; 1.0 if all hidden cases pass, else 0.0."""

    name = "code"
    version = EDITION
    split_sizes = MappingProxyType({split: len(names) for split, names in SPLITS.items()})
    policy = EpisodePolicy(step_limit=50, reward_range=(0.0, 1.0))
    toolsets = ("bash", "files", "python", "submit")
    sandbox_limits = SandboxLimits(time_limit=60.0)

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        return load_problem(SPLITS[split][index]).describe()

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that earn the greatest return of the task."""
        problem = _problem_of(task_spec)
        return [("create", {"path": problem.file, "content": problem.solution}), ("submit", {})]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
        del task_spec  # the same for every task
        return [("submit", {})]

    @override
    async def setup(self) -> None:
        text: str | None = self.task_spec["starting_file"]
        if text is not None:
            await self.sandbox.write_file(self.task_spec["file"], text.encode())

    @override
    def get_prompt(self) -> str:
        prompt: str = self.task_spec["prompt"]
        return prompt

    @override
    async def grade_submission(self, submission: Submission) -> ToolOutput:
        """Grade the file in the work dir; the answer is ignored."""
        if submission.evidence is None:
            raise RuntimeError("a code task is graded by its work dir, but the session has no sandbox")
        report = await judge(_problem_of(self.task_spec), submission.evidence)
        failed = [result.name for result in report.results if not result.passed]
        return ToolOutput.final(
            f"Submitted: {report.passed} of {report.total} hidden cases passed.",
            reward=1.0 if report.is_perfect else 0.0,
            metadata={
                "code": {"passed": report.passed, "total": report.total, "failed": failed},
                "failed_cases": report.reasons(),
            },
        )


def _problem_of(task_spec: JSONObject) -> Problem:
    return load_problem(task_spec["id"].removeprefix("code/"))
