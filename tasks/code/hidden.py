"""Runs the trusted code of a page: which calls are made of a solution, and what they should give.

Everything here is the pages' own Python and runs in the server; nothing of an agent's ever comes here.
"""

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PROGRAM = "solve"
"""The function of a program's own solution that turns its whole input into its whole output."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a solution's function and what comes of it."""

    function: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    expected: Any = None
    """What it returns, unless it raises."""
    raises: str | None = None
    """Name of the class of the exception that it raises."""


def run_source(source: str, title: str, **names: Any) -> dict[str, Any]:
    """Run a page's Python as a module and return its names.

    Args:
        source: The Python.
        title: What tracebacks call it.
        names: What it finds defined.
    """
    namespace: dict[str, Any] = {"__name__": "solution", **names}
    exec(compile(source, f"<{title}>", "exec"), namespace)  # noqa: S102  (the pages are part of this package)
    return namespace


def public_functions(namespace: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions that a module defines for others.

    Args:
        namespace: The module's names.
    """
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and getattr(value, "__module__", None) == "solution"
    }


def record_calls(source: str, functions: Mapping[str, Callable[..., Any]], title: str) -> list[Call]:
    """Return the calls that a page's code makes, with what the solution's functions make of them.

    Args:
        source: Python that calls the functions by name; it also finds `rng`, a random.Random seeded with the
            title.
        functions: The solution's functions by name.
        title: The page's name.
    """
    calls: list[Call] = []

    def stand_in(name: str) -> Callable[..., None]:
        def record(*arguments: Any, **keywords: Any) -> None:
            calls.append(make_call(name, functions[name], arguments, keywords))

        return record

    rng = random.Random(title)  # noqa: S311  (the same cases every time are the point)
    run_source(source, title, rng=rng, **{name: stand_in(name) for name in functions})
    return calls


def make_call(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Call:
    """Return a call with what comes of it; the function gets copies.

    Args:
        name: The function's name.
        function: The function.
        arguments: Its arguments.
        keywords: Its arguments by name.
    """
    kept = copy.deepcopy((arguments, dict(keywords)))
    given = copy.deepcopy(kept)
    try:
        expected = function(*given[0], **given[1])
    except Exception as error:  # noqa: BLE001  (raising is what the case expects)
        return Call(name, *kept, raises=type(error).__name__)
    return Call(name, *kept, expected=copy.deepcopy(expected))
