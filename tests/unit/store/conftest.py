"""Records in SQLite that fail when a test says so."""

import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from ors_server.model.clock import Clock, SystemClock
from ors_server.model.errors import StoreError
from ors_server.store.location import parse_location
from ors_server.store.sql.blobs import FileBlobStore
from ors_server.store.sql.components import blob_folder, prepare
from ors_server.store.sql.opening import open_to_write
from ors_server.store.sql.sql_store import SqlStore
from ors_server.store.sql.sqlite import SqliteDatabase
from ors_server.store.sql.upserts import BLOBS
from ors_server.store.store_options import StoreOptions
from ors_server.testing.store_promises import after, make_origin, make_step

LIMIT = 20.0
"""Seconds that any one wait of a test may take."""


class FailingDatabase(SqliteDatabase):
    """A real file whose disk is full or hangs, or whose commits are of unknown outcome, if a test wants."""

    def __init__(self, path: Path, options: StoreOptions) -> None:
        super().__init__(path, options.durability, options.write_seconds)
        self.pages: int | None = None
        """Most pages of the file."""
        self.silent_commits = 0
        """Commits that go through and whose caller is told that they did not."""
        self.code = sqlite3.SQLITE_FULL
        """What such a caller is told."""
        self.holding: threading.Event | None = None
        """What every write waits for."""
        self.begins = 0
        """Transactions that were asked for: some may wait for another connection's to end."""
        self.commits = 0
        self.interrupted = 0
        self.gone = False

    def check(self) -> None:
        if self.holding is not None:
            self.holding.wait(LIMIT)
        if self.gone:
            raise StoreError("the disk is gone")
        super().check()

    def interrupt(self, connection: Any) -> None:
        self.interrupted += 1
        super().interrupt(connection)

    def writing_engine(self):
        engine = super().writing_engine()
        event.listen(engine, "before_cursor_execute", self._before)
        event.listen(engine, "after_cursor_execute", self._after)
        return engine

    def _before(self, _connection, cursor, statement, *_rest) -> None:
        if not statement.startswith("BEGIN"):
            return
        self.begins += 1
        if self.pages is not None:
            cursor.execute(f"PRAGMA max_page_count = {self.pages}")

    def _after(self, _connection, _cursor, statement, *_rest) -> None:
        if statement != "COMMIT":
            return
        self.commits += 1
        if self.silent_commits:
            self.silent_commits -= 1
            error = sqlite3.OperationalError("nobody knows")
            error.sqlite_errorcode = self.code
            raise OperationalError(statement, None, error)


@dataclass
class Records:
    """Opens stores on copies of one empty record."""

    folder: Path
    template: Path
    stack: AsyncExitStack
    database: Any = None
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.folder / "episodes.db"
        shutil.copy(self.template, self.path)

    @property
    def blobs(self) -> Path:
        return blob_folder(self.path)

    async def open(self, *, clock: Clock | None = None, **wishes: Any) -> SqlStore:
        options = StoreOptions(**{"write_seconds": 5.0, **wishes})
        self.database = FailingDatabase(self.path, options)
        shelf = FileBlobStore(self.blobs, BLOBS.text(1, "?"))
        store = SqlStore(open_to_write(self.database, options.slot), shelf, options, clock or SystemClock())
        self.stack.push_async_callback(store.aclose)
        return store

    def rows(self, query: str) -> list[tuple]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "empty.db"
    prepare(parse_location(str(path)))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


@pytest.fixture
async def records(tmp_path: Path, template: Path) -> AsyncIterator[Records]:
    async with AsyncExitStack() as stack:
        yield Records(tmp_path, template, stack)


@pytest.fixture
def play() -> Callable[..., Any]:
    async def act(store, number: int = 1, steps: int = 1, **changes: Any):
        origin = make_origin(number, **changes)
        with anyio.fail_after(LIMIT):
            await store.open(origin)
            for step in range(1, steps + 1):
                await store.append(origin.episode_id, make_step(step), partial(after, origin, step))
        return origin

    return act
