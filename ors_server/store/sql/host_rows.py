"""The rows about the hosts of a server with several of them: who has a slot, and who may still write.

Who starts in a host's place, or takes its slots, raises the epoch of that host in the same transaction. Every
batch of a host checks its epoch in its own transaction and keeps the row from changing until that ends, so
nothing is written under an old epoch: not by a host that was cut off from the database, and not by one that
was paused while another one was started in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from ors_server.model.errors import InvalidRequestError, OrsServerError, SettingsError, StoreError
from ors_server.model.host_slot import HostRow, HostSlot, HostTable, even_slots, host_name
from ors_server.store.sql.database import Database, execute, transaction
from ors_server.store.sql.pending_writes import PendingWrite
from ors_server.store.sql.record_tables import hosts, shared_values, slots
from ors_server.store.sql.upserts import SHARED_VALUES

GROUP = "group"
"""Name of the value that says which hosts use the record; empty for servers that are one process."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Keeps a host that another process has replaced from writing."""

    number: int
    epoch: int
    statement: str

    @classmethod
    def of(cls, database: Database, number: int, epoch: int) -> "Fence":
        """Make the fence of a host that has taken its place."""
        lock = " FOR SHARE" if database.placeholder == "%s" else ""  # SQLite has one writer at a time anyway
        statement = f"SELECT epoch FROM hosts WHERE number = {database.placeholder}{lock}"  # noqa: S608  (ours)
        return cls(number, epoch, statement)

    def check_writes(
        self, connection: Connection, entries: Sequence[PendingWrite], now: int
    ) -> Mapping[PendingWrite, OrsServerError]:
        """Check that the host has its place, and keeps it for this transaction; refuse no single write.

        Raises:
            StoreError: If another process has taken it.
        """
        del entries, now
        row = execute(connection, self.statement, (self.number,)).fetchone()
        if row is None or row[0] != self.epoch:
            name = host_name(self.number)
            raise StoreError(f"another process has taken the place of host {name}; this one writes nothing")
        return {}

    def note(self, entries: Sequence[PendingWrite]) -> None:
        """Do nothing: its slots say which sessions are its own."""


def join(database: Database, connection: Connection, slot: HostSlot, *, is_alone: bool) -> int:
    """Take a server's place among those that write the record, and return its epoch (0 for a lone server).

    Args:
        is_alone: Whether no other store has the record open.

    Raises:
        SettingsError: If a server with several hosts has the record open, or any server if this is a host.
    """
    if slot.is_alone and not _group(connection):
        return 0  # as most servers do: nothing is written
    with transaction(database, connection):
        database.lock(connection)
        group = _group(connection)
        if not is_alone and group != slot.group:
            _refuse(database, uses_hosts=bool(group))
        if group != slot.group:
            SHARED_VALUES.run(connection, database.placeholder, [(GROUP, slot.group.encode())])
            connection.execute(update(hosts).values(epoch=hosts.c.epoch + 1, draining=0))
            connection.execute(delete(slots))
        return 0 if slot.is_alone else _take_place(connection, slot)


def _group(connection: Connection) -> str:
    """Return which hosts use the record, empty for servers that are one process."""
    stored = connection.execute(select(shared_values.c.value).where(shared_values.c.name == GROUP)).scalar()
    return "" if stored is None else bytes(stored).decode()


def _refuse(database: Database, *, uses_hosts: bool) -> None:
    if uses_hosts:
        raise SettingsError(
            f"another server with several hosts uses the record {database.display_name}: stop that server, "
            "or pass a different --store"
        )
    raise SettingsError(
        f"another server uses the record {database.display_name}, and a multi-host server needs exclusive "
        "access: stop that server, or pass a different --store"
    )


def _take_place(connection: Connection, slot: HostSlot) -> int:
    if connection.execute(select(slots.c.slot).limit(1)).first() is None:
        owners = even_slots(range(slot.count))
        connection.execute(
            insert(slots), [{"slot": number, "host": owner} for number, owner in enumerate(owners)]
        )
    place = update(hosts).where(hosts.c.number == slot.number)
    raised = place.values(epoch=hosts.c.epoch + 1, address=slot.address)
    if connection.execute(raised).rowcount == 0:
        connection.execute(
            insert(hosts).values(number=slot.number, epoch=1, address=slot.address, draining=0)
        )
    epoch: int = connection.execute(select(hosts.c.epoch).where(hosts.c.number == slot.number)).scalar_one()
    return epoch


def read_hosts(connection: Connection, known: HostTable | None = None) -> HostTable:
    """Return what the record says of all hosts.

    Args:
        known: An earlier answer. Slots change only together with the epoch of a host, so those of a table
            whose hosts are the same are not read again, and the table itself is returned.
    """
    rows = {
        row.number: HostRow(row.number, row.epoch, row.address, bool(row.draining))
        for row in connection.execute(select(hosts))
    }
    if known is not None and rows == known.rows:
        return known
    owners = [row.host for row in connection.execute(select(slots).order_by(slots.c.slot))]
    return HostTable(owners, rows)


def mark_draining(database: Database, connection: Connection, number: int) -> None:
    """Ask a host to give its slots up.

    Raises:
        InvalidRequestError: If no other host could take them.
    """
    with transaction(database, connection):
        _takers(database, connection, number)
        connection.execute(update(hosts).where(hosts.c.number == number).values(draining=1))


def give_up_slots(database: Database, connection: Connection, number: int) -> None:
    """Give the slots of a host to all others in equal shares; the host may write nothing afterwards.

    Raises:
        InvalidRequestError: If there is no other host.
    """
    with transaction(database, connection):
        takers = _takers(database, connection, number)
        owned = connection.execute(select(slots.c.slot).where(slots.c.host == number).order_by(slots.c.slot))
        for index, (slot,) in enumerate(owned.all()):
            taker = takers[index % len(takers)]
            connection.execute(update(slots).where(slots.c.slot == slot).values(host=taker))
        connection.execute(update(hosts).where(hosts.c.number == number).values(epoch=hosts.c.epoch + 1))


def _takers(database: Database, connection: Connection, number: int) -> Sequence[int]:
    """Return the hosts that may take the slots of another one, those with the fewest slots first.

    None of them changes meanwhile.
    """
    database.lock(connection)
    table = read_hosts(connection)
    rows = table.rows.values()
    takers = [row.number for row in rows if row.number != number and not row.is_draining]
    takers.sort(key=table.owners.count)
    if not takers:
        raise InvalidRequestError(f"no other host could take the sessions of {host_name(number)}")
    return takers
