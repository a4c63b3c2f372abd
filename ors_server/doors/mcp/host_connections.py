"""Ids of MCP connections on a server with several hosts: they begin with the name of their host.

The SDK draws the ids of connections, which say nothing about a session. The front routes a connection by the
host's name in front of its id, which is added to answers and taken off requests here.
"""

from ors_server.doors.http.messages import HEADERS, Message, Scope, Send
from ors_server.model.host_slot import HostSlot

_HEADER = b"mcp-session-id"


def mark_connections(slot: HostSlot, scope: Scope, send: Send) -> tuple[Scope, Send]:
    """Return a request and its channel, between which and the client the ids carry the host's name."""
    mark = f"{slot.name}-".encode()

    async def send_marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (key, mark + value if key.lower() == _HEADER else value) for key, value in message["headers"]
            ]
            message = {**message, "headers": headers}
        await send(message)

    headers = [
        (key, value.removeprefix(mark) if key == _HEADER else value) for key, value in scope["headers"]
    ]
    return {**scope, "headers": headers, HEADERS: None}, send_marked
