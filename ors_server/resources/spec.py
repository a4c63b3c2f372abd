"""Specifications of resources: data that can be compared, by which resources are pooled.

Names and figures of the three environments are AgentFly's at 1256586.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from typing_extensions import override

from ors_server.resources.resource_errors import ResourceUseError

EnvClass: TypeAlias = str | Callable[..., Any]
"""A class or another callable that returns an environment, or its path: `module:name`, `module.name`."""


def _frozen(value: object, where: str) -> Hashable:
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return ("mapping", frozenset((_frozen(key, where), _frozen(entry, where)) for key, entry in items))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ("sequence", tuple(_frozen(entry, where) for entry in cast("Sequence[object]", value)))
    if isinstance(value, AbstractSet):
        return ("set", frozenset(_frozen(entry, where) for entry in cast("AbstractSet[object]", value)))
    if not isinstance(value, Hashable):
        raise ResourceUseError(
            f"{where} of a spec must hold values that can be hashed, to compare specs; "
            f"a {type(value).__name__} cannot"
        )
    return (type(value), value)  # 1, 1.0 and True are three values


@dataclass(frozen=True, kw_only=True, eq=False)
class ResourceSpec:
    """The fields of every spec. Specs of one class with equal fields are equal.

    Derive a class for another kind of resource; its `ResourceBackend` reads the new fields.
    """

    category: str = "resource"
    """Shown in errors and figures."""
    max_global_num: int = 64
    """Maximum number of resources of this spec that a pool keeps alive at once, at least 1."""
    start_timeout: float = 60.0
    """Seconds that a start, or a health check with a reset, may take."""
    max_uses: int | None = None
    """Holders after which a resource is ended instead of reset; `None` for no limit."""
    memory_limit: int | None = None
    """Bytes of `Resource.memory_used` above which a released resource is ended."""

    def __post_init__(self) -> None:
        """Raise `ResourceUseError` if a limit is out of range, or a field cannot be hashed."""
        self._check("max_global_num", self.max_global_num, at_least=1)
        self._check("max_uses", self.max_uses, at_least=1)
        self._check("memory_limit", self.memory_limit, at_least=1)
        self._check_seconds("start_timeout", self.start_timeout)
        _ = self.key

    @cached_property
    def key(self) -> Hashable:
        """The spec as one value that can be hashed."""
        return (
            type(self),
            *((item.name, _frozen(getattr(self, item.name), item.name)) for item in fields(self)),
        )

    @property
    def label(self) -> str:
        """Its name in errors and figures."""
        return self.category

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceSpec) and self.key == other.key

    @override
    def __hash__(self) -> int:
        return hash(self.key)

    @staticmethod
    def _check(name: str, value: int | None, *, at_least: int) -> None:
        if value is not None and value < at_least:
            raise ResourceUseError(f"{name} must be at least {at_least}, got {value}")

    @staticmethod
    def _check_seconds(name: str, value: float) -> None:
        if not (math.isfinite(value) and value > 0):
            raise ResourceUseError(f"{name} must be a number of seconds above 0, got {value!r}")


@dataclass(frozen=True, eq=False)
class LocalEnvResourceSpec(ResourceSpec):
    """An environment object in this process.

    Its optional methods, sync or async: `start()`, `reset(...)`, `close()`, `is_healthy()`, `memory_used()`.
    """

    env_cls_path: EnvClass
    """Its class, or the path of it."""
    init_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of the class: plain values, and lists and mappings of them."""
    category: str = field(default="local_env", kw_only=True)

    @override
    def __post_init__(self) -> None:
        object.__setattr__(self, "init_kwargs", MappingProxyType(dict(self.init_kwargs)))
        super().__post_init__()

    @property
    @override
    def label(self) -> str:
        place = self.env_cls_path
        name = place if isinstance(place, str) else getattr(place, "__qualname__", repr(place))
        return f"{self.category} ({name})"

    def find_class(self) -> Callable[..., Any]:
        """Return the class; ResourceUseError if there is no callable at its path."""
        place = self.env_cls_path
        if not isinstance(place, str):
            return place
        module, _, name = place.partition(":") if ":" in place else place.rpartition(".")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ResourceUseError(f"no environment class is at {place!r}: {error}") from error
        if not callable(found):
            raise ResourceUseError(f"what is at {place!r} cannot be called: {found!r:.80}")
        return cast("Callable[..., Any]", found)


@dataclass(frozen=True, eq=False)
class WorkerEnvResourceSpec(ResourceSpec):
    """An environment object in a separate process; with `interpreter`, in another virtual environment.

    Arguments and results of its methods are JSON. The optional methods are those of `LocalEnvResourceSpec`.
    """

    env_cls_path: str
    """The path of its class: `module:name`, `module.name` or `/folder/file.py:name`."""
    init_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of the class, as JSON."""
    interpreter: str | None = field(default=None, kw_only=True)
    """The Python of the process, such as `/opt/game/bin/python`; by default this one.

    Only the default finds the modules that this process finds."""
    import_folders: tuple[str, ...] = field(default=(), kw_only=True)
    """Folders in which the process looks for modules first."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    """Environment variables of the process. Of this process's it gets those of an allow-list only (paths,
    locale, caches), and those that the operator names in `ORS_WORKER_VARIABLES`. To pass another one on, such
    as a key, write `variables={"NAME": os.environ["NAME"]}`."""
    call_timeout: float = field(default=60.0, kw_only=True)
    """Seconds that a call of a method may take before the process is killed."""
    answer_limit: int = field(default=1 << 20, kw_only=True)
    """Maximum number of bytes of a result as JSON, which takes the event loop about 20 ms for a mebibyte."""
    category: str = field(default="worker_env", kw_only=True)

    @override
    def __post_init__(self) -> None:
        object.__setattr__(self, "init_kwargs", MappingProxyType(dict(self.init_kwargs)))
        object.__setattr__(self, "variables", MappingProxyType(dict(self.variables)))
        super().__post_init__()
        self._check_seconds("call_timeout", self.call_timeout)
        self._check("answer_limit", self.answer_limit, at_least=1)
        if not isinstance(self.env_cls_path, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (or it is a class)
            raise ResourceUseError(
                "env_cls_path of a worker must be a text such as 'module:name', for its process to import, "
                f"got {self.env_cls_path!r:.80}"
            )

    @property
    @override
    def label(self) -> str:
        return f"{self.category} ({self.env_cls_path})"


@dataclass(frozen=True, eq=False)
class NamedResourceSpec(ResourceSpec):
    """A name that tools and rewards share; `ResourcePool.bind` gives it a spec."""

    def local(self, env_cls: EnvClass, init_kwargs: Mapping[str, Any] | None = None) -> LocalEnvResourceSpec:
        """Return a spec of an environment in this process that has this one's name and limits."""
        return LocalEnvResourceSpec(env_cls, init_kwargs or {}, **self._limits)

    def worker(
        self, env_cls_path: str, init_kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> WorkerEnvResourceSpec:
        """Return a spec of an environment in a separate process that has this one's name and limits.

        `options` are further fields of `WorkerEnvResourceSpec`.
        """
        return WorkerEnvResourceSpec(env_cls_path, init_kwargs or {}, **{**self._limits, **options})

    @property
    def _limits(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(ResourceSpec)}


WebShopSpec = NamedResourceSpec(category="webshop", max_global_num=8, start_timeout=180.0)
ALFWorldSpec = NamedResourceSpec(category="alfworld", max_global_num=8, start_timeout=120.0)
ScienceWorldSpec = NamedResourceSpec(category="scienceworld", max_global_num=48, start_timeout=10.0)
PythonEnvSpec = NamedResourceSpec(category="python_env", max_global_num=8, start_timeout=60.0)
"""An environment whose `step(code)` runs Python and returns what it printed; the limits are ours."""
