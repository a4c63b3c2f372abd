"""Accepts hosts and origins by the headers Host and Origin; CORS for pages of other origins."""

import re
from typing import TypeAlias
from urllib.parse import urlsplit

from ors_server.errors import ForbiddenError, MalformedRequestError
from ors_server.transports.http import Application, Message, Receive, Scope, Send, send_fault, send_json

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})

METHODS = b"GET, HEAD, POST, DELETE"
"""The methods of all endpoints."""
EXPOSED = b"Mcp-Session-Id, X-Session-ID, Retry-After, WWW-Authenticate, X-Backend-State, Allow"
"""Headers of answers that a page of another origin may read beside the safelisted ones."""
MAX_CACHED_HOSTS = 256
"""Most spellings of accepted Host headers that are cached."""
PREFLIGHT_SECONDS = 600
"""Seconds for which a browser caches a preflight answer."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::[0-9]*)?")
"""A Host header's value: a name or address, and a port (RFC 3986, section 3.2.2); in lower case."""

_Header: TypeAlias = tuple[bytes, bytes]


class HostGuard:
    """Refuses requests with a foreign Host or Origin, so that no web page gets in by DNS rebinding.

    A page of an accepted origin may read the answers (CORS); preflight requests are answered here.
    """

    def __init__(self, app: Application, *, hosts: list[str], origins: list[str]) -> None:
        """Guard an application.

        Args:
            hosts: Accepted Host values beside loopback ones, `name` or `name:port`; `*` accepts all.
            origins: Accepted Origin values beside loopback ones.
        """
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._accepted: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is allowed; answer 400, 421 or 403 to others."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hosts, origins = 0, 0
        host, origin = b"", b""
        for name, value in scope["headers"]:
            if name == b"host":
                host, hosts = value, hosts + 1
            elif name == b"origin":
                origin, origins = value, origins + 1
        if hosts != 1 or not (host in self._accepted or self._is_known_host(host)):
            await _send_misdirected(send, scope, host, hosts)
        elif not origins:
            await self._app(scope, receive, send)
        elif origins > 1 or not self._is_known_origin(origin.decode("latin-1").strip()):
            named = origin.decode("latin-1")
            detail = f"requests from {named!r} are not accepted; add it to the setting allowed_origins"
            await send_fault(send, ForbiddenError(detail))
        else:
            await self._serve_page(origin, scope, receive, send)

    async def _serve_page(self, origin: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = (b"access-control-allow-origin", origin.strip())
        if scope["method"] == "OPTIONS":
            requested = dict(scope["headers"])
            if b"access-control-request-method" in requested:
                await send(
                    {
                        "type": "http.response.start",
                        "status": 204,
                        "headers": [allowed, *_preflight_headers(requested)],
                    }
                )
                await send({"type": "http.response.body", "body": b""})
                return

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra: list[_Header] = [
                    allowed,
                    (b"vary", b"Origin"),
                    (b"access-control-expose-headers", EXPOSED),
                ]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        await self._app(scope, receive, send_readable)

    def _is_known_host(self, value: bytes) -> bool:
        host = value.decode("latin-1").strip().lower()
        form = _HOST.fullmatch(host)
        name = host if form is None else form[1]
        is_known = not self._hosts.isdisjoint(("*", host, name)) or name in LOOPBACK_NAMES
        if is_known and len(self._accepted) < MAX_CACHED_HOSTS:
            self._accepted.add(value)
        return is_known

    def _is_known_origin(self, origin: str) -> bool:
        if origin.lower() in self._origins:
            return True
        try:
            return urlsplit(origin).hostname in LOOPBACK_NAMES
        except ValueError:
            return False


def _preflight_headers(requested: dict[bytes, bytes]) -> list[_Header]:
    """Allow what a preflight requests: the origin was accepted, and the page must know the credentials."""
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
        (b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"),
    ]
    names = requested.get(b"access-control-request-headers")
    if names:
        headers.append((b"access-control-allow-headers", names))
    return headers


async def _send_misdirected(send: Send, scope: Scope, host: bytes, count: int) -> None:
    if count > 1:
        await send_fault(send, MalformedRequestError("the request has several Host headers; send one"))
    elif not count and scope.get("http_version") == "1.1":
        await send_fault(send, MalformedRequestError("the request has no Host header; send one"))
    else:
        named = host.decode("latin-1").strip().lower()
        detail = f"the Host {named!r} is not accepted; add it to the setting allowed_hosts"
        await send_json(send, {"detail": detail, "code": "misdirected", "blame": "client"}, 421)
