"""Plays one ALFWorld game after another, in a separate process.

It is imported by its path, in the Python that has alfworld, which need not have ors_server: it imports only
the standard library and alfworld with its dependencies.
"""

# pyright: basic, reportMissingImports=false
# The packages are in another virtual environment.

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

MEMO_GAMES = 8
"""Games whose translation is kept; one takes about 1 MiB."""
MEMO_SENTENCES = 256
"""Forms of commands and answers whose syntax is kept."""
GOAL_SIGN = "Your task is to: "
NOTHING = "Nothing happens."


class DataChangedError(Exception):
    """A file of the data folder is not the one that the server has listed."""


class AlfworldGame:
    """One game at a time. Its methods and their results are those of AgentFly's `ALFWorldEnv`, as JSON."""

    def __init__(self) -> None:
        """Load TextWorld and its planner's library, once for all games."""
        os.environ.setdefault("ALFWORLD_DATA", str(Path(__file__).parent))  # or alfworld makes a folder
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
        from textworld.envs import PddlEnv

        remember_translations(MEMO_GAMES)
        infos = textworld.EnvInfos(admissible_commands=True, won=True)
        self._env = AlfredDemangler(PddlEnv(infos), shuffle=False)
        self._domain = Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8")
        self._grammar = Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8")
        self._task_type = ""
        self._goal = ""
        self._observation = ""
        self._state: Any = None

    def reset(self, game: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start a game, or the present one again; return its first observation and `info`.

        Args:
            game: `task_type`, and either `problem` and `sentence`, which are played with the package's own
                domain and grammar, or `folder` and `digest`.

        Raises:
            DataChangedError: The files in the folder do not have the digest.
            ValueError: The game cannot be read.
        """
        if game is not None:
            self._state = None
            self._load(game)
        elif self._state is None:
            return "", {}
        state = self._env.reset()
        self._state, self._observation = state, str(state.feedback)
        self._goal = self._observation.partition(GOAL_SIGN)[2].strip()
        return self._observation, self.get_info()

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        """Play a command; return the observation, the reward (1 if the task is done), `done` and `info`.

        An empty command, and any command after the end, changes nothing.
        """
        state = self._playing()
        observation = NOTHING
        if action.strip() and not state["won"]:
            self._state, _, _ = self._env.step(action)
            state = self._playing()
            observation = str(state.feedback)
        self._observation = observation
        return observation, float(state["won"]), bool(state["won"]), self.get_info()

    def play(self, actions: list[str]) -> None:
        """Play commands in order without their results."""
        for action in actions:
            self.step(action)

    def get_admissible_commands(self) -> list[str]:
        """Return the commands that do something now, sorted."""
        return [str(command) for command in self._playing()["admissible_commands"]]

    def get_info(self) -> dict[str, Any]:
        """Return what is known in addition to the observation."""
        state = self._playing()
        won = bool(state["won"])
        return {
            "admissible_commands": self.get_admissible_commands(),
            "won": won,
            "lost": bool(state["lost"]),
            "goal": self._goal,
            "task_type": self._task_type,
            "reward": float(won),
        }

    def is_healthy(self) -> bool:
        """Return whether it answers, as it does unless the process hangs."""
        return True

    def _playing(self) -> Any:
        if self._state is None:
            raise ValueError("no game is being played: call reset(game) first")
        return self._state

    def _load(self, game: Mapping[str, Any]) -> None:
        self._task_type = str(game["task_type"])
        try:
            self._env.load(self._read(game) if "folder" in game else self._compose(game))
        except DataChangedError:
            raise
        except (Exception, SystemExit) as error:  # the translator exits on a text that it cannot read
            raise ValueError(f"the game {game.get('id', '')} cannot be read: {error!r}") from error

    def _compose(self, game: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "pddl_domain": self._domain,
            "grammar": self._grammar.replace("UNKNOWN GOAL", game["sentence"]),
            "pddl_problem": game["problem"],
        }

    def _read(self, game: Mapping[str, Any]) -> dict[str, Any]:
        folder = Path(game["folder"])
        try:
            parts = [(folder / name).read_bytes() for name in ("traj_data.json", "game.tw-pddl")]
        except OSError as error:
            raise DataChangedError(f"{error}; it was there when the server started") from error
        if (
            hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
            != game["digest"]
        ):
            raise DataChangedError(
                f"the files in {folder} have changed since the server listed them; start the server again, "
                "which gives the environment another version"
            )
        return dict(json.loads(parts[1]))


def remember_translations(games: int) -> None:
    """Keep what Fast Downward's translator and TextWorld's parsers made of the latest texts.

    A game is translated four times otherwise: when it is loaded and when it is reset, once for play and once
    for planning, which is not needed here; and the form of each admissible command is parsed at every step.
    Games play as they do without.
    """
    import fast_downward
    from textworld.envs.pddl import logic, textgen

    translate = lru_cache(games)(fast_downward.pddl2sas)
    parse_sentence = lru_cache(MEMO_SENTENCES)(textgen._parse_and_convert)

    def pddl2sas(domain: str, problem: str, **options: Any) -> Any:
        del options  # `optimize` prepares planning
        return translate(domain, problem)

    def symbols(*args: Any, **kwargs: Any) -> Any:
        return deepcopy(parse_sentence(*args, **kwargs))  # its caller changes them

    fast_downward.pddl2sas = pddl2sas
    logic._parse_and_convert = lru_cache(games)(logic._parse_and_convert)
    textgen._parse_and_convert = symbols
