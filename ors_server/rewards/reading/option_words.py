"""Options of a task's row that have one of a few words; another word is refused."""

from typing import Any, Literal, TypeAlias, get_args

from ors_server.rewards.reward_errors import RewardFieldError

Pays: TypeAlias = Literal["all", "fraction"]
"""Whether 1 is paid for everything and 0 for less, or the fraction that is right."""


def check_words(**options: tuple[Any, Any]) -> None:
    """Raise `RewardFieldError` for a value that is not a word of its `Literal`: name=(value, Literal)."""
    for name, (value, allowed) in options.items():
        words = get_args(allowed)
        if value not in words:
            expected = ", ".join(map(repr, words))
            raise RewardFieldError(f"{name}: expected one of {expected}, got {value!r:.80}")
