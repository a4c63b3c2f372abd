"""Mirrors: they represent the agent's modules, classes, objects and errors in the trusted process.

A test's own process never runs the agent's code. What a test does to a mirror is done in the agent's sandbox,
and a plain value or another mirror comes back. The remaining danger is an object that replaces an expected
plain value and answers every question as the test would like it. So an object judges nothing:

- `==`, `<` and the like are refused for every other operand; so is its truth. An object that derives from an
  immutable plain value is compared as that value, which is rebuilt here, and never by its own methods;
- an object that comes back is a new mirror each time: it equals no other mirror, and no container holds it;
- `in`, arithmetic with a plain value, and a method that plain values have too (`startswith`, `count`, `get`),
  if given arguments, are refused unless the test itself made this object by calling a class that the tests'
  author named; a method that tells what a value is (`isdigit`) likewise, always.
"""

from collections.abc import Callable
from typing import Any

from ors_server.grading.encoding import PLAIN
from ors_server.grading.operations import BINARY, CONVERSIONS, OTHERS, UNARY, operate
from ors_server.grading.remote_reference import AgentLink, AgentLostError, RefusedError, RemoteReference

PLAIN_METHODS = frozenset(name for kind in PLAIN for name in dir(kind) if not name.startswith("_"))
"""Names of the methods of plain values."""
MAX_STEPS = 100_000
"""Values that one iterator may yield."""
_ASKED_DUNDERS = {"__name__", "__qualname__", "__doc__", "__wrapped__", "__annotations__"}


def reference_of(mirror: Any) -> RemoteReference:
    """Return a mirror's reference to the object that it represents."""
    # `vars`, not `getattr`, of a class: a class that derives from a mirrored one is not a mirror itself.
    is_class = isinstance(mirror, type)
    reference = vars(mirror).get("_ors_class") if is_class else getattr(mirror, "_ors", None)
    if not isinstance(reference, RemoteReference):
        raise TypeError(f"{type(mirror).__name__} is not a mirror")
    return reference


def is_mirror(value: object) -> bool:
    """Return whether a value is a mirror."""
    if isinstance(value, type):
        return isinstance(vars(value).get("_ors_class"), RemoteReference)
    if isinstance(value, RemoteError):
        return value.is_mirror
    return isinstance(value, RemoteObject | RemoteModule)


class RemoteModule:
    """A mirror of a module; its dunder attributes are its own, so that monkeypatch can restore them."""

    __slots__ = ("__name__", "__path__", "_ors")

    def __init__(self, name: str, link: AgentLink) -> None:
        reference = RemoteReference(link)
        reference.path = (name,)
        reference.is_built = True
        # Past this class's own `__setattr__`, which would send the value to the agent's side.
        super().__setattr__("_ors", reference)
        self.__name__ = name
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            raise ImportError(f"import by name what the tests need of {self.__name__}, not *")
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            return reference_of(self).link.get(self, name)
        except AttributeError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None
        # `from module import name` is expected to raise nothing but ImportError.
        except (Exception, SystemExit) as error:  # noqa: BLE001 # what the agent's code raised
            raise ImportError(f"{self.__name__}.{name} raised {type(error).__name__}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            reference_of(self).link.set(self, name, value)

    def __delattr__(self, name: str) -> None:
        reference_of(self).link.delete(self, name)


class RemoteClass(type):
    """The metaclass of mirrored classes; only the link creates instances."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, from_link: bool = False
    ) -> "RemoteClass":
        """Refuse a test's class that derives from a mirrored one: the agent's code would never see it."""
        if not from_link and bases:
            raise TypeError(
                f"{name} cannot derive from a class of the agent's: they live in different processes"
            )
        return super().__new__(cls, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, from_link: bool = False
    ) -> None:
        del from_link  # for the check in `__new__` only
        super().__init__(name, bases, namespace)

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        """Create an object of the agent's class."""
        return reference_of(cls).link.call(cls, arguments, keywords)

    def __getattr__(cls, name: str) -> Any:
        return _attribute(cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            reference_of(cls).link.set(cls, name, value)

    def __bool__(cls) -> bool:
        return reference_of(cls).link.stop(_not_to_judge(cls, "bool"))

    def __iter__(cls) -> Any:
        return reference_of(cls).link.operate("iter", cls)

    def __len__(cls) -> int:
        return int(reference_of(cls).link.operate("len", cls))

    def __getitem__(cls, key: Any) -> Any:
        return reference_of(cls).link.operate("getitem", cls, key)


class RemoteErrorClass(type):
    """The metaclass of mirrored error classes: their instances are real exceptions of this process."""

    def __getattr__(cls, name: str) -> Any:
        return _attribute(cls, name)


class RemoteError:
    """The first base of a mirrored error, before the real exception class."""

    _ors: RemoteReference | None = None
    _ors_text: str | None = None
    args: tuple[Any, ...]

    @property
    def is_mirror(self) -> bool:
        """Whether the agent's code raised it, and not a test."""
        return self._ors is not None

    def mirror(self, reference: RemoteReference, text: str) -> None:
        """Let it represent an error of the agent's."""
        self._ors, self._ors_text = reference, text

    def __getattr__(self, name: str) -> Any:
        if self._ors is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return _attribute(self, name)

    def __str__(self) -> str:
        return super().__str__() if self._ors_text is None else self._ors_text


def _comparison(name: str) -> Callable[[Any, object], Any]:
    def compare(self: Any, other: object) -> Any:
        return operate(name, [_plain(self, name), other])

    return compare


class RemoteObject(metaclass=RemoteClass):
    """A mirror of an object."""

    __slots__ = ("__weakref__", "_ors")
    _ors: RemoteReference

    def __getattr__(self, name: str) -> Any:
        return _attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_ors":
            object.__setattr__(self, name, value)
        else:
            self._ors.link.set(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._ors.link.delete(self, name)

    def __str__(self) -> str:
        return str(_converted(self, "str"))

    def __repr__(self) -> str:
        return str(_converted(self, "repr"))

    def __format__(self, form: str) -> str:
        return str(_converted(self, "format", form))

    def __bool__(self) -> bool:
        return bool(_plain(self, "bool"))

    __eq__ = _comparison("eq")
    __ne__ = _comparison("ne")
    __lt__, __le__ = _comparison("lt"), _comparison("le")
    __gt__, __ge__ = _comparison("gt"), _comparison("ge")
    # By identity: a class that defines `__eq__` loses its hash, and a mirror must stay usable as a key.
    __hash__ = object.__hash__


def _attribute(mirror: Any, name: str) -> Any:
    if name.startswith("__") and name not in _ASKED_DUNDERS:
        raise AttributeError(name)
    reference = reference_of(mirror)
    value = reference.link.get(mirror, name)
    is_callers = reference.is_built and not isinstance(
        mirror, type
    )  # a class may come back in a value's place
    if name in PLAIN_METHODS and not is_callers and isinstance(value, RemoteObject):
        reference_of(value).guarded = name
    return value


def _converted(mirror: Any, name: str, *more: Any) -> Any:
    link = reference_of(mirror).link
    converted = link.operate(name, mirror, *more)
    # Exactly the plain type: an object of a derived class could answer the next comparison itself.
    if type(converted) is not CONVERSIONS[name]:
        link.stop(AgentLostError(f"{name}() of an object gave a {type(converted).__name__}"))
    return converted


# Fetched only when a test reads it.
_DOC = property(lambda self: _attribute(self, "__doc__"))


def call(mirror: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call the object of a mirror."""
    reference = reference_of(mirror)
    if reference.guarded and (arguments or keywords or reference.guarded.startswith("is")):
        reference.link.stop(
            RefusedError(f"{reference.guarded}: plain values have it too; name its class in `classes`")
        )
    return reference.link.call(mirror, arguments, keywords)


def _plain(mirror: Any, name: str) -> Any:
    """Return an object's plain value; the test is stopped if the object does not have one."""
    reference = reference_of(mirror)
    return reference.plain[0] if reference.plain else reference.link.stop(_not_to_judge(mirror, name))


def _combine(name: str, *, is_reflected: bool = False) -> Callable[..., Any]:
    def combine(self: Any, other: Any, *more: Any) -> Any:
        reference = reference_of(self)
        if reference.is_built or is_mirror(other):  # then the agent's side may decide about the two
            operands = (other, self) if is_reflected else (self, other)
            return reference.link.operate(name, *operands, *more)
        if reference.plain:
            sides = [other, reference.plain[0]] if is_reflected else [reference.plain[0], other]
            return operate(name, [*sides, *more])
        return reference.link.stop(_not_to_judge(self, name))

    return combine


def _contains(self: Any, item: Any) -> bool:
    if not reference_of(self).is_built:
        return item in _plain(self, "in")
    return bool(_converted(self, "contains", item))


def _not_to_judge(mirror: Any, name: str) -> RefusedError:
    kind = mirror if isinstance(mirror, type) else type(mirror)
    return RefusedError(
        f"{name}: an object of the agent's class {kind.__name__} may not judge: compare plain values, or "
        "take the fixture `ask`; for arithmetic and `in`, build it in the test and name it in `classes`"
    )


def _step(self: Any) -> Any:
    reference = reference_of(self)
    reference.steps += 1
    # An iterator of the agent's may never end.
    if reference.steps > MAX_STEPS:
        reference.link.stop(AgentLostError(f"an iterator gave more than {MAX_STEPS} values"))
    return reference.link.operate("next", self)


def _enter(self: Any) -> Any:
    entered = reference_of(self).link.operate("enter", self)
    # `with` on an object that returns itself must yield this mirror, which may be marked as built.
    is_itself = (
        isinstance(entered, RemoteObject) and reference_of(entered).number == reference_of(self).number
    )
    return self if is_itself else entered


def _leave(self: Any, kind: Any, error: Any, _trace: Any) -> Any:
    return reference_of(self).link.operate("exit", self, kind, error, None)


def _ask(name: str) -> Callable[..., Any]:
    def ask(self: Any, *operands: Any) -> Any:
        return reference_of(self).link.operate(name, self, *operands)

    return ask


def _convert(name: str) -> Callable[..., Any]:
    def convert(self: Any, *operands: Any) -> Any:
        return _converted(self, name, *operands)

    return convert


_METHODS: dict[str, Callable[..., Any]] = {
    **{name: _ask(name) for name in (*UNARY, *OTHERS)},
    **{name: _convert(name) for name in CONVERSIONS if name != "bool"},
    **{name: _combine(name) for name in BINARY},
    **{f"r{name}": _combine(name, is_reflected=True) for name in BINARY},
    "contains": _contains,
    "next": _step,
    "enter": _enter,
    "exit": _leave,
    "call": call,
}


def make_object(kind: type, reference: RemoteReference) -> RemoteObject:
    """Return a mirror of an object."""
    if not issubclass(kind, RemoteObject):
        raise TypeError(f"{kind.__name__} is not a class of mirrors")
    # Not by calling the class: that creates an object of the agent's class on the other side.
    mirror = object.__new__(kind)
    object.__setattr__(mirror, "_ors", reference)
    return mirror


def make_class(
    name: str, bases: tuple[type[Any], ...], operators: list[str], reference: RemoteReference
) -> type:
    """Return a class whose instances are mirrors, with those known `operators` that the agent's class has."""
    methods = {f"__{operator}__": _METHODS[operator] for operator in operators if operator in _METHODS}
    space: dict[str, Any] = {**methods, "__slots__": (), "__module__": "agent", "__doc__": _DOC}
    mirrored = RemoteClass(name, bases or (RemoteObject,), space, from_link=True)
    type.__setattr__(mirrored, "_ors_class", reference)
    return mirrored


def make_error_class(name: str, base: type[Any], reference: RemoteReference) -> type:
    """Return a class of errors that mirrors one of the agent's; `base` is a mirror or Python's own."""
    bases = (base,) if issubclass(base, RemoteError) else (RemoteError, base)
    mirrored = RemoteErrorClass(name, bases, {"__module__": "agent"})
    type.__setattr__(mirrored, "_ors_class", reference)
    return mirrored
