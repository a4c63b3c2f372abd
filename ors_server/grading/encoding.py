"""Encodes plain values as JSON trees that keep their types, and back.

Needs only the standard library and runs on Python 3.9, because the sandbox gets it too. A tree is a
null, a bool, a string, a small integer, a list, or an object of one key that names the type of its content.
The decoder trusts nothing: unknown forms, doubled keys and crafted hashes are refused.
"""

from __future__ import annotations  # Python 3.9 knows no `X | None` at run time

import base64
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any, cast

MAX_DEPTH = 120
"""Nested containers; each takes up to three of JSON's, whose parser stops at about 1,000."""
MAX_NODES = 1_000_000
"""Values within one value."""
MAX_EXPONENT = 10_000
"""Of a Decimal, whose integer value could otherwise use all memory."""
# Larger integers go as hexadecimal text: Python limits the digits of decimal text that it converts.
_SAFE_INTEGER = 1 << 53
_MAX_UNCHECKED_HASHES = 1_000
# Keys of trees of what is not plain data. To the agent's side go PATH, HANDLE, BUILTIN, FOREIGN and ERROR;
# from there come HANDLE, CLASS, FOREIGN, BUILTIN and NAMED_TUPLE. `_WRITERS` has the keys of plain values.
PATH = "p"
"""An object of the agent's modules: the name of the module, then those of attributes."""
HANDLE = "h"
"""The number of an object of the agent's; from its side a list: its number, that of its class, and its plain
value if it has one."""
CLASS = "k"
"""The number of a class of the agent's, which was described under `classes`."""
BUILTIN = "n"
"""The name of an object of Python's `builtins`."""
FOREIGN = "r"
"""The number of an object of the tests'; to the agent's side [number, is callable, name, docstring]."""
ERROR = "e"
"""An error of the tests': its `class`, its `arguments` and its number, `foreign`."""
NAMED_TUPLE = "m"
"""A named tuple of the agent's: [name of the class, names of the fields, items]."""
PLAIN = (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)

Other = Callable[[Any], Any]


def kind_of(value: object) -> Any:
    """Return a value's real class, even if its `__class__` claims another."""
    return type(value)


class EncodingError(ValueError):
    """A value is not plain, too deep or too large to be sent."""


class DecodingError(ValueError):
    """A text or tree is not the encoding of any value."""


class Encoder:
    """Turns values into trees; `other` does so for other types than plain ones, or raises EncodingError."""

    def __init__(self, other: Other | None = None) -> None:
        self.other = other or as_its_base
        self._nodes = 0
        self._depth = 0

    def tree(self, value: Any) -> Any:
        """Return the tree of a value."""
        # `type(...) is`, not `isinstance`: an object of a derived class must not be taken for the plain
        # value.
        if value is None or value is True or value is False or type(value) is str:
            return value
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise EncodingError(f"more than {MAX_NODES} values within one")
        if self._depth >= MAX_DEPTH:
            raise EncodingError(f"more than {MAX_DEPTH} containers within one another")
        kind = kind_of(value)
        write = _WRITERS.get(kind) or _by_name(kind)
        if write is None:
            replaced = self.other(value)
            return self.tree(replaced.value) if isinstance(replaced, Replacement) else replaced
        self._depth += 1
        try:
            return write(self, value)
        finally:
            self._depth -= 1

    def trees(self, values: Any) -> list[Any]:
        """Return the trees of several values."""
        return [self.tree(value) for value in values]


class Replacement:
    """Returned by `other` to have another value encoded in place of the given one."""

    def __init__(self, value: Any) -> None:
        self.value = value


def as_its_base(value: Any) -> Replacement:
    """Return a value of a class that derives from a plain type, as that type; raises EncodingError."""
    for base, strip in _BASES.items():
        if isinstance(value, base):
            return Replacement(strip(value))
    raise EncodingError(f"a value of type {type(value).__name__} is not plain data")


def to_text(tree: Any) -> bytes:
    """Return a tree as JSON; ASCII only."""
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode("ascii")


def from_text(text: bytes) -> Any:
    """Return the tree of a text of any bytes.

    Raises:
        DecodingError: It is not JSON without floats, or is nested too deeply.
    """
    try:
        return json.loads(text, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DecodingError(f"not a message: {type(error).__name__}") from None


def decode(tree: Any, other: Other | None = None) -> Any:
    """Return the value of a tree; `other` gets the key and content of an object of an unknown key.

    Raises:
        DecodingError: It is not the tree of a value.
    """
    try:
        return _Decoder(other).value(tree)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, DecodingError):
            raise
        raise DecodingError(f"not a value: {type(error).__name__}") from None


class _Decoder:
    def __init__(self, other: Other | None) -> None:
        self._other = other

    def values(self, trees: Any) -> list[Any]:
        return [self.value(tree) for tree in trees]

    def value(self, tree: Any) -> Any:
        if tree is None or isinstance(tree, (bool, str, int)):
            return tree
        if isinstance(tree, list):
            return self.values(tree)
        if not isinstance(tree, dict) or len(cast("dict[str, Any]", tree)) != 1:
            raise DecodingError("not a value: expected an object of one key")
        ((key, content),) = cast("dict[str, Any]", tree).items()
        read = _READERS.get(key)
        if read is not None:
            return read(self, content)
        if self._other is None:
            raise DecodingError(f"not a value: unknown type {key!r}")
        return self._other((key, content))


def _by_name(kind: type) -> Callable[[Encoder, Any], Any] | None:
    """Find the writer of a type whose module may not be imported."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    parts = _PARTS.get(name)
    # A class of the agent's may claim this module and name.
    if parts is None or getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        return None
    return lambda encoder, value: {"x": [name, *encoder.trees(parts(value))]}


def _items(kind: Any, value: Any) -> list[Any]:
    # By the plain type's own method: a derived class may define another one, which would run the agent's
    # code.
    return list(kind.__iter__(value))


def _pairs(kind: Any, value: Any) -> list[Any]:
    return list(kind.items(value))


def _naive(value: Any) -> tuple[()]:
    if value.tzinfo is not None or value.fold:
        raise EncodingError("a time with a zone or a fold is not plain data")
    return ()


def _from_parts(decoder: _Decoder, content: Any) -> Any:
    name, *parts = content
    if name not in _PARTS:
        raise DecodingError("not a value: unknown type")
    module, _, kind = name.rpartition(".")
    value = getattr(importlib.import_module(module), kind)(*[decoder.value(part) for part in parts])
    if kind == "Decimal" and value.is_finite() and abs(value.adjusted()) > MAX_EXPONENT:
        raise DecodingError("not a value: a Decimal too large to compute with")
    return value


def _refuse(text: str) -> Any:
    raise DecodingError(f"a number that no encoder writes: {text[:20]}")


def _integer(_encoder: Encoder, value: int) -> Any:
    return value if -_SAFE_INTEGER < value < _SAFE_INTEGER else {"i": f"{value:x}"}


def _bytes(_encoder: Encoder, value: bytes) -> Any:
    return {"b": base64.b64encode(value).decode("ascii")}


def _spread(values: list[Any]) -> list[Any]:
    """Refuse values that were made to collide: hashing them would take hours."""
    if len(values) > _MAX_UNCHECKED_HASHES and len(set(map(str, map(hash, values)))) < len(values) // 2:
        raise DecodingError("not a value: its hashes collide")
    return values


def _set(decoder: _Decoder, content: Any) -> set[Any]:
    items: list[Any] = _spread(decoder.values(content))
    elements = set(items)
    if len(elements) != len(items):
        raise DecodingError("not a value: a set with an element twice")
    return elements


def _dict(decoder: _Decoder, content: Any) -> dict[Any, Any]:
    keys: list[Any] = _spread([decoder.value(key) for key, _ in content])
    mapping = dict(zip(keys, [decoder.value(value) for _, value in content]))  # noqa: B905 # Python 3.9
    if len(mapping) != len(keys):
        raise DecodingError("not a value: a dict with a key twice")
    return mapping


def _complex(_decoder: _Decoder, content: Any) -> complex:
    real, imaginary = content
    return complex(float.fromhex(real), float.fromhex(imaginary))


_WRITERS: dict[type, Callable[[Encoder, Any], Any]] = {
    int: _integer,
    float: lambda _, value: {"f": value.hex()},
    complex: lambda _, value: {"c": [value.real.hex(), value.imag.hex()]},
    bytes: _bytes,
    bytearray: lambda _, value: {"y": base64.b64encode(value).decode("ascii")},
    list: Encoder.trees,
    tuple: lambda encoder, value: {"t": encoder.trees(value)},
    set: lambda encoder, value: {"s": encoder.trees(value)},
    frozenset: lambda encoder, value: {"z": encoder.trees(value)},
    dict: lambda encoder, value: {"d": [encoder.trees(pair) for pair in value.items()]},
}

_READERS: dict[str, Callable[[_Decoder, Any], Any]] = {
    "i": lambda _, content: int(content, 16),
    "f": lambda _, content: float.fromhex(content),
    "c": _complex,
    "b": lambda _, content: base64.b64decode(content, validate=True),
    "y": lambda _, content: bytearray(base64.b64decode(content, validate=True)),
    "t": lambda decoder, content: tuple(decoder.values(content)),
    "s": _set,
    "z": lambda decoder, content: frozenset(_set(decoder, content)),
    "d": _dict,
    "x": _from_parts,
}

# Immutable types of the standard library, by what their constructors take.
_PARTS: dict[str, Callable[[Any], list[Any]]] = {
    "builtins.range": lambda value: [value.start, value.stop, value.step],
    "builtins.slice": lambda value: [value.start, value.stop, value.step],
    "decimal.Decimal": lambda value: [str(value)],
    "fractions.Fraction": lambda value: [value.numerator, value.denominator],
    "datetime.date": lambda value: [value.year, value.month, value.day],
    "datetime.datetime": lambda value: [*value.timetuple()[:6], value.microsecond, *_naive(value)],
    "datetime.time": lambda value: [
        *(value.hour, value.minute, value.second, value.microsecond),
        *_naive(value),
    ],
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
}

# The plain value of an object, read by its base type's methods and never by its own.
_BASES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray(bytes(memoryview(value))),
    list: lambda value: _items(list, value),
    tuple: lambda value: tuple(_items(tuple, value)),
    dict: lambda value: dict(_pairs(dict, value)),
    set: lambda value: set(_items(set, value)),
    frozenset: lambda value: frozenset(_items(frozenset, value)),
}
