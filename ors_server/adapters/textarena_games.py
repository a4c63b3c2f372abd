"""TextArena's games of one player: a task is a seed, a call of the tool `act` is a turn.

Each session has a worker process while it lives: the games share the process's random numbers.
"""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, cast

from typing_extensions import override

from ors_server.adapters.numbered_tasks import SeededTasks, SplitSizes, share_tasks
from ors_server.adapters.worker_package import WorkerPackage
from ors_server.environments.environment import Environment
from ors_server.environments.sources import Source, served_name
from ors_server.environments.tool import ToolError, tool
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import JSONObject, ToolOutput

EDITION = "2"
"""Changes whenever the same game gives other texts or rewards than before."""
MAX_TURNS = 1000
"""Turns of a game that states no limit."""
MAX_LETTERS = 4000
"""Longest action, in characters."""
MAX_WORKERS = 48
CALL_SECONDS = 120.0
"""Wall seconds that a call of the worker may take; a step's own limit is of processor time."""
_PLANNED_AT_ONCE = 20

PACKAGE = WorkerPackage(
    distribution="textarena",
    version="0.7.4",
    variable="ORS_TEXTARENA_PYTHON",
    program="textarena_program.py:TextArenaGame",
)
_NAMES = """
    2048-v0 2048-v0-10x10 2048-v0-3x3 2048-v0-5x5 2048-v0-6x6 2048-v0-8x8 2048-v0-easy 2048-v0-extreme
    2048-v0-hard 2048-v0-mega-easy 2048-v0-super-easy 2048-v0-ultra-easy 2048-v0-very-easy 2048-v0-very-hard
    Bandit-v0 Bandit-v0-hard Blackjack-v0 Blackjack-v0-long Countdown-v0 Crosswords-v0 Crosswords-v0-hardcore
    Cryptarithm-v0 FifteenPuzzle-v0 FrozenLake-v0 FrozenLake-v0-hardcore FrozenLake-v0-random
    GuessTheNumber-v0 GuessTheNumber-v0-hardcore Hangman-v0 Hangman-v0-hardcore LightsOut-v0 LogicPuzzle-v0
    LogicPuzzle-v0-hard Mastermind-v0 Mastermind-v0-extreme Mastermind-v0-hard Minesweeper-v0
    Minesweeper-v0-hard Minesweeper-v0-medium Minesweeper-v0-small PegJump-v0 RushHour-v0 Secretary-v0
    Secretary-v0-long Set-v0 Slitherlink-v0 Sokoban-v0 Sokoban-v0-medium Sudoku-v0 Sudoku-v0-easy
    Sudoku-v0-hard Sudoku-v0-medium Sudoku-v0-very-easy ThreeCardMonte-v0 TowerOfHanoi-v0
    TowerOfHanoi-v0-extreme TowerOfHanoi-v0-hard TowerOfHanoi-v0-hardcore TowerOfHanoi-v0-medium
    WordLadder-v0 WordLadder-v0-hard WordLadder-v0-medium WordSearch-v0 WordSearch-v0-hardcore Wordle-v0
    Wordle-v0-hardcore Wordle-v0-long Wordle-v0-long-hardcore
"""
GAMES = tuple(_NAMES.split())
"""Games of one player that need neither a network nor a model."""
WORD_GAMES = ("Hangman", "WordLadder", "WordSearch", "Wordle")
"""First parts of the ids of games that read words of nltk's data."""
_TEXT = "an invalid move earns a text, not a number"
BROKEN = MappingProxyType(
    {
        "Countdown-v0": _TEXT,
        "Cryptarithm-v0": _TEXT,
        "PegJump-v0": "giving up at once earns 0.07",
        "RushHour-v0": "giving up at once earns up to 0.25",
        "Slitherlink-v0": _TEXT,
        "Sudoku-v0-hard": "making one puzzle may take a minute",
        "ThreeCardMonte-v0": _TEXT,
    }
)
"""Games of textarena 0.7.4 that cannot be trusted or played at once, with the reason."""
_PUNISHING = ("Bandit", "Secretary")
"""First parts of the ids of games in which an invalid move loses 1."""
HIDING = (
    "2048",
    "Bandit",
    "Blackjack",
    "GuessTheNumber",
    "Hangman",
    "Mastermind",
    "Minesweeper",
    "Secretary",
    "ThreeCardMonte",
    "Wordle",
)
"""First parts of the ids of games that hide something, or draw something later: equal views, other games."""
REPEATING = ("Cryptarithm", "FrozenLake", "PegJump", "TowerOfHanoi")
"""First parts of the ids of games that show everything and often begin alike, which are one task then."""


@dataclass(frozen=True)
class ArenaSettings(SplitSizes):
    """A game and its splits."""

    game: str
    train_tasks: int = 1000
    test_tasks: int = 100

    @property
    def rewards(self) -> tuple[float, float]:
        """Lowest and highest reward."""
        return (-1.0 if self.game.startswith(_PUNISHING) else 0.0, 1.0)

    def list_seeds(self) -> Sequence[int]:
        """Return the seeds of the tasks, those of `train` first; fewer than requested if there are no more.

        Games that show everything and begin alike are one task. Twice as many seeds as tasks are tried.
        """
        total = self.train_tasks + self.test_tasks
        if not self.game.startswith(REPEATING):
            return range(total)
        return cast("Sequence[int]", PACKAGE.call({"game": self.game}, "find_starts", 2 * total, total))


class TextArenaEnvironment(SeededTasks):
    """Base of the classes that `from_textarena` makes."""

    _settings: ClassVar[ArenaSettings]
    _worker: Any = None
    _view = ""

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]] | None:
        """Return the turns that win, if the game's state contains them."""
        block, offset = divmod(int(task_spec["seed"]), _PLANNED_AT_ONCE)
        plan = _plans(cls._settings.game, block)[offset]
        return None if plan is None else [("act", {"action": action}) for action in plan]

    @override
    async def setup(self) -> None:
        await self._begin([])

    @override
    def get_prompt(self) -> str:
        return f"{self._view}\n\nTake a turn with the tool `act`, in the form that the rules ask for."

    @override
    def save_state(self) -> JSONObject:
        return {"actions": list(self._played)}

    @override
    async def load_state(self, state: JSONObject) -> None:
        await self._begin(state["actions"])

    @tool
    async def act(self, action: str) -> ToolOutput:
        """Take a turn.

        Args:
            action: The turn, as the rules ask for it, such as `[up]`.
        """
        if len(action) > MAX_LETTERS:
            raise ToolError(f"the action has {len(action):,} characters; at most {MAX_LETTERS:,} are played")
        turn = await self._worker.step(action)
        self._played.append(action)
        if not turn["is_over"]:
            return ToolOutput.ongoing(turn["text"])
        reward = turn["reward"]
        if turn["broke"]:
            # An action that breaks the game must not earn more than losing, or breaking it would be a way
            # out.
            return ToolOutput.final(
                "The game is over: it could not read this action.",
                reward=self._settings.rewards[0],
                metadata={"broke_the_game": turn["broke"]},
            )
        return ToolOutput.final(f"{turn['text']}\nThe game is over.".lstrip("\n"), reward=reward)

    async def _begin(self, actions: Sequence[str]) -> None:
        """Start the game in the session's worker, and repeat earlier turns."""
        if self._worker is None:
            spec = PACKAGE.spec(
                {"game": self._settings.game}, call_timeout=CALL_SECONDS, max_global_num=MAX_WORKERS
            )
            self._worker = await self.context.acquire_resource(spec=spec, scope="global")
        self._view = await self._worker.begin(int(self.task_spec["seed"]), list(actions))
        self._played: list[str] = list(actions)


def from_textarena(game: str, *, train_tasks: int = 1000, test_tasks: int = 100) -> type[Environment]:
    """Make an environment of a game of TextArena for one player; its tool is `act(action)`.

    A task is a seed: those of `train` come first, those of `test` after them. A game that shows everything
    has as many tasks as begin differently. The last turn pays the game's reward. An action that makes the
    game's own code raise ends the episode with the game's least reward.

    Args:
        game: An id such as `GuessTheNumber-v0`; one that is listed as broken is made, too.
        train_tasks: Number of tasks of the split `train`.
        test_tasks: Number of tasks of the split `test`.

    Raises:
        UnknownEnvironmentError: If it is not a game of one player that can be played offline.
        EnvironmentDefinitionError: If textarena is not installed in the right version, or the game's words
            are not on the disk.
    """
    SOURCE.check_name(game)
    SOURCE.check_installed()
    return _make_class(ArenaSettings(game, train_tasks, test_tasks))


def _make_class(settings: ArenaSettings) -> type[Environment]:
    game, label = settings.game, f"textarena/{settings.game}"
    settings.check_sizes(label)
    try:
        (turns,) = PACKAGE.ask({"game": game}, "count_turns")
    except EnvironmentDefinitionError as error:
        if game.startswith(WORD_GAMES):
            first_line = next((line.strip() for line in str(error).splitlines() if line.strip(" *")), "")
            raise EnvironmentDefinitionError(
                f"{label}: the game needs nltk's words; run venv/bin/python -m nltk.downloader words "
                f"averaged_perceptron_tagger_eng, with the Python that has textarena: {first_line}"
            ) from error
        raise
    seeds = settings.list_seeds()
    train, test = share_tasks(settings, len(seeds))
    # The sizes are part of the version: they decide which seeds are tasks.
    splits = hashlib.sha256(repr(settings.sizes).encode()).hexdigest()[:8]
    return type(
        f"TextArena{''.join(part for part in game if part.isalnum())}",
        (TextArenaEnvironment,),
        {
            "__doc__": f"The game {game} of TextArena.",
            "__module__": __name__,
            "name": served_name("textarena", game),
            "version": f"{PACKAGE.version}-{EDITION}-{splits}",
            # Twice as many steps as turns: some games let a player repeat an invalid move without counting a
            # turn.
            "policy": EpisodePolicy(step_limit=2 * (turns or MAX_TURNS), reward_range=settings.rewards),
            "return_range": settings.rewards,
            "prompts_may_repeat": game.startswith(HIDING),
            "_settings": settings,
            "_split_sizes": replace(settings, train_tasks=train, test_tasks=test),
            "_seeds": seeds,
        },
    )


@functools.lru_cache(maxsize=256)
def _plans(game: str, block: int) -> Sequence[Sequence[str] | None]:
    """Return the plans of a block of seeds: a worker starts for each block."""
    first = block * _PLANNED_AT_ONCE
    plans = PACKAGE.call({"game": game}, "make_plans", first, _PLANNED_AT_ONCE)
    return cast("Sequence[Sequence[str] | None]", plans)


def _make_default(name: str) -> type[Environment]:
    return _make_class(ArenaSettings(name))


def _names() -> Sequence[str]:
    return GAMES


SOURCE = Source(
    name="textarena",
    requires=(PACKAGE.requirement,),
    licence="MIT",
    homepage="https://www.textarena.ai",
    list_names=_names,
    make=_make_default,
    broken=BROKEN,
    install=PACKAGE.install_hint,
    find_version=PACKAGE.find_version,
)
"""TextArena, for the command line."""
