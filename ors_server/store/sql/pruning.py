"""Removes the oldest closed episodes beyond a number, and episodes unchanged for some days."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, or_, select

from ors_server.model.clock import to_microseconds
from ors_server.store.sql.blobs import BlobStore
from ors_server.store.sql.database import Database, transaction
from ors_server.store.sql.kept_totals import groups_of, recount_groups
from ors_server.store.sql.record_tables import blob_uses, blobs, episodes, standings

BATCH_SIZE = 50
"""Maximum number of episodes or blobs that one transaction removes: more would delay live episodes."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The episodes to keep."""

    episodes: int | None = None
    """Number of closed episodes; `None` for all."""
    days: float | None = None
    """Days after the last change; `None` for no limit."""

    @property
    def is_everything(self) -> bool:
        """Whether every episode is kept for ever."""
        return self.episodes is None and self.days is None


def prune_episodes(
    database: Database,
    connection: Connection,
    retention: Retention,
    now: datetime,
    live: Collection[int] = (),
) -> int:
    """Remove a few of the episodes that the retention does not keep, in one transaction.

    Returns:
        How many; fewer than `BATCH_SIZE` means that none are left.
    """
    if retention.is_everything:
        return 0
    with transaction(database, connection):
        due = _due(connection, retention, now)
        if due is None:
            return 0
        query = select(standings.c.episode).where(due, standings.c.episode.not_in(list(live)))
        keys = list(connection.execute(query.order_by(standings.c.episode).limit(BATCH_SIZE)).scalars())
        if keys:
            kinds = groups_of(connection, keys)
            connection.execute(delete(episodes).where(episodes.c.key.in_(keys)))
            recount_groups(connection, kinds)
    return len(keys)


def prune_blobs(database: Database, connection: Connection, blob_store: BlobStore) -> int:
    """Remove a few of the blobs that no episode refers to, in one transaction.

    Returns:
        How many; fewer than `BATCH_SIZE` means that none are left.
    """
    unused = select(blobs.c.sha256).where(
        ~select(blob_uses.c.sha256).where(blob_uses.c.sha256 == blobs.c.sha256).exists()
    )
    with transaction(database, connection):
        names = list(connection.execute(unused.limit(BATCH_SIZE)).scalars())
        if names:
            blob_store.drop(connection, names)
    return len(names)


def _due(connection: Connection, retention: Retention, now: datetime) -> ColumnElement[bool] | None:
    closed_at = standings.c.closed_at
    limits: list[ColumnElement[bool]] = []
    if retention.days is not None:
        oldest = to_microseconds(now - timedelta(days=retention.days))
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
