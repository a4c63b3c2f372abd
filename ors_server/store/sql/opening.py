"""Opens a database for writing: who else writes it, what was left open, and the secret that servers share."""

from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_bytes

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from ors_server.model.clock import from_microseconds
from ors_server.model.errors import SettingsError
from ors_server.model.host_slot import HostSlot
from ors_server.model.logs import get_logger
from ors_server.store.base import OpenEpisode
from ors_server.store.sql.claims import Claim
from ors_server.store.sql.database import Database, as_store_error
from ors_server.store.sql.record_tables import episodes, shared_values, standings
from ors_server.store.sql.upserts import FIRST_VALUES

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


def open_to_write(database: Database, slot: HostSlot) -> OpenedDatabase:
    """Open a database that has this server's schema; blocks.

    Raises:
        SettingsError: If another server writes a record that the first host of several needs for them alone.
        StoreError: If it cannot be used.
    """
    engine = database.writing_engine()
    claim = database.make_claim(engine)
    try:
        with engine.connect() as connection, claim.alone(connection) as is_alone:
            if slot.is_first_start:
                _refuse_others(is_alone=is_alone)
            left_open = _left_open(connection, slot) if is_alone or not slot.is_alone else ()
            if not is_alone and slot.is_alone:
                log.info("store_is_shared", hint="what a killed server left open in it is not taken up")
            FIRST_VALUES.run(connection, database.placeholder, [(SECRET, token_bytes(SECRET_BYTES))])
            secret = _value(connection, SECRET) or b""  # an older one stays
            return OpenedDatabase(database, engine, claim, left_open, secret)
    except BaseException as error:
        engine.dispose()
        claim.release()
        if isinstance(error, SQLAlchemyError | OSError):
            raise as_store_error(database, error, "opened") from error
        raise


def _refuse_others(*, is_alone: bool) -> None:
    if not is_alone:
        raise SettingsError(
            "another server has the record open, and a server with --workers needs it for its hosts alone: "
            "stop the other one, or name another --store"
        )


def _left_open(connection: Connection, slot: HostSlot) -> list[OpenEpisode]:
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
        if slot.has(row.session_id)
    ]


def _value(connection: Connection, name: str) -> bytes | None:
    query = select(shared_values.c.value).where(shared_values.c.name == name)
    value = connection.execute(query).scalar()
    return None if value is None else bytes(value)
