"""Environments of other packages, as environments of this server, and bridges the other way round.

Each module adapts one package, which it imports only when an environment is made, and offers it as a `Source`
to the command line. The names here are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ors_server.installation import explain_absence

if TYPE_CHECKING:
    from ors_server.adapters.bfcl import from_bfcl
    from ors_server.adapters.bridges import to_openenv, to_skyrl_gym, to_trl, to_verifiers
    from ors_server.adapters.bridges.trl_returns import trl_returns
    from ors_server.adapters.gymnasium_games import from_gymnasium
    from ors_server.adapters.inspect_task import from_inspect
    from ors_server.adapters.openenv_server import from_openenv
    from ors_server.adapters.reasoning_gym_datasets import from_reasoning_gym
    from ors_server.adapters.textarena_games import from_textarena
    from ors_server.adapters.verifiers_environment import from_verifiers_environment
    from ors_server.adapters.verifiers_taskset import from_verifiers

__all__ = [
    "from_bfcl",
    "from_gymnasium",
    "from_inspect",
    "from_openenv",
    "from_reasoning_gym",
    "from_textarena",
    "from_verifiers",
    "from_verifiers_environment",
    "to_openenv",
    "to_skyrl_gym",
    "to_trl",
    "to_verifiers",
    "trl_returns",
]

_HOMES = {
    "from_bfcl": "bfcl",
    "from_gymnasium": "gymnasium_games",
    "from_inspect": "inspect_task",
    "from_openenv": "openenv_server",
    "from_reasoning_gym": "reasoning_gym_datasets",
    "from_textarena": "textarena_games",
    "from_verifiers": "verifiers_taskset",
    "from_verifiers_environment": "verifiers_environment",
    "to_openenv": "bridges",
    "to_skyrl_gym": "bridges",
    "to_trl": "bridges",
    "to_verifiers": "bridges",
    "trl_returns": "bridges.trl_returns",
}
"""The module that has each name."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        try:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            raise explain_absence(f"{__name__}.{name}", error) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
