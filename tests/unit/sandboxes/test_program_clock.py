"""What counts against a program's time limit: its processor time and its sleep, not the machine's delays."""

import random

import anyio
import pytest

from ors_server.sandboxes.processor_usage import ProcessorUsage
from ors_server.sandboxes.program_clock import MIN_BACKSTOP, OutOfTimeError, ProgramClock
from ors_server.sandboxes.sandbox_errors import SandboxStarvedError
from ors_server.testing import FakeClock

GUARDIAN, PROGRAM = (0, 10), (2, 30)


class Machine:
    """A program whose use of the processor grows with the clock, as a test says."""

    def __init__(self, *, share: float = 0.0, delayed: float = 0.0, is_known: bool = True) -> None:
        """Say how each second of wall time is spent.

        Args:
            share: Seconds on a processor per second.
            delayed: Seconds of waiting for one per second.
            is_known: Whether the kernel counts.
        """
        self.clock = FakeClock()
        self.share = share
        self.delayed = delayed
        self.children_end = self.is_ready = False
        self.is_known = is_known

    def meter(self) -> ProcessorUsage | None:
        now = self.clock.monotonic()
        ended = self.share * now if self.children_end else 0.0
        delays = {GUARDIAN: 0.0, PROGRAM: self.delayed * now}
        return ProcessorUsage(self.share * now, ended, delays, self.is_ready) if self.is_known else None

    async def run(self, limit: float, *, answers_after: float | None = None) -> tuple[str, float, float]:
        """Return what came of it, what was spent, and the wall time it took."""
        program = ProgramClock(self.meter, self.clock)
        news: list[str] = []

        async def work() -> str:
            await (anyio.sleep_forever() if answers_after is None else self.clock.sleep(answers_after))
            return "answered"

        async def play() -> None:
            try:
                news.append(await program.wait_for(work, limit))
            except (OutOfTimeError, SandboxStarvedError) as error:
                news.append(type(error).__name__)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(play)
                while not news:
                    await self.clock.advance(0.25)
        return news[0], program.spent_s, self.clock.monotonic()


async def test_a_program_that_computes_ends_when_its_processor_time_is_spent() -> None:
    outcome, spent, wall = await Machine(share=1.0).run(10)
    assert (outcome, round(spent), round(wall)) == ("OutOfTimeError", 10, 11)


async def test_a_program_that_sleeps_is_judged_by_the_wall() -> None:
    outcome, _, wall = await Machine(share=0.001).run(10)
    assert (outcome, round(wall)) == ("OutOfTimeError", 11)


async def test_a_program_that_has_half_a_processor_gets_twice_the_wall_time() -> None:
    outcome, _, wall = await Machine(share=0.5, delayed=0.5).run(10)
    assert outcome == "OutOfTimeError"
    assert 19 < wall < 23


async def test_a_program_that_needs_less_than_its_limit_passes_on_a_busy_machine() -> None:
    outcome, spent, wall = await Machine(share=0.1, delayed=0.9).run(10, answers_after=50)
    assert (outcome, round(wall)) == ("answered", 50)
    assert 4 < spent < 7


async def test_a_program_that_gets_almost_no_processor_is_the_machine_s_failure_and_no_verdict() -> None:
    outcome, _, wall = await Machine(share=0.01, delayed=0.99).run(2)
    assert outcome == "SandboxStarvedError"
    assert wall == pytest.approx(MIN_BACKSTOP, abs=2)


async def test_threads_that_wait_for_each_other_do_not_stop_the_clock() -> None:
    machine = Machine(share=1.0, delayed=1.0)
    outcome, _, wall = await machine.run(10)
    assert (outcome, round(wall)) == ("OutOfTimeError", 11)


async def test_sleep_counts_three_times_less_if_the_waits_of_ended_children_are_unknown() -> None:
    machine = Machine(share=0.01)
    machine.children_end = True
    outcome, _, wall = await machine.run(10)
    assert (outcome, round(wall)) == ("OutOfTimeError", 31)


async def test_where_nothing_is_counted_the_wall_judges_with_patience() -> None:
    outcome, _, wall = await Machine(is_known=False).run(10)
    assert (outcome, round(wall)) == ("OutOfTimeError", 31)


async def test_a_quick_answer_counts_as_it_comes() -> None:
    outcome, spent, _ = await Machine(share=1.0).run(10, answers_after=0.125)
    assert (outcome, spent) == ("answered", 0.125)


async def test_an_error_of_the_work_comes_out_as_it_is() -> None:
    async def fail() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await ProgramClock(lambda: None, FakeClock()).wait_for(fail, 1)


async def test_a_wait_that_is_not_over_is_no_sleep() -> None:
    machine = Machine(share=0.01)
    machine.is_ready = True
    outcome, _, wall = await machine.run(2)
    assert outcome == "SandboxStarvedError"
    assert wall > MIN_BACKSTOP


@pytest.mark.parametrize("seed", range(20))
async def test_a_limit_that_ran_out_is_spent_whatever_was_done_before_it(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  (not a secret)
    clock, used = FakeClock(), ProcessorUsage(0.0, 0.0, {})
    program = ProgramClock(lambda: used, clock)

    async def pass_time(seconds: float) -> None:
        nonlocal used
        computes, is_ready = draw.random() < 0.5, draw.random() < 0.5
        is_late = seconds < 1 and draw.random() < 0.3
        for _ in range(int(seconds * 20)):
            delayed = used.delays.get(PROGRAM, 0.0) + 0.05 * is_late
            used = ProcessorUsage(
                used.processor_s + 0.05 * computes, 0.0, {PROGRAM: delayed}, computes and is_ready
            )
            await clock.advance(0.05)

    for _ in range(draw.randint(0, 3)):
        await program.wait_for(lambda: pass_time(draw.uniform(0.1, 0.8)), 10)
    before, limit = program.spent_s, draw.uniform(0.5, 2)
    with pytest.raises(OutOfTimeError):
        await program.wait_for(lambda: pass_time(100), limit)
    assert program.spent_s > before + limit - 1e-9


class LateServer(FakeClock):
    """A clock on which every sleeper is woken two seconds late."""

    async def sleep(self, seconds: float) -> None:
        """Wait too long."""
        await super().sleep(seconds + 2)


async def test_the_server_s_own_delay_is_not_the_program_s() -> None:
    machine = Machine()
    machine.clock = LateServer()
    outcome, _, wall = await machine.run(1)
    assert outcome == "OutOfTimeError"
    assert wall > 4


@pytest.mark.parametrize("uptime", [0.0, 40_000.0, 3e8])
async def test_a_late_server_calls_time_over_however_small_the_rest_is(uptime: float) -> None:
    outcomes: list[str] = []
    for _ in range(60):
        machine = Machine()
        machine.clock = LateServer()
        await machine.clock.advance(uptime)
        outcomes.append((await machine.run(1))[0])
    assert set(outcomes) == {"OutOfTimeError"}


def test_the_longest_wait_of_a_thread_counts_at_each_depth_and_not_their_sum() -> None:
    before = ProcessorUsage(1.0, 0.0, {(0, 1): 1.0, (2, 5): 4.0, (2, 6): 4.0})
    now = ProcessorUsage(3.0, 0.0, {(0, 1): 1.5, (2, 5): 5.0, (2, 6): 6.0, (2, 7): 1.0})
    spent = now.since(before)
    assert (spent.processor_s, spent.delayed_s, spent.has_ended_children) == (2.0, 2.5, False)


def test_a_number_that_another_thread_has_now_counts_from_its_own_beginning() -> None:
    spent = ProcessorUsage(1.0, 0.5, {(2, 5): 0.3}).since(ProcessorUsage(1.0, 0.0, {(2, 5): 4.0}))
    assert (spent.delayed_s, spent.has_ended_children) == (0.3, True)
