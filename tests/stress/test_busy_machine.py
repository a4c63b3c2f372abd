"""A busy machine does not make a right solution wrong, and a quiet one does not make a sleeper right."""

import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator

import pytest

from ors_server.grading.cases import FunctionCase, StdioCase, TimeLimits
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.grading.function_cases import grade_functions
from ors_server.grading.stdio_cases import PythonProgram, grade_stdio
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend

pytestmark = pytest.mark.stress
BURN = """
import time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "done"
"""
LIMITS = TimeLimits(case=1.0, whole=20.0)


@contextlib.contextmanager
def busy(loops: int = 8) -> Generator[None]:
    """Give the machine more to do than it has processors."""
    running = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def look_at(files: dict[str, str]) -> AsyncGenerator[Evidence]:
    """Open evidence of files in a sandbox of its own."""
    state = ServerState()
    backend = BubblewrapBackend(state)
    try:
        sandbox = await backend.start("graded")
        for name, text in files.items():
            await sandbox.write_file(name, text.encode())
        async with gather_evidence(sandbox) as evidence:
            yield evidence
    finally:
        await backend.aclose()
        state.close()


async def test_a_function_that_computes_for_half_its_limit_passes_beside_busy_loops():
    cases = [FunctionCase(arguments=(0.5,), expected="done", name=name) for name in "ab"]
    with busy():
        async with look_at({"solution.py": BURN}) as evidence:
            report = await grade_functions(evidence, "solution.py", "burn", cases, time_limit=LIMITS)
    assert [result.reason for result in report.results] == [None, None]


async def test_so_does_a_program():
    with busy():
        async with look_at({"main.py": f"{BURN}\nprint(burn(0.5))\n"}) as evidence:
            case = StdioCase(stdin="", stdout="done")
            report = await grade_stdio(evidence, PythonProgram("main.py"), [case], time_limit=LIMITS)
    assert report.results[0].reason is None


async def test_a_function_that_computes_for_longer_than_its_limit_fails_there_too():
    with busy(2):
        async with look_at({"solution.py": BURN}) as evidence:
            case = FunctionCase(arguments=(60,), expected="done")
            report = await grade_functions(evidence, "solution.py", "burn", [case], time_limit=LIMITS)
    assert "ran out of time" in str(report.results[0].reason)


@pytest.mark.parametrize(
    "sleep",
    [
        "time.sleep(1000)",
        "threading.Event().wait()",
        "os.read(os.pipe()[0], 1)",
        "os.nice(14), time.sleep(1000)",
        "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)), time.sleep(1000)",
        "os.kill(os.getpid(), 19)",
        "subprocess.run(['sleep', '1000'])",
    ],
)
async def test_a_function_that_waits_for_ever_fails_beside_busy_loops_too(sleep):
    text = f"import os, subprocess, threading, time\n\ndef wait():\n    {sleep}\n"
    with busy(2):
        async with look_at({"solution.py": text}) as evidence:
            case = FunctionCase(expected=None)
            report = await grade_functions(
                evidence, "solution.py", "wait", [case], time_limit=TimeLimits(0.5, 5)
            )
    assert "ran out of time" in str(report.results[0].reason)
