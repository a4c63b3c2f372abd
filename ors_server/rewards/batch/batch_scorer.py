"""Many judgements with one reward: in order, on all cores, with an enforced time limit.

A reward given by name is judged by worker processes, which can be ended; a reward object is judged in this
process, where a thread that takes too long can only be left behind.

Gathers consecutive rows that agree in one field into groups.
"""

import json
import os
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Self, cast

import anyio.to_thread
from anyio.from_thread import start_blocking_portal
from typing_extensions import override

from ors_server.rewards.batch.batch_pool import BatchPool
from ors_server.rewards.batch.batch_rows import MAX_ROW, LineSource, MappingSource, Row, RowSource
from ors_server.rewards.batch.process import BatchOptions
from ors_server.rewards.define import Reward, as_reward
from ors_server.rewards.recorded_fields import find_in_row
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import BatchError
from ors_server.rewards.scoring import evaluate, failure, gather_fields, gather_in_order


@dataclass(slots=True)
class _RowGroup:
    value: str | None
    """The JSON of the field on which its rows agree; `None` while no row could be read."""
    count: int = 0
    first: str = ""
    last: str = ""
    texts: list[bytes] = field(default_factory=list[bytes])
    length: int = 0
    fault: str = ""

    def add(self, row: Row, fault: str) -> None:
        self.count += 1
        self.first = self.first or row.where
        self.last = row.where
        self.length += len(row.text or b"")
        self.fault = self.fault or fault
        if self.length > MAX_ROW:
            self.fault = self.fault or f"it is longer than {MAX_ROW:,} bytes"
        # A group with a fault is not judged: its texts are dropped at once, since the rows may be long.
        if self.fault:
            self.texts.clear()
        else:
            self.texts.append(row.text or b"")

    def as_row(self) -> Row:
        where = self.first if self.count == 1 else f"{self.first} to {self.last}"
        if self.fault:
            return Row(where, None, f"the group of {where} cannot be judged: {self.fault}", self.count)
        return Row(where, b'{"rows": [%s]}' % b", ".join(self.texts), "", self.count)


class GroupSource(RowSource):
    """Groups of another source's rows, which are in the order of their groups.

    A group with an unreadable row is not judged at all. An unreadable row counts with the group before it,
    since its own group is unknown.
    """

    def __init__(self, source: RowSource, key: str) -> None:
        self._source = source
        self._key = key
        self._group: _RowGroup | None = None

    @property
    @override
    def is_exhausted(self) -> bool:
        return self._source.is_exhausted and self._group is None

    @property
    @override
    def waits_for(self) -> int | None:
        return self._source.waits_for

    @override
    def fill(self) -> None:
        self._source.fill()

    @override
    def take(self) -> Row | None:
        while (row := self._source.take()) is not None:
            value, fault = self._read(row)
            # An unreadable row has no value and never begins a group.
            is_other = (
                self._group is not None
                and None not in {value, self._group.value}
                and value != self._group.value
            )
            ended = self._end() if is_other else None
            self._group = self._group or _RowGroup(value)
            # A group that began with unreadable rows belongs to the first value that is read.
            self._group.value = self._group.value or value
            self._group.add(row, fault)
            if ended is not None:
                return ended
        # The last group ends with the source only: the next row may belong to it.
        return self._end() if self._source.is_exhausted else None

    def _end(self) -> Row | None:
        group, self._group = self._group, None
        return None if group is None else group.as_row()

    def _read(self, row: Row) -> tuple[str | None, str]:
        if row.text is None:
            return None, row.fault
        try:
            fields: object = json.loads(row.text)
        except (ValueError, RecursionError) as error:
            return None, f"{row.where} is not valid JSON: {error}"
        named = cast("dict[str, object]", fields) if isinstance(fields, dict) else {}
        try:
            return json.dumps(find_in_row(named, self._key), sort_keys=True), ""
        except KeyError:
            return None, f"{row.where} has no {self._key}"


TIME_LIMIT = 30.0
"""Default number of seconds that one row may take."""
CONCURRENCY = 16
"""Default number of rows that one worker judges at once with an async reward."""

_PATIENCE = 0.25
"""Seconds after which a cancelled async caller is noticed."""

Rows = Iterable[Mapping[str, Any]]
"""The fields of each judgement, by name."""


class BatchScorer:
    """Worker processes for one reward, kept from batch to batch; a context manager.

    Args:
        reward: A name of the library's, `module:name` or `file.py:name`.
        jobs: Maximum number of workers; by default the number of cores that this process may use.
        time_limit: Seconds that one row, or one group, may take; then its worker is ended and replaced.
        concurrency: Rows that a worker judges at once, if the reward is async.
        keywords: Fields for every row, which win over the row's own; of JSON types.

    Raises:
        BatchError: If a number is not positive, or a keyword is not JSON.
    """

    def __init__(
        self,
        reward: str,
        *,
        jobs: int | None = None,
        time_limit: float = TIME_LIMIT,
        concurrency: int = CONCURRENCY,
        keywords: Mapping[str, Any] | None = None,
    ) -> None:
        if not (time_limit > 0 and concurrency > 0 and (jobs is None or jobs > 0)):
            raise BatchError(f"expected numbers more than 0, got jobs={jobs}, {time_limit=}, {concurrency=}")
        options = BatchOptions(reward, time_limit, concurrency, dict(keywords or {}))
        try:
            # Checked here, where the caller is, and not when a worker starts.
            options.as_line()
        except (TypeError, ValueError) as error:
            raise BatchError(f"expected keywords of JSON types: {error}") from error
        self._pool = BatchPool(options, jobs or count_cores())

    @property
    def replaced(self) -> int:
        """How many workers died while judging a row, or were ended because a row took too long."""
        return self._pool.replaced

    def start(self) -> None:
        """Start a worker, and wait until it has loaded the reward: so a wrong reward is known before any row.

        Raises:
            BatchError: If it cannot start: no such reward, no such keyword, a package or a setting is missing
                without which the reward judges nothing.
        """
        self._pool.start()

    def score(self, rows: Rows, *, group_by: str | None = None) -> Generator[RewardResult, None, None]:
        """Judge rows; yields one result per row, in order, each as soon as those before it are there.

        Args:
            rows: Taken one at a time, at most 1,024 ahead of the results. A row with values that are not of
                JSON types has the status `error`.
            group_by: For a reward of groups: the field on which the consecutive rows of one group agree. Each
                row is a rollout, with a `trajectory` or a `final_response`.

        Raises:
            BatchError: If workers cannot start: no such reward, no such keyword, a module that raises.
        """
        yield from self._run(MappingSource(rows), group_by)

    def score_lines(
        self, descriptor: int, *, group_by: str | None = None
    ) -> Generator[RewardResult, None, None]:
        """Judge lines of JSON from a descriptor, as `score` does; blank lines are skipped.

        A line that is not a JSON object, or is longer than 16 MiB, has the status `error` and its number in
        the reason.
        """
        yield from self._run(LineSource(descriptor), group_by)

    async def ascore(self, rows: Rows, *, group_by: str | None = None) -> AsyncGenerator[RewardResult, None]:
        """Judge rows as `score` does, without blocking the event loop; a worker thread iterates over them."""
        self._begin(MappingSource(rows), group_by)
        try:
            while not self._pool.is_finished:
                # Polls are short, so that a cancelled caller does not wait for a row.
                for result in await anyio.to_thread.run_sync(lambda: list(self._pool.poll(_PATIENCE))):
                    yield result
        finally:
            # In every case, also when the caller stops iterating: rows in progress are ended.
            self._pool.abandon()

    def close(self) -> None:
        """End the workers."""
        self._pool.abandon()
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, source: RowSource, group_by: str | None) -> Generator[RewardResult, None, None]:
        self._begin(source, group_by)
        try:
            while not self._pool.is_finished:
                yield from self._pool.poll()
        finally:
            self._pool.abandon()

    def _begin(self, source: RowSource, group_by: str | None) -> None:
        self._pool.begin(source if group_by is None else GroupSource(source, group_by))


def score_rows(
    reward: object,
    rows: Rows,
    *,
    jobs: int | None = None,
    time_limit: float = TIME_LIMIT,
    concurrency: int = CONCURRENCY,
    keywords: Mapping[str, Any] | None = None,
) -> Generator[RewardResult, None, None]:
    """Judge rows, outside any event loop; yields one result per row, in order.

    Args:
        reward: A name, `module:name` or `file.py:name`, for worker processes; or a reward, which is judged in
            this process: one row at a time, or `concurrency` rows if it is async.
        rows: The fields of each judgement.
        jobs: Maximum number of worker processes; by default the number of cores.
        time_limit: Seconds that one row may take.
        concurrency: Rows of an async reward that each process judges at once.
        keywords: Fields for every row, which win over the row's own.

    Raises:
        BatchError: If workers cannot start, or a number is not positive.
        RewardDefinitionError: If an object is not a reward.
    """
    if isinstance(reward, str):
        with BatchScorer(
            reward, jobs=jobs, time_limit=time_limit, concurrency=concurrency, keywords=keywords
        ) as scorer:
            yield from scorer.score(rows)
        return
    resolved = as_reward(reward)
    at_once = concurrency if resolved.is_async else 1
    begun: deque[Future[RewardResult]] = deque()
    # One event loop for all rows, so that an async reward keeps its connections between them.
    with start_blocking_portal() as portal:
        for row in rows:
            begun.append(portal.start_task_soon(_judge, resolved, {**row, **(keywords or {})}, time_limit))
            # In order: the oldest row is awaited, and as many others run meanwhile.
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
    """Judge rows as `score_rows` does, within an event loop.

    Args:
        reward: As for `score_rows`.
        rows: The fields of each judgement.
        jobs: Maximum number of worker processes; by default the number of cores.
        time_limit: Seconds that one row may take.
        concurrency: Rows of an async reward that each process judges at once.
        keywords: Fields for every row, which win over the row's own.

    Raises:
        BatchError: If workers cannot start, or a number is not positive.
        RewardDefinitionError: If an object is not a reward.
    """
    if isinstance(reward, str):
        with BatchScorer(
            reward, jobs=jobs, time_limit=time_limit, concurrency=concurrency, keywords=keywords
        ) as scorer:
            async for result in scorer.ascore(rows):
                yield result
        return
    resolved = as_reward(reward)
    left = iter(rows)
    # In slices, each awaited as a whole: a task group must not be open across a `yield`.
    while some := list(islice(left, concurrency if resolved.is_async else 1)):
        for result in await judge_together(
            resolved, [{**row, **(keywords or {})} for row in some], time_limit
        ):
            yield result


async def judge_together(
    reward: Reward, rows: Iterable[Mapping[str, Any]], time_limit: float | None = None
) -> list[RewardResult]:
    """Judge some rows in this process, all at once; the results are in the order of the rows.

    `time_limit` is in seconds for each row.
    """
    return await gather_in_order([partial(_judge, reward, row, time_limit) for row in rows])


def count_cores() -> int:
    """Count the cores that this process may use; at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


async def _judge(reward: Reward, row: Mapping[str, Any], time_limit: float | None) -> RewardResult:
    try:
        fields = gather_fields(reward, None, row)
    except Exception as error:  # noqa: BLE001  (a field may be anything)
        return failure(error)
    return await evaluate(reward, fields, time_limit=time_limit)
