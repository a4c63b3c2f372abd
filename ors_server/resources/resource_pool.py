"""Hands out resources: pools by spec, holders by scope, within caps and deadlines.

Its state changes between awaits only, so it needs no lock; it belongs to one event loop at a time.

Starts, checks and ends the resource of one slot, within time limits.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio

from ors_server.model.logs import get_logger
from ors_server.resources.local_resource import LocalBackend
from ors_server.resources.resource import Resource, ResourceBackend, ResourceStatus
from ors_server.resources.resource_errors import (
    ResourceClosedError,
    ResourceError,
    ResourceStartError,
    ResourceTimeoutError,
    ResourceUseError,
    UnboundResourceError,
)
from ors_server.resources.spec import NamedResourceSpec, ResourceSpec

END_LIMIT = 30.0
"""Seconds that a resource may take to end before the pool stops waiting for it."""

_log = get_logger("ors_server.resources.resource_pool")


@dataclass(eq=False, slots=True)
class Slot:
    """One of the resources that the spec's maximum allows."""

    resource: Resource | None = None
    """`None` if it has ended or is not created yet."""
    uses: int = 0
    """Holders that the resource has had."""


@dataclass(eq=False, slots=True)
class SlotRequest:
    """A request for a slot."""

    slot: Slot | None = None
    """The slot, once it is granted."""
    decided: anyio.Event = field(default_factory=anyio.Event)
    """Set when the slot is granted, or the request is rejected because the pool closes."""


@dataclass(eq=False, slots=True)
class SlotQueue:
    """Counts the slots of one spec on one backend, and queues requests for them, first come, first served."""

    key: Hashable
    spec: ResourceSpec
    backend: str
    cap: int
    """Maximum number of slots: the spec's maximum, or this pool's share of it."""
    idle: list[Slot] = field(default_factory=list[Slot])
    """Slots with unheld resources; the last one that was released is used first."""
    total: int = 0
    """Slots that are taken: idle, held, starting and ending."""
    requests: deque[SlotRequest] = field(default_factory=deque[SlotRequest])

    def ask(self) -> SlotRequest:
        """Request a slot; it may be granted at once."""
        request = SlotRequest()
        self.requests.append(request)
        self._grant()
        return request

    def withdraw(self, request: SlotRequest) -> None:
        """Remove a request that is not decided yet."""
        if request in self.requests:
            self.requests.remove(request)

    def reserve(self, size: int) -> list[Slot]:
        """Take this many empty slots at once, or raise `ResourceUseError`."""
        if not 0 <= size <= self.cap - self.total:
            raise ResourceUseError(
                f"{size} more of {self.spec.label} cannot be started: there are {self.total} of at most "
                f"{self.cap}"
            )
        self.total += size
        return [Slot() for _ in range(size)]

    def put_back(self, slot: Slot) -> None:
        """Make the resource in a slot available to others."""
        self.idle.append(slot)
        self._grant()

    def drop(self) -> None:
        """Give up a slot, whose resource has ended or was never created."""
        self.total -= 1
        self._grant()

    def dismiss(self) -> list[Slot]:
        """Reject all requests, and return the idle slots."""
        while self.requests:
            self.requests.popleft().decided.set()
        idle, self.idle = self.idle, []
        return idle

    def _grant(self) -> None:
        while self.requests and (self.idle or self.total < self.cap):
            request = self.requests.popleft()
            if self.idle:
                request.slot = self.idle.pop()
            else:
                self.total += 1
                request.slot = Slot()
            request.decided.set()


async def start_in(slot: Slot, spec: ResourceSpec, make: Callable[[], Resource]) -> None:
    """Create a resource in an empty slot and start it. If that raises, the caller must call `end_in`."""
    with anyio.move_on_after(spec.start_timeout):
        try:
            slot.resource = make()
            await slot.resource.start()
        except ResourceUseError:
            raise
        except Exception as error:
            raise ResourceStartError(
                f"{spec.label} did not start: {type(error).__name__}: {error}"
            ) from error
        return
    raise ResourceTimeoutError(f"{spec.label} did not start within {spec.start_timeout:g} seconds")


async def end_in(slot: Slot) -> None:
    """End the resource in a slot, if there is one; errors are logged. The slot is empty at once."""
    resource, slot.resource, slot.uses = slot.resource, None, 0
    if resource is None:
        return
    with anyio.CancelScope(shield=True), anyio.move_on_after(END_LIMIT) as scope:
        try:
            await resource.end()
        except Exception as error:  # noqa: BLE001  (the resource is lost anyway)
            _log.warning("resource_end_failed", resource=resource.resource_id, error=str(error))
    if scope.cancelled_caught:
        _log.warning("resource_left_behind", resource=resource.resource_id, seconds=END_LIMIT)


async def is_fit(resource: Resource, time_limit: float) -> bool:
    """Check and reset an idle resource; return whether both succeeded."""
    with anyio.move_on_after(time_limit), suppress(Exception):
        if await resource.is_healthy():
            await resource.reset()
            return True
    return False


async def is_used_up(spec: ResourceSpec, slot: Slot) -> bool:
    """Return whether a released resource must be ended instead of used again."""
    resource = slot.resource
    if resource is None or (spec.max_uses is not None and slot.uses >= spec.max_uses):
        return True
    with anyio.move_on_after(min(END_LIMIT, spec.start_timeout)), suppress(Exception):
        if await resource.get_status() is not ResourceStatus.RUNNING:
            return True
        if spec.memory_limit is None:
            return False
        used = await resource.memory_used()
        return used is not None and used > spec.memory_limit
    return True


CLOSE_LIMIT = 60.0
"""Seconds that closing a pool may take."""
ACQUIRE_LIMIT = 600.0
"""Seconds that acquiring may take, waiting and starting together (AgentFly's default)."""

Claim: TypeAlias = tuple[str, ...]
"""The owner of a resource: a scope and an id in it."""


@dataclass(eq=False, slots=True)
class _Lease:
    """A resource that is held, or being obtained for a holder."""

    slot: Slot | None = None
    holders: set[int] = field(default_factory=set[int])
    must_end: bool = False
    obtained: anyio.Event = field(default_factory=anyio.Event)


class ResourcePool:
    """Resources by (claim, spec): the same claim and spec give the same resource until it is released."""

    def __init__(
        self,
        *,
        backends: Mapping[str, ResourceBackend] | None = None,
        bindings: Mapping[NamedResourceSpec, ResourceSpec] | None = None,
        pools_per_machine: int = 1,
    ) -> None:
        """Make an empty pool; `backends` are by name and come besides `local`.

        Args:
            pools_per_machine: Pools of as many processes on this machine divide the specs' maxima: each may
                have its share, rounded down, and at least 1.
        """
        self._pools_per_machine = pools_per_machine
        self._backends: dict[str, ResourceBackend] = {"local": LocalBackend(), **(backends or {})}
        self._bindings: dict[str, ResourceSpec] = {}
        self._queues: dict[Hashable, SlotQueue] = {}
        self._leases: dict[tuple[Claim, Hashable], _Lease] = {}
        self._starting: set[anyio.CancelScope] = set()
        self._closed: anyio.Event | None = None
        self._numbers = count(1)
        for name, spec in (bindings or {}).items():
            self.bind(name, spec)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be acquired any more."""
        return self._closed is not None

    def bind(self, name: NamedResourceSpec, spec: ResourceSpec) -> None:
        """Bind a name to a spec, whose limits hold; `name.local(...)` makes one with the name's limits.

        Raises ResourceUseError if the name is bound to another spec, or the spec is itself a name.
        """
        if isinstance(spec, NamedResourceSpec):
            raise ResourceUseError(f"{spec.label} is a name itself; bind {name.label} to what can be started")
        if self._bindings.setdefault(name.category, spec) != spec:
            raise ResourceUseError(f"{name.label} is bound already, to {self._bindings[name.category].label}")

    def resolve(self, spec: ResourceSpec, backend: str) -> tuple[str, ResourceSpec]:
        """Return the backend and the spec by which resources are pooled; a name is replaced by its spec."""
        if backend not in self._backends:
            there = ", ".join(sorted(self._backends))
            raise ResourceUseError(f"unknown resource backend {backend!r}; expected one of {there}")
        if not isinstance(spec, NamedResourceSpec):
            return backend, spec
        bound = self._bindings.get(spec.category)
        if bound is None:
            raise UnboundResourceError(
                f"the resource {spec.label!r} is not bound: an environment binds it with "
                "pool.bind(name, spec), but no loaded environment did"
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
        """Return the claim's resource: its present one, or an idle one, or a new one.

        An idle one is checked and reset first; if that fails it is ended, and a new one replaces it.

        Args:
            holder: Must release it; with the last of a claim's holders it becomes idle.
            time_limit: Seconds for waiting and starting together.

        Raises:
            ResourceTimeoutError: No slot became free, or it did not start, in time.
            ResourceStartError: Its start raised.
            ResourceUseError: The spec or the backend is wrong.
        """
        key = self.resolve(spec, backend)
        if not 0 <= time_limit < math.inf:
            raise ResourceUseError(f"a time limit must be a number of seconds, at least 0, got {time_limit}")
        with anyio.move_on_after(time_limit):
            lease = await self._lease(claim, key)
            lease.holders.add(holder)
            assert lease.slot is not None  # noqa: S101  (a lease that is returned has one)
            assert lease.slot.resource is not None  # noqa: S101  (a lease that is returned has one)
            return lease.slot.resource
        raise ResourceTimeoutError(
            f"no {key[1].label} was available within {time_limit:g} seconds: {self._describe(key)}"
        )

    async def release(
        self, claim: Claim, spec: ResourceSpec, *, holder: int, backend: str = "local", end: bool = False
    ) -> None:
        """Release a resource. When its last holder has released it, it becomes idle, or ends.

        It ends if a holder released it with `end`, if it has reached `max_uses` or its memory limit, or if it
        does not run any more. Errors of its end are logged. Nothing happens if the holder has no such
        resource.
        """
        key = self.resolve(spec, backend)
        lease = self._leases.get((claim, key))
        if lease is None or lease.slot is None or holder not in lease.holders:
            return
        lease.holders.discard(holder)
        lease.must_end = lease.must_end or end
        if not lease.holders:
            del self._leases[claim, key]
            await self._take_back(self._queues[key], lease.slot, must_end=lease.must_end)

    async def start(self, spec: ResourceSpec, size: int, *, backend: str = "local") -> None:
        """Start resources in advance: all of them, or none; raises as `acquire` does.

        Args:
            size: Number of resources to start, at least 1.

        Raises:
            ResourceUseError: Also if the spec does not allow that many.
        """
        self._refuse_if_closed()
        queue = self._queue(self.resolve(spec, backend))
        slots = queue.reserve(size)
        try:
            await self._until_closed(partial(self._start_all, queue, slots))
        except BaseException:
            await self._discard([(queue, slot) for slot in slots])
            raise
        for slot in slots:
            queue.put_back(slot)

    def monitor(self) -> dict[str, Any]:
        """Return figures: `total`, `idle`, `held`, `changing` (starting, ending), `waiting`, and `specs`.

        `specs` is a list with the same figures for each spec, and its `name`, `backend` and `cap`.
        """
        leased_keys = [key for (_, key), lease in self._leases.items() if lease.slot is not None]
        specs: list[dict[str, Any]] = [
            {
                "name": queue.spec.label,
                "backend": queue.backend,
                "cap": queue.cap,
                "total": queue.total,
                "idle": len(queue.idle),
                "held": leased_keys.count(queue.key),
                "changing": queue.total - len(queue.idle) - leased_keys.count(queue.key),
                "waiting": len(queue.requests),
            }
            for queue in self._queues.values()
        ]
        names = ("total", "idle", "held", "changing", "waiting")
        return {**{name: sum(spec[name] for spec in specs) for name in names}, "specs": specs}

    async def aclose(self) -> None:
        """End every resource, once; waiting callers get a `ResourceClosedError`. Can be repeated."""
        if self._closed is not None:
            await self._closed.wait()
            return
        closed = self._closed = anyio.Event()
        doomed = [(queue, slot) for queue in self._queues.values() for slot in queue.dismiss()]
        for at, lease in list(self._leases.items()):
            if lease.slot is not None:  # else the caller that obtains it finds the pool closed
                doomed.append((self._queues[at[1]], lease.slot))
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
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _lease(self, claim: Claim, key: tuple[str, ResourceSpec]) -> _Lease:
        while (lease := self._leases.get((claim, key))) is not None:
            if lease.slot is not None:
                return lease
            await lease.obtained.wait()  # by another holder of the claim
        self._refuse_if_closed()
        lease = self._leases[claim, key] = _Lease()
        try:
            lease.slot = await self._obtain(self._queue(key))
        except BaseException:
            del self._leases[claim, key]
            raise
        finally:
            lease.obtained.set()
        return lease

    async def _obtain(self, queue: SlotQueue) -> Slot:
        request = queue.ask()
        try:
            if request.slot is None:
                await request.decided.wait()
        except BaseException:
            if request.slot is None:
                queue.withdraw(request)
                self._forget_if_unused(queue)
            else:
                await self._take_back(queue, request.slot)
            raise
        slot = request.slot
        if slot is None:
            self._forget_if_unused(queue)
            raise self._closing()
        try:
            await self._until_closed(partial(self._prepare, queue, slot))
        except BaseException:
            await self._discard([(queue, slot)])
            raise
        slot.uses += 1
        return slot

    async def _until_closed(self, work: Callable[[], Any]) -> None:
        """Run work that closing the pool cancels."""
        self._refuse_if_closed()
        with anyio.CancelScope() as scope:
            self._starting.add(scope)
            try:
                await work()
            finally:
                self._starting.discard(scope)
        self._refuse_if_closed()

    async def _prepare(self, queue: SlotQueue, slot: Slot) -> None:
        if slot.resource is not None:
            if await is_fit(slot.resource, queue.spec.start_timeout):
                return
            await end_in(slot)
        await self._start_in(queue, slot)

    async def _start_in(self, queue: SlotQueue, slot: Slot) -> None:
        name = f"{queue.spec.category}-{next(self._numbers)}"
        await start_in(slot, queue.spec, partial(self._backends[queue.backend].make, queue.spec, name))

    async def _start_all(self, queue: SlotQueue, slots: Sequence[Slot]) -> None:
        """Start all slots at once; raise the error of the first that fails, which ends the other starts."""
        errors: list[Exception] = []

        async def start(slot: Slot) -> None:
            try:
                await self._start_in(queue, slot)
            except (ResourceError, ResourceUseError) as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for slot in slots:
                tasks.start_soon(start, slot)
        if errors:
            raise errors[0]

    async def _take_back(self, queue: SlotQueue, slot: Slot, *, must_end: bool = False) -> None:
        with anyio.CancelScope(shield=True):
            if must_end or slot.resource is None or await is_used_up(queue.spec, slot) or self.is_closed:
                await self._discard([(queue, slot)])
            else:
                queue.put_back(slot)

    async def _discard(self, doomed: Iterable[tuple[SlotQueue, Slot]]) -> None:
        """End the resources in some slots, and give up the slots."""

        async def discard(queue: SlotQueue, slot: Slot) -> None:
            await end_in(slot)
            queue.drop()
            self._forget_if_unused(queue)

        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for queue, slot in doomed:
                    tasks.start_soon(discard, queue, slot)

    def _queue(self, key: tuple[str, ResourceSpec]) -> SlotQueue:
        backend, spec = key
        cap = max(1, spec.max_global_num // self._pools_per_machine)
        return self._queues.setdefault(key, SlotQueue(key, spec, backend, cap))

    def _forget_if_unused(self, queue: SlotQueue) -> None:
        is_unused = queue.total == 0 and not queue.requests
        if is_unused and self._queues.get(queue.key) is queue:
            del self._queues[queue.key]
        self._say_if_empty()

    def _say_if_empty(self) -> None:
        if self._closed is not None and not any(queue.total for queue in self._queues.values()):
            self._closed.set()

    def _refuse_if_closed(self) -> None:
        if self.is_closed:
            raise self._closing()

    def _closing(self) -> ResourceClosedError:
        return ResourceClosedError("the pool of resources is closed")

    def _describe(self, key: tuple[str, ResourceSpec]) -> str:
        queue = self._queues.get(key)
        if queue is None:
            return "it was still starting"
        return f"there are {queue.total} of at most {queue.cap}, and {len(queue.requests)} requests wait"
