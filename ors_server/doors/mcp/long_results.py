"""Writes long results of MCP requests in parts, so that other tasks run between them.

The SDK writes a message as a whole, on the event loop. It receives short placeholders for long values, and
the connection receives the JSON of the values in their place.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any

from anyio.lowlevel import checkpoint

from ors_server.doors.http.messages import Message, Scope, Send
from ors_server.doors.http.sse import is_long, json_parts
from ors_server.doors.mcp.sdk import Context, HandlerResult, Result

_SCOPE_KEY = "ors_server.long_results"
_PLACEHOLDER = re.compile(rb'"(long-value-[0-9a-f]{32})"')


class LongResults:
    """The long values of the results of one HTTP request, by their placeholders."""

    def __init__(self, scope: Scope) -> None:
        """Keep itself in the request's ASGI scope, where `replace_long_values` finds it."""
        self._values: dict[bytes, object] = {}
        scope[_SCOPE_KEY] = self

    def replace(self, result: Mapping[str, Any]) -> Result:
        """Return a result, in its wire form, with placeholders for its long values."""
        return {key: self._placeholder(value) if is_long(value) else value for key, value in result.items()}

    def _placeholder(self, value: object) -> str:
        name = f"long-value-{secrets.token_hex(16)}"
        self._values[name.encode()] = value
        return name

    def sending(self, send: Send) -> Send:
        """Return an ASGI channel that writes the values in the place of their placeholders."""

        async def send_whole(message: Message) -> None:
            if not self._values:
                await send(message)
            elif message["type"] == "http.response.start":
                headers = [pair for pair in message["headers"] if pair[0].lower() != b"content-length"]
                await send({**message, "headers": headers})
            else:
                await self._send_body(message, send)

        return send_whole

    async def _send_body(self, message: Message, send: Send) -> None:
        pieces = _PLACEHOLDER.split(message.get("body", b""))
        for piece in pieces[:-1]:
            if piece not in self._values:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                continue
            for part in json_parts(self._values.pop(piece)):
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await checkpoint()
        await send({**message, "body": pieces[-1]})


def replace_long_values(context: Context, result: HandlerResult) -> HandlerResult:
    """Return a result with placeholders for long values, if the request was sent over HTTP."""
    if context.request is None or not isinstance(result, dict):
        return result
    long_results: LongResults = context.request.scope[_SCOPE_KEY]
    return long_results.replace(result)
