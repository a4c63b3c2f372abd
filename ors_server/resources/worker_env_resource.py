"""Resources in processes of their own: an author's object in any virtual environment, one call at a time.

Messages are JSON in both directions, so that an answer cannot run code here. A request has a random id, which
its answer repeats: what is written out of turn answers nothing, and ends the worker. Unlike a thread, the
process can be killed: it is, with what it started, when a call is cancelled or takes too long.
"""

import json
import os
import secrets
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.model.logs import get_logger
from ors_server.processes.child_variables import worker_variables
from ors_server.resources.env_resource import EnvResource
from ors_server.resources.resource import ResourceStatus
from ors_server.resources.resource_errors import (
    ResourceCallError,
    ResourceClosedError,
    ResourceError,
    ResourceTimeoutError,
    ResourceUseError,
)
from ors_server.resources.spec import WorkerEnvResourceSpec
from ors_server.resources.watched_child import WatchedChild

CLOSE_LIMIT = 5.0
"""Seconds that an environment may take to close before its process is killed."""
_PROGRAM = Path(__file__).with_name("env_program.py")
_BOOTSTRAP = (  # not the program's folder, whose modules would hide others of the same names
    "import sys; sys.path[:1] = []; exec(compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec'))"
)
_HEADER = 4
_PIECE = 1 << 16

_log = get_logger("ors_server.resources.worker_env_resource")


@dataclass(frozen=True, slots=True)
class _Request:
    id: str
    packed: bytes
    """As the program reads it: the length, and JSON."""


class WorkerEnvResource(EnvResource):
    """An environment object in a separate process."""

    def __init__(self, spec: WorkerEnvResourceSpec, resource_id: str) -> None:
        super().__init__(spec, resource_id)
        self._spec = spec
        self._child: WatchedChild | None = None
        self._methods: frozenset[str] = frozenset()
        self._turn = anyio.Lock()
        self._threads = anyio.CapacityLimiter(1)
        self._scope: anyio.CancelScope | None = None

    @override
    async def start(self) -> None:
        self._refuse_second_start()
        first = self._new_request(
            "its arguments",
            {
                "env": self._spec.env_cls_path,
                "kwargs": dict(self._spec.init_kwargs),
                "folders": self._spec.import_folders,
                "path": sys.path if self._spec.interpreter is None else None,
                "limit": self._spec.answer_limit,
            },
        )
        try:
            self._child = await anyio.to_thread.run_sync(self._spawn, limiter=self._threads)
            async with self._turn:
                self._methods = frozenset(await self._ask("start", first, self._spec.start_timeout))
        except BaseException:
            self._fail("its start failed")
            raise
        self._status = ResourceStatus.RUNNING

    @override
    async def is_healthy(self) -> bool:
        return self._child is not None and self._child.is_alive() and await super().is_healthy()

    @override
    async def memory_used(self) -> int | None:
        """Return the resident bytes of the process and of what it started."""
        child = self._child
        return (
            None
            if child is None
            else await anyio.to_thread.run_sync(child.memory_used, limiter=self._threads)
        )

    @property
    def process_id(self) -> int | None:
        """The process that runs the environment; `None` before the start and after the end."""
        return None if self._child is None else self._child.pid

    @override
    async def end(self) -> None:
        is_idle = self._status is ResourceStatus.RUNNING and not self._turn.locked()
        self._status = ResourceStatus.STOPPED
        child, self._child = self._child, None
        if child is None:
            return
        if not is_idle:
            child.kill()
        if self._scope is not None:
            self._scope.cancel()
        with anyio.CancelScope(shield=True):
            async with self._turn:  # the call that was cancelled has left the pipes
                await anyio.to_thread.run_sync(
                    child.end, CLOSE_LIMIT if is_idle else 0.0, limiter=self._threads
                )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(f"neither {type(self).__name__} nor its environment has a method {name!r}")
        return partial(self._call, name)

    @override
    def _has_method(self, name: str) -> bool:
        return name in self._methods

    @override
    async def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        if name not in self._methods and self._status is ResourceStatus.RUNNING:
            raise AttributeError(f"{self._label} has no method {name!r}")
        request = self._new_request(
            f"the arguments of {name}", {"method": name, "args": args, "kwargs": kwargs}
        )
        async with self._turn:
            self._refuse_unless_live()
            return await self._ask(name, request, self._spec.call_timeout)

    async def _ask(self, name: str, request: _Request, seconds: float) -> Any:
        """Send a request and return the result of its answer; kill the process if it does not answer."""
        child = self._child
        if child is None:
            raise ResourceClosedError(f"{self._label} is not started")
        body = b""
        scope = self._scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        try:
            with scope:
                await _write(child.input, request.packed)
                body = await self._read_answer(child.output)
        except BaseException:
            self._fail(f"{name} was cancelled")
            raise
        finally:
            self._scope = None
        if body:
            return self._result(name, request, body)
        if self._status is ResourceStatus.STOPPED:
            raise ResourceClosedError(f"{self._label} was ended while {name} ran")
        if scope.cancelled_caught:
            self._fail(f"{name} took too long")
            raise ResourceTimeoutError(
                f"{self._label} did not answer {name} within {seconds:g} seconds and was killed"
                f"{child.quoted_words()}"
            )
        self._fail(f"it ended during {name}")
        end = await anyio.to_thread.run_sync(child.describe_end, limiter=self._threads)
        raise ResourceError(f"the process of {self._label} {end}; it was running {name}")

    async def _read_answer(self, descriptor: int) -> bytes:
        """Return an answer without its length; nothing if the process has ended."""
        data, length = bytearray(), _HEADER
        while len(data) < length:
            await anyio.wait_readable(descriptor)
            piece = os.read(descriptor, _PIECE)
            if not piece:
                return b""
            data += piece
            if length == _HEADER <= len(data):
                length += int.from_bytes(data[:_HEADER], "big")
                if length > self._spec.answer_limit + _PIECE:
                    break
        return bytes(data[_HEADER:])

    def _result(self, name: str, request: _Request, body: bytes) -> Any:
        try:
            answer: Any = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._fail(f"its answer to {name} is not JSON")
            raise ResourceError(f"the answer of {self._label} to {name} is not JSON: {error}") from error
        match answer:
            case {"id": request.id, "result": result, **rest} if not rest:
                return result
            case {"id": request.id, "error": [str(kind), str(message), str(trace)], **rest} if not rest:
                raise ResourceCallError(
                    f"{name} of {self._label} raised {kind}: {message}", kind=kind, remote_traceback=trace
                )
            case _:
                self._fail(f"its answer to {name} is malformed")
                raise ResourceError(
                    f"{self._label} wrote something else than an answer to {name}, so it was killed: "
                    f"expected the request's id with a result or an error, got {body[:100]!r}"
                )

    def _new_request(self, part: str, request: dict[str, Any]) -> _Request:
        number = secrets.token_hex(8)
        try:
            body = json.dumps({"id": number, **request}, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ResourceUseError(f"{part} of {self._label} must be JSON: {error}") from error
        return _Request(number, len(body).to_bytes(_HEADER, "big") + body)

    def _fail(self, reason: str) -> None:
        if self._status is not ResourceStatus.STOPPED:
            self._status = ResourceStatus.FAILED
        if self._child is not None:
            _log.warning("worker_killed", resource=self.resource_id, pid=self._child.pid, reason=reason)
            self._child.kill()

    def _spawn(self) -> WatchedChild:
        interpreter = self._spec.interpreter or sys.executable
        inherited = worker_variables()
        if self._spec.interpreter is not None:  # these describe this process's environment
            for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"):
                inherited.pop(name, None)
        try:
            return WatchedChild(
                [interpreter, "-u", "-c", _BOOTSTRAP, str(_PROGRAM)],
                variables={**inherited, **self._spec.variables},
            )
        except OSError as error:
            raise ResourceUseError(
                f"the interpreter {interpreter!r} of {self._label} cannot be started: {error}"
            ) from error


async def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)
        except BrokenPipeError:
            return  # reading finds the end
