"""What is done to one resource in its place: started, looked at, ended. All of it within a time limit."""

from collections.abc import Callable
from contextlib import suppress

import anyio

from ors_server.logs import get_logger
from ors_server.resources.resource import Resource, ResourceStatus
from ors_server.resources.resource_errors import ResourceStartError, ResourceTimeoutError, ResourceUseError
from ors_server.resources.slots import Slot
from ors_server.resources.spec import ResourceSpec

END_LIMIT = 30.0
"""Seconds that ending one resource may take before it is left behind."""

_log = get_logger("ors_server.resources.upkeep")


async def start_in(slot: Slot, spec: ResourceSpec, make: Callable[[], Resource]) -> None:
    """Make a resource in an empty slot and start it. If that fails, what is in the slot is to be ended.

    Raises:
        ResourceUseError: The spec cannot be started at all.
        ResourceStartError: It raised.
        ResourceTimeoutError: It took too long.
    """
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
    """End what is in a slot, if anything is. What that raises is logged, for the resource is gone either way.

    Args:
        slot: The slot; empty from the first moment on, so that nothing is ended twice.
    """
    resource, slot.resource, slot.uses = slot.resource, None, 0
    if resource is None:
        return
    with anyio.CancelScope(shield=True), anyio.move_on_after(END_LIMIT) as scope:
        try:
            await resource.end()
        except Exception as error:  # noqa: BLE001  (whatever it raises, it is gone)
            _log.warning("resource_end_failed", resource=resource.resource_id, error=str(error))
    if scope.cancelled_caught:
        _log.warning("resource_left_behind", resource=resource.resource_id, seconds=END_LIMIT)


async def is_fit(resource: Resource, time_limit: float) -> bool:
    """Look at an idle resource and bring it back to its beginning; whether both went well."""
    with anyio.move_on_after(time_limit), suppress(Exception):
        if await resource.is_healthy():
            await resource.reset()
            return True
    return False


async def is_used_up(spec: ResourceSpec, slot: Slot) -> bool:
    """Look whether a resource that comes back is not to be handed out again."""
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
