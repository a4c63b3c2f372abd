"""The environment: a household task in text, played step by step in a worker process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from typing_extensions import override

from ors_server import (
    ALFWorldSpec,
    EpisodePolicy,
    IndexedTasks,
    JSONObject,
    ResourceSpec,
    Split,
    ToolError,
    ToolOutput,
    alfworld_episode_reward,
    tool,
)
from ors_server_tasks.alfworld.catalogue import Game, open_catalogue
from ors_server_tasks.alfworld.installation import find_interpreter

SPLIT_TYPES: Mapping[str, Literal["train", "validation", "test"]] = {
    "train": "train",
    "valid_seen": "validation",
    "valid_unseen": "test",
}
STEP_LIMIT = 50
"""Calls of an episode: as many as ALFWorld's own configuration allows commands."""
ACTION_LENGTH = 200
"""Longest command, in characters."""
CALL_LIMIT = 60.0
"""Seconds that the game may take for one call before its process is killed."""
MEMORY_LIMIT = 512 << 20
"""Bytes of a process above which it is replaced before the next episode."""
_GAME = f"{Path(__file__).with_name('game.py')}:AlfworldGame"
_HELP = """\
You act in a household with alfworld_step, one command at a time, such as "go to fridge 1", "open fridge 1", \
"take apple 1 from fridge 1", "move apple 1 to countertop 1", "heat apple 1 with microwave 1", \
"use desklamp 1", "look" or "inventory". The answer to a command that is not possible now is "Nothing \
happens."; alfworld_get_admissible_commands lists the commands that are possible."""


class AlfworldTasks(IndexedTasks):
    """Household tasks of six types in text (ALFWorld); the reward is 1 when the task is done.

    ALFWORLD_DATA names the folder of the games; without it, invented ones are played.
    """

    name = "alfworld"
    version: ClassVar[str] = "0"
    """`list_splits` sets it: the edition of the environment and, for a data folder, a digest of its files."""
    policy = EpisodePolicy(step_limit=STEP_LIMIT, reward_range=(0.0, 1.0))
    return_range = (0.0, 1.0)
    reward = alfworld_episode_reward

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Find the game.

        Raises:
            ValueError: The task is not one of this environment's.
        """
        super().__init__(task_spec, secrets)
        self._game = _find_game(task_spec)
        self._actions: list[str] = []
        self._beginning = ""
        self._worker: Any = None

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        find_interpreter()
        catalogue = open_catalogue()
        cls.version = catalogue.version
        return [Split(name=name, type=SPLIT_TYPES[name]) for name in catalogue.splits]

    @override
    @classmethod
    def num_tasks(cls, split: str) -> int:
        return len(open_catalogue().games[split])

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        return _describe(open_catalogue().games[split][index], index)

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that earn the greatest return of the task."""
        return [("alfworld_step", {"action": action}) for action in _find_game(task_spec).find_walkthrough()]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
        del task_spec  # looking around is possible everywhere
        return [("alfworld_step", {"action": "look"})]

    @override
    async def setup(self) -> None:
        await self._begin()

    @override
    def get_prompt(self) -> str:
        return f"{self._beginning}\n\n{_HELP}"

    @override
    def save_state(self) -> JSONObject:
        return {"actions": list(self._actions)}

    @override
    async def load_state(self, state: JSONObject) -> None:
        await self._begin()
        self._actions = list(state["actions"])
        await self._worker.play(self._actions)

    @tool
    async def alfworld_step(self, action: str) -> ToolOutput:
        """Take an action in the household and return what is observed.

        Args:
            action: One command, such as "go to fridge 1"; at most 200 characters.
        """
        if len(action) > ACTION_LENGTH:
            raise ToolError(
                f"The action has {len(action):,} characters; at most {ACTION_LENGTH} are allowed."
            )
        observation, reward, done, info = await self._worker.step(action)
        self._actions.append(action)
        if done:
            return ToolOutput.final(observation, reward=None, metadata=info)  # the class's reward grades it
        return ToolOutput.ongoing(observation, reward=reward, metadata=info)

    @tool
    async def alfworld_reset(self) -> ToolOutput:
        """Start the task again from its beginning. Calls that were made so far still count."""
        await self._begin()
        return ToolOutput.ongoing(self._beginning)

    @tool
    async def alfworld_get_admissible_commands(self) -> ToolOutput:
        """List the commands that are possible now, one a line."""
        return ToolOutput.ongoing("\n".join(await self._worker.get_admissible_commands()))

    @tool
    async def alfworld_get_task_objective(self) -> ToolOutput:
        """Return the task and its type."""
        info = await self._worker.get_info()
        return ToolOutput.ongoing(f"Task: {info['goal']}\nTask Type: {info['task_type']}")

    async def _begin(self) -> None:
        """Start the game from its beginning, in the session's worker."""
        if self._worker is None:
            self.context.bind_resource(ALFWorldSpec, _worker_spec())
            self._worker = await self.context.acquire_resource(spec=ALFWorldSpec, scope="global")
        self._beginning, _ = await self._worker.reset(dict(self._game.played))
        self._actions = []


def _worker_spec() -> ResourceSpec:
    return ALFWorldSpec.worker(
        _GAME,
        interpreter=find_interpreter(),
        variables={"PYTHONHASHSEED": "0"},  # by which sets of facts are ordered in texts
        call_timeout=CALL_LIMIT,
        memory_limit=MEMORY_LIMIT,
    )


def _describe(game: Game, index: int) -> JSONObject:
    return {
        "id": f"alfworld/{game.split}/{game.folder}",
        "split": game.split,
        "index": index,
        "task_id": game.task_id,
        "task_type": game.task_type,
        "digest": game.digest,
    }


def _find_game(task_spec: JSONObject) -> Game:
    catalogue = open_catalogue()
    match task_spec:
        case {"split": str(split), "index": int(index), "digest": str(digest)}:
            games = catalogue.games.get(split, ())
            if 0 <= index < len(games) and games[index].digest == digest:
                return games[index]
        case _:
            pass
    raise ValueError(
        f"a task of alfworld has a split (one of {', '.join(catalogue.splits)}), the index of one of its "
        "games, and the digest of the game at that index; use get_task"
    )
