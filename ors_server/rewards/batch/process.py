"""One worker of a batch, seen from outside: a process, what was handed to it, and since when it judges."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ors_server.rewards.batch.progress import PROGRESS, make_progress
from ors_server.rewards.batch.rows import Row

PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"
MODULE = "ors_server.rewards.batch.worker"
START_LIMIT = 120.0
"""Seconds in which a worker must have imported the reward."""
END_LIMIT = 5.0
"""Seconds that a worker without work may take to end."""

_PIECE = 2**16
_KEPT_BYTES = 2**20
"""Bytes of rows that may wait in front of a worker, unless a single one is longer."""
_AHEAD_SECONDS = 0.02
_MOST_AHEAD = 500
"""Rows that may wait in front of a worker: some 20 ms of its work, and at most this many."""


@dataclass(frozen=True)
class WorkerOrder:
    """What every worker of a batch is told."""

    reward: str
    time_limit: float
    """Seconds that one row may take."""
    concurrency: int
    """Rows that an async reward judges at once."""
    keywords: Mapping[str, Any]
    """Fields for every row."""

    def as_line(self) -> bytes:
        """Write it down for the worker.

        Raises:
            TypeError: If a keyword is not JSON.
            ValueError: If a keyword is a number that JSON has not.
        """
        told = {"reward": self.reward, "time_limit": self.time_limit, "keywords": dict(self.keywords)}
        return json.dumps(told, allow_nan=False).encode() + b"\n"


@dataclass(slots=True)
class Ticket:
    """A row on its way."""

    number: int
    row: Row
    is_suspect: bool = False
    """Whether a worker died over it and others, so that it goes alone now."""
    begun: float = 0.0
    """When its clock began to run; monotonic seconds."""


class WorkerProcess:
    """A worker. It never blocks: whoever owns it asks when its pipes are ready."""

    def __init__(self, order: WorkerOrder) -> None:
        """Start it.

        Args:
            order: What it is told.
        """
        self._order = order
        descriptor, self._progress = make_progress()
        try:
            program = PROGRAM.format(module=MODULE)
            self.process = subprocess.Popen(  # noqa: S603  (this interpreter, and a program of our own)
                [sys.executable, "-P", "-c", program, json.dumps(sys.path), str(descriptor)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
        finally:
            os.close(descriptor)
        assert self.process.stdin is not None  # noqa: S101  (both were asked for)
        assert self.process.stdout is not None  # noqa: S101  (it was asked for)
        self.input = self.process.stdin.fileno()
        self.output = self.process.stdout.fileno()
        os.set_blocking(self.input, False)
        os.set_blocking(self.output, False)
        self.tickets: dict[int, Ticket] = {}
        """What it has not judged yet, in the order in which it was handed over."""
        self.is_ready = False
        self._is_async = False
        self._to_write = bytearray(order.as_line())
        self._read = bytearray()
        self._held = 0
        self._average = 1.0  # until something is known, rows wait where any worker can take them
        self._started = time.monotonic()

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be written to it."""
        return bool(self._to_write)

    @property
    def room(self) -> int:
        """How many more rows it may be handed."""
        if not self.is_ready or any(ticket.is_suspect for ticket in self.tickets.values()):
            return 0
        if self._is_async:
            return self._order.concurrency - len(self.tickets)
        if self._held > _KEPT_BYTES:
            return 0
        ahead = min(_MOST_AHEAD, int(_AHEAD_SECONDS / max(self._average, 1e-6)))
        return 1 + ahead - len(self.tickets)

    @property
    def deadline(self) -> float:
        """When it has to be ended, in monotonic seconds, unless it says something before."""
        if not self.is_ready:
            return self._started + START_LIMIT
        if not self.tickets:
            return float("inf")
        oldest = next(iter(self.tickets.values())).begun
        if self._is_async:  # it keeps the limit itself
            return oldest + 1.0 + 1.1 * self._order.time_limit
        number, began = PROGRESS.unpack_from(self._progress)
        return (began if number in self.tickets else oldest) + self._order.time_limit

    @property
    def suspects(self) -> list[Ticket]:
        """Which rows it may be judging just now: all if the reward is async, else the one that it noted."""
        tickets = list(self.tickets.values())
        if self._is_async:
            return tickets
        number, _ = PROGRESS.unpack_from(self._progress)
        return [self.tickets[number]] if number in self.tickets else tickets[:1]

    def hand(self, ticket: Ticket) -> None:
        """Hand a row over.

        Args:
            ticket: With a text.
        """
        text = ticket.row.text or b""
        ticket.begun = time.monotonic()
        self.tickets[ticket.number] = ticket
        self._held += len(text)
        row = ticket.row
        self._to_write += b"%d\t%d\t%s\t%s\n" % (ticket.number, row.group, row.where.encode(), text)

    def write(self) -> None:
        """Write what the pipe takes."""
        with suppress(BlockingIOError, BrokenPipeError):
            while self._to_write:
                del self._to_write[: os.write(self.input, memoryview(self._to_write)[:_PIECE].tobytes())]

    def read(self) -> list[bytes] | None:
        """Read what is there.

        Returns:
            Whole lines; `None` once the worker has ended.
        """
        try:
            piece = os.read(self.output, _PIECE)
        except BlockingIOError:
            return []
        if not piece:
            return None
        for ticket in islice(self.tickets.values(), 1):
            ticket.begun = time.monotonic()  # what arrives was judged in time, however late it is read
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = bytes(self._read) + lines[0]
            self._read = bytearray(rest)
        else:
            self._read += rest
        return lines

    def greet(self, line: bytes) -> str | None:
        """Read the worker's first line.

        Args:
            line: The line.

        Returns:
            Why it cannot work; `None` if it can.
        """
        said: dict[str, Any] = json.loads(line)
        self._is_async = bool(said.get("is_async"))
        self.is_ready = "failed" not in said
        return None if self.is_ready else str(said["failed"])

    def settle(self, number: int) -> Ticket:
        """Take back a row that was judged; the next one's clock begins to run.

        Args:
            number: Its number.
        """
        ticket = self.tickets.pop(number)
        self._held -= len(ticket.row.text or b"")
        if not self._is_async:
            now = time.monotonic()
            self._average += 0.3 * (now - ticket.begun - self._average)
            if self.tickets:
                next(iter(self.tickets.values())).begun = now
        return ticket

    def dismiss(self) -> None:
        """Tell it that there is no more; it ends by itself."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def end(self, patience: float = 0.0) -> str:
        """End it and everything that it started.

        Args:
            patience: Seconds that it may take to end by itself.

        Returns:
            How it ended: `exit status 3`, or `signal SIGKILL`.
        """
        if patience:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        status = self.process.wait()
        self.dismiss()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
