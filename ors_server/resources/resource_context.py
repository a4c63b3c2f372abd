"""The context that a rollout's tools and rewards share: its ids, its messages so far, its resources.

The names are those of AgentFly's `Context`, so that its tools and rewards work as they are written.

| scope | without `id` | with `id` | when the context closes |
|---|---|---|---|
| `rollout` | the rollout's own | another resource | it ends |
| `group` | one for all rollouts of the group | another one for the group | the last holder releases it |
| `global` | the rollout's own, until released | one for all with that id | the last holder releases it |

So a rollout's tools and its reward get the same resource with `rollout` and with `global`; the scope decides
what happens when the context closes. A resource that was acquired with both ends.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

import anyio

from ors_server.resources.resource import Resource
from ors_server.resources.resource_errors import ResourceClosedError, ResourceUseError
from ors_server.resources.resource_pool import ACQUIRE_LIMIT, Claim, ResourcePool
from ors_server.resources.spec import NamedResourceSpec, ResourceSpec

Scope: TypeAlias = Literal["rollout", "group", "global"]

SCOPES: tuple[str, ...] = get_args(Scope)
LOCAL = "local"
"""The default backend."""


@dataclass(eq=False, slots=True)
class _Holding:
    claim: Claim
    spec: ResourceSpec
    backend: str
    resource: Resource
    scopes: set[str] = field(default_factory=set[str])


class Context:
    """One rollout's context, which tools and rewards take as their parameter `context`.

    Closing it, after the reward was computed, releases its resources.
    """

    def __init__(
        self,
        rollout_id: str,
        group_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        pool: ResourcePool | None = None,
        trajectory: Sequence[Any] | None = None,
    ) -> None:
        """Start nothing.

        Args:
            rollout_id: The rollout's or session's id; contexts with the same id share their resources.
            group_id: The group's, if the rollout is in one.
            metadata: Further data; `resource_backend` names the default backend.
            pool: The source of resources; without one, the context has its own and closes it.
            trajectory: The messages so far; `None` if they are not known.
        """
        self.rollout_id = rollout_id
        self.group_id = group_id
        self.metadata: Mapping[str, Any] = MappingProxyType(dict(metadata or {}))
        self._trajectory = trajectory
        self._owns_pool = pool is None
        self._pool = ResourcePool() if pool is None else pool
        self._holdings: dict[tuple[Claim, Hashable], _Holding] = {}
        self._last_was_first = False
        self._closed: anyio.Event | None = None

    @property
    def trajectory(self) -> Sequence[Any]:
        """The messages so far, in order, as set by the code that runs the episode; else ResourceUseError."""
        if self._trajectory is None:
            raise ResourceUseError(
                f"the context of the rollout {self.rollout_id!r} does not know the messages so far: "
                "set its trajectory"
            )
        return self._trajectory

    @trajectory.setter
    def trajectory(self, messages: Sequence[Any]) -> None:
        self._trajectory = messages

    @property
    def pool(self) -> ResourcePool:
        """The source of its resources."""
        return self._pool

    @property
    def last_acquire_was_first(self) -> bool:
        """Whether the last `acquire_resource` got a resource that this context did not hold before.

        If so, a tool resets it with its task's arguments.
        """
        return self._last_was_first

    async def acquire_resource(
        self,
        id: str | None = None,  # noqa: A002  (AgentFly's word)
        spec: ResourceSpec | None = None,
        scope: Scope | str = "rollout",
        backend: str | None = None,
        timeout: float = ACQUIRE_LIMIT,  # noqa: ASYNC109  (AgentFly's word)
    ) -> Any:
        """Return the rollout's `Resource` of a spec: started by the first call, the same for each later one.

        Args:
            id: Distinguishes several resources of one spec; see the table above. The rollout's id means none.
            scope: `rollout`, `group` or `global`.
            backend: By default `metadata["resource_backend"]`, or else `local`.
            timeout: Seconds for waiting and starting together.

        Raises:
            ResourceUseError: No spec, an unknown scope or backend, scope `group` without a group.
            UnboundResourceError: The spec is a name that is not bound.
            ResourceTimeoutError: It was not free, or did not start, in time.
            ResourceStartError: Its start raised.
            ResourceClosedError: The context or its pool is closed.
        """
        self._refuse_if_closed()
        wanted, where, claim = _spec(spec), self._backend(backend), self._claim(scope, id)
        key = (claim, self._pool.resolve(wanted, where))
        resource = await self._pool.acquire(
            claim, wanted, holder=self._holder, backend=where, time_limit=timeout
        )
        if self._closed is not None:
            await self._pool.release(claim, wanted, holder=self._holder, backend=where)
            self._refuse_if_closed()
        self._last_was_first = key not in self._holdings
        holding = self._holdings.setdefault(key, _Holding(claim, wanted, where, resource))
        holding.scopes.add(scope)
        return resource

    def is_spec_acquired(self, spec: ResourceSpec) -> bool:
        """Return whether the context holds a resource of a spec, in any scope."""
        return any(self._is_of(holding, spec) for holding in self._holdings.values())

    async def release_resource(
        self,
        scope: Scope | str = "global",
        spec: ResourceSpec | None = None,
        id: str | None = None,  # noqa: A002  (AgentFly's word)
    ) -> None:
        """Release resources of a scope; each is reset for others when its last holder has released it.

        Args:
            spec: Only resources of this spec; all of the scope by default.
            id: As for `acquire_resource`; needs `spec`.

        Raises:
            ResourceUseError: The scope is unknown, or has no resource of that spec.
        """
        for key, holding in self._chosen(scope, spec, id):
            holding.scopes.discard(scope)
            if not holding.scopes:
                await self._let_go(key, end=False)

    async def end_resource(
        self,
        scope: Scope | str = "rollout",
        spec: ResourceSpec | None = None,
        id: str | None = None,  # noqa: A002  (AgentFly's word)
    ) -> None:
        """Release resources as `release_resource` does; each ends when its last holder has released it."""
        for key, _ in self._chosen(scope, spec, id):
            await self._let_go(key, end=True)

    async def reset_resource(
        self,
        scope: Scope | str = "rollout",
        spec: ResourceSpec | None = None,
        id: str | None = None,  # noqa: A002  (AgentFly's word)
    ) -> None:
        """Reset resources of a scope, chosen as by `release_resource`; they stay held."""
        for _, holding in self._chosen(scope, spec, id):
            await holding.resource.reset()

    def bind_resource(self, name: NamedResourceSpec, spec: ResourceSpec) -> None:
        """Bind a name to a spec, for every user of the pool; see `ResourcePool.bind`."""
        self._pool.bind(name, spec)

    def monitor_resources(self) -> dict[str, Any]:
        """Return the pool's figures; see `ResourcePool.monitor`."""
        return self._pool.monitor()

    async def aclose(self) -> None:
        """End the rollout's own resources and release the others. A second call does nothing."""
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = anyio.Event()
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as tasks:
                    for key, holding in list(self._holdings.items()):
                        tasks.start_soon(partial(self._let_go, key, end="rollout" in holding.scopes))
                if self._owns_pool:
                    await self._pool.aclose()
        finally:
            self._closed.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def _holder(self) -> int:
        return id(self)

    async def _let_go(self, key: tuple[Claim, Hashable], *, end: bool) -> None:
        holding = self._holdings.pop(key, None)
        if holding is not None:
            await self._pool.release(
                holding.claim, holding.spec, holder=self._holder, backend=holding.backend, end=end
            )

    def _chosen(
        self, scope: str, spec: ResourceSpec | None, own_id: str | None
    ) -> list[tuple[tuple[Claim, Hashable], _Holding]]:
        _refuse_unknown(scope)
        claim = self._claim(scope, own_id) if spec is not None else None
        if spec is None and own_id is not None:
            raise ResourceUseError(f"the id {own_id!r} needs its spec, too")
        chosen = [
            (key, holding)
            for key, holding in self._holdings.items()
            if scope in holding.scopes
            and (spec is None or (holding.claim == claim and self._is_of(holding, spec)))
        ]
        if spec is not None and not chosen:
            raise ResourceUseError(f"no {spec.label} is held in the scope {scope!r}")
        return chosen

    def _is_of(self, holding: _Holding, spec: ResourceSpec) -> bool:
        if holding.spec == spec:
            return True
        found = self._pool.resolve
        try:
            return found(holding.spec, holding.backend) == found(spec, holding.backend)
        except ResourceUseError:
            return False

    def _claim(self, scope: str, own_id: str | None) -> Claim:
        _refuse_unknown(scope)
        if scope == "group":
            if self.group_id is None:
                raise ResourceUseError(
                    f"the rollout {self.rollout_id!r} is in no group, so it has no resource in that scope"
                )
            return (scope, self.group_id, "" if own_id is None or own_id == self.group_id else own_id)
        if own_id is None or own_id == self.rollout_id:
            return ("rollout", self.rollout_id)
        return ("rollout", self.rollout_id, own_id) if scope == "rollout" else ("global", own_id)

    def _backend(self, backend: str | None) -> str:
        return str(backend or self.metadata.get("resource_backend") or LOCAL)

    def _refuse_if_closed(self) -> None:
        if self._closed is not None:
            raise ResourceClosedError(f"the context of the rollout {self.rollout_id!r} is closed")


def _spec(spec: ResourceSpec | None) -> ResourceSpec:
    if not isinstance(spec, ResourceSpec):
        raise ResourceUseError(f"acquire_resource needs spec=, a ResourceSpec; got {spec!r:.80}")
    return spec


def _refuse_unknown(scope: str) -> None:
    if scope not in SCOPES:
        raise ResourceUseError(f"scope must be one of {', '.join(SCOPES)}, got {scope!r}")
