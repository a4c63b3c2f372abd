"""The members of a class that a decorator marked; an overriding method inherits the mark."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ors_server.environments.source_places import name_with_location
from ors_server.model.errors import EnvironmentDefinitionError

_Mark = TypeVar("_Mark")


@dataclass(frozen=True, slots=True)
class Member(Generic[_Mark]):
    """A marked member of a class."""

    name: str
    """Its name in the class."""
    function: Callable[..., Any]
    """The function itself, without `staticmethod` or `classmethod`."""
    takes_self: bool
    """Whether its first parameter is the object or the class."""
    mark: _Mark
    where: str
    """Its name in errors."""


def read_mark(member: object, attribute: str, kind: type[_Mark]) -> _Mark | None:
    """Return the mark of a member; `staticmethod` may be above or below the decorator."""
    for holder in (member, getattr(member, "__func__", None)):
        mark = getattr(holder, attribute, None)
        if isinstance(mark, kind):
            return mark
    return None


def marked_members(cls: type, attribute: str, kind: type[_Mark]) -> Iterator[Member[_Mark]]:
    """Find the marked members of a class, in order of definition, base classes first.

    A name that a class sets to `None` is not inherited.
    """
    for name in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        marks = (read_mark(vars(base).get(name), attribute, kind) for base in cls.__mro__)
        mark = next((candidate for candidate in marks if candidate is not None), None)
        member = inspect.getattr_static(cls, name)
        if mark is None or member is None:
            continue
        function = getattr(member, "__func__", member)
        if not callable(function):
            where = name_with_location(cls.__name__, cls)
            msg = f"{where}: {name} hides a tool of a base class and is not a method"
            raise EnvironmentDefinitionError(msg)
        where = name_with_location(f"{cls.__name__}.{name}", function)
        yield Member(name, function, not isinstance(member, staticmethod), mark, where)
