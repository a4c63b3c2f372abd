"""Games of gymnasium: a task is a seed, a call of the tool `act` is a step."""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from typing_extensions import override

from ors_server.adapters.gymnasium_names import MINIGRID, TOY_TEXT
from ors_server.adapters.gymnasium_plans import find_plan
from ors_server.adapters.gymnasium_views import name_actions, rules_of, view
from ors_server.adapters.numbered_tasks import NumberedTasks, SplitSizes
from ors_server.authoring.boundary import describe
from ors_server.authoring.environment import Environment
from ors_server.authoring.sources import Source, served_name
from ors_server.authoring.tool import tool
from ors_server.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.policy import EpisodePolicy
from ors_server.wire import JSONObject, ToolOutput

PINNED = ("gymnasium==1.4.0", "minigrid==3.2.0")
EDITION = "1"
"""Changes whenever the same game and options give other texts or rewards than before."""
_SEEDS_LOOKED_AT = 10
STEP_LIMIT = 200
"""Steps of a game that has no limit of its own."""
RETURNS = MappingProxyType({"CliffWalking-v1": (-100.0 * STEP_LIMIT, -13.0)})
"""Least and greatest return, where every task has the same."""


PAYING = frozenset({"natural", "reward_schedule", "sab"})
"""Options of games that change their rewards."""


@dataclass(frozen=True)
class GameSettings(SplitSizes):
    """A game, its splits, and the options of `gymnasium.make`."""

    game: str
    train_tasks: int = 1000
    test_tasks: int = 100
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def open(self) -> Any:
        """Make the game."""
        gymnasium = _import_gymnasium(self.game)
        creator = gymnasium.envs.registration.load_env_creator(gymnasium.spec(self.game).entry_point)
        has_text = "ansi" in getattr(creator, "metadata", {}).get("render_modes", ())
        return gymnasium.make(self.game, **({"render_mode": "ansi"} if has_text else {}), **self.options)


class GymnasiumGame(NumberedTasks):
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
        env = cls._settings.open()
        env.reset(seed=seed)
        plan = find_plan(env)
        env.close()
        return plan

    @override
    def setup(self) -> None:
        self._played: list[str] = []
        self._env = self._settings.open()
        observation, _ = self._env.reset(seed=int(self.task_spec["seed"]))
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

    Args:
        game: An id such as `FrozenLake-v1`; any that is registered, also by a package of yours.
        train_tasks: Number of tasks of the split `train`.
        test_tasks: Number of tasks of the split `test`.
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
            "_split_sizes": settings,
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
