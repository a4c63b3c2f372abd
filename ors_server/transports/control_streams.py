"""Sends an answer that goes on, as long as somebody reads it."""

from contextlib import aclosing

import anyio

from ors_server.transports import http
from ors_server.transports.control_routes import EventStream

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

PATIENCE = 60.0
"""Seconds for which a reader may leave everything unread before it is left."""


async def send_events(stream: EventStream, receive: http.Receive, send: http.Send) -> None:
    """Send events until there are no more, or until the reader has left or has not read for too long.

    Args:
        stream: The events; closed when this returns.
        receive: The ASGI channel of a request whose body was read.
        send: The ASGI channel.
    """
    async with aclosing(stream.pieces) as pieces, anyio.create_task_group() as tasks:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        tasks.start_soon(_leave_with_the_reader, receive, tasks.cancel_scope)
        async for piece in pieces:
            with anyio.move_on_after(PATIENCE) as patience:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if patience.cancelled_caught:
                tasks.cancel_scope.cancel()
                return
        await send({"type": "http.response.body", "body": b""})
        tasks.cancel_scope.cancel()


async def _leave_with_the_reader(receive: http.Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
