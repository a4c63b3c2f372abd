"""Games of gymnasium: a task is a seed, a call of the tool `act` is a step.

Four parts, in this order: the names of the games that are offered (discrete actions, and a view that is
text), plans (the actions that earn the most, found with knowledge of the game's random
numbers), views (rules, names of actions and the board as text), and the environment itself.
"""

import functools
import json
import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from typing_extensions import override

from ors_server.adapters.numbered_tasks import SeededTasks, SplitSizes, share_tasks
from ors_server.environments.boundary import describe
from ors_server.environments.environment import Environment
from ors_server.environments.sources import Source, served_name
from ors_server.environments.tool import tool
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import JSONObject, ToolOutput

TOY_TEXT = (
    "Blackjack-v1",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "Taxi-v4",
)
_MINIGRID = """
    MiniGrid-BlockedUnlockPickup-v0 MiniGrid-LavaCrossingS9N1-v0 MiniGrid-LavaCrossingS9N2-v0
    MiniGrid-LavaCrossingS9N3-v0 MiniGrid-LavaCrossingS11N5-v0 MiniGrid-SimpleCrossingS9N1-v0
    MiniGrid-SimpleCrossingS9N2-v0 MiniGrid-SimpleCrossingS9N3-v0 MiniGrid-SimpleCrossingS11N5-v0
    MiniGrid-DistShift1-v0 MiniGrid-DistShift2-v0 MiniGrid-DoorKey-5x5-v0 MiniGrid-DoorKey-6x6-v0
    MiniGrid-DoorKey-8x8-v0 MiniGrid-DoorKey-16x16-v0 MiniGrid-Dynamic-Obstacles-5x5-v0
    MiniGrid-Dynamic-Obstacles-Random-5x5-v0 MiniGrid-Dynamic-Obstacles-6x6-v0
    MiniGrid-Dynamic-Obstacles-Random-6x6-v0 MiniGrid-Dynamic-Obstacles-8x8-v0
    MiniGrid-Dynamic-Obstacles-16x16-v0 MiniGrid-Empty-5x5-v0 MiniGrid-Empty-Random-5x5-v0
    MiniGrid-Empty-6x6-v0 MiniGrid-Empty-Random-6x6-v0 MiniGrid-Empty-8x8-v0 MiniGrid-Empty-16x16-v0
    MiniGrid-Fetch-5x5-N2-v0 MiniGrid-Fetch-6x6-N2-v0 MiniGrid-Fetch-8x8-N3-v0 MiniGrid-FourRooms-v0
    MiniGrid-GoToDoor-5x5-v0 MiniGrid-GoToDoor-6x6-v0 MiniGrid-GoToDoor-8x8-v0
    MiniGrid-GoToObject-6x6-N2-v0 MiniGrid-GoToObject-8x8-N2-v0 MiniGrid-KeyCorridorS3R1-v0
    MiniGrid-KeyCorridorS3R2-v0 MiniGrid-KeyCorridorS3R3-v0 MiniGrid-KeyCorridorS4R3-v0
    MiniGrid-KeyCorridorS5R3-v0 MiniGrid-KeyCorridorS6R3-v0 MiniGrid-LavaGapS5-v0 MiniGrid-LavaGapS6-v0
    MiniGrid-LavaGapS7-v0 MiniGrid-LockedRoom-v0 MiniGrid-MemoryS17Random-v0 MiniGrid-MemoryS13Random-v0
    MiniGrid-MemoryS13-v0 MiniGrid-MemoryS11-v0 MiniGrid-MemoryS9-v0 MiniGrid-MemoryS7-v0
    MiniGrid-MultiRoom-N2-S4-v0 MiniGrid-MultiRoom-N4-S5-v0 MiniGrid-MultiRoom-N4-S5-v1
    MiniGrid-MultiRoom-N6-v0 MiniGrid-ObstructedMaze-1Dl-v0 MiniGrid-ObstructedMaze-1Dlh-v0
    MiniGrid-ObstructedMaze-1Dlhb-v0 MiniGrid-ObstructedMaze-2Dl-v0 MiniGrid-ObstructedMaze-2Dlh-v0
    MiniGrid-ObstructedMaze-2Dlhb-v0 MiniGrid-ObstructedMaze-1Q-v0 MiniGrid-ObstructedMaze-2Q-v0
    MiniGrid-ObstructedMaze-Full-v0 MiniGrid-ObstructedMaze-2Dlhb-v1 MiniGrid-ObstructedMaze-1Q-v1
    MiniGrid-ObstructedMaze-2Q-v1 MiniGrid-ObstructedMaze-Full-v1 MiniGrid-Playground-v0
    MiniGrid-PutNear-6x6-N2-v0 MiniGrid-PutNear-8x8-N3-v0 MiniGrid-RedBlueDoors-6x6-v0
    MiniGrid-RedBlueDoors-8x8-v0 MiniGrid-Unlock-v0 MiniGrid-UnlockPickup-v0 MiniGrid-WFC-MazeSimple-v0
    MiniGrid-WFC-DungeonMazeScaled-v0 MiniGrid-WFC-RoomsFabric-v0 MiniGrid-WFC-ObstaclesBlackdots-v0
    MiniGrid-WFC-ObstaclesAngular-v0 MiniGrid-WFC-ObstaclesHogs3-v0 BabyAI-GoToRedBallGrey-v0
    BabyAI-GoToRedBall-v0 BabyAI-GoToRedBallNoDists-v0 BabyAI-GoToObj-v0 BabyAI-GoToObjS4-v0
    BabyAI-GoToObjS6-v1 BabyAI-GoToLocal-v0 BabyAI-GoToLocalS5N2-v0 BabyAI-GoToLocalS6N2-v0
    BabyAI-GoToLocalS6N3-v0 BabyAI-GoToLocalS6N4-v0 BabyAI-GoToLocalS7N4-v0 BabyAI-GoToLocalS7N5-v0
    BabyAI-GoToLocalS8N2-v0 BabyAI-GoToLocalS8N3-v0 BabyAI-GoToLocalS8N4-v0 BabyAI-GoToLocalS8N5-v0
    BabyAI-GoToLocalS8N6-v0 BabyAI-GoToLocalS8N7-v0 BabyAI-GoTo-v0 BabyAI-GoToOpen-v0
    BabyAI-GoToObjMaze-v0 BabyAI-GoToObjMazeOpen-v0 BabyAI-GoToObjMazeS4R2-v0 BabyAI-GoToObjMazeS4-v0
    BabyAI-GoToObjMazeS5-v0 BabyAI-GoToObjMazeS6-v0 BabyAI-GoToObjMazeS7-v0 BabyAI-GoToImpUnlock-v0
    BabyAI-GoToSeq-v0 BabyAI-GoToSeqS5R2-v0 BabyAI-GoToRedBlueBall-v0 BabyAI-GoToDoor-v0
    BabyAI-GoToObjDoor-v0 BabyAI-Open-v0 BabyAI-OpenRedDoor-v0 BabyAI-OpenDoor-v0
    BabyAI-OpenDoorDebug-v0 BabyAI-OpenDoorColor-v0 BabyAI-OpenDoorLoc-v0 BabyAI-OpenTwoDoors-v0
    BabyAI-OpenRedBlueDoors-v0 BabyAI-OpenRedBlueDoorsDebug-v0 BabyAI-OpenDoorsOrderN2-v0
    BabyAI-OpenDoorsOrderN4-v0 BabyAI-OpenDoorsOrderN2Debug-v0 BabyAI-OpenDoorsOrderN4Debug-v0
    BabyAI-Pickup-v0 BabyAI-UnblockPickup-v0 BabyAI-PickupLoc-v0 BabyAI-PickupDist-v0
    BabyAI-PickupDistDebug-v0 BabyAI-PickupAbove-v0 BabyAI-PutNextLocal-v0 BabyAI-PutNextLocalS5N3-v0
    BabyAI-PutNextLocalS6N4-v0 BabyAI-PutNextS4N1-v0 BabyAI-PutNextS5N2-v0 BabyAI-PutNextS5N1-v0
    BabyAI-PutNextS6N3-v0 BabyAI-PutNextS7N4-v0 BabyAI-PutNextS5N2Carrying-v0
    BabyAI-PutNextS6N3Carrying-v0 BabyAI-PutNextS7N4Carrying-v0 BabyAI-Unlock-v0 BabyAI-UnlockLocal-v0
    BabyAI-UnlockLocalDist-v0 BabyAI-KeyInBox-v0 BabyAI-UnlockPickup-v0 BabyAI-UnlockPickupDist-v0
    BabyAI-BlockedUnlockPickup-v0 BabyAI-UnlockToUnlock-v0 BabyAI-ActionObjDoor-v0 BabyAI-FindObjS5-v0
    BabyAI-FindObjS6-v0 BabyAI-FindObjS7-v0 BabyAI-KeyCorridor-v0 BabyAI-KeyCorridorS3R1-v0
    BabyAI-KeyCorridorS3R2-v0 BabyAI-KeyCorridorS3R3-v0 BabyAI-KeyCorridorS4R3-v0
    BabyAI-KeyCorridorS5R3-v0 BabyAI-KeyCorridorS6R3-v0 BabyAI-OneRoomS8-v0 BabyAI-OneRoomS12-v0
    BabyAI-OneRoomS16-v0 BabyAI-OneRoomS20-v0 BabyAI-MoveTwoAcrossS5N2-v0 BabyAI-MoveTwoAcrossS8N9-v0
    BabyAI-Synth-v0 BabyAI-SynthS5R2-v0 BabyAI-SynthLoc-v0 BabyAI-SynthSeq-v0 BabyAI-MiniBossLevel-v0
    BabyAI-BossLevel-v0 BabyAI-BossLevelNoUnlock-v0
"""
MINIGRID = tuple(_MINIGRID.split())
"""The grid worlds of minigrid 3.2.0, BabyAI's levels among them."""
_REPEATING = """
    CliffWalking-v1 Taxi-v4 MiniGrid-LavaCrossingS9N1-v0 MiniGrid-LavaCrossingS9N2-v0
    MiniGrid-LavaCrossingS9N3-v0 MiniGrid-LavaCrossingS11N5-v0 MiniGrid-SimpleCrossingS9N1-v0
    MiniGrid-SimpleCrossingS9N2-v0 MiniGrid-SimpleCrossingS9N3-v0 MiniGrid-SimpleCrossingS11N5-v0
    MiniGrid-DistShift1-v0 MiniGrid-DistShift2-v0 MiniGrid-DoorKey-5x5-v0 MiniGrid-DoorKey-6x6-v0
    MiniGrid-DoorKey-8x8-v0 MiniGrid-DoorKey-16x16-v0 MiniGrid-Empty-5x5-v0
    MiniGrid-Empty-Random-5x5-v0 MiniGrid-Empty-6x6-v0 MiniGrid-Empty-Random-6x6-v0
    MiniGrid-Empty-8x8-v0 MiniGrid-Empty-16x16-v0 MiniGrid-GoToDoor-5x5-v0 MiniGrid-GoToDoor-6x6-v0
    MiniGrid-KeyCorridorS3R1-v0 MiniGrid-KeyCorridorS3R2-v0 MiniGrid-LavaGapS5-v0
    MiniGrid-LavaGapS6-v0 MiniGrid-LavaGapS7-v0 MiniGrid-MemoryS17Random-v0
    MiniGrid-MemoryS13Random-v0 MiniGrid-MemoryS13-v0 MiniGrid-MemoryS11-v0 MiniGrid-MemoryS9-v0
    MiniGrid-MemoryS7-v0 MiniGrid-MultiRoom-N2-S4-v0 MiniGrid-ObstructedMaze-1Dl-v0
    MiniGrid-ObstructedMaze-1Dlh-v0 MiniGrid-ObstructedMaze-1Dlhb-v0 MiniGrid-RedBlueDoors-6x6-v0
    MiniGrid-RedBlueDoors-8x8-v0 MiniGrid-Unlock-v0 BabyAI-GoToRedBallNoDists-v0 BabyAI-GoToObj-v0
    BabyAI-GoToObjS4-v0 BabyAI-GoToObjS6-v1 BabyAI-GoToLocalS5N2-v0 BabyAI-OpenRedDoor-v0
    BabyAI-OpenTwoDoors-v0 BabyAI-OpenRedBlueDoors-v0 BabyAI-OpenRedBlueDoorsDebug-v0
    BabyAI-PutNextS4N1-v0 BabyAI-PutNextS5N1-v0 BabyAI-KeyCorridorS3R1-v0 BabyAI-KeyCorridorS3R2-v0
    BabyAI-OneRoomS8-v0 BabyAI-OneRoomS12-v0
"""
REPEATING = frozenset(_REPEATING.split())
"""Games of which some of the first 1,100 seeds begin alike, as was measured; the other games do not."""

HORIZON = 100
"""Maximum number of actions of a plan."""
EXPANSIONS = 3_000
"""Maximum number of positions of a game that are searched."""


def find_plan(env: Any) -> list[int] | None:
    """Return the actions of a game that was just reset; `None` if no plan is found that ends it well.

    A game with a table of its transitions is solved exactly: the random numbers that it will draw are drawn
    from a copy of its generator, one per step. Others are searched breadth first on copies.
    """
    game = env.unwrapped
    if hasattr(game, "P"):
        return _plan_by_table(game)
    if hasattr(game, "pprint_grid") or type(game).__name__ == "BlackjackEnv":
        return _plan_by_copies(game)
    return None


def _plan_by_table(game: Any) -> list[int] | None:
    # A copy, so that the game itself draws the same numbers when the plan is played.
    chance = deepcopy(game.np_random)
    layer: dict[int, tuple[float, list[int]]] = {int(game.s): (0.0, [])}
    best: tuple[float, list[int]] | None = None
    for _ in range(HORIZON):
        # One draw per step, the same for every state of the layer, as the game draws once per step, too.
        drawn = float(chance.random())
        following: dict[int, tuple[float, list[int]]] = {}
        for state, (earned, path) in layer.items():
            for action, outcomes in game.P[state].items():
                target, reward, is_over = _outcome(outcomes, drawn)
                reached = (earned + float(reward), [*path, int(action)])
                if not is_over:
                    if target not in following or following[target][0] < reached[0]:
                        following[target] = reached
                elif best is None or best[0] < reached[0]:
                    best = reached
        layer = following
    return None if best is None else best[1]


def _outcome(outcomes: Any, drawn: float) -> tuple[int, float, bool]:
    """Return state, reward and end for a random number, as `categorical_sample` chooses."""
    total = 0.0
    for probability, state, reward, is_over in outcomes:
        total += probability
        if total > drawn:
            return int(state), float(reward), bool(is_over)
    # Rounding may leave the sum below the draw; `argmax` of nothing then gives the first outcome.
    _, state, reward, is_over = outcomes[0]
    return int(state), float(reward), bool(is_over)


def _plan_by_copies(game: Any) -> list[int] | None:
    seen, queue = {_fingerprint(game)}, deque([(game, list[int]())])
    for _ in range(EXPANSIONS):
        if not queue:
            return None
        position, path = queue.popleft()
        for action in range(int(game.action_space.n)):
            copy = deepcopy(position)
            _, reward, terminated, truncated, _ = copy.step(action)
            if terminated or truncated:
                # A lost game is not a step of a plan; the search continues with other actions.
                if float(reward) > 0:
                    return [*path, action]
                continue
            mark = _fingerprint(copy)
            if mark not in seen and len(path) + 1 < HORIZON:
                seen.add(mark)
                queue.append((copy, [*path, action]))
    return None


def _fingerprint(game: Any) -> Any:
    if hasattr(game, "grid"):
        carried = game.carrying and (game.carrying.type, game.carrying.color)
        return tuple(game.agent_pos), game.agent_dir, carried, game.grid.encode().tobytes()
    return tuple(game.player), tuple(game.dealer)


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_DIRECTIONS = ("east", "south", "west", "north")
_PLACES = ("Red (R)", "Green (G)", "Yellow (Y)", "Blue (B)")


@dataclass(frozen=True)
class GameRules:
    """What is known about a family of games."""

    rules: str
    actions: tuple[str, ...]
    """Names in the order of the action numbers; empty: the environment names them itself."""
    rewards: tuple[float, float] | None
    """Lowest and highest reward of one step."""


_RULES = {
    "FrozenLake": GameRules(
        "Cross the frozen lake from the start S to the goal G without stepping into a hole H; F is ice. The "
        "ice may be slippery: then you move as you chose in a third of the cases, and otherwise to one of "
        "the two sides. Reaching the goal pays 1 and ends the game; a hole ends it and pays nothing.",
        ("left", "down", "right", "up"),
        (0.0, 1.0),
    ),
    "CliffWalking": GameRules(
        "Walk from the start in the lower left corner to the target T in the lower right one. You are at x. "
        "Each step costs 1; stepping onto the cliff C costs 100 and puts you back to the start.",
        ("up", "right", "down", "left"),
        (-100.0, -1.0),
    ),
    "Taxi": GameRules(
        "Drive the taxi to the passenger, pick the passenger up, drive to the destination, and drop the "
        "passenger off there. The four places are R, G, Y and B; a colon can be crossed, a bar is a wall. "
        "Each step costs 1, a wrong pickup or dropoff 10; the right dropoff pays 20 and ends the game.",
        ("south", "north", "east", "west", "pickup", "dropoff"),
        (-10.0, 20.0),
    ),
    "Blackjack": GameRules(
        "Beat the dealer: come closer to 21 than the dealer, and not above. An ace counts 11 where that is "
        "possible (a usable ace), and else 1; faces count 10. The dealer draws up to 17. Winning pays 1, "
        "losing -1, a draw 0.",
        ("stick", "hit"),
        (-1.0, 1.0),
    ),
    "MiniGrid": GameRules(
        "You are in a grid world and have a mission. The view shows the whole grid from above, two "
        "characters per cell: the object, then its colour. W wall, G goal, K key, A ball, B box, V lava, F "
        "floor, D closed door, L locked door, __ open door; you are >> (facing east), VV (south), << (west) "
        "or ^^ (north). `left` and `right` turn you; `forward` moves; `pickup`, `drop` and `toggle` act on "
        "the cell that you face. The reward comes at the end: up to 1, and the less the more steps you took.",
        (),
        (-1.0, 1.0),
    ),
}
UNKNOWN = GameRules("Play the game. Its rewards are those of the package.", (), None)


def rules_of(game: str) -> GameRules:
    """Return what is known about a game by its id."""
    # BabyAI's levels are grids of MiniGrid, with the same rules.
    family = "MiniGrid" if game.startswith("BabyAI-") else game
    return next((rules for name, rules in _RULES.items() if family.startswith(name)), UNKNOWN)


def name_actions(env: Any, game: str) -> Sequence[str]:
    """Return the names of a game's actions, in the order of their numbers."""
    named = rules_of(game).actions
    if named:
        return named
    kinds = getattr(env.unwrapped, "actions", None)
    if kinds is not None:
        return [kind.name for kind in kinds]
    return [str(number) for number in range(int(env.action_space.n))]


def view(env: Any, observation: Any) -> str:
    """Return what an agent sees of a game: the board without colours, and what they would have shown."""
    game = env.unwrapped
    if hasattr(game, "pprint_grid"):
        return _view_grid(game)
    board = env.render() if env.render_mode == "ansi" else ""
    text = _COLOURS.sub("", board or "").strip("\n")
    return "\n".join(part for part in (text, _describe(game, observation)) if part)


def _view_grid(game: Any) -> str:
    column, row = (int(number) for number in game.agent_pos)
    carried = "nothing" if game.carrying is None else f"a {game.carrying.color} {game.carrying.type}"
    return (
        f"Mission: {game.mission}\n{game.pprint_grid()}\n"
        f"You are in row {row}, column {column}, facing {_DIRECTIONS[game.agent_dir]}, and carry {carried}."
    )


def _describe(game: Any, observation: Any) -> str:
    kind = type(game).__name__
    if kind == "TaxiEnv":
        row, column, passenger, target = game.decode(int(observation))
        state = f"waits at {_PLACES[passenger]}" if passenger < len(_PLACES) else "is in the taxi"
        return (
            f"The taxi is in row {row}, column {column}. The passenger {state}, and wants to go to "
            f"{_PLACES[target]}."
        )
    if kind == "BlackjackEnv":
        total, dealer, ace = observation
        return f"Your sum is {total}, {'with a' if ace else 'without'} usable ace. The dealer shows {dealer}."
    if kind in {"FrozenLakeEnv", "CliffWalkingEnv"}:
        columns = game.ncol if kind == "FrozenLakeEnv" else game.shape[1]
        row, column = divmod(int(observation), int(columns))
        return f"You are in row {row}, column {column}."
    return f"Observation: {observation}"


PINNED = ("gymnasium==1.4.0", "minigrid==3.2.0")
EDITION = "2"
"""Changes whenever the same game and options give other texts or rewards than before."""
_SEEDS_LOOKED_AT = 10
STEP_LIMIT = 200
"""Steps of a game that has no limit itself."""
RETURNS = MappingProxyType({"CliffWalking-v1": (-100.0 * STEP_LIMIT, -13.0)})
"""Lowest and highest return, where every task has the same."""

BY_CHANCE = ("Blackjack", "CliffWalkingSlippery", "MiniGrid-Dynamic-Obstacles")
"""Games that begin alike and continue differently, with every seed."""
_CHANCES = ("is_slippery", "is_rainy", "fickle_passenger")
"""Options of games that let chance decide what a step does."""
_LAKE = "FrozenLake"

PAYING = frozenset({"natural", "reward_schedule", "sab"})
"""Options of games that change their rewards."""


@dataclass(frozen=True)
class GameSettings(SplitSizes):
    """A game, its splits, and the options of `gymnasium.make`."""

    game: str
    train_tasks: int = 1000
    test_tasks: int = 100
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def has_random_maps(self) -> bool:
        """Whether every task has its own map."""
        return self.game.startswith(_LAKE) and not {"desc", "map_name"} & set(self.options)

    @property
    def is_by_chance(self) -> bool:
        """Whether games that begin alike may continue differently."""
        chances = {"is_slippery": self.game.startswith(_LAKE), **self.options}
        return self.game.startswith(BY_CHANCE) or any(chances.get(option) for option in _CHANCES)

    def open(self, seed: int = 0) -> Any:
        """Make the game of a task, which is yet to be reset."""
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints a line when it is imported
        if self.game.startswith(("MiniGrid-", "BabyAI-")):
            import_module("minigrid")  # importing it registers its games
        gymnasium: Any = import_module("gymnasium")
        # The class tells which render modes there are before the game is made; a wrong one would raise.
        creator = gymnasium.envs.registration.load_env_creator(gymnasium.spec(self.game).entry_point)
        has_text = "ansi" in getattr(creator, "metadata", {}).get("render_modes", ())
        drawn: dict[str, Any] = {"render_mode": "ansi"} if has_text else {}
        if self.has_random_maps:
            drawn["desc"] = self._draw_map(seed)
        return gymnasium.make(self.game, **drawn, **self.options)

    def _draw_map(self, seed: int) -> list[str]:
        maps = import_module("gymnasium.envs.toy_text.frozen_lake")
        rows: list[str] = maps.generate_random_map(size=8 if "8x8" in self.game else 4, seed=seed)
        return rows

    def list_seeds(self) -> Sequence[int]:
        """Return the seeds of the tasks, those of `train` first; fewer than requested if there are no more.

        Games that begin with the same view are one task. Twice as many seeds as tasks are tried.
        """
        # Twice as many seeds as tasks bound the time for games with few different beginnings.
        total = self.train_tasks + self.test_tasks
        is_drawn = self.has_random_maps or (self.game in REPEATING and not self.is_by_chance)
        if not is_drawn:
            return range(total)
        first: dict[str, int] = {}
        env = self.open()
        for seed in range(2 * total):
            start = str(self._draw_map(seed)) if self.has_random_maps else view(env, env.reset(seed=seed)[0])
            first.setdefault(start, seed)
            if len(first) == total:
                break
        env.close()
        return list(first.values())


class GymnasiumGame(SeededTasks):
    """Base of the classes that `from_gymnasium` makes."""

    _settings: ClassVar[GameSettings]
    _actions: ClassVar[Sequence[str]]
    _env: Any = None
    _view = ""

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]] | None:
        """Return the steps that earn the most, if a plan can be computed."""
        plan = cls._plan(int(task_spec["seed"]))
        return None if plan is None else [("act", {"action": cls._actions[number]}) for number in plan]

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def _plan(cls, seed: int) -> Sequence[int] | None:
        env = cls._settings.open(seed)
        env.reset(seed=seed)
        plan = find_plan(env)
        env.close()
        return plan

    @override
    def setup(self) -> None:
        self._played: list[str] = []
        seed = int(self.task_spec["seed"])
        self._env = self._settings.open(seed)
        observation, _ = self._env.reset(seed=seed)
        self._view = view(self._env, observation)

    @override
    def teardown(self) -> None:
        if self._env is not None:
            self._env.close()

    @override
    def save_state(self) -> JSONObject:
        return {"actions": list(self._played)}

    @override
    def load_state(self, state: JSONObject) -> None:
        self.setup()
        # A game's state cannot be copied in general: it is played again from its seed.
        for action in state["actions"]:
            self.take_step(action)

    @override
    def get_prompt(self) -> str:
        names = ", ".join(f"`{name}`" for name in self._actions)
        return (
            f"{rules_of(self._settings.game).rules}\n\nTake a step with the tool `act`; the actions are "
            f"{names}. The game ends after {self.policy.step_limit} steps at the latest.\n\n{self._view}"
        )

    def take_step(self, action: str) -> ToolOutput:
        """Take a step by the name of its action."""
        observation, reward, terminated, truncated, _ = self._env.step(self._actions.index(action))
        self._played.append(action)
        self._view = view(self._env, observation)
        if terminated or truncated:
            return ToolOutput.final(f"{self._view}\nThe game is over.", reward=float(reward))
        return ToolOutput.ongoing(self._view, reward=float(reward))


def from_gymnasium(
    game: str, *, train_tasks: int = 1000, test_tasks: int = 100, **options: Any
) -> type[Environment]:
    """Make an environment of a game of gymnasium with discrete actions; its tool is `act(action)`.

    A task is a seed: those of `train` come first, those of `test` after them. A step pays the game's reward.
    Seeds with which a game begins alike are one task, unless chance decides how it continues, so that there
    may be fewer tasks than requested: `CliffWalking-v1` has one. `FrozenLake` draws a map for each task,
    unless the options have `map_name` or `desc`.

    Args:
        game: An id such as `FrozenLake-v1`; any that is registered, also by a package of yours.
        train_tasks: Number of tasks of the split `train`, at most.
        test_tasks: Number of tasks of the split `test`, at most.
        **options: Those of `gymnasium.make`, such as `is_slippery=False`.

    Raises:
        UnknownEnvironmentError: If no game of that id is registered.
        EnvironmentDefinitionError: If a package is not installed in the right version, options do not fit, or
            the game's actions are not discrete.
    """
    SOURCE.check_installed()
    return _make_class(GameSettings(game, train_tasks, test_tasks, options))


def _make_class(settings: GameSettings) -> type[Environment]:
    game, label = settings.game, f"gymnasium/{settings.game}"
    settings.check_sizes(label)
    try:
        env = settings.open()
    except Exception as error:
        if isinstance(error, import_module("gymnasium").error.UnregisteredEnv):
            raise UnknownEnvironmentError(f"{label}: no game of that id is registered: {error}") from error
        raise EnvironmentDefinitionError(
            f"{label}: gymnasium refuses it with the options {dict(settings.options)}: {describe(error)}"
        ) from error
    if not hasattr(env.action_space, "n"):
        raise EnvironmentDefinitionError(
            f"{label}: expected discrete actions, got {env.action_space}; games of numbers are not adapted"
        )
    actions = tuple(name_actions(env, game))
    limit = _step_limit(env)
    env.close()
    # Options may change what a step pays, so that the known range no longer holds.
    rewards = None if PAYING & set(settings.options) else rules_of(game).rewards
    seeds = settings.list_seeds()
    train, test = share_tasks(settings, len(seeds))
    # The options are part of the version, as they change tasks and rewards.
    digest = sha256(json.dumps(settings.options, sort_keys=True, default=repr).encode()).hexdigest()[:8]
    return type(
        f"Gymnasium{''.join(part for part in game if part.isalnum())}",
        (GymnasiumGame,),
        {
            "__doc__": f"The game {game} of gymnasium.",
            "name": served_name("gymnasium", game),
            "version": f"{PINNED[0].partition('==')[2]}-{EDITION}-{digest}",
            "policy": EpisodePolicy(step_limit=int(limit), reward_range=rewards),
            "return_range": None if settings.options else RETURNS.get(game),
            "_settings": settings,
            "_split_sizes": replace(settings, train_tasks=train, test_tasks=test),
            "_seeds": seeds,
            "prompts_may_repeat": settings.is_by_chance,
            "_actions": actions,
            "act": _make_act(actions),
        },
    )


def _step_limit(env: Any) -> int:
    """Return a game's limit of steps; BabyAI's levels know theirs, which differ by task, after a reset."""
    limit = (env.spec and env.spec.max_episode_steps) or getattr(env.unwrapped, "max_steps", STEP_LIMIT)
    if limit:
        return int(limit)
    limits: list[int] = []
    for seed in range(_SEEDS_LOOKED_AT):
        env.reset(seed=seed)
        limits.append(int(env.unwrapped.max_steps))
    return max(limits) or STEP_LIMIT


def _make_act(names: tuple[str, ...]) -> Any:
    def act(self: GymnasiumGame, action: str) -> ToolOutput:
        """Take one step.

        Args:
            action: The action.
        """
        return self.take_step(action)

    act.__annotations__["action"] = Literal[*names]
    return tool(act)


def _make_default(name: str) -> type[Environment]:
    return _make_class(GameSettings(name))


def _names() -> Sequence[str]:
    return (*TOY_TEXT, *MINIGRID)


SOURCE = Source(
    name="gymnasium",
    requires=PINNED,
    licence="MIT",
    homepage="https://gymnasium.farama.org",
    list_names=_names,
    make=_make_default,
)
