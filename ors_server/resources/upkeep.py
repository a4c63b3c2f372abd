"""Starts, checks and ends the resource of one slot, within time limits."""

from collections.abc import Callable
from contextlib import suppress

import anyio

from ors_server.logs import get_logger
from ors_server.resources.resource import Resource, ResourceStatus
from ors_server.resources.resource_errors import ResourceStartError, ResourceTimeoutError, ResourceUseError
from ors_server.resources.slots import Slot
from ors_server.resources.spec import ResourceSpec

END_LIMIT = 30.0
"""Seconds that a resource may take to end before the pool stops waiting for it."""

_log = get_logger("ors_server.resources.upkeep")


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
