"""One game of ScienceWorld: a separate JVM, driven by the three Java calls that a step needs."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ors_server import install_hint
from ors_server.resources import JvmChild, MissingRequirementError, find_java
from ors_server_tasks.scienceworld.catalogue import check_variation

REWARD_QUERY = "get_reward"
"""The word with which AgentFly's tools and rewards ask `step` for the score."""
_START_TIMEOUT = 240.0
"""Seconds that a JVM may take to start, and to load a task, for which it loads most of its classes."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the game answers."""

    observation: str
    score: float
    """In [-1, 1]: the part of the task that is done, or -1 if it has failed."""
    is_over: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """How a task begins."""

    task: str
    """Its description for the agent."""
    look: str
    """What is seen first."""
    forms: tuple[str, ...]
    """The forms of actions, in which OBJ is an object and LOC a place."""


def find_package() -> Path:
    """Return the folder of the package scienceworld.

    Raises:
        MissingRequirementError: Java or the package is missing; the message has the command that installs it.
    """
    find_java()
    _find_installed("py4j")
    return _find_installed("scienceworld")


def _find_installed(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingRequirementError(f"{package} not installed: run {install_hint('scienceworld')}")
    return Path(spec.origin).parent


class ScienceWorldGame:
    """A game, which plays one task after another. One call at a time; `close` at any time.

    `step` answers tools and rewards that were written for AgentFly; `act` is what an agent may do.
    """

    def __init__(
        self, simplifications: str = "easy", heap_mib: int = 128, call_timeout: float = 60.0
    ) -> None:
        """Start a JVM.

        Args:
            simplifications: ScienceWorld's, separated by commas.
            heap_mib: Most mebibytes of the JVM's heap.
            call_timeout: Seconds that an action may take before the JVM is killed.
        """
        folder = find_package()
        self._simplifications = simplifications
        self._jvm = JvmChild(
            [folder / "scienceworld.jar"],
            folder=folder,  # it reads a table there
            heap_mib=heap_mib,
            start_timeout=_START_TIMEOUT,
            call_timeout=call_timeout,
        )
        try:
            self._world: Any = self._jvm.call(self._create_world, time_limit=_START_TIMEOUT)
        except BaseException:
            self._jvm.close()
            raise
        self._last: Turn | None = None
        self._best = 0.0

    @property
    def pid(self) -> int:
        """The process id of the JVM."""
        return self._jvm.pid

    def reset(self, task_name: str | None = None, variation_idx: int = 0) -> Opening | None:
        """Load a variation of a task; without one, forget the task and find out whether the JVM answers.

        Raises:
            ValueError: It does not exist.
        """
        self._last, self._best = None, 0.0
        if task_name is None:
            self._jvm.call(self._world.getScore)
            return None
        check_variation(task_name, variation_idx)
        return self._jvm.call(  # type: ignore[no-any-return]
            self._load, task_name, variation_idx, time_limit=_START_TIMEOUT
        )

    def act(self, action: str) -> Turn:
        """Play an action. After the end of the task nothing happens any more."""
        last = self._turn()
        if last.is_over:
            return Turn("The task is over.", last.score, is_over=True)
        return self._note(self._jvm.call(self._play, action))

    def step(self, action: str) -> dict[str, Any]:
        """Play an action, or answer `get_reward`; the reward is the best score so far."""
        if action == REWARD_QUERY:
            observation = "Task completed" if self._best >= 1 else "Task not completed"
            return {"observation": observation, "reward": self._best}
        turn = self.act(action)
        return {"observation": turn.observation, "reward": self._best, "done": turn.is_over}

    def list_valid_actions(self) -> list[str]:
        """Return the actions that the game finds valid now, sorted; it may find others the next time."""
        self._turn()
        return sorted(set(self._jvm.call(lambda: list(self._world.getValidActionObjectCombinations()))))

    def record_gold(self, task_name: str, variation_idx: int) -> list[str]:
        """Return the game's own solution of a variation, which needs a heap of 3 GiB for some tasks."""
        check_variation(task_name, variation_idx)
        return self._jvm.call(self._solve, task_name, variation_idx)  # type: ignore[no-any-return]

    def is_healthy(self) -> bool:
        """Return whether the JVM runs."""
        return self._jvm.is_alive()

    def memory_used(self) -> int | None:
        """Return the JVM's resident bytes."""
        return self._jvm.memory_used()

    def close(self) -> None:
        """Kill the JVM, which frees a call that hangs."""
        self._jvm.close()

    def _turn(self) -> Turn:
        if self._last is None:
            raise RuntimeError("no task is loaded: call reset(task_name, variation_idx) first")
        return self._last

    def _note(self, turn: Turn) -> Turn:
        self._last, self._best = turn, max(self._best, turn.score)
        return turn

    def _create_world(self) -> Any:
        return self._jvm.classes.scienceworld.runtime.pythonapi.PythonInterface()

    def _load(self, task_name: str, variation_idx: int) -> Opening:
        self._world.load(task_name, variation_idx, self._simplifications, False)  # noqa: FBT003  (no gold path)
        look = self._note(self._play("look around")).observation
        return Opening(self._world.getTaskDescription(), look, tuple(self._world.getPossibleActions()))

    def _play(self, action: str) -> Turn:
        observation = self._world.step(action)
        return Turn(observation.strip(), self._world.getScore(), is_over=self._world.getCompleted())

    def _solve(self, task_name: str, variation_idx: int) -> list[str]:
        self._world.load(task_name, variation_idx, self._simplifications, True)  # noqa: FBT003  (with one)
        return list(self._world.getGoldActionSequence())
