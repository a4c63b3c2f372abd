"""The program of a worker process: reads calls one after another, and answers each.

A call is a header, the function's path and the pickled arguments; an answer is a header, which has the
random number of its call, and a pickled value. The input ends with the caller's process, and the worker ends
with it, even in the middle of a call; the temporary folder in which it runs is removed then.
"""

import contextlib
import importlib
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, BinaryIO, NoReturn

CALL = struct.Struct("!QdQQII")
"""Number, processor seconds, bytes of memory, bytes of the result, lengths of the path and the arguments."""
ANSWER = struct.Struct("!QBIQ")
"""Number of the call, outcome, most mebibytes that the worker ever used, length of the pickled value."""
MAX_ERROR_BYTES = 1 << 16
"""Bytes of a pickled error; of a longer one, the message is kept."""
RETURNED, RAISED, OVER_MEMORY, OVER_RESULT = range(4)
MARK = "ORS_CHILD"
"""Variable that marks the processes that a worker started."""
NICENESS = 5
"""Lets the server's event loop run before its workers."""


def main() -> None:
    """Serve calls until the input ends; the argument is the folder to remove then, or empty."""
    folder = sys.argv[2]  # `worker_command` has its `sys.path` as the first argument
    calls, output = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # a function's output must not mix with answers
    os.nice(NICENESS)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    inbox: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(calls, inbox, busy, folder), daemon=True).start()
    while (call := inbox.get()) is not None:
        number, *rest = call
        outcome, value = _answer(*rest)
        busy.clear()
        try:
            _write(output, ANSWER.pack(number, outcome, _peak_mebibytes(), len(value)) + value)
        except BrokenPipeError:
            _leave(folder)
    _remove(folder)


def _listen(
    calls: BinaryIO, inbox: "SimpleQueue[tuple[Any, ...] | None]", busy: threading.Event, folder: str
) -> None:
    while header := calls.read(CALL.size):
        if len(header) < CALL.size:
            break
        number, *limits, path, arguments = CALL.unpack(header)
        call = (number, limits, calls.read(path).decode(), calls.read(arguments))
        busy.set()
        inbox.put(call)
    if busy.is_set():
        kill_started()
        _leave(folder)  # the caller has ended
    inbox.put(None)


def _leave(folder: str) -> NoReturn:
    """End this program at once, even if its threads are busy."""
    _remove(folder)
    os._exit(1)


def _remove(folder: str) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def kill_started() -> None:
    """Kill what this program started, by the mark of its environment; nothing where there is no /proc."""
    entry = f"{MARK}={os.environ.get(MARK, '')}".encode()
    for name in os.listdir("/proc") if MARK in os.environ and os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:
                if any(variable.startswith(entry) for variable in environ.read().split(b"\0")):
                    os.kill(int(name), signal.SIGKILL)


def _answer(limits: list[Any], path: str, arguments: bytes) -> tuple[int, bytes]:
    cpu_seconds, memory, result_bytes = limits
    try:
        function = find(path)
        with _limited(cpu_seconds, memory):
            value = pickle.dumps(function(*pickle.loads(arguments)), pickle.HIGHEST_PROTOCOL)  # noqa: S301  (our own)
    except MemoryError:
        return OVER_MEMORY, b""
    except Exception as error:  # noqa: BLE001  (its errors are the caller's)
        return RAISED, _pickled_error(error)
    return (RETURNED, value) if len(value) <= result_bytes else (OVER_RESULT, b"")


def load(module: str) -> None:
    """Import a module before the calls that need it."""
    importlib.import_module(module)


def find(path: str) -> Callable[..., Any]:
    """Return the function of a path, `module:function`."""
    module, _, name = path.partition(":")
    attribute: Any = importlib.import_module(module)
    for part in name.split("."):
        attribute = getattr(attribute, part)
    function: Callable[..., Any] = attribute
    return function


@contextlib.contextmanager
def _limited(cpu_seconds: float, memory: int) -> Generator[None]:
    """Limit the processor time and the memory of the block."""
    # Only the soft limit is changed, so it can be raised again after the call.
    before = resource.getrlimit(resource.RLIMIT_AS)
    _bound_memory(memory, before[1])
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, even inside a function in C
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        _bound_memory(*before)


def _bound_memory(soft: int, hard: int) -> None:
    with contextlib.suppress(ValueError, OSError):  # macOS refuses
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _pickled_error(error: Exception) -> bytes:
    try:
        pickled = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        pickle.loads(pickled)  # noqa: S301  (it may be one that can be written and not read)
        is_readable = len(pickled) <= MAX_ERROR_BYTES
    except Exception:  # noqa: BLE001  (its constructor may require other arguments)
        is_readable, pickled = False, b""
    if not is_readable:
        pickled = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"[:2000]))
    return pickled


def _peak_mebibytes() -> int:
    """Return the most memory that this program ever used; getrusage(2) on Linux includes its parent's."""
    with (
        contextlib.suppress(OSError),
        open("/proc/self/status", encoding="ascii", errors="replace") as status,
    ):
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) >> 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> (20 if sys.platform == "darwin" else 10)  # getrusage(2): bytes there, KiB on Linux


def _write(output: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(output, left) :]
