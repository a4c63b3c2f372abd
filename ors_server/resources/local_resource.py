"""Resources in this process: an author's object, with one call at a time.

Sync methods run in a thread. A thread cannot be stopped: if a call is cancelled, the resource counts as
failed and is never used again.
"""

import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.resources.env_resource import EnvResource
from ors_server.resources.resource import Resource, ResourceStatus
from ors_server.resources.resource_errors import ResourceClosedError, ResourceUseError
from ors_server.resources.spec import LocalEnvResourceSpec, ResourceSpec, WorkerEnvResourceSpec
from ors_server.resources.worker_env_resource import WorkerEnvResource


class LocalEnvResource(EnvResource):
    """An environment object in this process."""

    def __init__(self, spec: LocalEnvResourceSpec, resource_id: str) -> None:
        super().__init__(spec, resource_id)
        self._spec = spec
        self._env: Any = None
        self._turn = anyio.Lock()
        self._threads = anyio.CapacityLimiter(1)
        self._guard = threading.Lock()

    @override
    async def start(self) -> None:
        self._refuse_second_start()
        try:
            await self._in_thread(self._build)
            await self._call_if_there("start")
        except BaseException:
            self._set_status(ResourceStatus.FAILED)
            raise
        self._set_status(ResourceStatus.RUNNING)

    @override
    def _has_method(self, name: str) -> bool:
        return callable(getattr(self._env, name, None))

    @override
    async def end(self) -> None:
        with self._guard:
            self._status = ResourceStatus.STOPPED
            env, self._env = self._env, None  # so a second call finds nothing to close
        close = getattr(env, "close", None)
        if close is not None:  # does not wait for a call that hangs
            await self._run(close, close, anyio.CapacityLimiter(1))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the environment; a method becomes async."""
        env = None if name.startswith("_") else self._env
        if env is None:
            raise AttributeError(
                f"neither {type(self).__name__} nor its environment, if it runs, has {name!r}"
            )
        value = getattr(env, name)
        return partial(self._call, name) if callable(value) else value

    def _build(self) -> None:
        env = self._spec.find_class()(**self._spec.init_kwargs)
        with self._guard:
            if self._status is ResourceStatus.PENDING:
                self._env = env
                return
        # The start was cancelled: no caller waits for this thread, which closes what it has made.
        close = getattr(env, "close", None)
        if close is not None and inspect.isawaitable(raw := close()):
            anyio.run(_await, raw)

    @override
    async def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        async with self._turn:
            method = getattr(self._live(), name)
            return await self._run(method, partial(method, *args, **kwargs), self._threads)

    async def _run(self, method: Any, call: Callable[[], Any], limiter: anyio.CapacityLimiter) -> Any:
        if inspect.iscoroutinefunction(method):
            return await call()
        raw = await self._in_thread(call, limiter)
        return await raw if inspect.isawaitable(raw) else raw

    async def _in_thread(self, call: Callable[[], Any], limiter: anyio.CapacityLimiter | None = None) -> Any:
        try:
            return await anyio.to_thread.run_sync(
                call, abandon_on_cancel=True, limiter=limiter or self._threads
            )
        except anyio.get_cancelled_exc_class():
            self._set_status(ResourceStatus.FAILED)
            raise

    def _live(self) -> Any:
        self._refuse_unless_live()
        if self._env is None:
            raise ResourceClosedError(f"{self._spec.label} is not started")
        return self._env

    def _set_status(self, status: ResourceStatus) -> None:
        with self._guard:
            if self._status is not ResourceStatus.STOPPED:
                self._status = status


class LocalBackend:
    """Creates resources on this machine: in this process, or each in a separate process."""

    def make(self, spec: ResourceSpec, resource_id: str) -> Resource:
        """Return one that is not started yet; ResourceUseError for another kind of spec."""
        if isinstance(spec, LocalEnvResourceSpec):
            return LocalEnvResource(spec, resource_id)
        if isinstance(spec, WorkerEnvResourceSpec):
            return WorkerEnvResource(spec, resource_id)
        raise ResourceUseError(
            f"the local backend starts a LocalEnvResourceSpec or a WorkerEnvResourceSpec, "
            f"got a {type(spec).__name__}; give the pool a custom backend for it"
        )


async def _await(raw: Any) -> None:
    await raw
