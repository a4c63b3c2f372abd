"""A shop with products to search, open and buy, after WebShop."""

from importlib.util import find_spec

from ors_server import install_hint
from ors_server.resources import MissingRequirementError

_NEEDED = ("numpy", "rapidfuzz", "regex")
_MISSING = [name for name in _NEEDED if find_spec(name) is None]
if _MISSING:
    raise MissingRequirementError(f"{', '.join(_MISSING)} not installed: run {install_hint('webshop')}")

from ors_server_tasks.webshop.environment import WebShop  # noqa: E402  (after the check of what it needs)

__all__ = ["WebShop"]
