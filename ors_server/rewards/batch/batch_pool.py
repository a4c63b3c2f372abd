"""The workers of a batch: sends them rows, replaces those that die or stall, and keeps results in order.

What holds: a row that was taken is in exactly one place, by its number: in `_waiting`, in the queue of one
worker, or in `_results`, from which results are yielded in the order of the rows. When a worker ends, a row
is lost with it only if it alone is suspected; the other rows of its queue wait again, in front. Only `_wait`
blocks.
"""

import json
import math
import select
import time
from collections import deque
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from ors_server.rewards.batch.batch_rows import Row, RowSource
from ors_server.rewards.batch.process import END_LIMIT, START_LIMIT, BatchOptions, BatchWorker, QueuedRow
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import BatchError

LOOK_AHEAD = 1024
"""Number of rows, or groups, that are taken ahead of the oldest result that was not yielded yet."""


class BatchPool:
    """Workers with the same options, which judge one source after another. They start when there are rows."""

    def __init__(self, options: BatchOptions, jobs: int) -> None:
        self.replaced = 0
        """Number of workers that died while judging a row, or were ended because a row took too long."""
        self._options = options
        self._jobs = jobs
        self._workers: list[BatchWorker] = []
        self._source: RowSource | None = None
        self._waiting: deque[QueuedRow] = deque()
        self._results: dict[int, list[RewardResult]] = {}
        self._taken = 0
        self._yielded = 0

    def begin(self, source: RowSource) -> None:
        """Begin to judge a source's rows; the source before is abandoned."""
        self.abandon()
        self._source = source

    def start(self) -> None:
        """Start the first worker if necessary, and wait until it is ready.

        Raises:
            BatchError: If it cannot start.
        """
        if not self._workers:
            self._workers.append(BatchWorker(self._options))
        while not any(worker.is_ready for worker in self._workers):
            self._wait(min(worker.deadline for worker in self._workers) - time.monotonic())
            self._expire_late()

    @property
    def is_finished(self) -> bool:
        """Whether every row of the source has a result, and all results have been yielded."""
        ended = self._source is None or self._source.is_exhausted
        return ended and self._yielded == self._taken

    def poll(self, patience: float = math.inf) -> Iterator[RewardResult]:
        """Send rows and read results once, after waiting at most `patience` seconds until a pipe is ready.

        Yields:
            Results, in the order of the rows; perhaps none.

        Raises:
            BatchError: If workers cannot start.
        """
        # Nothing blocks but the wait, which ends with a ready pipe, at a limit, or after `patience`.
        self._dispatch()
        seconds = 0.0
        if self._yielded not in self._results and not self.is_finished:
            due = [min(worker.deadline, worker.next_look) for worker in self._workers]
            seconds = min([patience, *(moment - time.monotonic() for moment in due)])
        self._wait(seconds)
        self._expire_late()
        while self._yielded in self._results:
            results = self._results.pop(self._yielded)
            self._yielded += 1
            yield from results

    def abandon(self) -> None:
        """Abandon the source: take no more rows from it, and end workers that judge."""
        # Only workers with rows: idle ones are kept for the next source.
        for worker in [worker for worker in self._workers if worker.queue]:
            self._workers.remove(worker)
            worker.end()
        self._waiting.clear()
        self._results.clear()
        self._source = None
        # Results of abandoned rows must not be yielded for the next source.
        self._yielded = self._taken

    def close(self) -> None:
        """End every worker."""
        # All inputs are closed before any worker is waited for, so that they end at the same time.
        for worker in self._workers:
            worker.child.close_input()  # it ends once it is idle
        while self._workers:
            worker = self._workers.pop()
            worker.end(END_LIMIT if worker.is_ready and not worker.queue else 0.0)

    def _dispatch(self) -> None:
        self._take()
        while self._waiting:
            is_suspect = self._waiting[0].is_suspect
            ready = [worker for worker in self._workers if worker.capacity > 0]
            if is_suspect:
                # A suspect goes to an idle worker, so that no other row is suspected with it.
                ready = [worker for worker in ready if not worker.queue]
            if not ready:
                break
            worker = min(ready, key=lambda worker: len(worker.queue))
            # Half of the capacity at a time, so that the last rows of a batch are shared among the workers.
            for _ in range(1 if is_suspect else max(1, worker.capacity // 2)):
                worker.add(self._waiting.popleft())
                self._take()
                if not self._waiting or self._waiting[0].is_suspect:
                    break
            worker.write()
        # Workers start only for rows that no starting worker will take.
        starting = sum(1 for worker in self._workers if not worker.is_ready)
        missing = min(len(self._waiting) - starting, self._jobs - len(self._workers))
        self._workers += [BatchWorker(self._options) for _ in range(missing)]

    def _take(self) -> None:
        while self._wants_rows and self._source is not None and (row := self._source.take()) is not None:
            if row.text is None:
                # A result at once: an unreadable row needs no worker, but keeps its place in the order.
                self._results[self._taken] = _results_for_row(row, RewardStatus.ERROR, row.fault)
            else:
                self._waiting.append(QueuedRow(self._taken, row))
            self._taken += 1

    @property
    def _wants_rows(self) -> bool:
        # Both bounds keep the source from being read ahead: it may be a slow or endless pipe.
        return len(self._waiting) < self._jobs and self._taken - self._yielded < LOOK_AHEAD

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        readers = {worker.output: worker for worker in self._workers}
        writers = {worker.input: worker for worker in self._workers if worker.wants_to_write}
        for descriptor in readers:
            poll.register(descriptor, select.POLLIN)
        for descriptor in writers:
            poll.register(descriptor, select.POLLOUT)
        source = self._source.waits_for if self._source is not None and self._wants_rows else None
        if source is not None:
            poll.register(source, select.POLLIN)
        milliseconds = None if math.isinf(seconds) else max(0, math.ceil(1000 * seconds))
        events = [descriptor for descriptor, _ in poll.poll(milliseconds)]
        if source is not None and source in events and self._source is not None:
            self._source.fill()
        for worker in [writers[event] for event in events if event in writers]:
            worker.write()
        for worker in [readers[event] for event in events if event in readers]:
            self._listen(worker)

    def _listen(self, worker: BatchWorker) -> None:
        lines = worker.read()
        if lines is None:
            self._replace_dead(worker)
            return
        for line in lines:
            if not worker.is_ready:
                if (reason := worker.read_start(line)) is not None:
                    raise BatchError(reason)
                continue
            number, _, results = line.partition(b"\t")
            self._results[worker.remove(int(number)).number] = [
                _read_result(load) for load in json.loads(results)
            ]

    def _expire_late(self) -> None:
        for worker in [worker for worker in self._workers if worker.is_late()]:
            self._expire(worker)

    def _expire(self, worker: BatchWorker) -> None:
        if not worker.is_ready:
            raise BatchError(f"a worker was not ready within {START_LIMIT:g} seconds")
        worker.end()
        limit = f"it was not judged within {self._options.time_limit:g} seconds"
        self._replace(worker, RewardStatus.LIMIT, limit)

    def _replace_dead(self, worker: BatchWorker) -> None:
        how = worker.end(END_LIMIT)
        if not worker.is_ready:
            raise BatchError(f"a worker ended with {how} before it could judge anything")
        reason = f"the worker that judged it ended with {how}"
        if how == "signal SIGKILL":
            reason += ", perhaps because memory ran out"
        self._replace(worker, RewardStatus.ERROR, reason)

    def _replace(self, worker: BatchWorker, status: RewardStatus, reason: str) -> None:
        self._workers.remove(worker)
        self.replaced += 1
        judged, suspects = worker.judged, worker.suspects
        innocent = [queued for queued in worker.queue.values() if queued not in suspects]
        # The row that was judged is the cause, and so is one that was alone. Otherwise each suspect is judged
        # again by itself: the worker may have ended between two rows, or have stood still before a row.
        if judged is None and len(suspects) == 1 and suspects[0].is_suspect:
            judged = suspects[0]
        if judged is not None:
            row = judged.row
            self._results[judged.number] = _results_for_row(row, status, f"{row.where}: {reason}")
            suspects = []
        for queued in suspects:  # judged alone, the one that ends its worker shows
            queued.is_suspect = True
        # In front, in their order: the oldest result holds up all others.
        self._waiting.extendleft(reversed([*suspects, *innocent]))


def _results_for_row(row: Row, status: RewardStatus, reason: str) -> list[RewardResult]:
    return [RewardResult.without(status, reason)] * max(1, row.group)


def _read_result(result: dict[str, Any]) -> RewardResult:
    extras = MappingProxyType(result["extras"])
    return RewardResult(result["reward"], RewardStatus(result["status"]), extras, result.get("reason"))
