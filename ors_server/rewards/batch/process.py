"""One worker of a batch from the pool's side: a process, its queue of rows, and the time of each row.

Time in which the worker was ready to run and had no processor is the machine's, and counts against no row.

What holds: `queue` has the rows without a result, the oldest first. A reward that is not async judges the
oldest one, whose time alone runs: from when the worker recorded its start, else from when it was queued or
became the oldest. An async worker keeps the time limit itself, and is ended only some time after it.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ors_server.processes.child_process import ChildProcess, worker_command
from ors_server.processes.child_variables import child_variables, worker_variables
from ors_server.rewards.batch.batch_rows import Row
from ors_server.rewards.batch.machine_delay import MachineDelay
from ors_server.rewards.batch.progress import PROGRESS, make_progress

MODULE = "ors_server.rewards.batch.batch_worker"
START_LIMIT = 120.0
"""Seconds in which a worker must have imported the reward."""
END_LIMIT = 5.0
"""Seconds that a worker without work may take to end."""

_JUDGE = ("ORS_JUDGE_BASE_URL", "ORS_JUDGE_API_KEY", "ORS_JUDGE_MODEL")
"""Environment variables of the judge, for rewards that ask one."""
_PIECE = 2**16
_MAX_QUEUED_BYTES = 2**20
"""Bytes of rows that may wait in front of a worker, unless a single one is longer."""
_AHEAD_SECONDS = 0.02
_MAX_AHEAD = 500
"""Rows that may wait in front of a worker: some 20 ms of its work, and at most this many."""


@dataclass(frozen=True)
class BatchOptions:
    """The options of every worker of a batch."""

    reward: str
    time_limit: float
    """Seconds that one row may take."""
    concurrency: int
    """Rows that an async reward judges at once."""
    keywords: Mapping[str, Any]
    """Fields for every row."""

    def as_line(self) -> bytes:
        """Return the options as a line of JSON.

        Raises:
            TypeError: If a keyword is not of a JSON type.
            ValueError: If a keyword is a number that JSON does not have.
        """
        shown = {"reward": self.reward, "time_limit": self.time_limit, "keywords": dict(self.keywords)}
        return json.dumps(shown, allow_nan=False).encode() + b"\n"


@dataclass(slots=True)
class QueuedRow:
    """A row that waits for a worker or is judged by one."""

    number: int
    row: Row
    is_suspect: bool = False
    """Whether a worker died while it judged this row or others, so that it must be judged alone."""
    begun: float = 0.0
    """When its time began to run, in monotonic seconds."""


class BatchWorker:
    """A worker process. No method blocks: the pool calls them when a pipe is ready.

    It runs in the folder of this process, from which rows and rewards may name files.
    """

    def __init__(self, options: BatchOptions) -> None:
        self._options = options
        descriptor, self._progress = make_progress()
        try:
            self.child = ChildProcess(
                worker_command(MODULE, str(descriptor)),
                descriptors=(descriptor,),
                # The judge's variables are passed on explicitly: a worker gets no other secret of its owner.
                variables={**worker_variables(), **child_variables(_JUDGE)},
            )
        finally:
            # The child has its own copy; the mapped memory does not need the descriptor.
            os.close(descriptor)
        self.input, self.output = self.child.input, self.child.output
        self.queue: dict[int, QueuedRow] = {}
        """The rows that it has not judged yet by their numbers, the oldest first."""
        self.is_ready = False
        self._is_async = False
        # Written as soon as the pool writes, before any row.
        self._to_write = bytearray(options.as_line())
        self._read = bytearray()
        self._queued_bytes = 0
        self._average = 1.0  # until something is known, rows wait where any worker can take them
        self._started = time.monotonic()
        self._delay = MachineDelay(self.child.pid)

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be written to its pipe."""
        return bool(self._to_write)

    @property
    def capacity(self) -> int:
        """How many more rows may be added to its queue."""
        # Until the worker is ready its reward is not known; and a suspect is judged alone, so that its end
        # shows which row ended it.
        if not self.is_ready or any(queued.is_suspect for queued in self.queue.values()):
            return 0
        if self._is_async:
            return self._options.concurrency - len(self.queue)
        if self._queued_bytes > _MAX_QUEUED_BYTES:
            return 0
        # Cheap rewards get many rows ahead, so that they never wait for the pool; expensive ones get one, so
        # that rows are shared evenly.
        ahead = min(_MAX_AHEAD, int(_AHEAD_SECONDS / max(self._average, 1e-6)))
        return 1 + ahead - len(self.queue)

    @property
    def deadline(self) -> float:
        """When it must be ended unless it answers before, in monotonic seconds."""
        if not self.is_ready:
            return self._started + START_LIMIT
        if not self.queue:
            return float("inf")
        # Only the oldest row's time runs in a worker that judges one row after another.
        began, limit = next(iter(self.queue.values())).begun, self._options.time_limit
        if self._is_async:  # it keeps the limit itself
            # A margin: the worker's own limit answers before the pool ends it.
            limit = 1.0 + 1.1 * limit
        else:
            number, recorded = PROGRESS.unpack_from(self._progress)
            # The worker's own record is exact; what the pool noted may include waiting in the pipe.
            began = recorded if number in self.queue else began
        return began + limit + self._delay.since(began)

    @property
    def next_look(self) -> float:
        """When `is_late` has something to look at, in monotonic seconds."""
        return self._delay.next_look if self.queue else float("inf")

    def is_late(self) -> bool:
        """Look, if that is due, how long it waited for a processor; return whether it must be ended."""
        if self.queue:
            self._delay.look()
        if time.monotonic() < self.deadline:
            return False
        # The delay may have grown since the last look; without a fresh one a loaded machine would end rows.
        self._delay.look_now()
        return time.monotonic() >= self.deadline

    @property
    def judged(self) -> QueuedRow | None:
        """The row that it judges now; `None` if that is not known, as with an async reward."""
        if self._is_async:
            return next(iter(self.queue.values())) if len(self.queue) == 1 else None
        number, _ = PROGRESS.unpack_from(self._progress)
        return self.queue.get(number)

    @property
    def suspects(self) -> list[QueuedRow]:
        """The rows of which one may have ended it: all if the reward is async, else the likeliest."""
        pending = list(self.queue.values())
        if self._is_async:
            return pending
        # Before the first record, or between two rows, the oldest row is the likeliest.
        return pending[:1] if self.judged is None else [self.judged]

    def add(self, queued: QueuedRow) -> None:
        """Queue a row, which has a text; `write` sends it."""
        row, text = queued.row, queued.row.text or b""
        # A look before the start, so that earlier waits are not credited to this row.
        self._delay.look()
        queued.begun = time.monotonic()
        self.queue[queued.number] = queued
        self._queued_bytes += len(text)
        self._to_write += b"%d\t%d\t%s\t%s\n" % (queued.number, row.group, row.where.encode(), text)

    def write(self) -> None:
        """Write as much as the pipe accepts."""
        # A full pipe is written later; a broken one shows when the output is read.
        with suppress(BlockingIOError, BrokenPipeError):
            while self._to_write:
                del self._to_write[: os.write(self.input, memoryview(self._to_write)[:_PIECE].tobytes())]

    def read(self) -> list[bytes] | None:
        """Return the whole lines that have arrived; `None` once the worker has ended."""
        try:
            piece = os.read(self.output, _PIECE)
        except BlockingIOError:
            return []
        if not piece:
            return None
        for queued in islice(self.queue.values(), 1):
            # Otherwise the time in which the pool was busy would count against the row.
            queued.begun = time.monotonic()  # what arrives was judged in time, however late it is read
        *lines, rest = piece.split(b"\n")
        if lines:
            # A line may arrive in several pieces.
            lines[0] = bytes(self._read) + lines[0]
            self._read = bytearray(rest)
        else:
            self._read += rest
        return lines

    def read_start(self, line: bytes) -> str | None:
        """Read the worker's first line; return why it cannot work, or `None` if it can."""
        start: dict[str, Any] = json.loads(line)
        self._is_async = bool(start.get("is_async"))
        self.is_ready = "failed" not in start
        return None if self.is_ready else str(start["failed"])

    def remove(self, number: int) -> QueuedRow:
        """Remove a row that was judged, by its number; the time of the next one begins to run."""
        queued = self.queue.pop(number)
        self._queued_bytes -= len(queued.row.text or b"")
        if not self._is_async:
            now = time.monotonic()
            # A moving average, so that the queue follows a reward whose rows become cheap or expensive.
            self._average += 0.3 * (now - queued.begun - self._average)
            if self.queue:
                next(iter(self.queue.values())).begun = now
        return queued

    def end(self, patience: float = 0.0) -> str:
        """End it and everything that it started, once `patience` seconds to end by itself are over.

        Returns how it ended: `exit status 3`, or `signal SIGKILL`.
        """
        status = self.child.end(patience)
        return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
