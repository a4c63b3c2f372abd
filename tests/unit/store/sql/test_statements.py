"""Statements of many rows: every row is in one of them, and there are few of them."""

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import IntegrityError, OperationalError

from ors_server.store.sql.database import execute, is_about_values
from ors_server.store.sql.upserts import STEPS, sizes_of


@pytest.mark.parametrize("rows", [0, 1, 2, 37, 63, 64, 65, 200, 1024])
def test_every_row_is_in_one_statement(rows):
    for mark in ("?", "%s"):
        sizes = sizes_of(rows, mark)
        assert sum(sizes) == rows
        assert all(0 < size <= 64 for size in sizes)


def test_a_statement_has_a_mark_for_every_value_and_databases_see_few_of_them():
    assert sizes_of(37, "?") == (37,)
    assert sizes_of(37, "%s") == (32, 4, 1)
    assert len({size for rows in range(1025) for size in sizes_of(rows, "%s")}) == 7
    text = STEPS.text(3, "?")
    assert text.startswith("INSERT INTO steps (episode, number, reward, tool, status, ")
    assert text.count(f"({', '.join('?' * 11)})") == 3


def test_a_statement_that_breaks_a_rule_fails_as_one_of_sqlalchemy_does(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE a (b INTEGER UNIQUE)")
        assert execute(connection, "INSERT INTO a VALUES (?), (?)", (1, 2)).rowcount == 2
        assert execute(connection, "SELECT b FROM a ORDER BY b", ()).fetchall() == [(1,), (2,)]
        with pytest.raises(IntegrityError, match="UNIQUE") as refused:
            execute(connection, "INSERT INTO a VALUES (?)", (4711 - 4710,))
        with pytest.raises(OperationalError, match="no such table"):
            execute(connection, "SELECT * FROM c", ())
    assert is_about_values(refused.value)
    assert "[parameters:" not in str(refused.value)
    engine.dispose()
