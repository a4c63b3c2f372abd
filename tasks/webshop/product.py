"""One product: what WebShop makes of a row of its file, and what a page and the search take from it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from ors_server_tasks.webshop.json_reading import CatalogueError

LONGEST_ASIN = 10
"""Characters of the longest asin; products with longer ones are left out."""
DEFAULT_PRICE = 100.0
"""Dollars for a product without a price."""
CATEGORY_MARK = "\u203a"
NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""The attributes of a product that the file of attributes does not have."""

_LISTS = ("bullets", "prices", "attributes", "instruction_attributes", "human")
_NOT_IN_A_PRICE = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class Product:
    """A product as pages, search and reward see it."""

    asin: str
    name: str
    description: str
    bullets: tuple[str, ...]
    """The features, in order."""
    prices: tuple[float, ...]
    """Dollars: one price, or the ends of a range."""
    options: dict[str, tuple[str, ...]]
    """Values by the name of the option, in lower case."""
    category: str
    query: str
    """The query by which the product was found for the catalogue, in lower case."""
    product_category: str
    """The path of categories, with `CATEGORY_MARK` between them."""
    attributes: tuple[str, ...] = NO_ATTRIBUTES
    instruction: str | None = None
    """The synthetic instruction."""
    instruction_attributes: tuple[str, ...] = ()
    human: tuple[dict[str, Any], ...] = field(default=())
    """Instructions by people: `instruction`, `attributes`, `options` of each."""

    @property
    def price_tag(self) -> str:
        """The price as a page shows it."""
        return " to ".join(f"${price}" for price in self.prices)

    @property
    def searched_text(self) -> str:
        """The text that the search knows."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first_bullet = self.bullets[0] if self.bullets else ""
        return f"{self.name} {self.description} {first_bullet} {options}".lower()

    def as_row(self) -> dict[str, Any]:
        """Return it as JSON, which `from_row` reads."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Product":
        """Return the product of a row."""
        members: dict[str, Any] = {key: tuple(row[key]) for key in _LISTS}
        members["options"] = {name: tuple(values) for name, values in row["options"].items()}
        return cls(**{**row, **members})


_FIELDS = tuple(field.name for field in fields(Product))


def read_product(raw: object, where: str) -> Product | None:
    """Return the product of an entry of WebShop's file; `None` if WebShop leaves out such an asin.

    Raises:
        CatalogueError: The entry is not a product of WebShop.
    """
    if not isinstance(raw, dict):
        raise CatalogueError(f"{where}: expected a product as a JSON object, got {raw!r:.80}")
    entry = cast("dict[str, Any]", raw)
    asin = _text(entry, "asin", where)
    if asin == "nan" or len(asin) > LONGEST_ASIN:
        return None
    return Product(
        asin=asin,
        name=_text(entry, "name", where),
        description=_text(entry, "full_description", where),
        bullets=_bullets(entry, where),
        prices=_prices(entry.get("pricing"), where),
        options=_options(entry, where),
        category=_text(entry, "category", where),
        query=_text(entry, "query", where).lower().strip(),
        product_category=_text(entry, "product_category", where),
    )


def texts_of(value: object, what: str, where: str) -> tuple[str, ...]:
    """Return a list of texts; CatalogueError for anything else."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in cast("list[object]", value)):
        raise CatalogueError(f"{where}: expected {what} as a list of texts, got {value!r:.80}")
    return tuple(cast("list[str]", value))


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        actual = f"got {value!r:.80}" if key in entry else "and it is missing"
        raise CatalogueError(f"{where}: expected {key!r} as a text, {actual}")
    return value


def _bullets(entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    value = entry.get("small_description")
    if isinstance(value, str):
        return (value,)
    return texts_of(value, "'small_description'", where)


def _prices(pricing: object, where: str) -> tuple[float, ...]:
    if not pricing:
        return (DEFAULT_PRICE,)
    expected = f"{where}: expected 'pricing' such as '$12.99' or '$10.00 to $20.00', got {pricing!r:.80}"
    if not isinstance(pricing, str):
        raise CatalogueError(expected)
    try:
        prices = tuple(float(Decimal(_NOT_IN_A_PRICE.sub("", part))) for part in pricing.split("$")[1:])
    except InvalidOperation:
        raise CatalogueError(expected) from None
    if not prices:
        raise CatalogueError(expected)
    return prices[:2]


def _options(entry: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    groups = entry.get("customization_options")
    if not groups:
        return {}
    expected = (
        f"{where}: expected 'customization_options' as lists of objects with a text as 'value', by name"
    )
    if not isinstance(groups, dict):
        raise CatalogueError(f"{expected}, got {groups!r:.80}")
    options: dict[str, tuple[str, ...]] = {}
    for name, contents in cast("dict[str, Any]", groups).items():
        if contents is None:
            continue
        try:
            options[name.lower()] = tuple(_option(content["value"]) for content in contents)
        except (AttributeError, KeyError, TypeError):
            raise CatalogueError(f"{expected}, got {contents!r:.80} in {name!r:.40}") from None
    return options


def _option(value: str) -> str:
    return value.strip().replace("/", " | ").lower()


def human_rows(raws: object, where: str) -> tuple[dict[str, Any], ...]:
    """Return the instructions by people of one product.

    Raises:
        CatalogueError: An entry lacks its text, its attributes or its options.
    """
    if not isinstance(raws, list):
        raise CatalogueError(f"{where}: expected a list of instructions, got {raws!r:.80}")
    return tuple(_human_row(raw, where) for raw in cast("Sequence[object]", raws))


def _human_row(raw: object, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise CatalogueError(f"{where}: expected an instruction as a JSON object, got {raw!r:.80}")
    entry = cast("dict[str, Any]", raw)
    return {
        "instruction": _text(entry, "instruction", where),
        "attributes": texts_of(entry.get("instruction_attributes"), "'instruction_attributes'", where),
        "options": texts_of(entry.get("instruction_options"), "'instruction_options'", where),
    }
