"""Elements of pages; every text and attribute is escaped."""

from markupsafe import Markup, escape

VOID = frozenset({"meta", "link", "input", "br"})
"""Elements without an end tag."""


def element(name: str, /, *content: str, **attributes: str | None) -> Markup:
    """Return an element.

    In attribute names an underscore at the end is removed (`class_`) and others become hyphens; `None` omits
    an attribute.
    """
    spelled = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    begin = f"<{name}{spelled}>"
    return Markup(begin if name in VOID else f"{begin}{Markup().join(content)}</{name}>")  # noqa: S704  (escaped above)
