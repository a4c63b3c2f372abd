"""ARISE's `LearnedReward`: rates trajectories as people rated others, and keeps their ratings on disk.

Source: the reward page of ARISE. Where arise-ai 0.2.1 turns a failure of the model into another reward's
number, or keeps an invalid rating, this is an error; see `ors_server.rewards.deviations`.
"""

import fcntl
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
from typing_extensions import override

from ors_server.files.atomic_file import atomic_file
from ors_server.rewards.arise import task_success
from ors_server.rewards.define import Reward, RewardFunction
from ors_server.rewards.judged import score_blocks
from ors_server.rewards.judges.judge_model import JudgeModel
from ors_server.rewards.judges.questions import JudgeOptions
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardDefinitionError, RewardValueError
from ors_server.rewards.reward_trajectory import Trajectory

FILE = "feedback.json"
MAX_EXAMPLES = 10
"""Examples that the model is shown: the last ones (arise-ai 0.2.1)."""
MAX_OUTCOME_CHARACTERS = 500
"""Characters of an outcome that are kept, and shown of the trajectory that is rated (arise-ai 0.2.1)."""
MAX_TASK_CHARACTERS = 200
"""Characters of the rated trajectory's task that are shown; half of them of an example's (arise-ai 0.2.1)."""
MAX_EXAMPLE_CHARACTERS = 200
"""Characters of an example's outcome that are shown (arise-ai 0.2.1)."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """One trajectory as a person rated it; fields of arise-ai's file, so that each reads the other's."""

    task: str
    outcome: str
    step_count: int
    human_score: float
    """The person's rating, in [0, 1]."""


class LearnedReward(Reward):
    """Has a model rate trajectories by examples that people rated; `task_success` until there are enough.

    Hazards: those of `task_success` while there are too few ratings, and those of `llm_judge_reward` after;
    the reward changes with every rating, so figures of different days do not compare.

    Source: ARISE's reward page.

    The ratings are in `feedback.json` in a folder. They survive a restart, and any number of processes may
    add to one folder at the same time: each addition is written whole, under a lock, to what is there.
    """

    def __init__(
        self,
        min_examples: int = 10,
        persist_path: Path | str | None = None,
        model: str | JudgeModel | None = None,
        max_examples: int = 50,
        options: JudgeOptions | None = None,
    ) -> None:
        """Load the ratings.

        Args:
            min_examples: Ratings from which on the model is used.
            persist_path: A folder, which is created if need be; `None` keeps ratings in memory only.
            model: As for `llm_judge_reward`.
            max_examples: Ratings that are kept: the most recent ones. Below `min_examples` the model is never
                used.

        Raises:
            RewardDefinitionError: A number is out of its range, or the file holds no ratings.
        """
        if min_examples < 0 or max_examples < 1:
            raise RewardDefinitionError(
                "expected min_examples of at least 0 and max_examples of at least 1, "
                f"got {min_examples} and {max_examples}"
            )
        self.name = "learned_reward"
        self.range = (0.0, 1.0)
        self.direct_call = "number"
        self.min_examples = min_examples
        self.max_examples = max_examples
        self._folder = None if persist_path is None else Path(persist_path)
        self._model = model
        self._options = options
        self._ratings: list[Feedback] = []
        self._seen: tuple[int, int, int] | None = None
        self._lock = threading.Lock()
        self._refresh()

    @property
    def examples(self) -> list[Feedback]:
        """The ratings, oldest first, with those that other processes have added."""
        with self._lock:
            self._refresh()
            return list(self._ratings)

    def add_feedback(self, trajectory: Trajectory, score: float) -> None:
        """Add a person's rating, a number in [0, 1]. When this returns it is on disk.

        Raises:
            RewardValueError: The score is not a number in [0, 1].
            OSError: It cannot be written; nothing has changed then.
        """
        if not _is_rating(score):
            raise RewardValueError(f"expected a rating in [0, 1], got {score!r:.80}")
        rating = Feedback(
            trajectory.task, trajectory.outcome[:MAX_OUTCOME_CHARACTERS], len(trajectory.steps), float(score)
        )
        with self._lock:
            if self._folder is None:
                self._ratings = [*self._ratings, rating][-self.max_examples :]
                return
            with _locked(self._folder):
                self._refresh()
                ratings = [*self._ratings, rating][-self.max_examples :]
                with atomic_file(self._folder / FILE, mode=0o600) as file:
                    file.write(json.dumps([asdict(rating) for rating in ratings], indent=1).encode())
                self._refresh()

    @property
    @override
    def function(self) -> RewardFunction:
        return self.call

    async def call(self, trajectory: Trajectory) -> RewardResult:
        """Return the model's score, or that of `task_success` while there are too few ratings.

        Raises:
            JudgeError: If the model reached no score.
        """
        examples = await anyio.to_thread.run_sync(lambda: self.examples)
        if len(examples) < self.min_examples:
            return task_success.read(task_success.judge({"trajectory": trajectory})).with_extras(
                {"learned_examples": len(examples)}
            )
        shown = examples[-MAX_EXAMPLES:]
        blocks = {
            f"example{number}": f"Task: {rating.task[: MAX_TASK_CHARACTERS // 2]}\n"
            f"Outcome: {rating.outcome[:MAX_EXAMPLE_CHARACTERS]}\nSteps: {rating.step_count}"
            for number, rating in enumerate(shown, 1)
        }
        blocks["trajectory"] = (
            f"Task: {trajectory.task[:MAX_TASK_CHARACTERS]}\n"
            f"Outcome: {trajectory.outcome[:MAX_OUTCOME_CHARACTERS]}\nSteps: {len(trajectory.steps)}"
        )
        rated = "\n".join(
            f"example{number}: {rating.human_score:g}" for number, rating in enumerate(shown, 1)
        )
        instructions = (
            "People rated the trajectories in the blocks named example, from 0.0 (failed) to 1.0 (perfect). "
            f"Their ratings:\n{rated}\n"
            "Rate the one in the block named trajectory as they would. The score is a number from 0.0 to 1.0."
        )
        result = await score_blocks(instructions, blocks, self._model, self._options)
        return result.with_extras({"learned_examples": len(examples)})

    def _refresh(self) -> None:
        if self._folder is None:
            return
        try:
            state = (self._folder / FILE).stat()
        except FileNotFoundError:
            return
        seen = (state.st_ino, state.st_mtime_ns, state.st_size)
        if seen != self._seen:
            self._ratings = _read(self._folder / FILE)[-self.max_examples :]
            self._seen = seen


def _is_rating(score: object) -> bool:
    return isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 1


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{FILE}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> list[Feedback]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        ratings = [_feedback(row) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise RewardDefinitionError(
            f"{path} holds no ratings ({error}); move it away to start without ratings"
        ) from error
    return ratings


def _feedback(row: dict[str, Any]) -> Feedback:
    rating = Feedback(
        str(row["task"]), str(row["outcome"]), int(row["step_count"]), float(row["human_score"])
    )
    if not _is_rating(rating.human_score):
        raise ValueError(f"a rating of {rating.human_score}")
    return rating
