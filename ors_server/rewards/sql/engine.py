"""SQLite for reading only, with bounded work: a private copy of a database, and queries against it.

A query can read the copy, and nothing else. An authoriser permits SELECT, reading columns and calling
functions; it refuses to write, attach, load or set anything. Work is counted by SQLite's progress handler in
the calling thread: steps of its virtual machine, processor seconds of that thread, growth of the process's
memory. Lengths of values, queries, patterns and results have bounds of their own, and the copies of an
expression that SQLite would make are bounded from the query's text before it is prepared.
"""

import contextlib
import resource
import sqlite3
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import quote

from ors_server.rewards.sql.query_text import unfolding

Row: TypeAlias = tuple[Any, ...]
Database: TypeAlias = str | bytes | Path

MIB = 1_048_576
MAX_DATABASE_BYTES = 256 * MIB
MAX_QUERY_CHARACTERS = 20_000
MAX_VALUE_BYTES = 100_000
"""Bytes of one text or blob, stored or made."""
MAX_RESULT_BYTES = 64 * MIB
"""Bytes of texts and blobs in one result."""
MAX_UNFOLDING = 100_000
MAX_CALLS = 200
"""Function calls in the text of one query."""
MAX_PATTERN_BYTES = 200
PROCESSOR_SECONDS = 5.0
"""Processor time of one query, in the calling thread."""
MAX_GROWTH = 512 * MIB
"""How much the process may grow while one query runs, in bytes."""
STEPS_BETWEEN = 100
"""Steps of the virtual machine between two checks of the bounds."""
LOOKS_BETWEEN = 16
"""Checks of the bounds between two checks of the memory, which cost more."""
_PAGE = resource.getpagesize()
_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_MAGIC = b"SQLite format 3\0"
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: MAX_PATTERN_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MAX_QUERY_CHARACTERS,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class DatabaseError(Exception):
    """A database cannot be opened or built; the message says why."""


class QueryError(Exception):
    """A query is not a legal read of the database, or fails; the message says why."""


class QueryLimitError(QueryError):
    """A query takes more than it may."""


class MemoryGrowthError(Exception):
    """The process grew too much while a query ran; the query may not be the reason."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a result, in its order."""

    columns: int
    rows: tuple[Row, ...]
    is_cut: bool = False
    """Whether there are more rows than were fetched."""


@contextlib.contextmanager
def open_copy(database: Database) -> Generator[sqlite3.Connection]:
    """Open a private copy of a database in memory; raise `DatabaseError` if that is not possible.

    A database is a file's path (`.sql` is a dump), the bytes of a file, or a dump: a text with a semicolon.
    """
    # Autocommit: no transaction is open when a query fails.
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute("PRAGMA temp_store = MEMORY")  # no disk, which has no bound here
        try:
            _fill(connection, database)
        except (sqlite3.Error, sqlite3.Warning, OSError, ValueError) as error:
            raise DatabaseError(f"the database cannot be read: {error}") from error
        # Text that is not UTF-8 must not fail a query: SQLite stores any bytes.
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        for name, trim in _TRIMS.items():
            connection.create_function(name, 2, trim, deterministic=True)
        # After filling: the limits are for queries, not for the author's database.
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        yield connection
    finally:
        connection.close()


def run_query(connection: sqlite3.Connection, query: str, *, work_limit: int, row_limit: int) -> QueryResult:
    """Run one query to its end, or to a limit on steps of the virtual machine or fetched rows.

    Raises:
        QueryLimitError: It takes more than it may.
        QueryError: It is anything but one reading statement, or fails.
        MemoryGrowthError: The process grew by more than 512 MiB meanwhile.
    """
    _check_text(query)
    watch = _Watch(work_limit)
    # Set for each query, since they carry its bounds; removed in every case, so that nothing of it stays on
    # the connection.
    connection.set_authorizer(watch.authorise)
    connection.set_progress_handler(watch.look, STEPS_BETWEEN)
    try:
        return _fetch(connection, query, row_limit)
    except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
        raise watch.explain(error) from None
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_authorizer(None)


def _check_text(query: str) -> None:
    if len(query) > MAX_QUERY_CHARACTERS:
        raise QueryLimitError(
            f"the query has {len(query)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )
    if "\0" in query or not query.strip():
        raise QueryError("the query is empty, or has a NUL in it")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise QueryError("the query has half a surrogate pair") from None
    # Before `execute`: SQLite copies the parts while it prepares the query, when no handler is called yet.
    if unfolding(query) > MAX_UNFOLDING:
        raise QueryLimitError("the query's parts use each other too often")


def _fetch(connection: sqlite3.Connection, query: str, row_limit: int) -> QueryResult:
    # `execute` accepts one statement only; `description` is missing where it returns no rows.
    cursor = connection.execute(query)
    if cursor.description is None:
        raise QueryError("the statement has no result")
    rows: list[Row] = []
    size = 0
    for row in cursor:
        if len(rows) == row_limit:
            cursor.close()
            return QueryResult(len(row), tuple(rows), is_cut=True)
        # Counted as they are fetched: many large cells exceed memory long before the limit on rows.
        size += sum(len(cell) for cell in row if isinstance(cell, str | bytes))
        if size > MAX_RESULT_BYTES:
            raise QueryLimitError(f"the result has more than {MAX_RESULT_BYTES} bytes")
        rows.append(row)
    return QueryResult(len(cursor.description), tuple(rows))


class _Watch:
    """Permits the actions of a query, counts its work, and explains why it was ended."""

    def __init__(self, work_limit: int) -> None:
        self._left = work_limit
        self._until = time.thread_time() + PROCESSOR_SECONDS
        self._memory = _memory() + MAX_GROWTH
        self._looks = 0
        self._calls = 0
        self._ended = ""
        self._has_grown = False

    def authorise(self, action: int, first: str | None, second: str | None, *_where: str | None) -> int:
        """Permit reading, and nothing else."""
        # Function calls are counted when the query is prepared, so this bounds its text and not its work.
        if action == sqlite3.SQLITE_FUNCTION:
            self._calls += 1
            if self._calls > MAX_CALLS:
                self._ended = f"more than {MAX_CALLS} function calls are in the query"
                return sqlite3.SQLITE_DENY
            return (
                sqlite3.SQLITE_DENY if second in {"load_extension", "fts3_tokenizer"} else sqlite3.SQLITE_OK
            )
        del first
        return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY

    def look(self) -> int:
        """End the query if it has taken what it may."""
        self._left -= STEPS_BETWEEN
        if self._left < 0:
            self._ended = "the query takes more steps than it may"
        elif time.thread_time() > self._until:
            self._ended = f"the query takes more than {PROCESSOR_SECONDS:g} seconds of the processor"
        else:
            # Memory is looked at rarely, because reading it costs more than the steps between.
            self._looks += 1
            self._has_grown = self._looks % LOOKS_BETWEEN == 0 and _memory() > self._memory
        return int(bool(self._ended) or self._has_grown)

    def explain(self, error: BaseException) -> Exception:
        """Return our error for one of SQLite's."""
        # Growth is a separate error: other threads of the process may have caused it.
        if self._has_grown or isinstance(error, MemoryError):
            return MemoryGrowthError(f"memory grew by more than {MAX_GROWTH} bytes while the query ran")
        if self._ended:
            return QueryLimitError(self._ended)
        return QueryError(f"{error}"[:300])


def _memory() -> int:
    """Return how much memory the process holds, in bytes; on macOS the most that it ever held."""
    try:
        with open("/proc/self/statm", encoding="ascii") as figures:  # noqa: PTH123  (asked a thousand times a second)
            return int(figures.read().split()[1]) * _PAGE
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024  # getrusage(2): bytes there, KiB on Linux


def absolute_place(database: Database) -> Database:
    """Return a database that means the same from any folder."""
    if isinstance(database, bytes) or _is_dump(database):
        return database
    return Path(database).absolute()


def _is_dump(database: Database) -> TypeGuard[str]:
    return isinstance(database, str) and ";" in database


def _fill(connection: sqlite3.Connection, database: Database) -> None:
    if isinstance(database, bytes):
        _fill_from_bytes(connection, database)
    elif _is_dump(database):
        _fill_from_dump(connection, database)
    else:
        path = Path(database)
        # Before reading; the file may be larger than memory.
        if path.stat().st_size > MAX_DATABASE_BYTES:
            raise ValueError(f"it has more than {MAX_DATABASE_BYTES} bytes")
        if path.suffix.lower() == ".sql":
            _fill_from_dump(connection, path.read_text(encoding="utf-8"))
        else:
            uri = f"file:{quote(str(path.resolve()))}?mode=ro"
            with contextlib.closing(sqlite3.connect(uri, uri=True)) as source:
                source.backup(connection)


def _fill_from_bytes(connection: sqlite3.Connection, content: bytes) -> None:
    if len(content) > MAX_DATABASE_BYTES or not content.startswith(_MAGIC):
        raise ValueError("the bytes are not a SQLite database, or more than the limit")
    if content[18:20] == b"\x02\x02":  # a write-ahead log, which memory has not (SQLite's file format, 1.3.3)
        content = content[:18] + b"\x01\x01" + content[20:]
    connection.deserialize(content)
    # A cheap read, because a broken database only shows when it is used.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _fill_from_dump(connection: sqlite3.Connection, dump: str) -> None:
    if len(dump) > MAX_DATABASE_BYTES:
        raise ValueError(f"the dump has more than {MAX_DATABASE_BYTES} characters")

    def authorise(action: int, *_where: str | None) -> int:
        refused = action in {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    # A dump is the author's and may write; but it must not reach other files.
    connection.set_authorizer(authorise)
    connection.executescript(dump)
    connection.set_authorizer(None)


def _trim(value: Any, marks: Any, *, left: bool, right: bool) -> str | None:
    """Trim as SQLite does; its own takes the product of both lengths, which a query could choose."""
    if value is None or marks is None:
        return None
    text, drop = _as_text(value), set(_as_text(marks))
    start, end = 0, len(text)
    while left and start < end and text[start] in drop:
        start += 1
    while right and end > start and text[end - 1] in drop:
        end -= 1
    return text[start:end]


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.15g}"
    return text if set(text) & set(".einf") else f"{text}.0"


_TRIMS: dict[str, Any] = {
    "trim": partial(_trim, left=True, right=True),
    "ltrim": partial(_trim, left=True, right=False),
    "rtrim": partial(_trim, left=False, right=True),
}
