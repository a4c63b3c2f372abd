"""Empty modules, with which hidden tests are counted before any code of the agent's runs.

What is collected with blank modules is what the author wrote. A test file that needs more of the agent's code
than names while it is collected is the author's mistake; the agent's code cannot cause it.
"""

import sys
import types
from collections.abc import Sequence
from typing import Any, NoReturn


class NeedsAgentError(Exception):
    """A test file uses the agent's code outside its tests and fixtures."""


class Blank:
    """Replaces anything in the agent's module; it has a name and can be passed on."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> "Blank":
        if name.startswith("__"):
            raise AttributeError(name)
        return Blank(f"{self.__name__}.{name}")

    def _refuse(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
        raise NeedsAgentError(
            f"{self.__name__} is used while the tests are collected; use it in tests and fixtures only"
        )

    __call__ = __iter__ = __len__ = __getitem__ = __bool__ = __contains__ = _refuse
    __add__ = __radd__ = __sub__ = __mul__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse
    __mro_entries__ = __enter__ = __exit__ = __int__ = __float__ = __index__ = _refuse


class BlankModule(types.ModuleType):
    """A module from which every name can be imported."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            raise NeedsAgentError(f"import by name what the tests need of {self.__name__}, not *")
        if name.startswith("__"):
            raise AttributeError(name)
        below = sys.modules.get(f"{self.__name__}.{name}")
        return below if isinstance(below, BlankModule) else Blank(name)


def install_blanks(modules: Sequence[str]) -> None:
    """Make `import` find blank modules.

    Args:
        modules: Names of modules, with dots for those in packages.
    """
    for module in modules:
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            sys.modules[name] = BlankModule(name)
