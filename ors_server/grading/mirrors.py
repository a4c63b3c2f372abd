"""Mirrors: they represent the agent's modules, classes, objects and errors in the trusted process.

A test's own process never runs the agent's code. What a test does to a mirror is done in the agent's sandbox,
and a plain value or another mirror comes back. The remaining danger is an object that replaces an expected
plain value and answers every question as the test would like it. So an object judges nothing:

- `==`, `<` and the like are refused, whatever the other operand; so is its truth. An object that derives from
an
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
    is_class = isinstance(mirror, type)
    found = vars(mirror).get("_ors_class") if is_class else getattr(mirror, "_ors", None)
    if not isinstance(found, RemoteReference):
        raise TypeError(f"{type(mirror).__name__} is not a mirror")
    return found


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
        mine = RemoteReference(link)
        mine.path = (name,)
        mine.is_built = True
        super().__setattr__("_ors", mine)
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
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, made: bool = False
    ) -> "RemoteClass":
        """Refuse a test's class that derives from a mirrored one: the agent's code would never see it."""
        if not made and bases:
            raise TypeError(
                f"{name} cannot derive from a class of the agent's: they live in different processes"
            )
        return super().__new__(cls, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, made: bool = False
    ) -> None:
        del made  # it was for the check above
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
    __hash__ = object.__hash__


def _attribute(mirror: Any, name: str) -> Any:
    if name.startswith("__") and name not in _ASKED_DUNDERS:
        raise AttributeError(name)
    mine = reference_of(mirror)
    found = mine.link.get(mirror, name)
    is_callers = mine.is_built and not isinstance(mirror, type)  # a class may come back in a value's place
    if name in PLAIN_METHODS and not is_callers and isinstance(found, RemoteObject):
        reference_of(found).guarded = name
    return found


def _converted(mirror: Any, name: str, *more: Any) -> Any:
    link = reference_of(mirror).link
    made = link.operate(name, mirror, *more)
    if type(made) is not CONVERSIONS[name]:
        link.stop(AgentLostError(f"{name}() of an object gave a {type(made).__name__}"))
    return made


_DOC = property(lambda self: _attribute(self, "__doc__"))


def call(mirror: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call the object of a mirror."""
    mine = reference_of(mirror)
    if mine.guarded and (arguments or keywords or mine.guarded.startswith("is")):
        mine.link.stop(RefusedError(f"{mine.guarded}: plain values have it too; name its class in `classes`"))
    return mine.link.call(mirror, arguments, keywords)


def _plain(mirror: Any, name: str) -> Any:
    """Return an object's plain value; the test is stopped if it has none."""
    mine = reference_of(mirror)
    return mine.plain[0] if mine.plain else mine.link.stop(_not_to_judge(mirror, name))


def _combine(name: str, *, is_reflected: bool = False) -> Callable[..., Any]:
    def combine(self: Any, other: Any, *more: Any) -> Any:
        mine = reference_of(self)
        if mine.is_built or is_mirror(other):  # then the agent's side may decide about the two
            operands = (other, self) if is_reflected else (self, other)
            return mine.link.operate(name, *operands, *more)
        if mine.plain:
            sides = [other, mine.plain[0]] if is_reflected else [mine.plain[0], other]
            return operate(name, [*sides, *more])
        return mine.link.stop(_not_to_judge(self, name))

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
    mine = reference_of(self)
    mine.steps += 1
    if mine.steps > MAX_STEPS:
        mine.link.stop(AgentLostError(f"an iterator gave more than {MAX_STEPS} values"))
    return mine.link.operate("next", self)


def _enter(self: Any) -> Any:
    made = reference_of(self).link.operate("enter", self)
    is_itself = isinstance(made, RemoteObject) and reference_of(made).number == reference_of(self).number
    return self if is_itself else made


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
    made = object.__new__(kind)
    object.__setattr__(made, "_ors", reference)
    return made


def make_class(
    name: str, bases: tuple[type[Any], ...], operators: list[str], reference: RemoteReference
) -> type:
    """Return a class whose instances are mirrors, with those known `operators` that the agent's class has."""
    methods = {f"__{operator}__": _METHODS[operator] for operator in operators if operator in _METHODS}
    space: dict[str, Any] = {**methods, "__slots__": (), "__module__": "agent", "__doc__": _DOC}
    made = RemoteClass(name, bases or (RemoteObject,), space, made=True)
    type.__setattr__(made, "_ors_class", reference)
    return made


def make_error_class(name: str, base: type[Any], reference: RemoteReference) -> type:
    """Return a class of errors that mirrors one of the agent's; `base` is a mirror or Python's own."""
    bases = (base,) if issubclass(base, RemoteError) else (RemoteError, base)
    made = RemoteErrorClass(name, bases, {"__module__": "agent"})
    type.__setattr__(made, "_ors_class", reference)
    return made
