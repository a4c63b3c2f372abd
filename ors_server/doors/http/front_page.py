"""What the server's address answers by itself: the console to a browser, the doors to anything else."""

from ors_server._version import __version__
from ors_server.doors.http import messages as http

FRONT_PATH = "/"
DOCUMENTATION = "https://github.com/ors-server/ors-server/blob/main/README.md"


async def front_page(
    scope: http.Scope, _receive: http.Receive, send: http.Send, *, console: str | None = None
) -> None:
    """Lead a browser to the console, and answer others with a path of each door.

    Paths are below the address at which the server was reached.

    Args:
        console: Path of the console; `None` if it is not served.
    """
    doors = {"ors": "/list_environments", "mcp": "/mcp", "control": "/_ors/openapi.json"}
    extra = {"vary": "Accept"}
    if console is not None:
        doors["console"] = console
        if "text/html" in http.read_headers(scope).get("accept", ""):
            await http.send_pieces(
                send, 303, (b"",), b"text/plain", {**extra, "location": console.lstrip("/")}
            )
            return
    front = {"name": "ors-server", "version": __version__, "doors": doors, "documentation": DOCUMENTATION}
    await http.send_json(send, front, extra=extra)
