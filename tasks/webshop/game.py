"""The shop as tools and rewards meet it: an object with the methods of AgentFly's WebShop."""

from collections.abc import Mapping
from typing import Any

from ors_server_tasks.webshop.catalogue import Catalogue, open_catalogue
from ors_server_tasks.webshop.goals import GoalKind, read_goal
from ors_server_tasks.webshop.shop_session import ShopSession, parse_action
from ors_server_tasks.webshop.similarity import Lengths

GET_REWARD = "get_reward"


class WebShopGame:
    """One visit to the shop of a catalogue, which all games of the process share."""

    def __init__(
        self,
        data: str = "",
        kind: GoalKind = "human",
        lengths: Lengths = "lucene",
        *,
        shows_attributes: bool = False,
    ) -> None:
        """Open the catalogue, which takes long the first time only; begin with its first goal.

        Args:
            data: The folder of WebShop's files; empty for the invented catalogue.
            kind: Which goals are played.
            lengths: How the search counts the length of a product's text: `lucene` in one byte, or `exact`.
            shows_attributes: Whether the page of a product has the button Attributes.
        """
        self._catalogue: Catalogue = open_catalogue(data, kind, lengths)
        self._shows_attributes = shows_attributes
        self._task_id = 0
        self._recorded_goal: Any = None
        self._session: ShopSession | None = None

    def reset(
        self, task_id: int | None = None, seed: int = 0, env_args: Mapping[str, Any] | None = None
    ) -> str:
        """Begin a visit, and return the first page.

        Args:
            task_id: The goal, by its place before WebShop shuffles them; the first one by default.
            seed: Decides which products the search `<r>` finds.
            env_args: The task as AgentFly's tools pass it: its `task_id` counts, and its `recorded_goal`,
                which replaces the catalogue's goal.

        Raises:
            CatalogueError: The catalogue's files have changed.
            IndexError: There is no such goal.
            ValueError: The recorded goal lacks a field.
        """
        self._catalogue.check_unchanged()
        task = dict(env_args or {})
        wanted = task_id if task_id is not None else task.get("task_id")
        self._task_id = 0 if wanted is None else int(wanted)
        self._recorded_goal = task.get("recorded_goal")
        goal = (
            self._catalogue.goal(self._task_id)
            if self._recorded_goal is None
            else read_goal(self._recorded_goal)
        )
        self._session = ShopSession(self._catalogue, goal, seed, shows_attributes=self._shows_attributes)
        return self.observation

    def step(self, action: str, task_id: int | None = None) -> Any:
        """Take an action, and return the page that it leads to.

        Args:
            action: `search[words]` or `click[value]`; or `get_reward`, which changes nothing.
            task_id: For `get_reward`, the goal with which the purchase is compared; this visit's by default.

        Returns:
            The page and what can be clicked; for `get_reward`, a mapping with `observation` and
            `reward`, which is 0 until something was bought.
        """
        session = self._visit()
        if action == GET_REWARD:
            return {"observation": session.page.text, "reward": self._reward(task_id)}
        refusal = self._refuse(action)
        if refusal is not None:
            return refusal
        session.act(action)
        return self.observation

    def is_done(self) -> bool:
        """Return whether something was bought."""
        return self._visit().is_done

    def score_parts(self) -> dict[str, Any]:
        """Return the parts of the reward of the purchase, under WebShop's names; empty before one."""
        session = self._visit()
        return session.score(session.goal)[1] if session.is_done else {}

    @property
    def observation(self) -> str:
        """The page, and what can be clicked on it."""
        page = self._visit().page
        return page.text if self._visit().is_done else f"{page.text}\nClickables: {list(page.clickables)}"

    def get_available_actions(self) -> dict[str, Any]:
        """Return whether the page has a search bar, and what can be clicked."""
        page = self._visit().page
        return {"has_search_bar": page.has_search_bar, "clickables": list(page.clickables)}

    def get_instruction_text(self) -> str:
        """Return what the customer wants."""
        return self._visit().goal.instruction_text

    def save(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "task_id": self._task_id,
            "recorded_goal": self._recorded_goal,
            "visit": self._visit().save(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `save` returned."""
        self.reset(env_args=state)
        self._visit().load(state["visit"])

    def is_healthy(self) -> bool:
        """Return whether the catalogue can still be played; CatalogueError if its files have changed."""
        self._catalogue.check_unchanged()
        return True

    def close(self) -> None:
        """Forget the visit."""
        self._session = None

    def _visit(self) -> ShopSession:
        if self._session is None:
            self.reset()
        session = self._session
        if session is None:
            raise RuntimeError("the game is closed")
        return session

    def _reward(self, task_id: int | None) -> float:
        session = self._visit()
        if not session.is_done:
            return 0.0
        goal = session.goal if task_id in (None, self._task_id) else self._catalogue.goal(int(task_id or 0))
        return session.score(goal)[0]

    def _refuse(self, action: str) -> str | None:
        """Return what AgentFly's shop answers to an action that does nothing; `None` for one that does."""
        parsed = parse_action(action)
        if parsed is None or parsed[0] not in ("click", "search"):
            return "Invalid action, action name should be 'click' or 'search'."
        clickables = self._visit().page.clickables
        if parsed[0] == "click" and (parsed[1] not in clickables or parsed[1] == "search"):
            return f"Invalid action, action argument should be one of the clickables: {list(clickables)}"
        return None
