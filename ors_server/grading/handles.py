"""Describes an agent's objects to the other side: handles, classes, errors. Runs in the sandbox.

Needs only the standard library. Nothing here is a guard: the side that reads it trusts none of it.
"""

from __future__ import annotations  # Python 3.9 knows no `X | None` at run time

import builtins
from typing import Any

from ors_server.grading.encoding import (
    BUILTIN,
    CLASS,
    FOREIGN,
    HANDLE,
    NAMED_TUPLE,
    Encoder,
    EncodingError,
    as_its_base,
    kind_of,
)
from ors_server.grading.operations import operators_of

_COPIED_MODULES = {"collections", "builtins"}
_FIXED = (int, float, complex, str, bytes, tuple, frozenset)
_MAX_TEXT = 1_000


class OpaqueObject:
    """An object of the tests' that the agent's code can only keep and pass back."""

    def __init__(self, number: int) -> None:
        self.ors_number = number

    def __repr__(self) -> str:
        return f"<object {self.ors_number} of the caller>"


class Handles:
    """Every object that the other side may name, and which classes were described to it."""

    def __init__(self, *, objects: bool) -> None:
        self.objects = objects
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._described: set[int] = set()
        self._new_classes: list[dict[str, Any]] = []

    def look_up(self, number: int) -> Any:
        """Return the object of a handle."""
        return self._objects[number]

    def drain_new_classes(self) -> list[dict[str, Any]]:
        """Return the descriptions of classes that the other side does not know yet."""
        descriptions, self._new_classes = self._new_classes, []
        return descriptions

    def tree(self, value: Any) -> Any:
        """Return the tree of a value; an object becomes a handle, or raises EncodingError if not allowed."""
        return Encoder(self._encode_special).tree(value)

    def _encode_special(self, value: Any) -> Any:
        kind = kind_of(value)
        if isinstance(value, OpaqueObject):
            return {FOREIGN: value.ors_number}
        if not self.objects:
            return as_its_base(value)
        fields = getattr(kind, "_fields", None)
        if fields is not None and issubclass(kind, tuple):
            items = self.tree(as_its_base(value).value)["t"]
            return {NAMED_TUPLE: [kind_of(value).__name__, self.tree(fields)["t"], items]}
        if issubclass(kind, dict) and kind.__module__ in _COPIED_MODULES:
            return as_its_base(value)
        if isinstance(value, type):
            is_pythons = getattr(builtins, value.__name__, None) is value
            return {BUILTIN: value.__name__} if is_pythons else {CLASS: self.describe(value)}
        return self.handle_tree(value)

    def handle_tree(self, value: Any) -> Any:
        """Return the tree of a handle, even for a value that could be copied."""
        kind = kind_of(value)
        handle: dict[str, Any] = {HANDLE: [self.number(value), self.describe(kind)]}
        if issubclass(kind, _FIXED):
            base = as_its_base(value)
            handle[HANDLE].append(Encoder(self._encode_special).tree(base.value))
        return handle

    def number(self, value: Any) -> int:
        """Return an object's handle; the object is kept as long as the worker lives."""
        # By identity, not by equality, which the agent's class defines. An id cannot be reused, since the
        # object is kept in the same step.
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def describe(self, kind: Any) -> int:
        """Return a class's handle; the first time, its description is queued to be sent."""
        number = self.number(kind)
        if number not in self._described:
            self._described.add(number)
            is_error = issubclass(kind, BaseException)
            # An error gets one base, because Python's exception classes cannot be combined freely.
            bases = [kind.__base__] if is_error else [base for base in kind.__bases__ if base is not object]
            self._new_classes.append(
                {
                    "class": number,
                    "name": kind.__name__,
                    "module": str(kind.__module__),
                    "error": is_error,
                    "bases": [self._base(base) for base in bases if base is not None],
                    "operators": [] if is_error else operators_of(kind),
                }
            )
        return number

    def _base(self, base: type) -> Any:
        if issubclass(base, BaseException) and getattr(builtins, base.__name__, None) is base:
            return base.__name__
        return self.describe(base)

    def error(self, error: BaseException) -> dict[str, Any]:
        """Describe an error: the nearest class of Python's own, its arguments, and its class."""
        foreign = getattr(error, "_ors_foreign", None)
        if isinstance(foreign, int):
            return {"foreign": foreign}
        description: dict[str, Any] = {"names": chain(type(error)), "arguments": [], "text": _text(error)}
        try:
            description["arguments"] = [self.tree(item) for item in error.args]
            if self.objects:
                description["class"] = self._base(type(error))
                description["handle"] = self.number(error)
        except (EncodingError, TypeError):
            description["arguments"] = [description["text"]]
        return description


def chain(kind: type) -> list[str]:
    """Return the names of an error's class and of its bases, up to the first of Python's own."""
    names: list[str] = []
    at: type | None = kind
    while at is not None:
        names.append(at.__name__)
        if getattr(builtins, at.__name__, None) is at:
            break
        at = at.__base__
    return names


def _text(error: BaseException) -> str:
    try:
        return str.__str__(str(error))[:_MAX_TEXT]
    except BaseException:  # noqa: BLE001 # the agent's own class may raise anything
        return ""
