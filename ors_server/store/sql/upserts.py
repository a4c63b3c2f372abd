"""The INSERT statements that run for every batch, with many rows each, so that the driver is rarely called.

Between two such calls the driver releases the interpreter's lock and has to wait for it again, up to 5 ms
if the event loop is busy (`sys.getswitchinterval`); row by row, a batch would take seconds.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from ors_server.store.sql.database import execute

_MAX_ROWS = 64
"""Maximum number of rows of one statement."""
_POWERS = (64, 32, 16, 8, 4, 2, 1)
"""Numbers of rows in PostgreSQL's statements: few, because psycopg keeps 100 of them prepared."""


class Upsert:
    """Inserts rows, and optionally updates rows that exist."""

    def __init__(self, table: str, columns: str, conflict: str, change: str | None = None) -> None:
        """Describe the statement.

        Args:
            columns: Their names, separated by commas.
            conflict: The columns that identify a row.
            change: The SET clause for a row that exists; `None` leaves it alone; `*` sets every other column.
        """
        self._names = [name.strip() for name in columns.split(",")]
        if change == "*":
            keys = {name.strip() for name in conflict.split(",")}
            change = ", ".join(f"{name} = excluded.{name}" for name in self._names if name not in keys)
        action = "NOTHING" if change is None else f"UPDATE SET {change}"
        self._head = f"INSERT INTO {table} ({columns}) VALUES "  # noqa: S608  (all of it is written below)
        self._tail = f" ON CONFLICT ({conflict}) DO {action}"

    @cache  # noqa: B019  (there are as many as this module has statements)
    def text(self, rows: int, placeholder: str) -> str:
        """Return the statement for a number of rows."""
        row = f"({', '.join([placeholder] * len(self._names))})"
        return f"{self._head}{', '.join([row] * rows)}{self._tail}"

    def run(self, connection: Connection, placeholder: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run it for rows of which no two have the same values in the columns of `conflict`."""
        start = 0
        for size in sizes_of(len(rows), placeholder):
            values = tuple(chain.from_iterable(rows[start : start + size]))
            execute(connection, self.text(size, placeholder), values)
            start += size


@cache
def sizes_of(rows: int, placeholder: str) -> tuple[int, ...]:
    """Return the number of rows of each statement that together write `rows` rows.

    SQLite prepares statements quickly and its connections cache 256 of them, so each takes as many rows as it
    may.

    Args:
        placeholder: Of a value, which identifies the database.
    """
    sizes = list[int]()
    while rows > 0:
        step = min(rows, _MAX_ROWS) if placeholder == "?" else next(size for size in _POWERS if size <= rows)
        sizes.append(step)
        rows -= step
    return tuple(sizes)


EPISODES = Upsert(
    "episodes",
    "episode_id, session_id, created_at, environment, split, task_index, task_hash, credential_id, "
    "environment_version, server_version, forked_from, run, agent, body, digest",
    "episode_id",
)
_STANDING = (
    "phase, stop_reason, steps, episode_return, ungraded_steps, failed_steps, refused_steps, "
    "penalised_steps, unjudged_steps, result, duration, touched_at, closed_at, body, digest"
)
FIRST_STANDINGS = Upsert("standings", f"episode, {_STANDING}", "episode")
STANDINGS = Upsert(
    "standings",
    f"episode, {_STANDING}",
    "episode",
    ", ".join(
        f"{name} = coalesce(standings.{name}, excluded.{name})"
        if name == "closed_at"
        else f"{name} = excluded.{name}"
        for name in _STANDING.split(", ")
    ),
)
STEPS = Upsert(
    "steps",
    "episode, number, reward, tool, status, blame, started_at, duration, body, digest, blobs",
    "episode, number",
    "*",
)
TOOL_USES = Upsert("tool_uses", "episode, tool", "episode, tool")
CALL_MINUTES = Upsert(
    "call_minutes",
    "minute, writer, calls, refused, failed",
    "minute, writer",
    ", ".join(f"{name} = call_minutes.{name} + excluded.{name}" for name in ("calls", "refused", "failed")),
)
MOVES = Upsert("moves", "episode, position, body, digest", "episode, position")
NOTES = Upsert("notes", "note_id, episode, author, at, text, verdict, step", "note_id")
INCIDENTS = Upsert("incidents", "episode, position, body, digest", "episode, position")
PROMPTS = Upsert("prompts", "episode, body, digest, blobs", "episode")
LABELS = Upsert("labels", "episode, name, value", "episode, name")
BLOBS = Upsert("blobs", "sha256, size, data", "sha256")
BLOB_USES = Upsert("blob_uses", "episode, sha256", "episode, sha256")
FIRST_VALUES = Upsert("shared_values", "name, value", "name")
SHARED_VALUES = Upsert("shared_values", "name, value", "name", "*")
