"""Environments that other packages have, as environments of this server.

Each module adapts one package, which it imports only when an environment is made, and offers it as a `Source`
to the command line. The names here are loaded on first use.
"""

from importlib import import_module
from typing import Any

_MODULES: dict[str, str] = {}
"""Public name to the module that has it."""

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
