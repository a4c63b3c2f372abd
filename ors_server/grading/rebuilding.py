"""Rebuilds, in the trusted process, what an answer may name beside mirrors: plain values, classes, errors."""

import builtins
import collections
import keyword
from typing import Any

from ors_server.grading.encoding import PLAIN, DecodingError

_PLAIN_CLASSES = {kind.__name__: kind for kind in (*PLAIN, bool, object, type(None))}
_MAX_FIELDS = 100


def require_plain(value: Any) -> Any:
    """Return an object exactly of a plain type; raises DecodingError for any other."""
    if type(value) not in PLAIN:
        raise DecodingError("not the plain side of an object")
    return value


def make_error(kind: type[BaseException], arguments: list[Any]) -> BaseException:
    """Return an error with these `args`, whatever its constructor requires."""
    try:
        return kind(*arguments)
    except Exception:  # noqa: BLE001 # its constructor wants something else
        made = kind.__new__(kind)
        made.args = tuple(arguments)
        return made


def python_class(name: str) -> Any:
    """Return a class of Python's plain values or errors by name; raises DecodingError for any other."""
    if name in _PLAIN_CLASSES:
        return _PLAIN_CLASSES[name]
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return kind
    raise DecodingError(f"a class that cannot be named: {name[:100]}")


def make_named_tuple(name: str, fields: list[str], items: list[Any]) -> Any:
    """Return a named tuple of its own class; raises DecodingError if the fields are not valid."""
    if len(fields) > _MAX_FIELDS or keyword.iskeyword(name):
        raise DecodingError("not the tree of a named tuple")
    made: Any = collections.namedtuple(name, fields)  # type: ignore[misc] # noqa: PYI024 # pyright: ignore[reportUntypedNamedTuple]
    return made(*items)
