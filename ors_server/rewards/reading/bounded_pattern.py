"""Regular expressions with a time limit: a task's pattern, an agent's text."""

import time
from typing import Any, Literal, TypeAlias

from ors_server.processes import offload
from ors_server.processes.offload import OffloadLimits, OverLimitError
from ors_server.rewards.reading.optional_packages import load_package

Mode: TypeAlias = Literal["search", "fullmatch"]

TIME_LIMIT = 1.0
"""Seconds of the processor for all searches of one judgement."""
IN_PLACE = 0.01
"""Seconds after which a search moves to a worker process: a thread would hold the interpreter's lock."""


class PatternError(ValueError):
    """A text is not a regular expression; the message says why."""


class PatternTimeoutError(Exception):
    """A search took too long."""


def compile_pattern(pattern: str) -> Any:
    """Compile a regular expression of the package `regex`; raise `PatternError` if it is invalid."""
    regex = load_package("regex")
    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, TypeError, RecursionError) as error:
        raise PatternError(f"{pattern!r:.80} is not a valid regular expression: {error}") from None


class PatternBudget:
    """The processor time that all searches of one judgement may take together."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self._limit = time_limit
        self._left = time_limit

    def is_found(self, pattern: Any, text: str, mode: Mode = "search") -> bool:
        """Whether a pattern is found in a text, or matches the whole of it, within the time."""
        if self._left > IN_PLACE and len(text) <= offload.MAX_INLINE_SIZE:
            began = time.thread_time()
            try:
                return getattr(pattern, mode)(text, timeout=IN_PLACE) is not None
            except TimeoutError:
                pass
            finally:
                self._left -= time.thread_time() - began
        return self._is_found_apart(pattern, text, mode)

    def _is_found_apart(self, pattern: Any, text: str, mode: Mode) -> bool:
        try:
            limits = OffloadLimits(cpu_seconds=max(0.001, self._left))
            is_match, seconds = offload.call(
                search_timed, pattern.pattern, pattern.flags, mode, text, limits=limits
            )
        except OverLimitError:
            reason = f"the search for patterns took longer than {self._limit:g} seconds"
            raise PatternTimeoutError(reason) from None
        self._left -= seconds
        return is_match


def search_timed(pattern: str, flags: int, mode: Mode, text: str) -> tuple[bool, float]:
    """Searches, in a worker process; returns whether it is found, and the processor seconds."""
    began = time.process_time()
    compiled = load_package("regex").compile(pattern, flags)
    return getattr(compiled, mode)(text) is not None, time.process_time() - began
