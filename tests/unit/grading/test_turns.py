"""Gradings wait for their turn, together hold as many places as there are, and no clock runs meanwhile."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from ors_server.grading.cases import StdioCase
from ors_server.grading.evidence import gather_evidence
from ors_server.grading.stdio_cases import grade_stdio
from ors_server.sandboxes.fresh import FreshProgram, run_patiently
from ors_server.sandboxes.processor_usage import ProcessorUsage
from ors_server.sandboxes.sandbox_errors import SandboxStarvedError
from ors_server.sandboxes.scripted import ScriptedBackend
from ors_server.sandboxes.scripted_programs import FreshCall, ScriptedProcess, prints
from ors_server.timing.admission import Admission, Gate
from ors_server.timing.call_clock import CallClock, call_clock

ROUNDS = 20


class Crowd:
    """Sandboxes of one server, whose program notes how many gradings play it at once."""

    def __init__(self, capacity: int) -> None:
        self.admission = Admission(capacity)
        self.most = 0

    def program(self, _call: FreshCall) -> Any:
        self.most = max(self.most, self.admission.figures().running)
        yield b"ok\n"
        return 0

    async def sandbox(self, key: str) -> Any:
        sandbox = await ScriptedBackend(programs={"solve": self.program}).start(key)
        sandbox.gate = Gate(self.admission, key)
        return sandbox

    async def submit(self, key: str) -> bool:
        async with gather_evidence(await self.sandbox(key), final=True) as evidence:
            report = await grade_stdio(evidence, ["solve"], [StdioCase(stdin="", stdout="ok")])
            return report.is_perfect


async def settle() -> None:
    for _ in range(ROUNDS):
        await checkpoint()


async def test_of_fifty_submits_at_once_two_are_at_work_and_all_are_paid() -> None:
    crowd = Crowd(2)
    passed: list[bool] = []

    async def submit(number: int) -> None:
        passed.append(await crowd.submit(f"trainer {number % 3}"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(submit, number)
    assert passed == [True] * 50
    assert crowd.most == 2
    assert crowd.admission.figures().running == 0


async def test_one_grading_has_one_place_however_much_of_it_is_at_work() -> None:
    crowd = Crowd(1)
    with anyio.fail_after(10):
        async with gather_evidence(await crowd.sandbox("a"), final=True) as evidence:
            async with evidence.at_work(), evidence.at_work():
                await evidence.run(["solve"])
                assert crowd.admission.figures().running == 1
            assert crowd.admission.figures().running == 0
            process = await evidence.start(["solve"])
            await process.aclose()
            assert crowd.admission.figures().running == 1
    assert crowd.admission.figures().running == 0


async def test_a_look_in_the_middle_of_an_episode_goes_before_whole_gradings() -> None:
    crowd = Crowd(1)
    order: list[str] = []
    held = await crowd.admission.take("a")

    async def grade(name: str, *, final: bool) -> None:
        async with gather_evidence(await crowd.sandbox("a"), final=final) as evidence, evidence.at_work():
            order.append(name)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: grade("grading", final=True))
            await settle()
            group.start_soon(lambda: grade("look", final=False))
            await settle()
            held.release()
    assert order == ["look", "grading"]


async def test_the_clock_of_the_call_stands_still_from_the_queue_to_the_end_of_the_grading() -> None:
    crowd = Crowd(1)
    clock = CallClock(60)
    call_clock.set(clock)
    async with gather_evidence(await crowd.sandbox("a")) as evidence:
        async with evidence.at_work():
            assert clock.is_paused
        assert not clock.is_paused


async def test_a_cancelled_grading_leaves_its_place_and_its_turn() -> None:
    crowd = Crowd(1)
    held = await crowd.admission.take("b")
    with anyio.move_on_after(0.01):
        await crowd.submit("a")
    assert crowd.admission.figures().waiting == 0
    held.release()
    assert await crowd.submit("a")


class Starved(ScriptedProcess):
    """A program that the machine gives no processor."""

    async def receive(self, most: int = 1) -> bytes:
        del most
        await anyio.sleep_forever()
        return b""

    def usage(self) -> ProcessorUsage | None:
        raise SandboxStarvedError("the machine is too busy")


@pytest.mark.parametrize("starved", [1, 2])
async def test_a_program_that_was_starved_runs_once_more_and_then_the_machine_is_blamed(starved: int) -> None:
    starts = 0

    async def start() -> ScriptedProcess:
        nonlocal starts
        starts += 1
        kind = Starved if starts <= starved else ScriptedProcess
        return kind(prints(b"ok"), FreshCall(FreshProgram(("solve",)), {}))

    if starved == 1:
        run = await run_patiently(start, b"", time_limit=0.04, output_bytes=100)
        assert (run.stdout.text, run.timed_out) == ("ok", False)
    else:
        with pytest.raises(SandboxStarvedError):
            await run_patiently(start, b"", time_limit=0.04, output_bytes=100)
    assert starts == 2
