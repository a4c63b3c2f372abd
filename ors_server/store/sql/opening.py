"""Opens a database for writing: who else writes it, what was left open, and the secret that servers share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import token_bytes

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import SQLAlchemyError

from ors_server.model.clock import from_microseconds
from ors_server.model.host_slot import HostSlot
from ors_server.model.logs import get_logger
from ors_server.store.base import OpenEpisode
from ors_server.store.sql.claims import Claim
from ors_server.store.sql.database import Database, as_store_error, transaction
from ors_server.store.sql.host_rows import Fence, join, read_hosts
from ors_server.store.sql.record_tables import attempts, episodes, shared_values, standings
from ors_server.store.sql.upserts import FIRST_VALUES, SHARED_VALUES

log = get_logger("ors_server.store")

SECRET = "secret"  # noqa: S105  (a name)
ALIVE_AT = "alive_at"
"""Name of the value that says when a server of the record was last alive, in microseconds as text."""
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class OpenedDatabase:
    """A database that was opened for writing."""

    database: Database
    engine: Engine
    """Of the writer thread."""
    claim: Claim
    left_open: Sequence[OpenEpisode]
    """As of `EpisodeStore`."""
    shared_secret: bytes
    """As of `EpisodeStore`."""
    fence: Fence | None
    """What every batch of a host checks; `None` for a server that is a single process."""


def open_to_write(database: Database, slot: HostSlot) -> OpenedDatabase:
    """Open a database that has this server's schema; blocks.

    Raises:
        SettingsError: If a server with several hosts writes the record; if this is a host, any other server.
        StoreError: If it cannot be used.
    """
    engine = database.writing_engine()
    claim = database.make_claim(engine)
    try:
        with engine.connect() as connection, claim.alone(connection) as is_alone:
            epoch = join(database, connection, slot, is_alone=is_alone)
            takes_up = is_alone or not slot.is_alone
            if not slot.is_alone:
                slot.table.owners = read_hosts(connection).owners
            left_open = read_left_open(connection, slot.has) if takes_up else ()
            if not takes_up:
                log.info("store_is_shared", hint="what a killed server left open in it is not taken up")
            FIRST_VALUES.run(connection, database.placeholder, [(SECRET, token_bytes(SECRET_BYTES))])
            secret = read_secret(connection)  # an older one stays
            fence = None if slot.is_alone else Fence.of(database, slot.number, epoch)
            return OpenedDatabase(database, engine, claim, left_open, secret, fence)
    except BaseException as error:
        engine.dispose()
        claim.release()
        if isinstance(error, SQLAlchemyError | OSError):
            raise as_store_error(database, error, "opened") from error
        raise


def read_left_open(connection: Connection, belongs: Callable[[str], bool]) -> list[OpenEpisode]:
    """Return the open episodes whose session's id belongs to a host, oldest first."""
    query = (
        select(episodes.c.session_id, episodes.c.episode_id, standings.c.touched_at)
        .join(standings, standings.c.episode == episodes.c.key)
        .where(standings.c.closed_at.is_(None))
        .order_by(episodes.c.key)
    )
    alive_at = int(_value(connection, ALIVE_AT) or 0)
    return [
        OpenEpisode(row.session_id, row.episode_id, from_microseconds(max(row.touched_at, alive_at)))
        for row in connection.execute(query)
        if belongs(row.session_id)
    ]


def read_secret(connection: Connection) -> bytes:
    """Return the secret that the servers of a record share."""
    return _value(connection, SECRET) or b""


def renew_secret(database: Database, connection: Connection) -> None:
    """Replace that secret by another random one."""
    with transaction(database, connection):
        SHARED_VALUES.run(connection, database.placeholder, [(SECRET, token_bytes(SECRET_BYTES))])


_CLAIM = text(
    "INSERT INTO attempts (episode, credential_id, environment, split, task_index, number) "
    "SELECT key, coalesce(credential_id, ''), environment, coalesce(split, ''), coalesce(task_index, -1), "
    ":number FROM episodes WHERE episode_id = :episode ON CONFLICT DO NOTHING"
)


def claim_attempt(
    database: Database, connection: Connection, episode_id: str, numbers: Sequence[int]
) -> int | None:
    """Give an episode the first of some numbers that no other attempt at its task has.

    An insertion waits for another server's insertion of the same number, so one of them gets it.
    """
    query = (
        select(attempts.c.number)
        .join(episodes, episodes.c.key == attempts.c.episode)
        .where(episodes.c.episode_id == episode_id)
    )
    with transaction(database, connection):
        for number in numbers:
            connection.execute(_CLAIM, {"number": number, "episode": episode_id})
            claimed: int | None = connection.execute(query).scalar()
            if claimed is not None:
                return claimed
    return None


def _value(connection: Connection, name: str) -> bytes | None:
    query = select(shared_values.c.value).where(shared_values.c.name == name)
    value = connection.execute(query).scalar()
    return None if value is None else bytes(value)
