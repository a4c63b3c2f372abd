"""What an agent may see of rewards, and the form in which everyone else sees an episode's standing."""

from enum import StrEnum


class Visibility(StrEnum):
    """How much of the numbers reaches an agent."""

    META = "meta"
    """Beside the content, where hosts do not show it to the model."""
    VISIBLE = "visible"
    """Also as structured content, for programs that consume tool outputs."""
    HIDDEN = "hidden"
    """Not at all; only a trainer reads them."""
