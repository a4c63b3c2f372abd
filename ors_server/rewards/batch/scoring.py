"""Many judgements with one reward: in order, on all cores, with a time limit that nothing escapes.

A reward that is named is judged by worker processes, which can be ended; one that is handed over as an object
is judged in this process, where a thread that takes too long can only be left behind.
"""

import os
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from concurrent.futures import Future
from itertools import islice
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio.from_thread import start_blocking_portal

from ors_server.rewards.batch.groups import GroupSource
from ors_server.rewards.batch.pool import BatchPool
from ors_server.rewards.batch.process import BatchOptions
from ors_server.rewards.batch.rows import LineSource, MappingSource, Source
from ors_server.rewards.define import Reward, as_reward
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import BatchError
from ors_server.rewards.scoring import evaluate, failure, gather_fields

TIME_LIMIT = 30.0
"""Seconds that one row may take, unless it is said otherwise."""
CONCURRENCY = 16
"""Rows that one worker judges at once with an async reward, unless it is said otherwise."""

_PATIENCE = 0.25
"""Seconds after which an async caller that was cancelled is heard."""

Rows = Iterable[Mapping[str, Any]]
"""Each the fields of one judgement, by name."""


class BatchScorer:
    """Worker processes for one reward, kept from batch to batch; a context manager."""

    def __init__(
        self,
        reward: str,
        *,
        jobs: int | None = None,
        time_limit: float = TIME_LIMIT,
        concurrency: int = CONCURRENCY,
        keywords: Mapping[str, Any] | None = None,
    ) -> None:
        """Start nothing yet: workers start when there are rows for them.

        Args:
            reward: A name of the library's, `module:name` or `file.py:name`.
            jobs: Workers; as many as this process may use cores, by default.
            time_limit: Seconds that one row may take; then its worker is ended and replaced.
            concurrency: Rows that a worker judges at once, if the reward is async.
            keywords: Fields for every row, which win over the row's own; of JSON types.

        Raises:
            BatchError: If a number is not positive, or a keyword is not JSON.
        """
        if not (time_limit > 0 and concurrency > 0 and (jobs is None or jobs > 0)):
            raise BatchError("jobs, the time limit and the concurrency are more than 0")
        options = BatchOptions(reward, time_limit, concurrency, dict(keywords or {}))
        try:
            options.as_line()
        except (TypeError, ValueError) as error:
            raise BatchError(f"keywords are of JSON types: {error}") from error
        self._pool = BatchPool(options, jobs or count_cores())

    @property
    def replaced(self) -> int:
        """How many workers died over a row, or were ended for one that took too long."""
        return self._pool.replaced

    def score(self, rows: Rows, *, group_by: str | None = None) -> Generator[RewardResult, None, None]:
        """Judge rows.

        Args:
            rows: Taken one at a time, at most 1,024 ahead of the results. Values are of JSON types; a row
                that is not has the status `error`.
            group_by: For a reward of groups: the field on which rows of one group agree, which follow one
                another. Each row is a rollout, with a `trajectory` or a `final_response`; the time limit is
                that of the group.

        Yields:
            One result per row, in their order, as soon as those before are there.

        Raises:
            BatchError: If workers cannot start: no such reward, no such keyword, a module that raises.
        """
        yield from self._run(MappingSource(rows), group_by)

    def score_lines(
        self, descriptor: int, *, group_by: str | None = None
    ) -> Generator[RewardResult, None, None]:
        """Judge lines of JSON; blank ones are passed over.

        Args:
            descriptor: Of a file, a pipe or a terminal. A line that is no JSON object, or longer than 16 MiB,
                has the status `error`, and its number stands in the reason.
            group_by: As for `score`.

        Yields:
            As `score`.

        Raises:
            BatchError: As `score`.
        """
        yield from self._run(LineSource(descriptor), group_by)

    async def ascore(self, rows: Rows, *, group_by: str | None = None) -> AsyncGenerator[RewardResult, None]:
        """Judge rows without blocking the event loop.

        Args:
            rows: As for `score`; asked for in a worker thread.
            group_by: As for `score`.

        Yields:
            As `score`.

        Raises:
            BatchError: As `score`.
        """
        self._begin(MappingSource(rows), group_by)
        try:
            while not self._pool.is_finished:
                for result in await anyio.to_thread.run_sync(self._pump_briefly):
                    yield result
        finally:
            self._pool.abandon()

    def close(self) -> None:
        """End the workers."""
        self._pool.abandon()
        self._pool.close()

    def __enter__(self) -> Self:
        """Return the scorer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the workers."""
        self.close()

    def _run(self, source: Source, group_by: str | None) -> Generator[RewardResult, None, None]:
        self._begin(source, group_by)
        try:
            while not self._pool.is_finished:
                yield from self._pool.pump()
        finally:
            self._pool.abandon()

    def _begin(self, source: Source, group_by: str | None) -> None:
        self._pool.begin(source if group_by is None else GroupSource(source, group_by))

    def _pump_briefly(self) -> list[RewardResult]:
        return list(self._pool.pump(_PATIENCE))


def score_rows(
    reward: object,
    rows: Rows,
    *,
    jobs: int | None = None,
    time_limit: float = TIME_LIMIT,
    concurrency: int = CONCURRENCY,
    keywords: Mapping[str, Any] | None = None,
) -> Generator[RewardResult, None, None]:
    """Judge rows, outside any event loop.

    Args:
        reward: A name, `module:name` or `file.py:name`, which worker processes judge by; or a reward, which
            is asked in this process: one row at a time, or `concurrency` rows if it is async.
        rows: The fields of each judgement.
        jobs: Worker processes; as many as there are cores, by default.
        time_limit: Seconds that one row may take.
        concurrency: Rows of an async reward that are judged at once, in each process.
        keywords: Fields for every row, which win over the row's own.

    Yields:
        One result per row, in their order, as soon as those before are there.

    Raises:
        BatchError: If workers cannot start, or a number makes no sense.
        RewardDefinitionError: If an object is no reward.
    """
    if isinstance(reward, str):
        with BatchScorer(
            reward, jobs=jobs, time_limit=time_limit, concurrency=concurrency, keywords=keywords
        ) as scorer:
            yield from scorer.score(rows)
        return
    asked = as_reward(reward)
    at_once = concurrency if asked.is_async else 1
    begun: deque[Future[RewardResult]] = deque()
    with start_blocking_portal() as portal:
        for row in rows:
            begun.append(portal.start_task_soon(_judge, asked, {**row, **(keywords or {})}, time_limit))
            if len(begun) >= at_once:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


async def ascore_rows(
    reward: object,
    rows: Rows,
    *,
    jobs: int | None = None,
    time_limit: float = TIME_LIMIT,
    concurrency: int = CONCURRENCY,
    keywords: Mapping[str, Any] | None = None,
) -> AsyncGenerator[RewardResult, None]:
    """Judge rows, within an event loop.

    Args:
        reward: As for `score_rows`.
        rows: As for `score_rows`.
        jobs: As for `score_rows`.
        time_limit: As for `score_rows`.
        concurrency: As for `score_rows`.
        keywords: As for `score_rows`.

    Yields:
        As `score_rows`.

    Raises:
        BatchError: As `score_rows`.
        RewardDefinitionError: As `score_rows`.
    """
    if isinstance(reward, str):
        with BatchScorer(
            reward, jobs=jobs, time_limit=time_limit, concurrency=concurrency, keywords=keywords
        ) as scorer:
            async for result in scorer.ascore(rows):
                yield result
        return
    asked = as_reward(reward)
    left = iter(rows)
    while some := list(islice(left, concurrency if asked.is_async else 1)):
        for result in await judge_together(asked, [{**row, **(keywords or {})} for row in some], time_limit):
            yield result


async def judge_together(
    asked: Reward, rows: Iterable[Mapping[str, Any]], time_limit: float | None = None
) -> list[RewardResult]:
    """Judge some rows in this process, all at once.

    Args:
        asked: The reward.
        rows: The fields of each.
        time_limit: Seconds that each may take.

    Returns:
        The results, in the order of the rows.
    """
    given = list(rows)
    results: dict[int, RewardResult] = {}

    async def judge(index: int) -> None:
        results[index] = await _judge(asked, given[index], time_limit)

    async with anyio.create_task_group() as tasks:
        for index in range(len(given)):
            tasks.start_soon(judge, index)
    return [results[index] for index in range(len(given))]


def count_cores() -> int:
    """Count the cores that this process may use; at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


async def _judge(asked: Reward, row: Mapping[str, Any], time_limit: float | None) -> RewardResult:
    try:
        fields = gather_fields(asked, None, row)
    except Exception as error:  # noqa: BLE001  (a field that is no trajectory)
        return failure(error)
    return await evaluate(asked, fields, time_limit=time_limit)
