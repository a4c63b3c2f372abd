"""Opens a database for writing: who else writes it, what was left open, and the secret that servers share."""

from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_bytes

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from ors_server.model.logs import get_logger
from ors_server.store.base import OpenEpisode
from ors_server.store.sql.claims import Claim
from ors_server.store.sql.column_values import from_microseconds
from ors_server.store.sql.database import Database, as_store_error
from ors_server.store.sql.record_tables import episodes, secrets, standings
from ors_server.store.sql.upserts import SECRETS

log = get_logger("ors_server.store")

SECRET = "shared"  # noqa: S105  (a name)
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


def open_to_write(database: Database) -> OpenedDatabase:
    """Open a database that has this server's schema; blocks; `StoreError` if it cannot be used."""
    engine = database.writing_engine()
    claim = database.make_claim(engine)
    try:
        with engine.connect() as connection, claim.alone(connection) as is_alone:
            left_open = _left_open(connection) if is_alone else ()
            if not is_alone:
                log.info("store_is_shared", hint="what a killed server left open in it is not taken up")
            return OpenedDatabase(database, engine, claim, left_open, _secret(database, connection))
    except BaseException as error:
        engine.dispose()
        claim.release()
        if isinstance(error, SQLAlchemyError | OSError):
            raise as_store_error(database, error, "opened") from error
        raise


def _left_open(connection: Connection) -> list[OpenEpisode]:
    query = (
        select(episodes.c.session_id, episodes.c.episode_id, standings.c.touched_at)
        .join(standings, standings.c.episode == episodes.c.key)
        .where(standings.c.closed_at.is_(None))
        .order_by(episodes.c.key)
    )
    return [
        OpenEpisode(row.session_id, row.episode_id, from_microseconds(row.touched_at))
        for row in connection.execute(query)
    ]


def _secret(database: Database, connection: Connection) -> bytes:
    query = select(secrets.c.value).where(secrets.c.name == SECRET)
    known = connection.execute(query).scalar()
    if known is None:
        SECRETS.run(connection, database.placeholder, [(SECRET, token_bytes(SECRET_BYTES))])
        known = connection.execute(query).scalar_one()
    return bytes(known)
