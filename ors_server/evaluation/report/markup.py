"""Elements of pages and drawings; every text and every attribute is escaped where it is put in."""

from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "link", "input", "br"})
"""Elements that have no end."""


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | float | None) -> Markup:
    """Return an element.

    Args:
        name: Of the element.
        content: What is in it: `Markup` as it is, other text escaped.
        attributes: By name; an underscore at the end is taken off (`class_`), others become hyphens; those
            that are `None` are left out.
    """
    spelled = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_spell(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{spelled}>")
    return Markup(f"<{name}{spelled}>{join(content)}</{name}>")


def join(content: Iterable[str]) -> Markup:
    """Return pieces one after another.

    Args:
        content: `Markup` as it is, other text escaped.
    """
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in content))


def _spell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
