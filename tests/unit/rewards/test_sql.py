"""SQL answers: results compared, nothing written, and no query that takes more than it may."""

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.sql import engine as sql_engine
from ors_server.rewards.sql.engine import QueryError, QueryLimitError, open_copy, run_query
from ors_server.rewards.sql.query_text import is_ordered, unfolding
from ors_server.rewards.sql.reward import sql_match_reward
from tests.fixtures.case_tables import tables

TABLES = tables("sql")

DUMP = """
CREATE TABLE city (name TEXT, country TEXT, people INTEGER, area REAL);
INSERT INTO city VALUES ('Oslo', 'NO', 700, 454.1), ('Bergen', 'NO', 280, 464.7),
  ('Paris', 'FR', 2100, 105.4), ('Nice', 'FR', 340, NULL), ('Nice', 'FR', 340, NULL);
CREATE VIEW big AS SELECT name FROM city WHERE people > 500;
"""
OTHER = """
CREATE TABLE city (name TEXT, country TEXT, people INTEGER, area REAL);
INSERT INTO city VALUES ('x', 'y', 1, 1);
"""
NAMES = "SELECT name FROM city"


def asked(query, gold, **fields):
    fields.setdefault("database", DUMP)
    options = fields.pop("options", None)
    return score(sql_match_reward, final_response=query, answer=gold, options=options, **fields)


@pytest.mark.parametrize(("gold", "query", "options", "reward"), TABLES["compared"])
def test_results_are_compared_and_not_queries(gold, query, options, reward):
    result = asked(query, gold, options=options)
    assert (result.status, result.reward) == ("graded", reward), result


def test_near_rows_are_paired_though_sorting_does_not_pair_them():
    gold = "VALUES (0.3, 1.5), (0.30000000000000004, 2.5)"
    assert asked("VALUES (0.30000000000000004, 1.5), (0.3, 2.5)", gold).reward == 1.0
    assert asked("VALUES (0.30000000000000004, 1.5), (0.3, 1.5)", gold).reward == 0.0


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO city VALUES ('a','b',1,1)",
        "DELETE FROM city",
        "UPDATE city SET people = 1 RETURNING name",
        "DROP TABLE city",
        "CREATE TEMP TABLE x AS SELECT 1",
        "ATTACH 'stolen.db' AS s",
        "VACUUM INTO 'stolen.db'",
        "PRAGMA writable_schema = 1",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('x')",
        "BEGIN",
        "ANALYZE",
        "SELECT writefile('stolen.db', 'x')",
        "SELECT name FROM city; DELETE FROM city",
        "SELEC name",
        "SELECT nothing FROM city",
        "I do not know.",
        "SELECT '\0'",
        "SELECT '\ud800'",
        "SELECT zeroblob(1e9)",
        "SELECT length(randomblob(1000000000))",
        "SELECT hex(hex(hex(zeroblob(30000))))",
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r",
        "SELECT count(*) FROM " + ", ".join(f"city AS c{n}" for n in range(14)),  # noqa: S608  (made of our own numbers)
        "SELECT " + "+".join(["abs(1)"] * 201),
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
        "SELECT 1" + " " * 20_000,
        "SELECT 'a' LIKE '" + "%a" * 200 + "'",
        "WITH a0 AS (SELECT people AS x FROM city)"  # noqa: S608  (made of our own numbers)
        + "".join(f", a{n + 1} AS (SELECT x + x AS x FROM a{n})" for n in range(40))  # noqa: S608  (made of our own numbers)
        + " SELECT x FROM a40",
        "WITH a0(x) AS (SELECT people FROM city)"  # noqa: S608  (made of our own numbers)
        + "".join(f", a{n + 1}(x) AS NOT MATERIALIZED (SELECT p.x FROM a{n} p, a{n} q)" for n in range(40))  # noqa: S608  (made of our own numbers)
        + " SELECT x FROM a40",
    ],
    ids=lambda query: f"{query[:30]!a} {len(query)}",
)
def test_what_a_query_does_wrong_is_the_agent_s_and_nothing(query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "cities.db"
    with contextlib.closing(sqlite3.connect(place)) as made:
        made.executescript(DUMP)
    before = place.read_bytes()
    result = asked(query, NAMES, database=str(place))
    assert (result.status, result.reward) == ("graded", 0.0), result
    assert result.reason
    assert place.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["cities.db"]


@pytest.mark.parametrize(
    "response", ["", "  ", "```sql\n\n```", "```\nSELECT 1\n```\n```\nSELECT 2\n```", "x" * 200_001]
)
def test_a_response_without_one_query_is_read_by_nobody(response):
    assert (result := asked(response, NAMES)).status == "unparsed_answer"
    assert result.reward == 0.0


@pytest.mark.parametrize(
    ("gold", "fields", "status"),
    [
        ("SELEC", {}, "bad_gold"),
        ("", {}, "bad_gold"),
        (None, {}, "bad_gold"),
        ([NAMES], {}, "bad_gold"),
        ("DELETE FROM city", {}, "bad_gold"),
        (NAMES, {"database": "/nowhere/at/all.db"}, "bad_gold"),
        (NAMES, {"database": b"SQLite format 3\0 and no more"}, "bad_gold"),
        (NAMES, {"database": b"nonsense"}, "bad_gold"),
        (NAMES, {"database": "CREATE nonsense;"}, "bad_gold"),
        (NAMES, {"database": DUMP + "ATTACH 'x.db' AS y;"}, "bad_gold"),
        (NAMES + " WHERE 0", {"options": {"refuse_empty": True}}, "bad_gold"),
        ("SELECT 1 FROM city a, city b, city c, city d", {"options": {"work_limit": 1_000}}, "limit"),
        (NAMES, {"database": None}, "error"),
        (NAMES, {"databases": [DUMP] * 51}, "error"),
        (NAMES, {"options": {"order": "some"}}, "error"),
        (NAMES, {"options": {"ordre": "auto"}}, "error"),
        (NAMES, {"options": {"tolerance": float("nan")}}, "error"),
    ],
    ids=lambda value: repr(value)[:30],
)
@pytest.mark.parametrize("response", [NAMES, "nonsense", ""])
def test_what_is_wrong_with_the_task_is_no_number_whatever_the_answer(gold, fields, status, response):
    result = asked(response, gold, **fields)
    assert (result.status, result.reward) == (status, None)


def test_an_empty_gold_is_reported():
    result = asked("SELECT 1 WHERE 0", NAMES + " WHERE people < 0")
    assert (result.reward, result.extras["gold_rows"]) == (1.0, [0])


def test_several_databases_tell_a_guess_from_a_query():
    gold = "SELECT count(*) FROM city"
    assert asked("SELECT 5", gold).reward == 1.0
    assert asked("SELECT 5", gold, databases=[DUMP, OTHER]).reward == 0.0
    both = asked(gold, gold, databases=[DUMP, OTHER])
    assert (both.reward, both.extras["matched"], both.extras["gold_rows"]) == (1.0, 2, [1, 1])


def test_an_answer_that_took_too_much_in_one_database_is_not_run_in_the_others():
    long = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
    result = asked(long, NAMES, databases=[DUMP, OTHER] * 3)
    assert (result.reward, len(result.extras["gold_rows"])) == (0.0, 6)
    assert "steps" in str(result.reason)


def test_a_database_comes_as_file_bytes_or_dump(tmp_path):
    place = tmp_path / "a b?.db"
    with contextlib.closing(sqlite3.connect(place)) as made:
        made.executescript("PRAGMA journal_mode = WAL;" + DUMP)
        made.execute("INSERT INTO city VALUES (CAST(x'ff' AS TEXT), '', 0, 0)")
        made.commit()
        assert asked(NAMES, NAMES, database=place).extras["gold_rows"] == [6]
    dump = tmp_path / "cities.sql"
    dump.write_text(DUMP)
    for database in (place, place.read_bytes(), dump, DUMP):
        assert asked(NAMES, NAMES, database=database).reward == 1.0


def test_the_reason_does_not_tell_the_expected_result():
    for query in ("SELECT 1", "SELECT 1, 2", "VALUES (1), (2)"):
        assert "4711" not in str(asked(query, "SELECT 4711").as_json())


GROWING = """
WITH RECURSIVE r(n, t) AS (SELECT 1, '' UNION SELECT n + 1, hex(zeroblob(40000)) FROM r)
SELECT count(*) FROM r
"""
"""Keeps every row that it has made, each of 80,000 characters."""


def test_an_answer_that_takes_too_much_memory_is_wrong():
    result = asked(GROWING, NAMES)
    assert (result.status, result.reward) == ("graded", 0.0)
    assert "memory grew" in str(result.reason)


def test_a_gold_that_takes_too_much_memory_is_a_limit():
    result = asked(NAMES, GROWING)
    assert (result.status, result.reward) == ("limit", None)


def test_the_growth_of_a_neighbour_is_not_charged_to_a_query(monkeypatch):
    monkeypatch.setattr(sql_engine, "MAX_GROWTH", -1)  # in this process every look sees growth
    heavy = "SELECT count(*) FROM city a, city b, city c, city d"
    assert asked(heavy, heavy).reward == 1.0
    assert asked("SELECT 1", heavy).reward == 0.0


def test_a_database_is_found_from_the_folder_of_this_process_wherever_it_is_queried(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("cities.sql").write_text(DUMP)
    monkeypatch.setattr(sql_engine, "MAX_GROWTH", -1)  # as above: the worker queries
    heavy = "SELECT count(*) FROM city a, city b, city c, city d"
    assert asked(heavy, heavy, database="cities.sql").reward == 1.0


def test_the_processor_s_time_is_the_query_s(monkeypatch):
    monkeypatch.setattr(sql_engine, "PROCESSOR_SECONDS", -1.0)
    heavy = "SELECT count(*) FROM city a, city b, city c, city d"
    with open_copy(DUMP) as copy, pytest.raises(QueryLimitError, match="processor"):
        run_query(copy, heavy, work_limit=10**9, row_limit=10)


def test_a_result_has_a_size(monkeypatch):
    monkeypatch.setattr(sql_engine, "MAX_RESULT_BYTES", 10)
    with open_copy(DUMP) as copy, pytest.raises(QueryError, match="bytes"):
        run_query(copy, NAMES, work_limit=10**6, row_limit=10)


def test_a_verdict_is_the_same_in_any_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(asked(NAMES, NAMES).reward))
    thread.start()
    thread.join(30)
    assert found == [1.0]


@pytest.mark.parametrize(("query", "ordered"), TABLES["ordered"])
def test_an_order_is_one_outside_of_parentheses(query, ordered):
    assert is_ordered(query) is ordered


@pytest.mark.parametrize(
    ("query", "least", "most"),
    [
        ("SELECT 1", 1, 1),
        ("SELECT a, b, max(c, d) FROM t JOIN u ON t.x = u.x WHERE a > b", 1, 2),
        ("SELECT x FROM (SELECT y + z AS x FROM t)", 2, 4),
        ("WITH a AS (SELECT x FROM t), b AS (SELECT x FROM a) SELECT * FROM a, b, a", 3, 9),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT n FROM r", 1, 4),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a", 1, 4),
        (")" * 50 + "(" * 50, 1, 1),
    ],
)
def test_ordinary_queries_unfold_little(query, least, most):
    assert least <= unfolding(query) <= most


def test_doubling_through_two_names_is_seen():
    parts = "".join(f", a{n + 1} AS (SELECT x + y AS x, y + x AS y FROM a{n})" for n in range(40))  # noqa: S608  (made of our own numbers)
    assert unfolding(f"WITH a0 AS (SELECT 1 AS x, 2 AS y){parts} SELECT x FROM a40") == 10**9  # noqa: S608  (made of our own numbers)
    assert unfolding('WITH "a 0" AS (SELECT 1 AS x) SELECT x+x+x FROM "a 0" p, "a 0" q') >= 6
