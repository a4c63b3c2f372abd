"""Elements of pages and drawings; every text and attribute is escaped."""

from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "link", "input", "br"})
"""Elements without an end tag."""


class Markup(str):
    """Text that is markup already and is not escaped."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | float | None) -> Markup:
    """Return an element.

    In attribute names an underscore at the end is removed (`class_`) and others become hyphens; `None` omits
    an attribute.
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
    """Join pieces: `Markup` as it is, other text escaped."""
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in content))


def _spell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
