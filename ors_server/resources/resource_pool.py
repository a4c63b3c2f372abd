"""Hands out resources: pools by spec, holders by scope, within caps and deadlines.

A pool is an instance: one for each server, or for each run of whatever uses resources alone. Its state is
changed between awaits only, so it needs no lock; it belongs to one event loop at a time.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio

from ors_server.resources.local_resource import LocalBackend
from ors_server.resources.resource import Resource, ResourceBackend
from ors_server.resources.resource_errors import (
    ResourceClosedError,
    ResourceError,
    ResourceTimeoutError,
    ResourceUseError,
    UnboundResourceError,
)
from ors_server.resources.slots import Shelf, Slot
from ors_server.resources.spec import NamedResourceSpec, ResourceSpec
from ors_server.resources.upkeep import end_in, is_fit, is_used_up, start_in

CLOSE_LIMIT = 60.0
"""Seconds that closing a pool may take."""
ACQUIRE_LIMIT = 600.0
"""Seconds that acquiring may take, waiting and starting together (AgentFly's default)."""

Claim: TypeAlias = tuple[str, ...]
"""Whose a resource is: a scope and an id in it."""


@dataclass(eq=False, slots=True)
class _Lease:
    """A resource in somebody's hands, or about to be."""

    shelf_key: Hashable
    slot: Slot | None = None
    holders: set[int] = field(default_factory=set[int])
    must_end: bool = False
    settled: anyio.Event = field(default_factory=anyio.Event)


class ResourcePool:
    """Resources by (claim, spec): the same claim and spec give the same resource until it is let go."""

    def __init__(
        self,
        *,
        backends: Mapping[str, ResourceBackend] | None = None,
        bindings: Mapping[NamedResourceSpec, ResourceSpec] | None = None,
    ) -> None:
        """Make an empty pool.

        Args:
            backends: Who makes resources, by name, beside `local`.

        Raises:
            ResourceUseError: A binding is illegal.
        """
        self._backends: dict[str, ResourceBackend] = {"local": LocalBackend(), **(backends or {})}
        self._bindings: dict[str, ResourceSpec] = {}
        self._shelves: dict[Hashable, Shelf] = {}
        self._leases: dict[tuple[Claim, Hashable], _Lease] = {}
        self._starting: set[anyio.CancelScope] = set()
        self._closed: anyio.Event | None = None
        self._numbers = count(1)
        for name, spec in (bindings or {}).items():
            self.bind(name, spec)

    @property
    def is_closed(self) -> bool:
        """Whether it hands out nothing any more."""
        return self._closed is not None

    def bind(self, name: NamedResourceSpec, spec: ResourceSpec) -> None:
        """Say what stands behind a name.

        Args:
            spec: What they get; its limits count. `name.local(...)` makes one with the name's limits.

        Raises:
            ResourceUseError: Something else stands behind it already, or the spec is itself a name.
        """
        if isinstance(spec, NamedResourceSpec):
            raise ResourceUseError(f"{spec.label} is a name itself; bind {name.label} to what can be started")
        if self._bindings.setdefault(name.category, spec) != spec:
            raise ResourceUseError(f"{name.label} is bound already, to {self._bindings[name.category].label}")

    def resolve(self, spec: ResourceSpec, backend: str) -> tuple[str, ResourceSpec]:
        """Return by what resources of a spec are pooled.

        Raises:
            UnboundResourceError: Nothing stands behind the name.
            ResourceUseError: There is no such backend.
        """
        if backend not in self._backends:
            there = ", ".join(sorted(self._backends))
            raise ResourceUseError(f"there is no resource backend {backend!r}; there is: {there}")
        if not isinstance(spec, NamedResourceSpec):
            return backend, spec
        bound = self._bindings.get(spec.category)
        if bound is None:
            raise UnboundResourceError(
                f"nothing stands behind the resource {spec.label!r} here: an environment binds it with "
                "pool.bind(name, spec), and none of those that are loaded has"
            )
        return backend, bound

    async def acquire(
        self,
        claim: Claim,
        spec: ResourceSpec,
        *,
        holder: int,
        backend: str = "local",
        time_limit: float = ACQUIRE_LIMIT,
    ) -> Resource:
        """Get the claim's resource: the one that it has, else one that is idle, else a new one.

        An idle one is looked at and reset first; if that fails it is ended and a new one takes its place.

        Args:
            claim: Whose it is to be.
            holder: Who has to let go of it; the last of a claim's holders gives it back.
            time_limit: Seconds for waiting and starting together.

        Raises:
            ResourceTimeoutError: No place became free, or it did not start, in time.
            ResourceStartError: It raised when it was started.
            ResourceUseError: The spec or the backend is wrong.
        """
        key = self.resolve(spec, backend)
        if not 0 <= time_limit < math.inf:
            raise ResourceUseError(f"a time limit is a number of seconds, at least 0, not {time_limit}")
        with anyio.move_on_after(time_limit):
            lease = await self._lease(claim, key)
            lease.holders.add(holder)
            assert lease.slot is not None  # noqa: S101  (a lease that is returned has one)
            assert lease.slot.resource is not None  # noqa: S101  (a lease that is returned has one)
            return lease.slot.resource
        raise ResourceTimeoutError(
            f"no {key[1].label} could be had within {time_limit:g} seconds: {self._told(key)}"
        )

    async def release(
        self, claim: Claim, spec: ResourceSpec, *, holder: int, backend: str = "local", end: bool = False
    ) -> None:
        """Let go of a resource. With the last holder it goes back to the idle ones, or ends.

        It ends if a holder wanted that, if it is used up, if it is above its memory limit, or if it does not
        run any more. Nothing happens if the holder has no such resource. What an ending resource raises is
        logged.

        Args:
            end: Whether it must end.
        """
        key = self.resolve(spec, backend)
        lease = self._leases.get((claim, key))
        if lease is None or lease.slot is None or holder not in lease.holders:
            return
        lease.holders.discard(holder)
        lease.must_end = lease.must_end or end
        if not lease.holders:
            del self._leases[claim, key]
            await self._take_back(self._shelves[key], lease.slot, must_end=lease.must_end)

    async def start(self, spec: ResourceSpec, size: int, *, backend: str = "local") -> None:
        """Start resources before anybody asks: all of them, or none.

        Raises:
            ResourceUseError: So many are more than the spec allows; or spec or backend is wrong.
            ResourceStartError: One raised.
            ResourceTimeoutError: One did not start in time.
            ResourceClosedError: The pool is closed.
        """
        self._refuse_if_closed()
        shelf = self._shelf(self.resolve(spec, backend))
        slots = shelf.reserve(size)
        errors: list[Exception] = []
        try:
            await self._until_closed(partial(self._start_all, shelf, slots, errors))
            _raise_first(errors)
        except BaseException:
            await self._discard([(shelf, slot) for slot in slots])
            raise
        for slot in slots:
            shelf.put_back(slot)

    def monitor(self) -> dict[str, Any]:
        """Return figures: `total`, `idle`, `held`, `changing` (starting, ending), `waiting`, and `specs`.

        `specs` is a list with the same figures for each spec, and its `name`, `backend` and `cap`.
        """
        held = [key for (_, key), lease in self._leases.items() if lease.slot is not None]
        specs: list[dict[str, Any]] = [
            {
                "name": shelf.spec.label,
                "backend": shelf.backend,
                "cap": shelf.spec.max_global_num,
                "total": shelf.total,
                "idle": len(shelf.idle),
                "held": held.count(shelf.key),
                "changing": shelf.total - len(shelf.idle) - held.count(shelf.key),
                "waiting": len(shelf.queue),
            }
            for shelf in self._shelves.values()
        ]
        names = ("total", "idle", "held", "changing", "waiting")
        return {**{name: sum(one[name] for one in specs) for name in names}, "specs": specs}

    async def aclose(self) -> None:
        """End everything, each exactly once; whoever waits gets a `ResourceClosedError`. Can be repeated."""
        if self._closed is not None:
            await self._closed.wait()
            return
        closed = self._closed = anyio.Event()
        doomed = [(shelf, slot) for shelf in self._shelves.values() for slot in shelf.dismiss()]
        for at, lease in list(self._leases.items()):
            if lease.slot is not None:  # else whoever is at it finds the pool closed
                doomed.append((self._shelves[at[1]], lease.slot))
                del self._leases[at]
        for scope in self._starting:
            scope.cancel()
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_LIMIT):
                await self._discard(doomed)
                self._say_if_empty()
                await closed.wait()
        finally:
            closed.set()

    async def __aenter__(self) -> Self:
        """Return the pool."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()

    async def _lease(self, claim: Claim, key: tuple[str, ResourceSpec]) -> _Lease:
        while (lease := self._leases.get((claim, key))) is not None:
            if lease.slot is not None:
                return lease
            await lease.settled.wait()  # somebody else of the same claim is at it
        self._refuse_if_closed()
        lease = self._leases[claim, key] = _Lease(key)
        try:
            lease.slot = await self._obtain(self._shelf(key))
        except BaseException:
            del self._leases[claim, key]
            raise
        finally:
            lease.settled.set()
        return lease

    async def _obtain(self, shelf: Shelf) -> Slot:
        ticket = shelf.ask()
        try:
            if ticket.slot is None:
                await ticket.called.wait()
        except BaseException:
            if ticket.slot is None:
                shelf.withdraw(ticket)
                self._forget_if_unused(shelf)
            else:
                await self._take_back(shelf, ticket.slot)
            raise
        slot = ticket.slot
        if slot is None:
            self._forget_if_unused(shelf)
            raise self._closing()
        try:
            await self._until_closed(partial(self._prepare, shelf, slot))
        except BaseException:
            await self._discard([(shelf, slot)])
            raise
        slot.uses += 1
        return slot

    async def _until_closed(self, work: Callable[[], Any]) -> None:
        """Do something that closing the pool breaks off."""
        self._refuse_if_closed()
        with anyio.CancelScope() as scope:
            self._starting.add(scope)
            try:
                await work()
            finally:
                self._starting.discard(scope)
        self._refuse_if_closed()

    async def _prepare(self, shelf: Shelf, slot: Slot) -> None:
        """Put a resource into a slot that is as good as new."""
        if slot.resource is not None:
            if await is_fit(slot.resource, shelf.spec.start_timeout):
                return
            await end_in(slot)
        await self._start_in(shelf, slot)

    async def _start_in(self, shelf: Shelf, slot: Slot) -> None:
        name = f"{shelf.spec.category}-{next(self._numbers)}"
        await start_in(slot, shelf.spec, partial(self._backends[shelf.backend].make, shelf.spec, name))

    async def _start_all(self, shelf: Shelf, slots: Sequence[Slot], errors: list[Exception]) -> None:
        async def start(slot: Slot) -> None:
            try:
                await self._start_in(shelf, slot)
            except (ResourceError, ResourceUseError) as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for slot in slots:
                tasks.start_soon(start, slot)

    async def _take_back(self, shelf: Shelf, slot: Slot, *, must_end: bool = False) -> None:
        with anyio.CancelScope(shield=True):
            if must_end or slot.resource is None or await is_used_up(shelf.spec, slot) or self.is_closed:
                await self._discard([(shelf, slot)])
            else:
                shelf.put_back(slot)

    async def _discard(self, doomed: Iterable[tuple[Shelf, Slot]]) -> None:
        """End what is in some slots, and give the places up."""

        async def discard(shelf: Shelf, slot: Slot) -> None:
            await end_in(slot)
            shelf.drop()
            self._forget_if_unused(shelf)

        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for shelf, slot in doomed:
                    tasks.start_soon(discard, shelf, slot)

    def _shelf(self, key: tuple[str, ResourceSpec]) -> Shelf:
        backend, spec = key
        return self._shelves.setdefault(key, Shelf(key, spec, backend))

    def _forget_if_unused(self, shelf: Shelf) -> None:
        if shelf.is_unused and self._shelves.get(shelf.key) is shelf:
            del self._shelves[shelf.key]
        self._say_if_empty()

    def _say_if_empty(self) -> None:
        if self._closed is not None and not any(shelf.total for shelf in self._shelves.values()):
            self._closed.set()

    def _refuse_if_closed(self) -> None:
        if self.is_closed:
            raise self._closing()

    def _closing(self) -> ResourceClosedError:
        return ResourceClosedError("the pool of resources is closed")

    def _told(self, key: tuple[str, ResourceSpec]) -> str:
        shelf = self._shelves.get(key)
        if shelf is None:
            return "it was still starting"
        return f"{shelf.total} of at most {shelf.spec.max_global_num} are there, {len(shelf.queue)} wait"


def _raise_first(errors: Sequence[Exception]) -> None:
    if errors:
        raise errors[0]
