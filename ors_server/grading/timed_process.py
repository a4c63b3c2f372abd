"""A running fresh program with a limit on its own processor time."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from typing_extensions import override

from ors_server.model.clock import Clock
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.fresh import RECEIVE_BYTES, FreshProcess
from ors_server.sandboxes.processor_usage import ProcessorUsage
from ors_server.sandboxes.program_clock import OutOfTimeError, ProgramClock
from ors_server.sandboxes.sandbox_errors import FreshEndedError

T = TypeVar("T")


class TimedProcess(FreshProcess):
    """A program that seems to have ended once it has spent its time limit.

    The limit counts while the caller sends and receives, as a `ProgramClock` measures it. Input that the
    program no longer takes is dropped: its end shows in its output.
    """

    def __init__(self, process: FreshProcess, time_limit: float, clock: Clock | None = None) -> None:
        """Start no clock yet; `time_limit` is in seconds, above 0."""
        self._process = process
        self._time_limit = time_limit
        self._clock = ProgramClock(process.usage, clock)
        self.is_out_of_time = False
        """Whether the program was ended for its time limit."""

    @property
    @override
    def stderr(self) -> Output:
        return self._process.stderr

    @override
    def usage(self) -> ProcessorUsage | None:
        return self._process.usage()

    @override
    async def send(self, data: bytes) -> None:
        """Write to its standard input; nothing is written once it has ended or spent its time.

        As `receive`, raises `SandboxStarvedError` if the machine was too busy.
        """
        with contextlib.suppress(OutOfTimeError, FreshEndedError):
            await self._in_time(lambda: self._process.send(data))

    @override
    async def close_stdin(self) -> None:
        await self._process.close_stdin()

    @override
    async def receive(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """Return the next bytes of its standard output; `b""` once it has ended or spent its time."""
        with contextlib.suppress(OutOfTimeError):
            return await self._in_time(lambda: self._process.receive(max_bytes))
        return b""

    async def _in_time(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._clock.spent_s >= self._time_limit:
            # What was counted since the last look is wall time: the program may have spent less of it.
            self._clock.measure_if_due()
        left = self._time_limit - self._clock.spent_s
        if left > 0 and not self.is_out_of_time:
            with contextlib.suppress(OutOfTimeError):
                return await self._clock.wait_for(work, left)
        self.is_out_of_time = True
        raise OutOfTimeError

    @override
    async def wait(self) -> int:
        return await self._process.wait()

    @override
    async def aclose(self) -> None:
        await self._process.aclose()
