"""The reward for SQL: the query is run, and its result compared with the gold query's."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Literal, TypeAlias, cast

from ors_server.processes import offload
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
    Row,
    absolute_place,
    open_copy,
    run_query,
)
from ors_server.rewards.sql.query_text import is_ordered

WORK_LIMIT = 20_000_000
"""Steps of SQLite's virtual machine for one query: one or two seconds."""
ROW_LIMIT = 100_000
"""Rows of a gold result."""
MAX_DATABASES = 50
MAX_CELLS = 2_000_000
"""Cells that are compared while orders of columns are tried."""
MAX_LEFT = 200
"""Rows of one kind that are paired one by one where sorting did not pair them."""
MAX_RESPONSE_CHARACTERS = 200_000
PROCESS_LIMITS = offload.OffloadLimits(cpu_seconds=30.0, wall_seconds=600.0, memory_bytes=4 << 30)
"""What the queries may take in a process of their own, for each database: more than their own limits."""

Order: TypeAlias = Literal["auto", "always", "never"]
"""Whether rows have an order: if the gold has an ORDER BY outside of parentheses, always, or never."""


@dataclass(frozen=True, slots=True)
class SQLOptions:
    """How results are compared, and which golds are refused."""

    order: Order = "auto"
    tolerance: float = 1e-6
    """How far a number may be off, relative to the gold's; absolutely where that is 0."""
    any_column_order: bool = False
    refuse_empty: bool = False
    """Whether a gold without rows, in any of the databases, is a bad gold."""
    work_limit: int = WORK_LIMIT

    def __post_init__(self) -> None:
        """Raise `RewardFieldError` for an option out of its range."""
        check_words(order=(self.order, Order))
        if not 0 <= self.tolerance < float("inf") or self.work_limit < 1:
            raise RewardFieldError(
                "expected a tolerance of at least 0 and a work limit of at least 1, "
                f"got {self.tolerance!r} and {self.work_limit!r}"
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
    their type: 1 is 1.0, and is not "1"; NULL is NULL; texts are compared exactly.

    Hazards: `SELECT 42` is paid where the result is 42, and any query without rows where the gold has no rows
    (`gold_rows` shows it, `refuse_empty` refuses it); several `databases` of other contents prevent both. A
    gold whose ORDER BY leaves ties demands their order too: add columns that decide them.

    Failures of the query are the agent's, and 0: no SQL, a syntax error, an attempt to write, attach or set,
    too many steps, values or columns, running too long, and taking more than 512 MiB. A gold that fails is
    `bad_gold`, one that takes too much is `limit`. Where this process grows by 512 MiB meanwhile, the queries
    are run again in a process of their own, so that only their own memory counts.

    Source: execution accuracy of Spider and BIRD; several databases: test-suite accuracy (Zhong, Yu and Klein
    2020). BIRD's own script compares sets, so that a duplicate row may be missing; here it may not.

    Args:
        final_response: The query: the only fenced block (```sql, ```sqlite or ```), or the whole response.
        database: A SQLite file's path, its bytes, a dump's text (with a semicolon) or path (`.sql`).
        databases: Up to 50, in place of one; all must agree.

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
        return RewardResult.without(RewardStatus.BAD_GOLD, f"expected a query as gold, got {answer!r:.80}")
    query, problem = _find_query(final_response)
    try:
        try:
            results = _run_all(places, answer, query, rules, is_alone=False)
        except MemoryGrowthError:
            # Another thread may have grown the process: in a process alone only the queries can.
            limits = replace(PROCESS_LIMITS, cpu_seconds=PROCESS_LIMITS.cpu_seconds * len(places))
            # The process runs in another folder than this one.
            absolute = [absolute_place(database) for database in places]
            results = offload.call(run_alone, absolute, answer, query, rules, limits=limits)
    except QueryLimitError as error:
        return RewardResult.without(RewardStatus.LIMIT, str(error))
    except (DatabaseError, QueryError) as error:
        return RewardResult.without(RewardStatus.BAD_GOLD, f"the gold query or its database: {error}")
    return _result(results, rules, query, problem)


@dataclass(frozen=True, slots=True)
class _QueryVerdict:
    """The results of both queries in one database."""

    gold_rows: int
    rows: int
    is_match: bool
    reason: str | None
    is_over: bool = False
    """Whether the answer took more than it may."""


def _options(options: dict[str, Any]) -> SQLOptions:
    try:
        return SQLOptions(**options)
    except TypeError as error:
        raise RewardFieldError(f"the options of sql_match_reward: {error}") from None


def _find_query(response: str) -> tuple[str | None, str]:
    if len(response) > MAX_RESPONSE_CHARACTERS:
        return None, f"the response has more than {MAX_RESPONSE_CHARACTERS} characters"
    blocks = fenced_blocks(response, ("sql", "sqlite", ""))
    if len(blocks) > 1:
        return None, f"expected one query, found {len(blocks)} fenced blocks"
    query = blocks[0] if blocks else response
    return (query, "") if query.strip() else (None, "there is no query")


def _run_all(
    places: list[Database], gold: str, query: str | None, rules: SQLOptions, *, is_alone: bool
) -> list[_QueryVerdict]:
    """Run both queries in every database; an answer that took too much in one is not run in the others."""
    results: list[_QueryVerdict] = []
    for database in places:
        result = _run(database, gold, query, rules, is_alone=is_alone)
        results.append(result)
        query = None if result.is_over else query
    return results


def run_alone(places: list[Database], gold: str, query: str | None, rules: SQLOptions) -> list[_QueryVerdict]:
    """Run both queries in a worker process, whose growth is theirs."""
    return _run_all(places, gold, query, rules, is_alone=True)


def _run(
    database: Database, gold: str, query: str | None, rules: SQLOptions, *, is_alone: bool
) -> _QueryVerdict:
    with open_copy(database) as connection:
        try:
            expected = run_query(connection, gold, work_limit=rules.work_limit, row_limit=ROW_LIMIT)
        except MemoryGrowthError as error:
            raise (QueryLimitError(f"the gold: {error}") if is_alone else error) from None
        if expected.is_cut:
            raise QueryLimitError(f"the gold has more than {ROW_LIMIT} rows")
        count = len(expected.rows)
        if query is None:
            return _QueryVerdict(count, 0, is_match=False, reason="not run")
        try:
            actual = run_query(connection, query, work_limit=rules.work_limit, row_limit=count + 1)
        except QueryError as error:
            is_over = isinstance(error, QueryLimitError)
            return _QueryVerdict(count, 0, is_match=False, reason=str(error), is_over=is_over)
        except MemoryGrowthError as error:
            if not is_alone:
                raise
            return _QueryVerdict(count, 0, is_match=False, reason=str(error), is_over=True)
    ordered = is_ordered(gold) if rules.order == "auto" else rules.order == "always"
    comparison = RowRules(ordered, rules.tolerance, rules.any_column_order)
    is_match = comparison.agree(expected, actual)
    return _QueryVerdict(
        count, len(actual.rows), is_match, None if is_match else _difference(expected, actual)
    )


def _difference(gold: QueryResult, actual: QueryResult) -> str:
    if gold.columns != actual.columns:
        return f"expected {gold.columns} columns, as in the gold result, got {actual.columns}"
    if len(gold.rows) != len(actual.rows):
        return "the result has another number of rows than the gold"
    return "the result has other rows than the gold"


def _result(results: list[_QueryVerdict], rules: SQLOptions, query: str | None, problem: str) -> RewardResult:
    extras = {
        "gold_rows": [verdict.gold_rows for verdict in results],
        "rows": [verdict.rows for verdict in results],
        "matched": sum(verdict.is_match for verdict in results),
        "databases": len(results),
    }
    if rules.refuse_empty and not all(verdict.gold_rows for verdict in results):
        return RewardResult.without(RewardStatus.BAD_GOLD, "the gold has no rows", extras)
    if query is None:
        return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, extras, problem)
    reasons = [result.reason for result in results if result.reason is not None]
    return RewardResult(float(not reasons), extras=extras, reason=reasons[0] if reasons else None)


@dataclass(frozen=True, slots=True)
class RowRules:
    """Whether two results are the same: rows as bags or in order, numbers within a tolerance."""

    is_ordered: bool
    """Whether rows must come in the gold's order."""
    tolerance: float = 1e-6
    """How far a number may be off, relative to the gold's; absolutely where that is 0."""
    any_column_order: bool = False

    def agree(self, gold: QueryResult, answer: QueryResult) -> bool:
        """Return whether a result is the gold's."""
        if gold.columns != answer.columns or len(gold.rows) != len(answer.rows) or answer.is_cut:
            return False
        if self._same(gold.rows, answer.rows):
            return True
        return self.any_column_order and self._any_order(gold, answer)

    def _same(self, gold: Sequence[Row], answer: Sequence[Row]) -> bool:
        if self.is_ordered:
            return all(
                self._same_row(gold_row, answer_row)
                for gold_row, answer_row in zip(gold, answer, strict=True)
            )
        missing, extra = Counter(gold), Counter(answer)
        missing, extra = missing - extra, extra - missing
        return self._same_kinds(list(missing.elements()), list(extra.elements()))

    def _same_kinds(self, gold: list[Row], answer: list[Row]) -> bool:
        """Compare rows that are not exactly equal: those with fractions, which may be off."""
        if not gold or not self.tolerance:
            return not gold and not answer
        loose = {
            index
            for row in (*gold, *answer)
            for index, cell in enumerate(row)
            if isinstance(cell, float) and not cell.is_integer()
        }
        gold_kinds, answer_kinds = _by_kind(gold, loose), _by_kind(answer, loose)
        return gold_kinds.keys() == answer_kinds.keys() and all(
            self._paired(gold_kinds[kind], answer_kinds[kind]) for kind in gold_kinds
        )

    def _paired(self, gold: list[Row], answer: list[Row]) -> bool:
        if len(gold) != len(answer):
            return False
        if all(
            self._same_row(gold_row, answer_row)
            for gold_row, answer_row in zip(sorted(gold), sorted(answer), strict=True)
        ):
            return True
        if len(gold) > MAX_LEFT:
            return False
        left = list(answer)
        for row in gold:
            match_index = next(
                (index for index, candidate in enumerate(left) if self._same_row(row, candidate)), None
            )
            if match_index is None:
                return False
            left.pop(match_index)
        return True

    def _same_row(self, gold: Row, answer: Row) -> bool:
        return all(
            self._same_cell(gold_cell, answer_cell)
            for gold_cell, answer_cell in zip(gold, answer, strict=True)
        )

    def _same_cell(self, gold: Any, answer: Any) -> bool:
        if gold == answer:
            return True
        if not (isinstance(gold, int | float) and isinstance(answer, int | float)):
            return False
        if isinstance(gold, int) and isinstance(answer, int):
            return False
        if not (math.isfinite(gold) and math.isfinite(answer)):
            return False
        return abs(gold - answer) <= self.tolerance * (abs(gold) or 1.0)

    def _any_order(self, gold: QueryResult, answer: QueryResult) -> bool:
        """Try the orders of columns, until the bound on compared cells is reached."""
        cells = max(1, gold.columns * len(gold.rows))
        for tried, order in enumerate(permutations(range(answer.columns)), start=1):
            if tried * cells > MAX_CELLS:
                return False
            if self._same(gold.rows, [tuple(row[index] for index in order) for row in answer.rows]):
                return True
        return False


def _by_kind(rows: list[Row], loose: set[int]) -> dict[Row, list[Row]]:
    """Group rows by their cells outside of the columns with fractions, whose numbers remain."""
    kinds: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        numbers = [index in loose and isinstance(cell, int | float) for index, cell in enumerate(row)]
        kind = tuple("number" if is_one else (cell,) for is_one, cell in zip(numbers, row, strict=True))
        kinds[kind].append(tuple(cell for is_one, cell in zip(numbers, row, strict=True) if is_one))
    return kinds
