"""The ceiling: an ASGI application that reads a request and answers the same bytes to all.

Usage: PORT FILE
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn

BODY = Path(sys.argv[2]).read_bytes()
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"content-length", b"%d" % len(BODY)),
]


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer one request."""
    del scope
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


uvicorn.run(
    app,
    host="127.0.0.1",
    port=int(sys.argv[1]),
    loop="uvloop",
    http="httptools",
    lifespan="off",
    log_level="warning",
    access_log=False,
)
