"""The server card (SEP-2127): a document by which programs find the lobby before they connect to it."""

import base64

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from ors_server._version import __version__
from ors_server.doors.http import messages as http
from ors_server.doors.mcp.sdk import Result
from ors_server.model.wire import compact_json

CARD_PATHS = ("/mcp/server-card", "/.well-known/mcp/server-card.json")
"""The place that the specification reserves, and the one that programs of before look at."""
TITLE = "Open Reward Standard environments"
DESCRIPTION = "Environments with tasks to play, for language-model agents."
WEBSITE = "https://github.com/ors-server/ors-server"

_SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" '
    b'fill="#0550ae"/><path d="M7 22h4v-6H7zm7 0h4V10h-4zm7 0h4v-9h-4z" fill="#fff"/></svg>'
)
ICON: Result = {
    "src": "data:image/svg+xml;base64," + base64.b64encode(_SVG).decode(),
    "mimeType": "image/svg+xml",
    "sizes": ["any"],
}
"""The server's icon, whole, so that no host fetches it."""

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_NAME = "io.github.ors-server/ors-server"
_KEY_HEADER: Result = {"name": "X-API-Key", "description": "A key of the server.", "isSecret": True}
_HEADERS = {"cache-control": "public, max-age=3600", "vary": "Host"}


def make_card(base_url: str, *, needs_key: bool) -> Result:
    """Describe the lobby.

    Args:
        base_url: Where the caller reached the server, without a slash at the end.
        needs_key: Whether every caller needs a credential.
    """
    remote: Result = {
        "type": "streamable-http",
        "url": f"{base_url}/mcp",
        "supportedProtocolVersions": [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS],
    }
    if needs_key:
        remote["headers"] = [{**_KEY_HEADER, "isRequired": True}]
    return {
        "$schema": _SCHEMA,
        "name": _NAME,
        "title": TITLE,
        "description": DESCRIPTION,
        "version": __version__,
        "websiteUrl": WEBSITE,
        "icons": [ICON],
        "remotes": [remote],
    }


class ServerCardPage:
    """Serves the card; it needs no credential, and names no environment."""

    def __init__(self, public_url: str | None, *, needs_key: bool) -> None:
        """Describe one server.

        Args:
            public_url: Where clients reach it; `None` for where a request did.
        """
        self._public_url = public_url
        self._needs_key = needs_key

    async def __call__(self, scope: http.Scope, _receive: http.Receive, send: http.Send) -> None:
        """Answer one request."""
        url = self._public_url or http.base_url(scope, http.read_headers(scope))
        body = compact_json(make_card(url, needs_key=self._needs_key)).encode()
        await http.send_pieces(send, 200, (body,), b"application/mcp-server-card+json", _HEADERS)
