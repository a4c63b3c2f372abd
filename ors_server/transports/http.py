"""The little of HTTP that the doors share: reading a bounded body, answering, guarding hosts and origins."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ors_server.errors import ForbiddenError, OrsServerError, PayloadTooLargeError
from ors_server.logs import get_logger
from ors_server.transports.faults import extra_headers, look_up, pending_fields
from ors_server.transports.json_bounds import NEVER_TOO_MUCH, check_json

log = get_logger("ors_server.http")

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class ClientGoneError(ConnectionError):
    """The client closed the connection before its request was whole."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lower-case name; of a repeated one, the last.

    Args:
        scope: The ASGI scope.
    """
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def read_body(receive: Receive, limit: int) -> bytes:
    """Read a request's body.

    Args:
        receive: The ASGI channel.
        limit: Most bytes.

    Raises:
        PayloadTooLargeError: If there is more, or reading it as JSON would take too long.
        ClientGoneError: If the client left meanwhile.
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
    if size > NEVER_TOO_MUCH:
        await check_json(whole)
    return whole


def is_gone(receive: Receive) -> bool:
    """Say whether the client of a request whose body was read has closed the connection, without waiting.

    Args:
        receive: The ASGI channel.
    """
    asking = receive().__await__()
    try:
        next(asking)
    except StopIteration as answer:
        return bool(answer.value["type"] == "http.disconnect")
    asking.close()  # it would have waited
    return False


async def send_bytes(
    send: Send, status: int, body: bytes, content_type: bytes, extra: Mapping[str, str] | None = None
) -> None:
    """Send a whole answer.

    Args:
        send: The ASGI channel.
        status: HTTP status.
        body: The body.
        content_type: Its type.
        extra: Further headers.
    """
    await send_pieces(send, status, (body,), content_type, extra)


async def send_pieces(
    send: Send,
    status: int,
    pieces: Sequence[bytes],
    content_type: bytes,
    extra: Mapping[str, str] | None = None,
) -> None:
    """Send a whole answer that is in pieces, so that a long one need not be put together.

    Args:
        send: The ASGI channel.
        status: HTTP status.
        pieces: The body; at least one.
        content_type: Its type.
        extra: Further headers.
    """
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
    """Send a JSON answer.

    Args:
        send: The ASGI channel.
        value: A JSON value.
        status: HTTP status.
        extra: Further headers.
    """
    body = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True).encode()
    await send_bytes(send, status, body, b"application/json", extra)


async def send_fault(send: Send, error: OrsServerError) -> None:
    """Send an error as `{"detail", "code", "blame"}` with its status; the standard has the first.

    Args:
        send: The ASGI channel.
        error: Any error of ours.
    """
    problem = {"detail": str(error), "code": error.code, "blame": error.blame, **pending_fields(error)}
    await send_json(send, problem, look_up(error).status, extra_headers(error))


class Border:
    """Keeps a defect inside one request: logs it, and answers 500 in our form if nothing was answered yet."""

    def __init__(self, app: Application) -> None:
        """Guard an application.

        Args:
            app: The application.
        """
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
        except Exception:  # the border between a defect, ours or a library's, and everybody else's requests
            log.exception("request_defect", path=scope["path"])
            if started:
                raise
            await send_fault(send, OrsServerError("the server failed; its log has the details"))


class HostGuard:
    """Refuses requests with a foreign Host or Origin, so that no web page gets in by rebinding DNS."""

    def __init__(self, app: Application, *, hosts: list[str], origins: list[str]) -> None:
        """Guard an application.

        Args:
            app: The application.
            hosts: Accepted Host values beside loopback ones, `name` or `name:port`; `*` accepts all.
            origins: Accepted Origin values beside loopback ones.
        """
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is allowed; answer 421 or 403 to others."""
        if scope["type"] == "http":
            host, origin = _host_and_origin(scope)
            if not self._is_known_host(host):
                detail = f"the Host {host!r} is not served here; add it to the setting allowed_hosts"
                await send_json(send, {"detail": detail, "code": "misdirected", "blame": "client"}, 421)
                return
            if origin is not None and not self._is_known_origin(origin):
                detail = f"requests from {origin!r} are not accepted; add it to the setting allowed_origins"
                await send_fault(send, ForbiddenError(detail))
                return
        await self._app(scope, receive, send)

    def _is_known_host(self, host: str) -> bool:
        if "*" in self._hosts or host in self._hosts:
            return True
        name = _without_port(host)
        return name in LOOPBACK_NAMES or name in self._hosts

    def _is_known_origin(self, origin: str) -> bool:
        if origin in self._origins:
            return True
        try:
            return urlsplit(origin).hostname in LOOPBACK_NAMES
        except ValueError:
            return False


def _host_and_origin(scope: Scope) -> tuple[str, str | None]:
    host, origin = "", None
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.decode("latin-1").lower()
        elif name == b"origin":
            origin = value.decode("latin-1")
    return host, origin


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]
