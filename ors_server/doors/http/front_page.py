"""What the server's address answers by itself: the doors, for somebody who opens it in a browser."""

from ors_server._version import __version__
from ors_server.doors.http import messages as http

FRONT_PATH = "/"
DOCUMENTATION = "https://github.com/ors-server/ors-server/blob/main/README.md"


async def front_page(_scope: http.Scope, _receive: http.Receive, send: http.Send) -> None:
    """Answer a GET with a path of each door, below the address at which the server was reached."""
    doors = {"ors": "/list_environments", "mcp": "/mcp", "control": "/_ors/openapi.json"}
    await http.send_json(
        send, {"name": "ors-server", "version": __version__, "doors": doors, "documentation": DOCUMENTATION}
    )
