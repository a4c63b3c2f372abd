"""The rewards that an agent may see."""

from enum import StrEnum

from ors_server.model.enumerations import quick_members


@quick_members
class Visibility(StrEnum):
    """How much of the numbers reaches an agent; its end reaches it in words, with every setting."""

    NEGOTIATED = "negotiated"
    """In addition to the content, in `_meta`, only for MCP callers that request it."""
    META = "meta"
    """In addition to the content, for every MCP caller; some hosts show it to the model."""
    VISIBLE = "visible"
    """Also as structured content, for programs that consume tool outputs."""
    HIDDEN = "hidden"
    """Not at all; only a trainer reads them."""
