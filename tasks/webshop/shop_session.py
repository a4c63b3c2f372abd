"""One customer's visit to the shop: WebShop's actions and states, with nothing else around it."""

import re
from random import Random
from typing import Any

from ors_server_tasks.webshop import pages
from ors_server_tasks.webshop.catalogue import Catalogue
from ors_server_tasks.webshop.goals import Goal
from ors_server_tasks.webshop.pages import Page
from ors_server_tasks.webshop.product import Product
from ors_server_tasks.webshop.purchase_reward import score_purchase

_ACTION = re.compile(r"(.+)\[(.+)\]")
_START, _RESULTS, _PRODUCT, _DONE = "start", "results", "product", "done"
_SUB_PAGES = {name.lower(): name for name in (*pages.SUB_PAGES, pages.ATTRIBUTES)}


class ShopSession:
    """A visit: it begins at the search bar and ends with a purchase."""

    def __init__(
        self, catalogue: Catalogue, goal: Goal, seed: int, *, shows_attributes: bool = False
    ) -> None:
        """Begin.

        Args:
            catalogue: Shared with all other visits.
            goal: What is to be bought.
            seed: Decides which products the search `<r>` finds.
            shows_attributes: Whether the page of a product has the button Attributes.
        """
        self._catalogue = catalogue
        self._shows_attributes = shows_attributes
        self._rng = Random(seed)  # noqa: S311  (a game)
        self._found: list[int] = []
        self.goal = goal
        self.query: str | None = None
        self.page_number = 1
        self.asin: str | None = None
        self.options: dict[str, str] = {}
        self._place = _START
        self.page = pages.show_start(goal.instruction_text)

    @property
    def is_done(self) -> bool:
        """Whether something was bought."""
        return self._place == _DONE

    def act(self, action: str) -> tuple[str, float, bool]:
        """Take an action, and return the text of the page, the reward and whether the visit is over.

        Args:
            action: `search[words]` or `click[what the page has]`; anything else changes nothing.
        """
        parsed = parse_action(action)
        if self.is_done or parsed is None:
            return self.page.text, 0.0, self.is_done
        name, argument = parsed
        if name == "search":
            self._search(argument)
        elif name == "click" and argument in self.page.clickables and argument != "search":
            self._click(argument)
        if self._place != _DONE:
            return self.page.text, 0.0, False
        return self.page.text, self.score(self.goal)[0], True

    def score(self, goal: Goal) -> tuple[float, dict[str, Any]]:
        """Return what the chosen product earns for a goal, and the parts of the reward."""
        number = self._catalogue.find_number(str(self.asin))
        return score_purchase(
            self._catalogue.product(number), goal, self._catalogue.price(number), self.options
        )

    def save(self) -> dict[str, Any]:
        """Return the state as JSON, without the goal."""
        version, numbers, gauss = self._rng.getstate()
        return {
            "place": self._place,
            "query": self.query,
            "page_number": self.page_number,
            "found": self._found[: pages.PAGE_SIZE * pages.PAGE_SIZE] if self._is_random() else None,
            "asin": self.asin,
            "options": dict(self.options),
            "rng": [version, list(numbers), gauss],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state that `save` returned."""
        version, numbers, gauss = state["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        self.query, self.page_number, self.asin = state["query"], state["page_number"], state["asin"]
        self.options = dict(state["options"])
        self._place = state["place"]
        if self.query is not None:
            again = state["found"] if self._is_random() else None
            self._found = again or self._catalogue.search(self.query, Random(0))  # noqa: S311  (draws nothing)
        self._show()

    def _is_random(self) -> bool:
        return self.query is not None and self.query.split(" ")[0] == "<r>"

    def _search(self, query: str, page_number: int = 1) -> None:
        if query != self.query or query.split(" ", maxsplit=1)[0] == "<r>":
            self._found = self._catalogue.search(query, self._rng)
        self.query, self.page_number = query, page_number
        self.asin, self.options = None, {}
        self._place = _RESULTS
        self._show()

    def _click(self, name: str) -> None:
        if name == pages.BUY.lower():
            self._place = _DONE
        elif name == pages.BACK.lower():
            self.query, self.asin, self.options = None, None, {}
            self._place = _START
        elif name in (pages.NEXT.lower(), pages.PREVIOUS.lower()) and self._place == _RESULTS:
            self._search(str(self.query), self.page_number + (1 if name == pages.NEXT.lower() else -1))
            return
        elif name == pages.PREVIOUS.lower() and self._place == _PRODUCT:
            self._search(str(self.query), self.page_number)
            return
        elif name in _SUB_PAGES and self.asin is not None:
            self._place = _SUB_PAGES[name]
        else:
            self._open_or_choose(name)
        self._show()

    def _open_or_choose(self, name: str) -> None:
        if self._place == _RESULTS:
            shown = [product.asin for product in self._shown_products() if product.asin.lower() == name]
            self.asin = shown[-1]
        elif self._place == _PRODUCT:
            groups = [group for group, values in self._product().options.items() if name in values]
            self.options |= dict.fromkeys(groups[-1:], name)
        self._place = _PRODUCT

    def _product(self) -> Product:
        return self._catalogue.product(self._catalogue.find_number(str(self.asin)))

    def _shown_products(self) -> list[Product]:
        start = (self.page_number - 1) * pages.PAGE_SIZE
        return [self._catalogue.product(number) for number in self._found[start : start + pages.PAGE_SIZE]]

    def _show(self) -> None:
        self.page = self._make_page(self.goal.instruction_text)

    def _make_page(self, instruction: str) -> Page:
        if self._place == _START:
            return pages.show_start(instruction)
        if self._place == _RESULTS:
            return pages.show_results(instruction, self._shown_products(), self.page_number, len(self._found))
        if self._place == _PRODUCT:
            return pages.show_product(instruction, self._product(), shows_attributes=self._shows_attributes)
        if self._place == _DONE:
            return pages.show_thanks()
        return pages.show_sub_page(instruction, self._product(), self._place)


def parse_action(action: str) -> tuple[str, str] | None:
    """Return the name and the argument of an action, the latter in lower case; `None` without argument."""
    match = _ACTION.match(action)
    return None if match is None else (match[1], match[2].lower())
