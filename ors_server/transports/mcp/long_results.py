"""Long results of MCP requests, written in parts between which others run.

The SDK writes a message as a whole, on the event loop. It gets short stand-ins for what is long, and the
connection gets the JSON of the values in their place.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any

from anyio.lowlevel import checkpoint

from ors_server.transports.http import Message, Scope, Send
from ors_server.transports.json_parts import is_long, json_parts
from ors_server.transports.mcp.sdk import Context, HandlerResult, Result

_SCOPE_KEY = "ors_server.long_results"
_STAND_IN = re.compile(rb'"(long-value-[0-9a-f]{32})"')


class LongResults:
    """The long values of the results of one HTTP request, by their stand-ins."""

    def __init__(self, scope: Scope) -> None:
        """Start without any.

        Args:
            scope: The request's ASGI scope, through which `shorten` finds this.
        """
        self._values: dict[bytes, object] = {}
        scope[_SCOPE_KEY] = self

    def replace(self, result: Mapping[str, Any]) -> Result:
        """Return a result with stand-ins for its long values.

        Args:
            result: In its wire form.
        """
        return {key: self._stand_in(value) if is_long(value) else value for key, value in result.items()}

    def _stand_in(self, value: object) -> str:
        name = f"long-value-{secrets.token_hex(16)}"
        self._values[name.encode()] = value
        return name

    def sending(self, send: Send) -> Send:
        """Return a channel that writes the values in the place of their stand-ins.

        Args:
            send: The ASGI channel.
        """

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
        pieces = _STAND_IN.split(message.get("body", b""))
        for piece in pieces[:-1]:
            if piece not in self._values:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                continue
            for part in json_parts(self._values.pop(piece)):
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await checkpoint()
        await send({**message, "body": pieces[-1]})


def shorten(context: Context, result: HandlerResult) -> HandlerResult:
    """Return a result with stand-ins for what is long, where the request came over HTTP.

    Args:
        context: The request, or a notification.
        result: Its result in its wire form; a notification has none.
    """
    if context.request is None or not isinstance(result, dict):
        return result
    long_results: LongResults = context.request.scope[_SCOPE_KEY]
    return long_results.replace(result)
