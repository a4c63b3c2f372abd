"""What sandboxed shells are measured against: bash as a user would start it, with no isolation at all."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_WORD = b"done\n"


def run_true() -> float:
    """Run `bash -c true` and return the milliseconds that it took."""
    began = time.perf_counter()
    subprocess.run(["bash", "-c", "true"], check=True)  # noqa: S607 # the user's own
    return (time.perf_counter() - began) * 1e3


def echoes_per_second(count: int) -> float:
    """Run `bash -c 'echo hi'` again and again and return how many there were per second."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(["bash", "-c", "echo hi"], check=True, capture_output=True)  # noqa: S607 # the user's own
    return count / (time.perf_counter() - began)


def echo_cpu(count: int) -> float:
    """Run `bash -c 'echo hi'` again and again and return the CPU seconds of each, ours and its own."""
    before = os.times()
    echoes_per_second(count)
    return (sum(os.times()[:4]) - sum(before[:4])) / count


async def crowd_of_echoes(at_once: int, each: int) -> list[float]:
    """Run `bash -c 'echo hi'` many at a time and return the milliseconds that each took."""
    took: list[float] = []

    async def one_after_another() -> None:
        for _ in range(each):
            began = time.perf_counter()
            bash = await asyncio.create_subprocess_exec(
                "bash", "-c", "echo hi", stdout=asyncio.subprocess.PIPE
            )
            await bash.communicate()
            took.append((time.perf_counter() - began) * 1e3)

    await asyncio.gather(*(one_after_another() for _ in range(at_once)))
    return took


class BareShell:
    """One bash on pipes that reads commands from its standard input."""

    def __init__(self) -> None:
        """Start it."""
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],  # noqa: S607 # the user's own
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._bash.kill()
        with self._bash:
            pass

    def echo(self) -> float:
        """Run one `echo` and return the milliseconds until its output was there."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        began = time.perf_counter()
        self._bash.stdin.write(b"echo done\n")
        said = b""
        while not said.endswith(_WORD):
            said += self._bash.stdout.read(4096)
        return (time.perf_counter() - began) * 1e3

    def kib(self) -> float:
        """Return the memory that it holds in proportion, KiB."""
        return proportional_kib(self._bash.pid)


def proportional_kib(pid: int) -> float:
    """Return the proportional memory of a process, KiB; 0 when it is gone."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(float(row.split()[1]) for row in rows if row.startswith("Pss:"))


def available_kib() -> float:
    """Return the memory that the machine has to give, KiB."""
    rows = Path("/proc/meminfo").read_text().splitlines()
    return next(float(row.split()[1]) for row in rows if row.startswith("MemAvailable:"))
