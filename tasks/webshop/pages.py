"""The pages of the shop as texts, and what can be clicked on each.

Source: the templates of WebShop at 64fa2a5, read as its text mode reads them: the visible texts of a page,
stripped, in order. The page after a purchase is shorter: WebShop's shows the reward and the goal.
"""

from collections.abc import Iterable, Sequence

from ors_server_tasks.webshop.product import Product

SEPARATOR = " [SEP] "
PAGE_SIZE = 10
"""Products on one page of results."""
THANKS = "Thank you for shopping with us!"

BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
SUB_PAGES = ("Description", "Features", "Reviews")
ATTRIBUTES = "Attributes"
_RATING = "N.A."
_SPACE = " \n\t\f\r"


class Page:
    """One page."""

    __slots__ = ("clickables", "has_search_bar", "text")

    def __init__(
        self,
        texts: Iterable[str],
        buttons: Sequence[str],
        values: Sequence[str] = (),
        *,
        has_search_bar: bool = False,
    ) -> None:
        """Join the texts.

        Args:
            texts: Visible texts, in order.
            buttons: Texts of buttons and links.
            values: Values of options.
            has_search_bar: Whether the page is the one with the search bar.
        """
        self.text = SEPARATOR.join(_strip_texts(texts))
        self.clickables = tuple(dict.fromkeys([*(button.lower() for button in buttons), *values]))
        """In WebShop's order, without repeats: buttons in lower case, then options."""
        self.has_search_bar = has_search_bar


def show_start(instruction: str) -> Page:
    """Return the page with the search bar."""
    return Page(["WebShop", "Instruction:", instruction, "Search"], ["Search"], has_search_bar=True)


def show_results(instruction: str, products: Sequence[Product], page: int, total: int) -> Page:
    """Return a page of results.

    Args:
        products: Those of this page.
        page: Its number, from 1.
        total: Products of all pages.
    """
    buttons = [BACK, *([PREVIOUS] if page > 1 else []), NEXT]
    texts = [*_head(instruction), f"Page {page} (Total results: {total})", *buttons[1:]]
    for product in products:
        texts += [product.asin, product.name, product.price_tag]
    return Page(texts, [*buttons, *(product.asin for product in products)])


def show_product(instruction: str, product: Product, *, shows_attributes: bool) -> Page:
    """Return the page of a product."""
    buttons = [*SUB_PAGES, *([ATTRIBUTES] if shows_attributes else []), BUY]
    values = [value for group in product.options.values() for value in group]
    texts = [*_head(instruction), PREVIOUS]
    for name, group in product.options.items():
        texts += [name, *group]
    texts += [product.name, f"Price: {product.price_tag}", f"Rating: {_RATING}", *buttons]
    return Page(texts, [BACK, PREVIOUS, *buttons], values)


def show_sub_page(instruction: str, product: Product, name: str) -> Page:
    """Return a sub page of a product: its description, features, reviews or attributes."""
    contents = {
        "Description": [product.description],
        "Features": [f" {bullet}" for bullet in product.bullets],
        "Reviews": ["No reviews found"],
        ATTRIBUTES: [
            *(f" {attribute}" for attribute in product.attributes),
            product.category,
            product.query,
            product.product_category,
        ],
    }[name]
    return Page([*_head(instruction), PREVIOUS, *contents], [BACK, PREVIOUS])


def show_thanks() -> Page:
    """Return the page after a purchase, which has no button."""
    return Page([THANKS], [])


def _head(instruction: str) -> list[str]:
    return ["Instruction:", instruction, BACK]


def _strip_texts(texts: Iterable[str]) -> Iterable[str]:
    """Strip texts as WebShop's reader of pages does: spaces without a line break stay as an empty text."""
    for text in texts:
        if text.strip(_SPACE) or (text and "\n" not in text):
            yield text.strip()
