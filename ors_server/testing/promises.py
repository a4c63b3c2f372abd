"""Verdicts on the promises of an interface, which the suites of sandboxes and stores check."""

from collections.abc import Awaitable
from dataclasses import dataclass

import anyio


class BrokenPromiseError(AssertionError):
    """An implementation breaks a promise of its interface; the message has what was expected and happened."""


@dataclass(frozen=True, slots=True)
class PromiseVerdict:
    """Whether an implementation keeps one promise."""

    name: str
    problem: str = ""
    """What was expected and what happened; empty for a pass."""


async def raises(error: type[Exception], attempt: Awaitable[object], description: str) -> None:
    """Raise `BrokenPromiseError` unless an attempt raises an error."""
    try:
        result = await attempt
    except error:
        return
    raise BrokenPromiseError(f"{description}: expected {error.__name__}, got {result!r}")


async def find_problem(check: Awaitable[None], time_limit: float) -> str:
    """Run a check of a promise, and return why the promise is broken; empty if it is kept."""
    with anyio.move_on_after(time_limit):
        try:
            await check
        except BrokenPromiseError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  (the implementation under test may raise anything)
            return f"unexpected {type(error).__name__}: {error}"
        return ""
    return f"not done within {time_limit:g} seconds"
