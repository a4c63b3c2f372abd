"""The control API's handlers for the hosts of a server with several of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ors_server.doors.control import models as m
from ors_server.model.errors import NotSupportedError, UnknownHostError
from ors_server.model.host_slot import HostSlot, HostTable, host_name


@dataclass(frozen=True, slots=True)
class HostControl:
    """What the hosts of a server can be asked for."""

    slot: HostSlot
    read: Callable[[], Awaitable[HostTable]]
    """Reads the record's table of hosts."""
    drain: Callable[[int], Awaitable[None]]
    """Asks a host to give its slots up."""
    restart: Callable[[], None] | None
    """Starts each host again, one after another; `None` without a supervisor."""


@dataclass(eq=False, repr=False)
class HostHandlers:
    """Answers requests about the hosts; a single process lists no hosts."""

    _control: HostControl | None

    async def list_hosts(self) -> m.HostList:
        """List the hosts of the server."""
        if self._control is None:
            return m.HostList(hosts=[])
        table = await self._control.read()
        return m.HostList(
            hosts=[
                m.HostView(
                    name=host_name(row.number),
                    address=row.address,
                    epoch=row.epoch,
                    is_draining=row.is_draining,
                    slots=sum(owner == row.number for owner in table.owners),
                )
                for _, row in sorted(table.rows.items())
            ]
        )

    async def get_own_slots(self) -> m.OwnSlots:
        """Return the slots of session ids that this host serves."""
        slot = self._several().slot
        owned = [number for number, owner in enumerate(slot.table.owners) if owner == slot.number]
        return m.OwnSlots(host=slot.name, slots=owned)

    async def drain_host(self, host: m.HostName) -> m.HostList:
        """Ask a host to suspend its sessions and give them to the others; it ends then."""
        control = self._several()
        table = await control.read()
        number = next((number for number in table.rows if host_name(number) == host), None)
        if number is None:
            raise UnknownHostError(f"unknown host {host!r}; expected one of {_names(table)}")
        await control.drain(number)
        return await self.list_hosts()

    async def restart_hosts(self) -> m.Restarting:
        """Start every host again, one after another; their sessions continue."""
        control = self._several()
        if control.restart is None:
            raise NotSupportedError("no supervisor has started this host: restart it where it was started")
        control.restart()
        return m.Restarting()

    def _several(self) -> HostControl:
        if self._control is None:
            raise NotSupportedError("this server is a single process: it has no other hosts")
        return self._control


def _names(table: HostTable) -> list[str]:
    return [host_name(number) for number in sorted(table.rows)]
