"""The environment: a work dir with files, an exercise about them, and a look at what is left of them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ors_server import Environment, EpisodePolicy, JSONObject, Split, Submission, ToolOutput
from ors_server_tasks.shell.delivery import deliver
from ors_server_tasks.shell.exercise import Exercise
from ors_server_tasks.shell.generator import EDITION, SPLIT_SIZES, describe, generate
from ors_server_tasks.shell.grading import find_faults
from ors_server_tasks.shell.observation import UnjudgedError

_FAULTS_TOLD = 20
"""Faults that are recorded with an episode, at most."""
_FAULT_LENGTH = 200
"""Characters of one of them."""

_RULES = """\
You work in a bash shell. It starts in the work directory, which holds the files; paths are relative to it. \
The usual programs are there (coreutils, find, grep, sed, awk, tar, gzip, git, python3); there is no network.

{ask}

Rules, where nothing else is said above:
- Sorting is by byte value (as with LC_ALL=C sort).
- Text files are UTF-8 without a byte order mark. Every line ends in one newline, the last one too. No line \
is empty or ends in a space.
- Do not change, rename or delete files that you are not asked to change. Do not make symbolic or hard links.
- Leave no scratch files in folders that you are asked to work on; elsewhere they do no harm.

When everything is in place, call submit. The work directory is then judged once, as a whole: it is right or \
it is not. No answer in words is needed."""


class ShellTasks(Environment):
    """Exercises of 6 families for a terminal; reward 1.0 if the files are as asked for, else 0.0.

    A subclass with another `seed` has other exercises of the same kinds.
    """

    name = "shell"
    version = EDITION
    policy = EpisodePolicy(step_limit=50, reward_range=(0.0, 1.0))
    toolsets = ("bash", "files", "submit")
    seed: ClassVar[str] = "shell-1"
    """Decides all tasks of all splits."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Generate the exercise.

        Args:
            task_spec: What `get_task` gave.
            secrets: Not used.

        Raises:
            ValueError: The task is none of this environment's.
        """
        super().__init__(task_spec, secrets)
        self._exercise = _exercise_of(task_spec)

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [
            Split(name="train", type="train"),
            Split(name="validation", type="validation"),
            Split(name="test", type="test"),
        ]

    @override
    @classmethod
    def num_tasks(cls, split: str) -> int:
        return SPLIT_SIZES[split]

    @override
    @classmethod
    def get_task(cls, split: str, index: int) -> JSONObject:
        size = SPLIT_SIZES[split]
        if not -size <= index < size:
            raise IndexError(f"split {split!r} has {size} tasks, so there is none with the index {index}")
        return {**describe(cls.seed, split, index % size)}

    @override
    @classmethod
    def get_task_range(
        cls, split: str, start: int | None = None, stop: int | None = None
    ) -> list[JSONObject]:
        return [
            cls.get_task(split, index) for index in range(*slice(start, stop).indices(SPLIT_SIZES[split]))
        ]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return cls.get_task_range(split)

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Tool calls, as (name, arguments) in order, that earn the most that the task pays.

        Args:
            task_spec: What `get_task` gave.
        """
        return [("bash", {"command": _exercise_of(task_spec).gold}), ("submit", {})]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Tool calls, as (name, arguments) in order, that show no work and earn the least that the task pays.

        Args:
            task_spec: What `get_task` gave.
        """
        del task_spec  # doing nothing is the same everywhere
        return [("submit", {})]

    @override
    async def setup(self) -> None:
        await deliver(self.sandbox, self._exercise)

    @override
    def get_prompt(self) -> str:
        return _RULES.format(ask=self._exercise.ask)

    @override
    def save_state(self) -> JSONObject:
        return {}

    @override
    async def load_state(self, state: JSONObject) -> None:
        """Take over nothing: the files are everything."""

    @override
    async def grade_submission(self, submission: Submission) -> ToolOutput:
        if submission.evidence is None:
            raise UnjudgedError("there is no work dir to look at")
        faults = await find_faults(submission.evidence, self._exercise)
        told = [_printable(fault) for fault in faults[:_FAULTS_TOLD]]
        return ToolOutput.final(
            "Submitted.",
            reward=0.0 if faults else 1.0,
            metadata={"fault_count": len(faults), "faults": told},
        )


def _printable(fault: str) -> str:
    """A fault with the names that an agent gave its files, whatever bytes they are made of."""
    return fault.encode(errors="backslashreplace").decode()[:_FAULT_LENGTH]


def _exercise_of(task_spec: JSONObject) -> Exercise:
    match task_spec:
        case {"seed": str(seed), "split": str(split), "index": int(index)}:
            if 0 <= index < SPLIT_SIZES.get(split, 0):
                return generate(seed, split, index)
        case _:
            pass
    raise ValueError(
        "a task of the shell environment is what get_task gives: with a seed (text), one of the splits "
        f"{', '.join(SPLIT_SIZES)}, and the index of one of its tasks"
    )
