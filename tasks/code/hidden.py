"""Runs a page's trusted code to get the hidden calls of a solution and their expected results.

It runs in the server, and no code of an agent's does.
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
    """One call of a solution's function, with its expected result."""

    function: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    expected: Any = None
    """Its return value, unless it raises."""
    raises: str | None = None
    """Name of the class of the exception that it raises."""


def run_source(source: str, title: str, **names: Any) -> dict[str, Any]:
    """Run a page's Python as a module and return its names; `title` is its name in tracebacks."""
    namespace: dict[str, Any] = {"__name__": "solution", **names}
    exec(compile(source, f"<{title}>", "exec"), namespace)  # noqa: S102  (the pages are part of this package)
    return namespace


def public_functions(namespace: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the public functions of a module."""
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and getattr(value, "__module__", None) == "solution"
    }


def record_calls(source: str, functions: Mapping[str, Callable[..., Any]], title: str) -> list[Call]:
    """Return the calls that a page's code makes, with the results of the solution's functions.

    The code calls the functions by name; it can also use `rng`, a random.Random seeded with the title.
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
    """Return a call with its result; the function gets copies of the arguments."""
    recorded = copy.deepcopy((arguments, dict(keywords)))
    call_arguments = copy.deepcopy(recorded)
    try:
        expected = function(*call_arguments[0], **call_arguments[1])
    except Exception as error:  # noqa: BLE001  (raising is what the case expects)
        return Call(name, *recorded, raises=type(error).__name__)
    return Call(name, *recorded, expected=copy.deepcopy(expected))
