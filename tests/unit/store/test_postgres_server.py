"""The PostgreSQL of the tests: it keeps what was committed, whatever ends it, and leaves nothing behind."""

import psycopg
import pytest

from tests.postgres import running_postgres

pytestmark = pytest.mark.external


def add(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO numbers VALUES (%s)", [number])


def read(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]


def test_each_database_is_empty_and_its_own(postgres):
    first, second = postgres.create_database(), postgres.create_database()
    for url in (first, second):
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE numbers (number int)")
    add(first, 1)
    assert (read(first), read(second)) == ([1], [])


def test_what_was_committed_survives_every_end_of_the_server():
    with running_postgres() as server:
        url = server.create_database()
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE numbers (number int)")
        ends = [
            lambda: server.stop("fast"),
            lambda: server.stop("immediate"),
            server.kill,
            server.kill_first_process,
        ]
        for number, end in enumerate(ends):
            add(url, number)
            end()
            assert not server.is_running
            with pytest.raises(psycopg.OperationalError):
                add(url, -1)
            server.start()
            assert read(url) == list(range(number + 1))
        folder = server.folder
    assert not folder.exists()
