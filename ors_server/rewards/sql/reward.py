"""The reward for SQL: the query is run, and its result compared with the gold query's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from ors_server import offload
from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.reading.fences import fenced_blocks
from ors_server.rewards.reading.option_words import check_words
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.sql.engine import (
    Database,
    DatabaseError,
    MemoryGrowthError,
    QueryError,
    QueryLimitError,
    QueryResult,
    open_copy,
    run_query,
)
from ors_server.rewards.sql.query_text import is_ordered
from ors_server.rewards.sql.row_rules import RowRules

WORK_LIMIT = 20_000_000
"""Steps of SQLite's virtual machine for one query: one or two seconds."""
ROW_LIMIT = 100_000
"""Rows of a gold result."""
MAX_DATABASES = 50
MAX_RESPONSE_CHARACTERS = 200_000
ALONE = offload.OffloadLimits(cpu_seconds=30.0, wall_seconds=600.0, memory_bytes=4 << 30)
"""What the queries may take in a process of their own, for each database: more than their own limits."""

Order: TypeAlias = Literal["auto", "always", "never"]
"""Whether rows have an order: if the gold has an ORDER BY outside of parentheses, always, or never."""


@dataclass(frozen=True, slots=True)
class SQLOptions:
    """How results are compared, and when a gold will do."""

    order: Order = "auto"
    tolerance: float = 1e-6
    """How far a number may be off, relative to the gold's; absolutely where that is 0."""
    any_column_order: bool = False
    refuse_empty: bool = False
    """Whether a gold without rows, in any of the databases, is a bad gold."""
    work_limit: int = WORK_LIMIT

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            RewardFieldError: If an option is out of its range.
        """
        check_words(order=(self.order, Order))
        if not 0 <= self.tolerance < float("inf") or self.work_limit < 1:
            raise RewardFieldError(
                f"a tolerance is from 0 and work from 1, not {self.tolerance!r} and {self.work_limit!r}"
            )


@reward(range=(0.0, 1.0))
@reads_answer()
def sql_match_reward(
    final_response: str,
    answer: str,
    database: Database | None = None,
    databases: Sequence[Database] = (),
    options: SQLOptions | dict[str, Any] | None = None,
) -> RewardResult:
    """Pays 1 if the response's SQL query has the gold query's result in every database, else 0.

    Rows are compared as a bag, in order only if the gold has an ORDER BY outside of parentheses. Values keep
    their type: 1 is 1.0, and is not "1"; NULL is NULL; texts agree to the letter.

    Hazards: `SELECT 42` is paid where 42 comes out, and any query without rows where the gold has none
    (`gold_rows` says so, `refuse_empty` refuses it); several `databases` of other contents hold against both.
    A gold whose ORDER BY leaves ties wants their order too: add what decides them.

    What a query does wrong is the agent's, and 0: no SQL, a syntax error, an attempt to write, attach or set,
    too many steps, values or columns. That includes running too long, for a query that would never end must
    not earn more than one that ends wrongly, and taking more than 512 MiB. A gold that fails is `bad_gold`,
    one that takes too much is `limit`. Where this process grows by 512 MiB meanwhile, the queries are run
    again in a process of their own, so that what counts is their memory and nobody else's.
    Databases are read into memory of their own; nothing is ever written.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts where there is one.

    Source: execution accuracy of Spider and BIRD; several databases: test-suite accuracy (Zhong, Yu and Klein
    2020). BIRD's own script compares sets, so that a row may be missing its double; here it may not.

    Args:
        final_response: The query: the only fenced block (```sql, ```sqlite or ```), or the whole response.
        answer: The gold query.
        database: A SQLite file's path, its bytes, a dump's text (with a semicolon) or path (`.sql`).
        databases: Several, in place of one; all must agree. At most 50.
        options: Options, or a mapping of them: `order` (auto, always, never), `tolerance`,
            `any_column_order`, `refuse_empty`, `work_limit`.

    Returns:
        0 or 1, with `gold_rows` and `rows` (per database, the latter as far as fetched), `matched` and
        `databases`; a wrong answer has a reason. A response without a query is `unparsed_answer`.

    Raises:
        RewardFieldError: If there is no database, or an option makes no sense.
    """
    rules = options if isinstance(options, SQLOptions) else _options(options or {})
    places = list(databases) or ([] if database is None else [database])
    if not 1 <= len(places) <= MAX_DATABASES:
        raise RewardFieldError(f"sql_match_reward needs a database, or up to {MAX_DATABASES} databases")
    if not isinstance(cast("object", answer), str):
        return RewardResult.without(RewardStatus.BAD_GOLD, f"the gold is a query, not {answer!r:.80}")
    query, problem = _find_query(final_response)
    try:
        outcomes = _play_where_it_fits(places, answer, query, rules)
    except QueryLimitError as error:
        return RewardResult.without(RewardStatus.LIMIT, str(error))
    except (DatabaseError, QueryError) as error:
        return RewardResult.without(RewardStatus.BAD_GOLD, f"the gold query or its database: {error}")
    return _result(outcomes, rules, query, problem)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of both queries in one database."""

    gold_rows: int
    rows: int
    is_match: bool
    reason: str | None
    is_over: bool = False
    """Whether the answer took more than it may."""


def _options(given: dict[str, Any]) -> SQLOptions:
    try:
        return SQLOptions(**given)
    except TypeError as error:
        raise RewardFieldError(f"the options of sql_match_reward: {error}") from None


def _find_query(response: str) -> tuple[str | None, str]:
    if len(response) > MAX_RESPONSE_CHARACTERS:
        return None, f"the response has more than {MAX_RESPONSE_CHARACTERS} characters"
    blocks = fenced_blocks(response, ("sql", "sqlite", ""))
    if len(blocks) > 1:
        return None, f"one query is wanted; there are {len(blocks)} fenced blocks"
    query = blocks[0] if blocks else response
    return (query, "") if query.strip() else (None, "there is no query")


def _play_all(
    places: list[Database], gold: str, query: str | None, rules: SQLOptions, *, is_alone: bool
) -> list[_Outcome]:
    """Play both queries in every database; an answer that took too much in one is not run in the others.

    In a process that does nothing else (`is_alone`), its growth is the queries' own.
    """
    outcomes: list[_Outcome] = []
    for place in places:
        outcome = _play(place, gold, query, rules, is_alone=is_alone)
        outcomes.append(outcome)
        query = None if outcome.is_over else query
    return outcomes


def _play_where_it_fits(
    places: list[Database], gold: str, query: str | None, rules: SQLOptions
) -> list[_Outcome]:
    try:
        return _play_all(places, gold, query, rules, is_alone=False)
    except MemoryGrowthError:
        limits = replace(ALONE, cpu_seconds=ALONE.cpu_seconds * len(places))
        return offload.call(play_alone, places, gold, query, rules, limits=limits)


def play_alone(places: list[Database], gold: str, query: str | None, rules: SQLOptions) -> list[_Outcome]:
    """Play both queries in a worker process; its growth is theirs.

    Args:
        places: The databases.
        gold: The gold query.
        query: The answer's query, if there is one.
        rules: The options.

    Raises:
        QueryLimitError: If the gold takes more than it may.
    """
    return _play_all(places, gold, query, rules, is_alone=True)


def _play(place: Database, gold: str, query: str | None, rules: SQLOptions, *, is_alone: bool) -> _Outcome:
    with open_copy(place) as connection:
        try:
            wanted = run_query(connection, gold, work_limit=rules.work_limit, row_limit=ROW_LIMIT)
        except MemoryGrowthError as error:
            raise (QueryLimitError(f"the gold: {error}") if is_alone else error) from None
        if wanted.is_cut:
            raise QueryLimitError(f"the gold has more than {ROW_LIMIT} rows")
        count = len(wanted.rows)
        if query is None:
            return _Outcome(count, 0, is_match=False, reason="not run")
        try:
            came = run_query(connection, query, work_limit=rules.work_limit, row_limit=count + 1)
        except QueryError as error:
            is_over = isinstance(error, QueryLimitError)
            return _Outcome(count, 0, is_match=False, reason=str(error), is_over=is_over)
        except MemoryGrowthError as error:
            if not is_alone:
                raise
            return _Outcome(count, 0, is_match=False, reason=str(error), is_over=True)
    ordered = is_ordered(gold) if rules.order == "auto" else rules.order == "always"
    comparison = RowRules(ordered, rules.tolerance, rules.any_column_order)
    is_match = comparison.agree(wanted, came)
    return _Outcome(count, len(came.rows), is_match, None if is_match else _difference(wanted, came))


def _difference(gold: QueryResult, came: QueryResult) -> str:
    if gold.columns != came.columns:
        return f"the result has {came.columns} columns, not as many as it should"
    if len(gold.rows) != len(came.rows):
        return "the result has another number of rows than it should"
    return "the result has other rows than it should"


def _result(outcomes: list[_Outcome], rules: SQLOptions, query: str | None, problem: str) -> RewardResult:
    extras = {
        "gold_rows": [one.gold_rows for one in outcomes],
        "rows": [one.rows for one in outcomes],
        "matched": sum(one.is_match for one in outcomes),
        "databases": len(outcomes),
    }
    if rules.refuse_empty and not all(one.gold_rows for one in outcomes):
        return RewardResult.without(RewardStatus.BAD_GOLD, "the gold has no rows", extras)
    if query is None:
        return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, extras, problem)
    reasons = [one.reason for one in outcomes if one.reason is not None]
    return RewardResult(float(not reasons), extras=extras, reason=reasons[0] if reasons else None)
