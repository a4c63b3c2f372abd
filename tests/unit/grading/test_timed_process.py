"""A program that is talked to spends its own time, and the end of its time looks like its own end."""

import anyio
import pytest

from ors_server.grading.evidence import TimedProcess
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.fresh import FreshProcess
from ors_server.sandboxes.processor_usage import ProcessorUsage
from ors_server.sandboxes.program_clock import MIN_BACKSTOP
from ors_server.sandboxes.sandbox_errors import FreshEndedError, SandboxStarvedError
from ors_server.testing import FakeClock

PROGRAM = (2, 30)


class Echo(FreshProcess):
    """Answers after a while, of which a share is on a processor and a share is the machine's delay."""

    def __init__(self, *, takes: float, share: float, delayed: float) -> None:
        self.clock = FakeClock()
        self._takes, self._share, self._delayed = takes, share, delayed
        self._pending: list[bytes] = []
        self.has_ended = self.is_closed = False

    @property
    def stderr(self) -> Output:
        return Output(b"words", b"", 5)

    def usage(self) -> ProcessorUsage:
        now = self.clock.monotonic()
        return ProcessorUsage(self._share * now, 0.0, {PROGRAM: self._delayed * now})

    async def send(self, data: bytes) -> None:
        if self.has_ended:
            raise FreshEndedError("it ended")
        self._pending.append(data)

    async def close_stdin(self) -> None:
        self.has_ended = True

    async def receive(self, most: int = 65_536) -> bytes:
        if self.has_ended:
            return b""
        await self.clock.sleep(self._takes)
        return self._pending.pop(0)[:most]

    async def wait(self) -> int:
        return 3

    async def aclose(self) -> None:
        self.is_closed = True


async def talk(echo: Echo, timed: TimedProcess, times: int) -> list[bytes]:
    """Has a program echo, with its clock moving."""
    told: list[bytes] = []
    is_over = False

    async def ask() -> None:
        nonlocal is_over
        try:
            for number in range(times):
                await timed.send(b"%d" % number)
                told.append(await timed.receive())
        finally:
            is_over = True

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not is_over:
                await echo.clock.advance(0.25)
    return told


async def test_a_program_with_little_to_do_answers_on_a_busy_machine():
    echo = Echo(takes=20.0, share=0.001, delayed=0.999)
    timed = TimedProcess(echo, 5.0, echo.clock)
    assert await talk(echo, timed, 40) == [b"%d" % one for one in range(40)]


async def test_the_limit_counts_over_all_answers():
    echo = Echo(takes=2.0, share=1.0, delayed=0.0)
    timed = TimedProcess(echo, 5.0, echo.clock)
    told = await talk(echo, timed, 4)
    assert (told, timed.is_out_of_time) == ([b"0", b"1", b"", b""], True)


async def test_a_program_that_sleeps_spends_its_time_too():
    echo = Echo(takes=1e6, share=0.0, delayed=0.0)
    timed = TimedProcess(echo, 5.0, echo.clock)
    assert (await talk(echo, timed, 1), timed.is_out_of_time) == ([b""], True)


async def test_a_machine_without_any_time_for_it_is_to_blame():
    echo = Echo(takes=2 * MIN_BACKSTOP, share=0.0, delayed=1.0)
    with pytest.raises(ExceptionGroup) as caught:
        await talk(echo, TimedProcess(echo, 1.0, echo.clock), 1)
    assert caught.group_contains(SandboxStarvedError)


async def test_what_a_program_that_has_ended_is_sent_is_dropped():
    echo = Echo(takes=0.0, share=0.0, delayed=0.0)
    timed = TimedProcess(echo, 5.0, echo.clock)
    await timed.close_stdin()
    await timed.send(b"anybody?")
    assert await timed.receive() == b""
    assert (timed.is_out_of_time, await timed.wait(), timed.stderr.text) == (False, 3, "words")
    assert timed.usage() == ProcessorUsage(0.0, 0.0, {PROGRAM: 0.0})
    await timed.aclose()
    assert echo.is_closed
