"""Refuses the id of a session that another server on the same record plays now.

Servers that are one process each have no slots that would divide the ids among them, so the record says which
ids are taken: an open episode that another server wrote lately is live there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ors_server.model.errors import SessionExistsError
from ors_server.store.sql.column_values import as_search_text
from ors_server.store.sql.database import Database, execute
from ors_server.store.sql.pending_writes import PendingClose, PendingOpen, PendingWrite
from ors_server.store.sql.upserts import sizes_of

_QUERY = (
    "SELECT e.session_id, e.episode_id FROM episodes e JOIN standings s ON s.episode = e.key "
    "WHERE s.closed_at IS NULL AND s.touched_at >= {0} AND e.session_id IN ({1})"
)
_LOCK = (
    "SELECT pg_advisory_xact_lock(hashtextextended(id, 0)) "
    "FROM (SELECT unnest(%s::text[]) AS id ORDER BY 1) ids"
)
"""Keeps two servers from taking one id at the same moment; SQLite has one writer at a time anyway."""


@dataclass(slots=True)
class LiveSessions:
    """Knows which open episodes are this server's; used on the writer thread only."""

    database: Database
    idle_microseconds: int
    """For how long a session may be left alone: an older open episode is not live."""
    own: set[str] = field(default_factory=set[str])
    """Ids of open episodes that this server wrote, or found left open."""

    def check_writes(
        self, connection: Connection, entries: Sequence[PendingWrite], now: int
    ) -> dict[PendingWrite, SessionExistsError]:
        """Return the writes that would open an episode in a session that is live on another server."""
        by_session = {
            as_search_text(entry.origin.session_id): entry
            for entry in entries
            if isinstance(entry, PendingOpen)
        }
        names = sorted(by_session)
        placeholder = self.database.placeholder
        if names and placeholder == "%s":
            execute(connection, _LOCK, (names,))
        refused: dict[PendingWrite, SessionExistsError] = {}
        start = 0
        for size in sizes_of(len(names), placeholder):
            query = _QUERY.format(placeholder, ", ".join([placeholder] * size))
            values = (now - self.idle_microseconds, *names[start : start + size])
            start += size
            for session_id, episode_id in execute(connection, query, values).fetchall():
                entry = by_session[session_id]
                if episode_id not in self.own and episode_id != entry.origin.episode_id:
                    refused[entry] = SessionExistsError(
                        f"Session already exists: another server on this record plays {session_id!r:.80}"
                    )
        return refused

    def note(self, entries: Iterable[PendingWrite]) -> None:
        """Note what was written."""
        for entry in entries:
            if isinstance(entry, PendingOpen):
                self.own.add(entry.origin.episode_id)
            elif isinstance(entry, PendingClose) and entry.state is not None:
                self.own.discard(entry.state.episode_id)
