"""Keeps judges' replies on disk, so that no question is paid for twice."""

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ors_server.rewards.judges.judge_model import Completion

WAIT = 30.0
"""Seconds to wait for another writer."""


class JudgeCache:
    """Replies by key, in an SQLite file that threads and processes may share. Its folder must exist.

    Only replies with a readable verdict are stored: after a failure the question is asked again.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")

    def get(self, key: str) -> Completion | None:
        """Return the reply of a key, or `None`."""
        with self._open() as database:
            row = database.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else Completion(**json.loads(row[0]))

    def put(self, key: str, completion: Completion) -> None:
        """Store a reply; the first one of a key stays."""
        text = json.dumps(completion.as_json())
        with self._open() as database:
            database.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (key, text))

    def __len__(self) -> int:
        with self._open() as database:
            row: tuple[Any, ...] = database.execute("SELECT count(*) FROM replies").fetchone()
        return int(row[0])

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=WAIT)) as database, database:
            yield database
