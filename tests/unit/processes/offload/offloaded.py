"""Functions for the tests of workers; importing this module costs no more than it must."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add(left: int, right: int) -> int:
    return left + right


def echo(value: Any) -> Any:
    return value


def pid() -> int:
    return os.getpid()


def slow_pid() -> int:
    """The worker's number, once others have had the time to start."""
    threading.Event().wait(0.2)
    return os.getpid()


def write_file(name: str) -> str:
    """Writes a file where this program runs, and returns the folder."""
    Path(name).write_text("x")
    return str(Path.cwd())


def write_file_and_spin(name: str, note: str) -> None:
    Path(note).write_text(write_file(name))
    spin()


def spin() -> None:
    while True:
        pass


def backtrack() -> None:
    re.match("(a*)*b", "a" * 64)  # in C, with the interpreter's lock held


def allocate(count: int) -> int:
    return len(b"a" * count)


def wait() -> None:
    threading.Event().wait()


def wait_after_writing(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    wait()


DAEMON = """
import os, signal
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
signal.pause()
"""


def start_daemon(ending: str) -> int:
    """Starts a process that leaves the group and the family; then spins, crashes, waits or returns."""
    program = subprocess.Popen([sys.executable, "-S", "-c", DAEMON], stdout=subprocess.PIPE)
    assert program.stdout is not None
    daemon = int(program.stdout.readline())
    program.wait()
    Path(os.environ["XDG_CACHE_HOME"]).joinpath("daemon").write_text(str(daemon))
    endings: dict[str, Callable[[], object]] = {"spin": spin, "crash": crash, "wait": wait, "return": pid}
    endings[ending]()
    return daemon


def refuse(reason: str) -> None:
    raise ValueError(reason)


class UnreadableError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def refuse_unreadably() -> None:
    raise UnreadableError("out of", "order")


def crash() -> None:
    signal.raise_signal(signal.SIGSEGV)


def end_from_outside() -> None:
    signal.raise_signal(signal.SIGKILL)


def leave() -> None:
    os._exit(3)


def talk() -> str:
    sys.stdout.write("noise\n")
    os.write(1, b"more noise")
    return "answer"


def cpu_seconds() -> float:
    return time.process_time()


def write_answer(header: bytes, delay: float) -> str:
    """Write an answer on the worker's pipe beside its own: now, or after seconds of delay."""

    def write() -> None:
        for descriptor in range(3, 20):
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, header)
            except OSError:
                continue

    if delay:
        threading.Timer(delay, write).start()
    else:
        write()
    return "own"


def long_error() -> None:
    raise ValueError("x" * 1_000_000)
