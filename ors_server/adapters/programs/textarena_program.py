"""Plays TextArena's games of one player, one after another, in a separate process.

It is imported by its path, in the Python that has textarena. Games draw from the process's random numbers, so
that a process plays one game at a time. Nothing is downloaded: words must be on the disk.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

from __future__ import annotations

import contextlib
import io
import random
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import nltk

nltk.download = lambda *_, **__: False  # games call it when they are imported

import textarena  # noqa: E402  (after the line above)

STEP_SECONDS = 10.0
"""Seconds of processor that a step may take; then the action has broken the game."""
_MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class TextArenaGame:
    """One game at a time."""

    def __init__(self, game: str) -> None:
        """Load a game by its id; its observations are taken without wrappers."""
        self._game = game
        self._env: Any = None
        self._env = self._open()

    def reset(self) -> None:
        """Do nothing between two sessions: `begin` creates everything from scratch."""

    def count_turns(self) -> int | None:
        """Return the greatest number of turns; `None` if the game states none."""
        limit = getattr(self._env, "max_turns", None)
        return limit if isinstance(limit, int) else None

    def begin(self, seed: int, actions: list[str] | None = None) -> str:
        """Start a game from its beginning, repeat earlier actions, and return the view."""
        random.seed(seed)
        with contextlib.suppress(ImportError):
            import numpy as np  # noqa: PLC0415  (Sokoban's)

            np.random.seed(seed % 2**32)  # noqa: NPY002  (the one that it uses)
        self._env = self._open()
        # Games print; the worker's output is the channel to the server.
        with _quiet():
            self._env.reset(num_players=1, seed=seed)
        seen = self._look()
        for action in actions or []:
            self.step(action)
        return seen

    def step(self, action: str) -> dict[str, Any]:
        """Take an action; return the view, whether the game is over, the reward, and any breakage."""
        try:
            with _quiet(), _time_limit():
                is_over, _ = self._env.step(action)
            text = self._look()
        except Exception as error:  # noqa: BLE001  (any that the game raises)
            return {
                "text": "",
                "is_over": True,
                "reward": None,
                "broke": f"{type(error).__name__}: {error}"[:500],
            }
        if not is_over:
            return {"text": text, "is_over": False, "reward": None, "broke": ""}
        rewards, info = self._env.close()
        reward: Any = (rewards or {}).get(0)
        reason = str(info[0].get("reason") or "")
        is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
        # An action that the game's own code cannot read gives no number: the adapter decides what it earns.
        return {
            "text": "\n".join(filter(None, [text, reason])),
            "is_over": True,
            "reward": float(reward) if is_number else None,
            "broke": "" if is_number else f"the game gave {reward!r:.200} for a reward",
        }

    def find_starts(self, seeds: int, count: int) -> list[int]:
        """Return the first seed of each game that begins differently, at most `count`, of so many seeds."""
        first: dict[str, int] = {}
        for seed in range(seeds):
            first.setdefault(self.begin(seed), seed)
            if len(first) == count:
                break
        return list(first.values())

    def make_plans(self, first: int, count: int) -> list[list[str] | None]:
        """Return, for seeds, the actions that win, read from the game's state; `None` without a plan."""
        find = _PLANS.get(self._game.partition("-")[0])
        if find is None:
            return [None] * count
        plans = []
        for seed in range(first, first + count):
            self.begin(seed)
            plans.append(find(self._env))
        return plans

    def _open(self) -> Any:
        with _quiet():
            env = textarena.make(f"{self._game}-raw")
        # Wrappers rewrite observations for models of the package's own; the raw ones are enough.
        while isinstance(env, textarena.Wrapper):
            env = env.env
        return env

    def _look(self) -> str:
        """Return what the player has not seen yet, without its own words."""
        # An agent knows its own words; they would be repeated in each view.
        _, messages = self._env.get_observation()
        texts = [text for _, text, kind in messages if kind is not textarena.ObservationType.PLAYER_ACTION]
        return "\n".join(str(text).strip("\n") for text in texts)


@contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"the step took more than {STEP_SECONDS:g} seconds")

    # Processor time and not wall time, so that a busy machine breaks no game.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, STEP_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _plan_word(env: Any) -> list[str]:
    state = env.state.game_state
    return [f"[{state.get('secret_word') or ''.join(state['target_letters'])}]"]


def _plan_towers(env: Any) -> list[str]:
    def move(count: int, source: str, target: str, spare: str) -> list[str]:
        if not count:
            return []
        before, after = move(count - 1, source, spare, target), move(count - 1, spare, target, source)
        return [*before, f"[{source} {target}]", *after]

    return move(env.num_disks, "A", "C", "B")


def _plan_sudoku(env: Any) -> list[str]:
    return [
        f"[{row + 1} {column + 1} {env.full_grid[row][column]}]"
        for row, line in enumerate(env.state.game_state["board"])
        for column, number in enumerate(line)
        if not number
    ]


def _plan_lake(env: Any) -> list[str] | None:
    """Return the shortest way round the holes."""
    state = env.state.game_state
    grid, start, goal = state["grid"], tuple(state["player_pos"]), tuple(state["goal_pos"])
    ways: dict[tuple[int, ...], list[str]] = {start: []}
    open_cells = deque([start])
    while open_cells:
        cell = open_cells.popleft()
        if cell == goal:
            return ways[cell]
        for name, (down, right) in _MOVES.items():
            row, column = cell[0] + down, cell[1] + right
            inside = 0 <= row < len(grid) and 0 <= column < len(grid[0])
            if inside and grid[row][column] != "H" and (row, column) not in ways:
                ways[row, column] = [*ways[cell], f"[{name}]"]
                open_cells.append((row, column))
    return None


def _plan_crossword(env: Any) -> list[str]:
    state = env.state.game_state
    cells = [
        f"[{row} {column} {state['solution'][row][column]}]"
        for row, line in enumerate(state["board"])
        for column, letter in enumerate(line)
        if letter == "_"
    ]
    return [" ".join(cells)]


def _plan_secretary(env: Any) -> list[str]:
    draws = env.state.game_state["draws"]
    return [*["[continue]"] * draws.index(max(draws)), "[accept]"]


_PLANS: dict[str, Callable[[Any], list[str] | None]] = {
    "Crosswords": _plan_crossword,
    "FrozenLake": _plan_lake,
    "GuessTheNumber": lambda env: [f"[{env.game_number}]"],
    "Hangman": _plan_word,
    "Mastermind": lambda env: [f"[{' '.join(map(str, env.state.game_state['secret_code']))}]"],
    "Secretary": _plan_secretary,
    "Sudoku": _plan_sudoku,
    "TowerOfHanoi": _plan_towers,
    "Wordle": _plan_word,
}
"""Games whose state holds what wins, by the first part of their ids."""
