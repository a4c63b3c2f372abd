"""What one host of several keeps an eye on: whether it still has its place, and which slots are its own."""

from collections.abc import Callable
from dataclasses import dataclass

from ors_server.model.errors import InvalidRequestError, StoreError
from ors_server.model.host_slot import DRAINED_STATUS, REPLACED_STATUS, HostSlot, HostTable
from ors_server.model.logs import get_logger
from ors_server.recovery.recovery import Recovery
from ors_server.sessions.manager import SessionManager
from ors_server.store.sql.host_rows import give_up_slots
from ors_server.store.sql.sql_store import SqlStore

log = get_logger("ors_server.recovery")

LOOK_SECONDS = 1.0
"""Seconds between two looks at the record's table of hosts."""


@dataclass(eq=False, repr=False)
class HostWatch:
    """Follows the record's table of hosts for one host."""

    slot: HostSlot
    store: SqlStore
    manager: SessionManager
    recovery: Recovery | None
    stop: Callable[[int], None] | None
    """Ends the process in order, with an exit status, and returns at once; `None` where the process stays."""

    async def run(self) -> None:
        """Look again and again, until the host has lost or given up its place."""
        clock = self.manager.services.clock
        while True:
            try:
                if not await self._look(await self.store.hosts(self.slot.table)):
                    return
            except StoreError as error:
                # Without the record it writes nothing and acknowledges nothing, so it can wait.
                log.warning("hosts_not_read", error=str(error))
            await clock.sleep(LOOK_SECONDS)

    async def _look(self, table: HostTable) -> bool:
        own, fence = table.rows.get(self.slot.number), self.store.fence
        if own is None or fence is None or own.epoch != fence.epoch:
            log.error(
                "host_replaced", host=self.slot.name, hint="another process has taken its place; it ends"
            )
            self.manager.suspends = True  # it may write nothing, so the records stay as they are
            self._leave(REPLACED_STATUS)
            return False
        if own.is_draining and self.slot.number in table.owners:
            await self._give_up()
            return False
        await self._take(table)
        return True

    async def _take(self, table: HostTable) -> None:
        """Take the slots that other hosts gave up, with the sessions in them."""
        current = self.slot.table
        if table is current:
            return
        gained = {
            number
            for number, (before, owner) in enumerate(zip(current.owners, table.owners, strict=True))
            if owner == self.slot.number != before
        }
        if gained:
            if self.recovery is not None:
                self.recovery.add(await self.store.open_episodes(gained))
            log.info("slots_taken", host=self.slot.name, slots=len(gained))
        current.owners, current.rows = table.owners, table.rows

    async def _give_up(self) -> None:
        log.info("host_drains", host=self.slot.name)
        self.manager.drain()
        self.manager.suspends = True
        await self.manager.end_sessions()
        try:
            await self.store.change_hosts(give_up_slots, self.slot.number)
        except InvalidRequestError as error:  # all others drain, too: the sessions wait for this host's slots
            log.error("slots_not_given_up", error=str(error))  # noqa: TRY400  (the others drain, too)
        self._leave(DRAINED_STATUS)

    def _leave(self, status: int) -> None:
        if self.stop is not None:
            self.stop(status)
