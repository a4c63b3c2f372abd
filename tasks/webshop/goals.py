"""The goals of a catalogue: drawn once, in WebShop's order, and made from their product when they are played.

WebShop draws prices within ranges and the upper prices of goals from Python's generator, which it seeds only
afterwards, so that they differ between two of its processes. Here the generator is seeded before: the same
catalogue always has the same goals.
"""

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ors_server_tasks.webshop.arrays import MappedArray, write_array
from ors_server_tasks.webshop.product import Product

GoalKind: TypeAlias = Literal["human", "synthetic"]
GOAL_KINDS: dict[str, GoalKind] = {"human": "human", "synthetic": "synthetic"}

SEED = 233
"""The seed of prices and of the order of the goals; the latter is WebShop's."""
NO_LIMIT = 1_000_000.0
"""The upper price of a goal without a limit."""

_LIMITS = tuple(10.0 * tens for tens in range(1, 100))
_NEAREST = 4
"""Multiples of ten above a price from which its upper price is drawn."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be bought."""

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction_text: str
    attributes: tuple[str, ...]
    price_upper: float
    goal_options: tuple[str, ...] | dict[str, str]
    """Values; those of a synthetic goal by the name of their option."""
    weight: float = 1.0


_GOALS = TypeAdapter(Goal)


def read_goal(fields: object) -> Goal:
    """Return a goal that has the fields of WebShop's own.

    Raises:
        ValueError: A field is missing or of another type.
    """
    try:
        goal = _GOALS.validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = ".".join(map(str, first["loc"])) or "the whole goal"
        raise ValueError(
            f"expected the fields of a goal of WebShop; {location}: {first['msg']}, "
            f"got {first['input']!r:.80}"
        ) from None
    if not goal.attributes:
        raise ValueError("expected a goal of WebShop with at least one of 'attributes', got no attribute")
    return goal


def draw_price(product: Product, rng: Random) -> float:
    """Return the price at which a product is sold: drawn, if it has a range."""
    return product.prices[0] if len(product.prices) == 1 else rng.uniform(*product.prices)


def draw_limit(price: float, rng: Random) -> float:
    """Return the upper price of a goal: the larger of two of the next multiples of ten."""
    near = [limit for limit in _LIMITS if limit > price][:_NEAREST]
    return sorted(rng.sample(near, 2))[1] if len(near) > 1 else NO_LIMIT


class GoalWriter:
    """Writes goals in the order of their products."""

    def __init__(self, kind: GoalKind, rng: Random) -> None:
        """Start with none."""
        self._kind: GoalKind = kind
        self._rng = rng
        self._products = array("I")
        self._places = array("I")
        self._limits = array("d")
        self._attributes: list[tuple[str, ...]] = []

    def add(self, number: int, product: Product, price: float) -> None:
        """Add the goals of a product."""
        if self._kind == "human":
            for position, row in enumerate(product.human):
                if row["attributes"]:
                    self._append(number, position, draw_limit(price, self._rng), tuple(row["attributes"]))
        elif product.instruction is not None and product.instruction_attributes:
            limit = draw_limit(price, self._rng)
            for index in range(len(_combinations(product))):
                self._append(number, index, limit, product.instruction_attributes)

    def write(self, folder: Path) -> None:
        """Write them, and their order."""
        order = list(range(len(self._products)))
        Random(SEED).shuffle(order)  # noqa: S311  (WebShop's order)
        columns = {
            "products": np.array(self._products, dtype="<u4"),
            "places": np.array(self._places, dtype="<u4"),
            "limits": np.array(self._limits, dtype="<f8"),
            "weights": np.array(self._weights(), dtype="<f8"),
            "order": np.array(order, dtype="<u4"),
        }
        for name, column in columns.items():
            write_array(folder / f"goals_{self._kind}.{name}", column)

    def _append(self, number: int, index: int, limit: float, attributes: tuple[str, ...]) -> None:
        self._products.append(number)
        self._places.append(index)
        self._limits.append(limit)
        if self._kind == "synthetic":
            self._attributes.append(attributes)

    def _weights(self) -> Iterable[float]:
        if self._kind == "human":
            return [1.0] * len(self._products)
        counts = Counter(attribute for attributes in self._attributes for attribute in attributes)
        return [sum(1.0 / counts[attribute] for attribute in many) / len(many) for many in self._attributes]


class GoalTable:
    """The goals of one kind, in the order in which WebShop plays them."""

    def __init__(self, folder: Path, kind: GoalKind) -> None:
        """Open the files of `GoalWriter`."""
        self._kind = kind
        self._products, self._places, self._limits, self._weights, self._order = (
            MappedArray(folder / f"goals_{kind}.{name}", dtype).values for name, dtype in _COLUMNS.items()
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._order)

    def unshuffled(self, index: int) -> int:
        """Return where the goal of an index stood before the goals were shuffled: AgentFly's `task_id`."""
        return int(self._order[index])

    def product_of(self, task_id: int) -> int:
        """Return the number of the product of an unshuffled goal."""
        return int(self._products[task_id])

    def make(self, task_id: int, product: Product) -> Goal:
        """Return an unshuffled goal.

        Args:
            task_id: Its place before the goals were shuffled.
            product: That of `product_of`.
        """
        limit, index = float(self._limits[task_id]), int(self._places[task_id])
        price = "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"
        options: tuple[str, ...] | dict[str, str]
        if self._kind == "human":
            row = product.human[index]
            text, attributes, options = (
                row["instruction"].strip("."),
                row["attributes"],
                tuple(row["options"]),
            )
        else:
            options = combination = _combinations(product)[index]
            wanted = ", and ".join(f"{name}: {value}" for name, value in combination.items())
            text = f"{product.instruction}{' with ' if wanted else ''}{wanted}"
            attributes = product.instruction_attributes
        return Goal(
            asin=product.asin,
            category=product.category,
            query=product.query,
            name=product.name,
            product_category=product.product_category,
            instruction_text=text + price,
            attributes=tuple(attributes),
            price_upper=limit,
            goal_options=options,
            weight=float(self._weights[task_id]),
        )


_COLUMNS = {"products": "<u4", "places": "<u4", "limits": "<f8", "weights": "<f8", "order": "<u4"}


def has_goals(folder: Path, kind: GoalKind) -> bool:
    """Return whether goals of a kind were written."""
    return (folder / f"goals_{kind}.order").is_file()


def _combinations(product: Product) -> list[dict[str, str]]:
    names = sorted(product.options)
    return [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(product.options[name] for name in names))
    ]
