"""Regular expressions with a time limit: a pattern of a task's, a text of an agent's."""

import time
from typing import Any

from ors_server.rewards.reading.packages import load_package

TIME_LIMIT = 1.0
"""Seconds for all searches of one judgement."""


class PatternError(ValueError):
    """A text is no regular expression; the message says why."""


class PatternTimeoutError(Exception):
    """A search took too long."""


def compile_pattern(pattern: str) -> Any:
    """Compile a regular expression.

    Args:
        pattern: In the language of the package `regex`, which has Python's own in it.

    Raises:
        PatternError: If it is none.
        MissingPackageError: If the package is not installed.
    """
    regex = load_package("regex")
    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, TypeError, RecursionError) as error:
        raise PatternError(f"{pattern!r:.80} is no regular expression: {error}") from None


class PatternBudget:
    """The time that all searches of one judgement may take together."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        """Take the time.

        Args:
            time_limit: Seconds.
        """
        self._limit = time_limit
        self._left = time_limit

    def is_found(self, pattern: Any, text: str) -> bool:
        """Return whether a pattern is found somewhere in a text.

        Args:
            pattern: By `compile_pattern`.
            text: Any text.

        Raises:
            PatternTimeoutError: If that is not known in time.
        """
        began = time.monotonic()
        try:
            return pattern.search(text, timeout=max(0.001, self._left)) is not None
        except TimeoutError:
            raise PatternTimeoutError(
                f"patterns were searched for longer than {self._limit:g} seconds"
            ) from None
        finally:
            self._left -= time.monotonic() - began
