"""The program of a worker: creates one environment object and calls its methods, one at a time.

It imports only the standard library, so that it runs in any virtual environment. A message is its length, 4
bytes, the most significant first, and JSON. The first request creates the object, each further one calls a
method: {"id": "5f3a", "method": "step", "args": [], "kwargs": {}}. An answer has the id of its request:
{"id": "5f3a", "result": ...} or {"id": "5f3a", "error": [type, text, traceback]}.
When the input ends, the program closes the object and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import importlib.util
import inspect
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

CLOSE_SECONDS = 2.0
"""Seconds that closing may take once the caller has gone."""
MARK = "ORS_CHILD"
"""Variable that tells what a worker started from other processes."""
NICENESS = 5
"""Lets the server's event loop run before its workers."""
LOADING_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of the garbage collector while the environment is imported and created.

What is imported stays, so collecting as often as Python does frees nothing. It took 30 % of the processor
time of importing verifiers, 25 % of Inspect's and 16 % of this package's.
"""
MESSAGE_LENGTH = 4_000
"""Characters of an error's message and of its traceback that are kept."""


def main() -> None:
    """Serve requests until the input ends."""
    requests, answers = os.dup(0), os.dup(1)  # a process that the object starts does not inherit these
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)  # what the object prints must not mix with answers
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    threading.Thread(target=end_with_caller, args=(requests,), daemon=True).start()
    host = EnvHost()
    while True:
        request = read_message(requests)
        if request is None:
            break
        write(answers, host.answer(request))
    host.close()


class EnvHost:
    """The environment object, and how its methods are called."""

    def __init__(self) -> None:
        self._env: Any = None
        self._limit = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def answer(self, request: dict[str, Any]) -> bytes:
        """Return the answer to a request as bytes."""
        try:
            result = self._call(request) if self._env is not None else self._create(request)
            encoded = json.dumps({"id": request["id"], "result": result}, allow_nan=False).encode()
        except Exception as error:  # noqa: BLE001  (every exception is the caller's)
            encoded = json.dumps({"id": request["id"], "error": described(error)}).encode()
        if len(encoded) > self._limit:
            problem = f"the result has {len(encoded)} bytes as JSON, more than {self._limit}"
            encoded = json.dumps({"id": request["id"], "error": ["ValueError", problem, ""]}).encode()
        return encoded

    def close(self) -> None:
        """Close the object, if it can be closed."""
        close = getattr(self._env, "close", None)
        if callable(close):
            self._finish(close())

    def _create(self, request: dict[str, Any]) -> list[str]:
        self._limit = request["limit"]
        if request["path"] is None:
            sys.path[:0] = request["folders"]
        else:
            sys.path[:] = request["folders"] + request["path"]
        thresholds = gc.get_threshold()
        gc.set_threshold(*LOADING_THRESHOLDS)
        try:
            env = find(request["env"])(**request["kwargs"])
        finally:
            if gc.get_threshold()[0] == LOADING_THRESHOLDS[0]:  # else the environment has set its own
                gc.set_threshold(*thresholds)
        if callable(getattr(env, "start", None)):
            self._finish(env.start())
        self._env = env
        return [name for name in dir(env) if not name.startswith("_") and callable(getattr(env, name, None))]

    def _call(self, request: dict[str, Any]) -> Any:
        return self._finish(getattr(self._env, request["method"])(*request["args"], **request["kwargs"]))

    def _finish(self, raw: Any) -> Any:
        if not inspect.isawaitable(raw):
            return raw
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(awaited(raw))


async def awaited(raw: Any) -> Any:
    """Return the result of any awaitable."""
    return await raw


def find(place: str) -> Callable[..., Any]:
    """Return the class at `module:name`, `module.name` or `/folder/file.py:name`."""
    if ".py:" in place:
        file, _, name = place.rpartition(":")
        module: Any = load_file(file)
    else:
        path, _, name = place.partition(":") if ":" in place else place.rpartition(".")
        module = importlib.import_module(path)
    for part in name.split("."):
        module = getattr(module, part)
    return module  # type: ignore[no-any-return]


def load_file(file: str) -> ModuleType:
    """Import a module from its file, without its folder."""
    name = os.path.basename(file)[: -len(".py")]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module can be read from {file}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def described(error: Exception) -> list[str]:
    """Return an error as its type, message and traceback."""
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  (an author's `__str__` may raise anything)
        message = ""
    return [type(error).__name__, message[:MESSAGE_LENGTH], lines[-MESSAGE_LENGTH:]]


def read_message(descriptor: int) -> dict[str, Any] | None:
    """Return the next request; `None` at the end of the input."""
    header = read(descriptor, 4)
    body = None if header is None else read(descriptor, int.from_bytes(header, "big"))
    return None if body is None else json.loads(body)


def read(descriptor: int, length: int) -> bytes | None:
    """Return this many bytes; `None` if the input ends before."""
    data = b""
    while len(data) < length:
        piece = os.read(descriptor, length - len(data))
        if not piece:
            return None
        data += piece
    return data


def write(descriptor: int, data: bytes) -> None:
    """Write an answer, after its length."""
    left = memoryview(len(data).to_bytes(4, "big") + data)
    while left:
        left = left[os.write(descriptor, left) :]


def end_with_caller(requests: int) -> None:
    """Kill this program, and what it started, if it does not end soon after its caller."""
    poll = select.poll()
    poll.register(requests, 0)  # only the end of the input is an event
    poll.poll()
    time.sleep(CLOSE_SECONDS)
    kill_started()
    os.killpg(0, signal.SIGKILL)


def kill_started() -> None:
    """Kill what this program started, by the mark of its environment; nothing where there is no /proc."""
    entry = f"{MARK}={os.environ.get(MARK, '')}".encode()
    for name in os.listdir("/proc") if MARK in os.environ and os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:
                if any(variable.startswith(entry) for variable in environ.read().split(b"\0")):
                    os.kill(int(name), signal.SIGKILL)


if __name__ == "__main__":
    main()
