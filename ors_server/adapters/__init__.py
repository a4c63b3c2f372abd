"""Environments that other packages have, as environments of this server.

Each module adapts one package, which it imports only when an environment is made, and offers it as a `Source`
to the command line. The names here are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ors_server.adapters.gymnasium_games import from_gymnasium
    from ors_server.adapters.reasoning_gym_datasets import from_reasoning_gym

__all__ = ["from_gymnasium", "from_reasoning_gym"]

_HOMES = {
    "from_gymnasium": "gymnasium_games",
    "from_reasoning_gym": "reasoning_gym_datasets",
}
"""The module that has each name."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
