"""Options that a task's row sets by name, and that are one of a few words: another word is never ignored."""

from typing import Any, Literal, TypeAlias, get_args

from ors_server.rewards.reward_errors import RewardFieldError

Pays: TypeAlias = Literal["all", "fraction"]
"""Whether 1 is paid for everything and 0 for less, or the part that is right."""


def check_words(**given: tuple[Any, Any]) -> None:
    """Refuse an option that is none of its words.

    Args:
        **given: Name to the value that came and the `Literal` of what it may be.

    Raises:
        RewardFieldError: If it is none of them.
    """
    for name, (value, allowed) in given.items():
        words = get_args(allowed)
        if value not in words:
            wanted = ", ".join(map(repr, words))
            raise RewardFieldError(f"{name} is one of {wanted}, not {value!r:.80}")
