"""The environment: a work dir with files, an exercise about them, and a check of the files at the end."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ors_server import EpisodePolicy, IndexedTasks, JSONObject, Submission, ToolOutput
from ors_server_tasks.shell.delivery import deliver
from ors_server_tasks.shell.exercise import Exercise
from ors_server_tasks.shell.generator import EDITION, SPLIT_SIZES, describe, generate
from ors_server_tasks.shell.grading import find_faults
from ors_server_tasks.shell.observation import UnjudgedError

_MAX_FAULTS = 20
"""Faults that are recorded with an episode."""
_FAULT_LENGTH = 200
"""Characters of one of them."""

_RULES = """\
You work in a bash shell. It starts in the work directory, which has the files; paths are relative to it. \
The usual programs are installed (coreutils, find, grep, sed, awk, tar, gzip, git, python3). There is no \
network.

{ask}

Rules, unless stated otherwise above:
- Sort by byte value (as with LC_ALL=C sort).
- Write text files in UTF-8 without a byte order mark. Every line ends with one newline, including the last \
one. No line is empty or ends with a space.
- Do not change, rename or delete files that you are not asked to change. Do not make symbolic or hard links.
- Leave no temporary files in folders that you are asked to work on; elsewhere they are allowed.

When you are done, call submit. The work directory is then checked once, as a whole; there is no partial \
credit. No answer text is needed."""


class ShellTasks(IndexedTasks):
    """Exercises of 6 families for a terminal; reward 1.0 if the files are as required, else 0.0.

    A subclass with another `seed` has other exercises of the same kinds.
    """

    name = "shell"
    version = f"{EDITION}.1"
    split_sizes = SPLIT_SIZES
    """The edition of the exercises, and that of the prompt's rules."""
    policy = EpisodePolicy(step_limit=50, reward_range=(0.0, 1.0))
    toolsets = ("bash", "files", "submit")
    seed: ClassVar[str] = "shell-1"
    """Decides all tasks of all splits."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Generate the exercise.

        Raises:
            ValueError: The task is not one of this environment's.
        """
        super().__init__(task_spec, secrets)
        self._exercise = _exercise_of(task_spec)

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        return {**describe(cls.seed, split, index)}

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that earn the greatest return of the task."""
        return [("bash", {"command": _exercise_of(task_spec).gold}), ("submit", {})]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
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
        """Restore nothing: the files are the whole state."""

    @override
    async def grade_submission(self, submission: Submission) -> ToolOutput:
        if submission.evidence is None:
            raise UnjudgedError("the session has no sandbox, so there is no work dir to check")
        faults = await find_faults(submission.evidence, self._exercise)
        shown = [_printable(fault) for fault in faults[:_MAX_FAULTS]]
        return ToolOutput.final(
            "Submitted.",
            reward=0.0 if faults else 1.0,
            metadata={"fault_count": len(faults), "faults": shown},
        )


def _printable(fault: str) -> str:
    """Return a fault as text that can be encoded; file names may be any bytes."""
    return fault.encode(errors="backslashreplace").decode()[:_FAULT_LENGTH]


def _exercise_of(task_spec: JSONObject) -> Exercise:
    match task_spec:
        case {"seed": str(seed), "split": str(split), "index": int(index)}:
            if 0 <= index < SPLIT_SIZES.get(split, 0):
                return generate(seed, split, index)
        case _:
            pass
    raise ValueError(
        "a task of the shell environment has a seed (text), a split (one of "
        f"{', '.join(SPLIT_SIZES)}), and the index of one of its tasks; use get_task"
    )
