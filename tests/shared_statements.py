"""Lets the records of one process share the SQL that SQLAlchemy has compiled for them.

An engine compiles each statement once, in some milliseconds. A server has one record; tests open a thousand
of them in SQLite files, each with two engines, and would compile the same statements for each.
"""

from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine

from ors_server.store.sql import sqlite

_FIRST: dict[str | None, Engine] = {}
"""The first engine of each isolation level, whose dialect and compiled statements the others use."""


def _create_engine(*arguments: Any, **options: Any) -> Engine:
    level = options.get("isolation_level")
    if level not in _FIRST:
        _FIRST[level] = sqlalchemy.create_engine("sqlite://", isolation_level=level)
        _FIRST[level].connect().close()  # the dialect asks the database what it can do
    engine, first = sqlalchemy.create_engine(*arguments, **options), _FIRST[level]
    engine.dialect = first.dialect
    engine._compiled_cache = first._compiled_cache
    return engine


def pytest_configure(config: pytest.Config) -> None:
    """Has the engines of records share what they compile."""
    del config
    sqlite.create_engine = _create_engine  # type: ignore[attr-defined]  # the name that the module imported


def pytest_unconfigure() -> None:
    """Lets each engine compile for itself again."""
    sqlite.create_engine = sqlalchemy.create_engine  # type: ignore[attr-defined]  # likewise
