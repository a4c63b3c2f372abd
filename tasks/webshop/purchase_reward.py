"""What a purchase earns: WebShop's formula, in [0, 1].

Source: `web_agent_site/engine/goal.py` of WebShop at 64fa2a5.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rapidfuzz import fuzz, utils

from ors_server_tasks.webshop.goals import Goal
from ors_server_tasks.webshop.nouns import find_nouns
from ors_server_tasks.webshop.product import CATEGORY_MARK, Product
from ors_server_tasks.webshop.word_lists import read_words

_ALIKE = 85
"""Similarity, from 0 to 100, above which two texts count as the same."""
_SHARED_CATEGORIES = 2
"""Categories that two products share if they are of one type."""
_COLOURS = read_words("colours")


def score_purchase(
    product: Product, goal: Goal, price: float, options: Mapping[str, str]
) -> tuple[float, dict[str, Any]]:
    """Return the reward of a purchase, and its parts under WebShop's names.

    Args:
        product: What was bought.
        goal: What was to be bought.
        price: What was paid, in dollars.
        options: The chosen values by the name of their option.
    """
    kind = _score_type(product, goal)
    sought = _sought_options(goal)
    attributes = sum(_has_attribute(product, attribute) for attribute in goal.attributes)
    chosen = sum(is_chosen(wanted, options.values()) for wanted in sought)
    is_cheap = price <= goal.price_upper
    parts = len(goal.attributes) + len(sought) + 1
    reward = (attributes + chosen + is_cheap) / parts * kind["r_type"]
    info = {
        "r_type": kind["r_type"],
        "r_att": attributes / len(goal.attributes),
        "w_att": len(goal.attributes) / parts,
        **{key: kind[key] for key in ("query_match", "category_match", "title_score")},
    }
    if sought:
        info |= {"r_option": chosen / len(sought), "w_option": len(sought) / parts}
    return reward, {**info, "r_price": is_cheap, "w_price": 1 / parts}


def is_chosen(sought: object, values: Iterable[str]) -> bool:
    """Return whether one of the values is the sought one, or nearly so."""
    other = _colour_of(sought)
    return any(_is_alike(_colour_of(value), other) for value in values)


def _sought_options(goal: Goal) -> tuple[object, ...]:
    # WebShop compares the values of a synthetic goal together with the names of their options.
    return tuple(goal.goal_options.items()) if isinstance(goal.goal_options, dict) else goal.goal_options


def _score_type(product: Product, goal: Goal) -> dict[str, Any]:
    query_match = product.query == goal.query
    shared = _categories(product.product_category) & _categories(goal.product_category)
    category_match = len(shared) >= _SHARED_CATEGORIES
    bought, sought = find_nouns(product.name), find_nouns(goal.name)
    title_score = len(set(bought) & set(sought)) / len(sought) if sought else 0.2
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5  # noqa: PLR2004  (WebShop's)
    if title_score < 0.1:  # noqa: PLR2004  (WebShop's)
        r_type = 0.1 if title_score else 0.0
    return {
        "r_type": r_type,
        "query_match": query_match,
        "category_match": category_match,
        "title_score": title_score,
    }


def _categories(path: str) -> set[str]:
    return {part.strip() for part in path.split(CATEGORY_MARK)}


def _has_attribute(product: Product, sought: str) -> bool:
    return any(_is_alike(attribute, sought) for attribute in product.attributes) or any(
        sought in text.lower() for text in (product.name, " ".join(product.bullets), product.description)
    )


def _colour_of(value: Any) -> object:
    return next((colour for colour in _COLOURS if colour in value), value)


def _is_alike(first: object, second: object) -> bool:
    ratio = fuzz.token_set_ratio(_ascii(first), _ascii(second), processor=utils.default_process)
    return round(ratio) > _ALIKE


def _ascii(value: object) -> str:
    return str(value).encode("ascii", "ignore").decode()
