"""Games of gymnasium: a task is a seed, a call of the tool `act` is a step."""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from typing_extensions import override

from ors_server.adapters.gymnasium_names import MINIGRID, REPEATING, TOY_TEXT
from ors_server.adapters.gymnasium_plans import find_plan
from ors_server.adapters.gymnasium_views import name_actions, rules_of, view
from ors_server.adapters.numbered_tasks import NumberedTasks, SplitSizes, share_tasks
from ors_server.environments.boundary import describe
from ors_server.environments.environment import Environment
from ors_server.environments.sources import Source, served_name
from ors_server.environments.tool import tool
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import JSONObject, ToolOutput

PINNED = ("gymnasium==1.4.0", "minigrid==3.2.0")
EDITION = "2"
"""Changes whenever the same game and options give other texts or rewards than before."""
_SEEDS_LOOKED_AT = 10
STEP_LIMIT = 200
"""Steps of a game that has no limit of its own."""
RETURNS = MappingProxyType({"CliffWalking-v1": (-100.0 * STEP_LIMIT, -13.0)})
"""Least and greatest return, where every task has the same."""

BY_CHANCE = ("Blackjack", "CliffWalkingSlippery", "MiniGrid-Dynamic-Obstacles")
"""Games that begin alike and go on differently, with every seed."""
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
        """Whether games that begin alike may go on differently."""
        chances = {"is_slippery": self.game.startswith(_LAKE), **self.options}
        return self.game.startswith(BY_CHANCE) or any(chances.get(option) for option in _CHANCES)

    def open(self, seed: int = 0) -> Any:
        """Make the game of a task, which is yet to be reset."""
        gymnasium = _import_gymnasium(self.game)
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


class GymnasiumGame(NumberedTasks):
    """Base of the classes that `from_gymnasium` makes."""

    prompts_may_repeat: ClassVar[bool] = False
    """Whether chance makes different tasks of games that begin alike."""
    _settings: ClassVar[GameSettings]
    _seeds: ClassVar[Sequence[int]]
    _actions: ClassVar[Sequence[str]]
    _env: Any = None
    _view = ""

    @override
    @classmethod
    def _task_of(cls, number: int) -> JSONObject:
        return {"seed": cls._seeds[number]}

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
    game, place = settings.game, f"gymnasium/{settings.game}"
    settings.check_sizes(place)
    try:
        env = settings.open()
    except Exception as error:
        if _is_unregistered(error):
            raise UnknownEnvironmentError(f"{place}: no game of that id is registered: {error}") from error
        raise EnvironmentDefinitionError(
            f"{place}: gymnasium refuses it with the options {dict(settings.options)}: {describe(error)}"
        ) from error
    if not hasattr(env.action_space, "n"):
        raise EnvironmentDefinitionError(
            f"{place}: expected discrete actions, came {env.action_space}; games of numbers are not adapted"
        )
    actions = tuple(name_actions(env, game))
    limit = _step_limit(env)
    env.close()
    rewards = None if PAYING & set(settings.options) else rules_of(game).rewards
    seeds = settings.list_seeds()
    train, test = share_tasks(settings, len(seeds))
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


def _import_gymnasium(game: str) -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints a line when it is imported
    if game.startswith(("MiniGrid-", "BabyAI-")):
        import_module("minigrid")
    return import_module("gymnasium")


def _is_unregistered(error: Exception) -> bool:
    return isinstance(error, import_module("gymnasium").error.UnregisteredEnv)


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
