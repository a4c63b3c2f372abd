"""Carries requests to an ASGI application in this process, without a socket.

A tool call runs in its caller's task. Every other request runs in its own task and ends, as at a server, when
the application ends it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias
from urllib.parse import unquote

import anyio
import httpx2
from typing_extensions import override

from ors_server.client.client_errors import UnreachableError

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

CLOSING_SECONDS = 5.0
"""Seconds after which requests without a reader are cancelled."""
MAX_WAITING = 64
"""Pieces of an answer that are buffered for its reader; then the application waits."""
_CALLER = ("127.0.0.1", 0)


@dataclass(slots=True)
class WholeResponse:
    """A complete response, with the names of `httpx2.Response`."""

    status_code: int
    raw_headers: Sequence[tuple[bytes, bytes]]
    content: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case name."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.raw_headers}

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", errors="replace")

    def json(self) -> Any:
        """Return the body's JSON value."""
        return json.loads(self.content)

    async def aread(self) -> bytes:
        """Return the body."""
        return self.content

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        """Yield the body in one piece."""
        yield self.content


class AppTransport(httpx2.AsyncBaseTransport):
    """Carries requests to an ASGI application: `ClientOptions(transport=AppTransport(app))`.

    The application must be running, on the event loop of the requests: `async with app.running()` for one of
    `create_app`, `async with AppTransport.running(app) as transport` for any other.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self._exchanges: dict[asyncio.Task[None], _Exchange] = {}
        self._handlers: set[asyncio.Task[WholeResponse]] = set()

    @classmethod
    @asynccontextmanager
    async def running(cls, app: Application) -> AsyncGenerator[Self]:
        """Run an application's lifespan, and yield a transport to it.

        Raises:
            UnreachableError: If the application does not start, or fails to stop.
        """
        lifespan, transport = _Lifespan(app), cls(app)
        await lifespan.start()
        try:
            yield transport
        finally:
            await transport.aclose()
            await lifespan.stop()

    async def answer(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes | None
    ) -> WholeResponse:
        """Make a request in this task and return its complete answer.

        Cancelling the caller cancels the application's handler, but no tool call that has begun. `target` is
        the quoted path and query; `headers` have lower-case names and include the host.
        """
        unread = [_request(body)]
        start: Message = {}
        pieces: list[bytes] = []

        async def receive() -> Message:
            if unread:
                return unread.pop()
            forever: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            return await forever  # this caller stays until the end

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                pieces.append(message.get("body", b""))
            else:
                start.update(message)

        try:
            await self._app(_scope(method, target, headers), receive, send)
            return WholeResponse(start["status"], start.get("headers", ()), b"".join(pieces))
        except Exception as error:
            raise UnreachableError(f"the application failed {method} {target}: {error!r}") from error

    async def answer_apart(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes | None
    ) -> WholeResponse:
        """Make a request as `answer` does, in a task that keeps running if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(self.answer(method, target, headers, body))
        self._handlers.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[WholeResponse]) -> None:
        self._handlers.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may have been cancelled

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        scope = _scope(request.method, request.url.raw_path.decode("ascii"), headers)
        exchange = _Exchange(body)
        task = asyncio.get_running_loop().create_task(exchange.run(self._app, scope))
        self._exchanges[task] = exchange
        task.add_done_callback(self._exchanges.pop)
        try:
            start = await exchange.start
        except BaseException:
            await exchange.aclose()
            raise
        return httpx2.Response(start["status"], headers=start.get("headers", ()), stream=exchange)

    @override
    async def aclose(self) -> None:
        """Stop reading all answers, and wait for the application to end its handlers."""
        # Collected first: closing an exchange may end its task and remove it from the table.
        running: set[asyncio.Task[Any]] = {*self._exchanges, *self._handlers}
        for exchange in tuple(self._exchanges.values()):
            await exchange.aclose()
        if running:
            _, stuck = await asyncio.wait(running, timeout=CLOSING_SECONDS)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)


class _Exchange(httpx2.AsyncByteStream):
    """A request whose answer is read while it is written, and the body of that answer."""

    def __init__(self, body: bytes) -> None:
        self.start: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._unread = [_request(body)]
        self._left = asyncio.Event()
        self._writer, self._reader = anyio.create_memory_object_stream[bytes](MAX_WAITING)
        # Assumed until the last piece of the body arrives: an application may return before that.
        self._failure: Exception | None = RuntimeError("it ended before its answer did")

    async def run(self, app: Application, scope: Message) -> None:
        """Run the application; its failure is raised in the reader of the answer."""
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001  (the boundary to the caller's application)
            self._failure = error
        finally:
            self._writer.close()
            if not self.start.done():
                self.start.set_exception(self._broken())

    async def _receive(self) -> Message:
        if self._unread:
            return self._unread.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self.start.done():
                self.start.set_result(message)
            return
        if not message.get("more_body", False):
            self._failure = None
        if message.get("body"):
            with suppress(anyio.BrokenResourceError):  # the reader has left
                await self._writer.send(message["body"])

    def _broken(self) -> httpx2.RemoteProtocolError:
        return httpx2.RemoteProtocolError(f"the application failed: {self._failure!r}")

    @override
    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for piece in self._reader:
            yield piece
        if self._failure is not None:
            raise self._broken() from self._failure

    @override
    async def aclose(self) -> None:
        self._left.set()
        self._reader.close()


class _Lifespan:
    """An application's start and end (ASGI, lifespan protocol 2.0)."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()

    async def start(self) -> None:
        scope: Message = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        self._task = asyncio.get_running_loop().create_task(self._run(scope))
        await self._step("startup")

    async def stop(self) -> None:
        if not self._task.done():
            await self._step("shutdown")
        await self._task

    async def _step(self, name: str) -> None:
        await self._to_app.put({"type": f"lifespan.{name}"})
        reply = await self._from_app.get()
        if reply["type"] == f"lifespan.{name}.failed":
            raise UnreachableError(
                f"the application's {name} failed: {reply.get('message', 'no reason given')}"
            )

    async def _run(self, scope: Message) -> None:
        with suppress(Exception):  # an application without a lifespan raises; others have sent the reason
            await self._app(scope, self._to_app.get, self._from_app.put)
        await self._from_app.put({"type": "ended"})


def _request(body: bytes | None) -> Message:
    return {"type": "http.request", "body": body or b"", "more_body": False}


def _scope(method: str, target: str, headers: Sequence[tuple[bytes, bytes]]) -> Message:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path) if "%" in path else path,
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": headers,
        "client": _CALLER,
        "server": _CALLER,
    }
