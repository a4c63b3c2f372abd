"""Functions for the tests of workers; importing this module costs no more than it must."""

import os
import re
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any


def add(left: int, right: int) -> int:
    return left + right


def echo(value: Any) -> Any:
    return value


def pid() -> int:
    return os.getpid()


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
