"""How to buy what a goal wants: a search, clicks and a purchase."""

from random import Random

from ors_server_tasks.webshop import pages
from ors_server_tasks.webshop.catalogue import MAX_RESULTS, Catalogue
from ors_server_tasks.webshop.goals import Goal
from ors_server_tasks.webshop.product import Product
from ors_server_tasks.webshop.purchase_reward import is_chosen


def find_actions(catalogue: Catalogue, goal: Goal) -> list[str]:
    """Return the actions that find the product of a goal, choose its options and buy it."""
    number = catalogue.find_number(goal.asin)
    product = catalogue.product(number)
    query, rank = _find_query(catalogue, product, number)
    turns = [f"click[{pages.NEXT.lower()}]"] * (rank // pages.PAGE_SIZE)
    values = _choose_values(product, goal)
    clicks = [product.asin.lower(), *values, pages.BUY.lower()]
    return [f"search[{query}]", *turns, *(f"click[{value}]" for value in clicks)]


def _find_query(catalogue: Catalogue, product: Product, number: int) -> tuple[str, int]:
    """Return the first query that finds a product, and the product's place among what it finds."""
    queries = (product.name, f"{product.name} {product.description}", product.searched_text)
    for query in map(_one_line, queries):
        results = catalogue.search(query, Random(0))  # noqa: S311  (draws nothing)
        if number in results[:MAX_RESULTS]:
            return query, results.index(number)
    query = f"<q> {product.query}"
    return query, catalogue.search(query, Random(0)).index(number)  # noqa: S311  (draws nothing)


def _one_line(text: str) -> str:
    return " ".join(text.lower().replace("[", " ").replace("]", " ").split())


def _choose_values(product: Product, goal: Goal) -> list[str]:
    """Return the value of each option that a goal wants; an exact one rather than one that is alike."""
    wanted = goal.goal_options.values() if isinstance(goal.goal_options, dict) else goal.goal_options
    chosen: dict[str, str] = {}
    for value in wanted:
        free = [
            (name, value) for name, many in product.options.items() if name not in chosen for value in many
        ]
        near = [(name, option) for name, option in free if option == value or is_chosen(value, [option])]
        near.sort(key=lambda option: option[1] != value)
        chosen.update(near[:1])
    return list(chosen.values())
