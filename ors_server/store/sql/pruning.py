"""Forgets episodes: the oldest closed ones beyond a number, and those that nothing was added to for long."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, or_, select

from ors_server.store.sql.blobs import Shelf
from ors_server.store.sql.database import Database, transaction
from ors_server.store.sql.schema import blob_uses, blobs, episodes, standings
from ors_server.store.sql.stamps import stamp

AT_ONCE = 50
"""Most episodes, or blobs, that one transaction forgets: it must not keep players waiting."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept."""

    episodes: int | None = None
    """Closed episodes; `None` for all."""
    days: float | None = None
    """Days after the last change; `None` for ever."""

    @property
    def is_everything(self) -> bool:
        """Whether nothing is ever forgotten."""
        return self.episodes is None and self.days is None


def forget_some(
    database: Database,
    connection: Connection,
    retention: Retention,
    now: datetime,
    live: Collection[int] = (),
) -> int:
    """Forget a few of the episodes that need not be kept, in one transaction.

    Args:
        database: The database.
        connection: One of its writing engine.
        retention: What is kept.
        now: The time.
        live: Rows of episodes that are being played.

    Returns:
        How many; fewer than `AT_ONCE` means that there are no more.
    """
    if retention.is_everything:
        return 0
    with transaction(database, connection):
        due = _due(connection, retention, now)
        if due is None:
            return 0
        query = select(standings.c.episode).where(due, standings.c.episode.not_in(list(live)))
        keys = list(connection.execute(query.order_by(standings.c.episode).limit(AT_ONCE)).scalars())
        if keys:
            connection.execute(delete(episodes).where(episodes.c.key.in_(keys)))
    return len(keys)


def drop_some_blobs(database: Database, connection: Connection, shelf: Shelf) -> int:
    """Drop a few of the blobs that no episode shows any more, in one transaction.

    Args:
        database: The database.
        connection: One of its writing engine.
        shelf: Where they are.

    Returns:
        How many; fewer than `AT_ONCE` means that there are no more.
    """
    unused = select(blobs.c.sha256).where(
        ~select(blob_uses.c.sha256).where(blob_uses.c.sha256 == blobs.c.sha256).exists()
    )
    with transaction(database, connection):
        names = list(connection.execute(unused.limit(AT_ONCE)).scalars())
        if names:
            shelf.drop(connection, names)
    return len(names)


def _due(connection: Connection, retention: Retention, now: datetime) -> ColumnElement[bool] | None:
    closed_at = standings.c.closed_at
    limits: list[ColumnElement[bool]] = []
    if retention.days is not None:
        oldest = stamp(now - timedelta(days=retention.days))
        limits += (closed_at < oldest, closed_at.is_(None) & (standings.c.touched_at < oldest))
    if retention.episodes is not None:
        query = (
            select(closed_at, standings.c.episode)
            .where(closed_at.is_not(None))
            .order_by(closed_at.desc(), standings.c.episode.desc())
            .offset(retention.episodes)
            .limit(1)
        )
        newest = connection.execute(query).first()
        if newest is not None:
            time, key = newest
            limits.append((closed_at < time) | ((closed_at == time) & (standings.c.episode <= key)))
    return or_(*limits) if limits else None
