"""What every resource that is an author's environment object has in common, wherever the object is."""

from abc import abstractmethod
from typing import Any

from typing_extensions import override

from ors_server.resources.resource import Resource, ResourceStatus
from ors_server.resources.resource_errors import ResourceClosedError, ResourceError, ResourceUseError
from ors_server.resources.spec import ResourceSpec


class EnvResource(Resource):
    """An environment object. All its methods, sync or async, are called by their names and awaited."""

    def __init__(self, spec: ResourceSpec, resource_id: str) -> None:
        self.resource_id = resource_id
        self.category = spec.category
        self._label = spec.label
        self._status = ResourceStatus.PENDING

    @abstractmethod
    def _has_method(self, name: str) -> bool:
        """Return whether the environment has a method of that name, which may be called."""

    @abstractmethod
    async def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the environment."""

    @override
    async def reset(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse_unless_live()
        if not self._has_method("reset"):
            raise ResourceError(f"{self._label} has no reset")
        return await self._call("reset", *args, **kwargs)

    async def step(self, *args: Any, **kwargs: Any) -> Any:
        """Call the environment's own `step`."""
        return await self._call("step", *args, **kwargs)

    @override
    async def get_status(self) -> ResourceStatus:
        return self._status

    @override
    async def is_healthy(self) -> bool:
        return self._status is ResourceStatus.RUNNING and await self._call_if_there("is_healthy") is not False

    @override
    async def memory_used(self) -> int | None:
        used = await self._call_if_there("memory_used")
        return None if used is None else int(used)

    @override
    async def control(self, command: str, *args: Any, **kwargs: Any) -> Any:
        if command.startswith("_"):
            raise ResourceUseError(f"{command!r} is private to {self._label}")
        return await self._call(command, *args, **kwargs)

    async def _call_if_there(self, name: str) -> Any:
        """Call an optional method; `None` if the environment has no such method."""
        return await self._call(name) if self._has_method(name) else None

    def _refuse_second_start(self) -> None:
        if self._status is not ResourceStatus.PENDING:
            raise ResourceUseError(f"{self.resource_id} is {self._status}; a resource starts once")

    def _refuse_unless_live(self) -> None:
        if self._status in {ResourceStatus.FAILED, ResourceStatus.STOPPED}:
            raise ResourceClosedError(f"{self._label} is {self._status}; acquire another one")
