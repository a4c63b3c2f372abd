"""The environment: a shop, an instruction, and one purchase that is compared with it."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar, cast

from typing_extensions import override

from ors_server import (
    EpisodePolicy,
    IndexedTasks,
    JSONObject,
    LocalEnvResourceSpec,
    Split,
    ToolError,
    ToolOutput,
    WebShopSpec,
    tool,
    webshop_reward,
)
from ors_server_tasks.webshop.catalogue import Catalogue, name_catalogue, open_catalogue
from ors_server_tasks.webshop.game import WebShopGame
from ors_server_tasks.webshop.goals import GOAL_KINDS, GoalKind, read_goal
from ors_server_tasks.webshop.json_reading import CatalogueError
from ors_server_tasks.webshop.nouns import noun_finder
from ors_server_tasks.webshop.oracle import find_actions
from ors_server_tasks.webshop.similarity import LENGTHS, Lengths

RULES = "1"
"""The edition of pages, search and reward."""
STEP_LIMIT = 40
LONGEST_ACTION = 2000
"""Characters of the longest action."""
MAX_GAMES = 1_000_000
"""Games at once; one takes some kilobytes."""

SPLITS = {"test": (0, 500), "dev": (500, 1500), "train": (1500, None)}
"""First goal and the one after the last of each split, as WebShop has them."""
_TYPES: dict[str, Literal["train", "validation", "test"]] = {
    "test": "test",
    "dev": "validation",
    "train": "train",
}


_ChoiceT = TypeVar("_ChoiceT")


def _read_choice(variable: str, choices: Mapping[str, _ChoiceT]) -> _ChoiceT:
    """Return the choice that a variable of the process names; the first one by default."""
    name = os.environ.get(variable, next(iter(choices)))
    if name not in choices:
        raise CatalogueError(f"{variable}={name}: expected {' or '.join(choices)}")
    return choices[name]


def name_version(data: str, kind: GoalKind, lengths: Lengths = "lucene") -> str:
    """Return the version: the rules, the catalogue, its goals, the search's lengths, and what finds nouns.

    Raises:
        CatalogueError: The folder lacks a file.
    """
    return f"{RULES}.{name_catalogue(data)}.{kind}.{lengths}.{noun_finder()}"


class WebShop(IndexedTasks):
    """Shopping by instruction: search, open a product, choose its options and buy it.

    Serves the catalogue in the folder WEBSHOP_DATA, which has WebShop's files, or else an invented one.
    """

    name = "webshop"
    data: ClassVar[str] = os.environ.get("WEBSHOP_DATA", "")
    """The folder of the catalogue; empty for the invented one. A subclass with another catalogue has its own
    version, as `name_version` makes it."""
    goal_kind: ClassVar[GoalKind] = _read_choice("WEBSHOP_GOALS", GOAL_KINDS)
    lengths: ClassVar[Lengths] = _read_choice("WEBSHOP_LENGTHS", LENGTHS)
    """How the search counts the length of a product's text: `lucene` in one byte, or `exact`."""
    version = name_version(data, goal_kind, lengths)
    policy = EpisodePolicy(step_limit=STEP_LIMIT, reward_range=(0.0, 1.0))
    reward = webshop_reward

    _game: Any = None

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        if cls.data:
            cls.catalogue()  # a missing or broken file is reported when the server starts
        return [Split(name=name, type=_TYPES[name]) for name in SPLITS]

    @override
    @classmethod
    def num_tasks(cls, split: str) -> int:
        start, stop = SPLITS[split]
        goals = len(cls.catalogue().goals)
        return max(0, min(goals, goals if stop is None else stop) - start)

    @classmethod
    def catalogue(cls) -> Catalogue:
        """Return the catalogue, which is opened once in a process.

        Raises:
            CatalogueError: A file is missing or broken.
        """
        return open_catalogue(cls.data, cls.goal_kind, cls.lengths)

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        catalogue = cls.catalogue()
        position = SPLITS[split][0] + index
        task_id = catalogue.goals.unshuffled(position)
        return {
            "id": f"webshop/{split}/{index}",
            "goal": position,
            "task_id": task_id,
            "instruction": catalogue.goal(task_id).instruction_text,
        }

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that earn the greatest return of the task."""
        catalogue = cls.catalogue()
        recorded = task_spec.get("recorded_goal")
        goal = catalogue.goal(cast("int", task_spec["task_id"])) if recorded is None else read_goal(recorded)
        actions = find_actions(catalogue, goal)
        return [("webshop_browser_action", {"action": action}) for action in actions]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
        del task_spec  # who buys nothing earns nothing
        return [("webshop_browser", {"action": "click", "value": "Back to Search"})]

    @override
    async def setup(self) -> None:
        await self._open()
        await self._game.reset(self._task_id, self.rng.getrandbits(32), env_args=self.task_spec)

    @override
    async def save_state(self) -> JSONObject:
        return cast("JSONObject", await self._game.save())

    @override
    async def load_state(self, state: JSONObject) -> None:
        await self._open()
        await self._game.load(state)

    @override
    async def get_prompt(self) -> str:
        return (
            f"{await self._game.get_instruction_text()}\n\n"
            "Buy this in a web shop. Search with webshop_browser_action('search[words]'). Open products, "
            "choose their options and turn pages with 'click[value]', where value is one of the clickables "
            "of the page. The tool webshop_browser does the same with action and value as two arguments. "
            "Choose the options that you need before you click Buy Now, which ends the visit. You have "
            f"{STEP_LIMIT} actions. The reward depends on the kind of product, its attributes, the chosen "
            "options and the price."
        )

    @tool
    async def webshop_browser(self, action: str, value: str) -> ToolOutput:
        """Browse the shop by searching or clicking.

        Args:
            action: Either 'search' or 'click'.
            value: The words to search for, or what to click: 'Buy Now', 'Next >', '< Prev', 'Back to Search',
                'Description', 'Features', 'Reviews', the ID of a product such as 'B079HGJ5MH', or an
                option of the product such as 'Blue', 'Large' or '40x60'.
        """
        if action not in ("search", "click"):
            raise ToolError(f"Invalid action {action[:40]!r}: it must be either 'search' or 'click'.")
        return await self._act(f"{action}[{value}]")

    @tool
    async def webshop_browser_action(self, action: str) -> ToolOutput:
        """Browse the shop by one action.

        Args:
            action: 'search[words]' or 'click[value]', where value is one of the clickables of the page.
        """
        action = action.strip()
        name, bracket, rest = action.partition("[")
        name = name.strip().lower()
        return await self._act(f"{'click' if name == 'choose' else name}{bracket}{rest}")

    @property
    def _task_id(self) -> int:
        task_id = self.task_spec.get("task_id")
        if not isinstance(task_id, int):
            raise TypeError(f"a task of webshop has the place of its goal as 'task_id', got {task_id!r:.80}")
        return task_id

    async def _open(self) -> None:
        spec = LocalEnvResourceSpec(
            WebShopGame,
            {"data": self.data, "kind": self.goal_kind, "lengths": self.lengths},
            category="webshop",
            max_global_num=MAX_GAMES,
            start_timeout=3600.0,
        )
        self.context.bind_resource(WebShopSpec, spec)
        self._game = await self.context.acquire_resource(spec=WebShopSpec, scope="global")

    async def _act(self, action: str) -> ToolOutput:
        if len(action) > LONGEST_ACTION:
            raise ToolError(
                f"The action has {len(action):,} characters; at most {LONGEST_ACTION:,} are allowed."
            )
        observation = await self._game.step(action)
        if await self._game.is_done():
            metadata = {"noun_finder": noun_finder(), "score_parts": await self._game.score_parts()}
            return ToolOutput.final(observation, reward=None, metadata=metadata)
        return ToolOutput.ongoing(observation)
