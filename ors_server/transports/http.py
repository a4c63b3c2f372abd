"""Shared by the HTTP applications: reads a limited body, sends answers, notices a disconnect."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from anyio import Event
from anyio.lowlevel import checkpoint
from typing_extensions import override

from ors_server.compact_json import compact_json
from ors_server.errors import OrsServerError, PayloadTooLargeError
from ors_server.json_bounds import NEVER_TOO_MUCH, check_json
from ors_server.logs import get_logger
from ors_server.transports.codings import decode
from ors_server.transports.faults import extra_headers, look_up, pending_fields

log = get_logger("ors_server.http")

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STEPS_TO_NOTICE = 8
"""Turns of the event loop until a disconnect is noticed here, through middleware around this application."""


class ClientGoneError(ConnectionError):
    """The client closed the connection before its request was whole."""


class RequestHeaders(Mapping[str, str]):
    """A request's headers by lower-case name; the last of a repeated one. Each is decoded when read."""

    __slots__ = ("_raw",)

    def __init__(self, scope: Scope) -> None:
        self._raw: dict[bytes, bytes] = dict(scope["headers"])

    @override
    def __getitem__(self, name: str) -> str:
        return self._raw[name.encode("latin-1")].decode("latin-1")

    @override
    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    @override
    def __len__(self) -> int:
        return len(self._raw)

    @override
    def get(self, key: str, default: Any = None) -> Any:  # each request calls it several times
        value = self._raw.get(key.encode("latin-1"))
        return default if value is None else value.decode("latin-1")


async def read_body(receive: Receive, limit: int, coding: str | None = None) -> bytes:
    """Read a request's body and decode it.

    Args:
        limit: Most bytes, both as received and decoded.

    Raises:
        PayloadTooLargeError: If there is more, or reading it as JSON would take too long.
        UnsupportedCodingError: If the server does not know the coding.
        MalformedRequestError: If the body does not have that coding.
        ClientGoneError: If the client disconnected meanwhile.
    """
    message = await receive()
    body: bytes = message.get("body", b"")
    parts = [body]
    size = len(body)
    while message.get("more_body", False):
        if size > limit:
            break
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    if size > limit:
        raise PayloadTooLargeError(f"the body has more than {limit} bytes (setting max_body_bytes)")
    whole = b"".join(parts)
    if coding is not None and whole:
        whole = await decode(whole, coding, limit)
    if len(whole) > NEVER_TOO_MUCH:
        await check_json(whole)
    return whole


@contextmanager
def watching_for_disconnect(receive: Receive) -> Generator[Callable[[], Awaitable[bool]]]:
    """Watch for the client of a request, whose body was read, to disconnect.

    The channel is read in a task of its own, as middleware around this application expects.

    Yields:
        Returns whether the client has disconnected, at once.
    """
    watcher = asyncio.ensure_future(_until_gone(receive))

    async def has_left() -> bool:
        for _ in range(STEPS_TO_NOTICE):
            await asyncio.sleep(0)  # noqa: TID251  (each creation waits so; anyio's costs five times as much)
        return watcher.done()

    try:
        yield has_left
    finally:
        watcher.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        await checkpoint()


async def send_pieces(
    send: Send,
    status: int,
    pieces: Sequence[bytes],
    content_type: bytes,
    extra: Mapping[str, str] | None = None,
) -> None:
    """Send a whole answer of one or more pieces, so that a long one need not be joined."""
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % sum(map(len, pieces)))]
    if extra:
        headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in extra.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for piece in pieces[:-1]:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": pieces[-1]})


async def send_json(
    send: Send, value: Any, status: int = 200, extra: Mapping[str, str] | None = None
) -> None:
    """Send a JSON answer."""
    body = compact_json(value).encode()
    await send_pieces(send, status, (body,), b"application/json", extra)


async def send_fault(send: Send, error: OrsServerError) -> None:
    """Send an error as `{"detail", "code", "blame"}` with its status; the standard has only the first."""
    problem = {"detail": str(error), "code": error.code, "blame": error.blame, **pending_fields(error)}
    await send_json(send, problem, look_up(error).status, extra_headers(error))


class DefectGuard:
    """Keeps an unexpected exception inside one request: logs it, and answers 500 if nothing was sent yet."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception:  # whatever it is, other requests go on
            log.exception("request_defect", path=scope["path"])
            if started:
                raise
            await send_fault(send, OrsServerError("the server failed; its log has the details"))


async def serve_head(app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer HEAD as GET is answered, without a body: the answer ends where the body would begin."""
    is_ended = Event()

    async def send_start(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})
            is_ended.set()

    async def receive_until_ended() -> Message:
        if is_ended.is_set():
            return {"type": "http.disconnect"}
        return await receive()

    await app({**scope, "method": "GET"}, receive_until_ended, send_start)
