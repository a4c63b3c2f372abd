"""The control API for trainers."""

from ors_server.engines.base import Engine
from ors_server.errors import NotSupportedError
from ors_server.settings import Settings
from ors_server.transports import http
from ors_server.transports.access import Keyring


class ControlDoor:
    """Serves everything below `/_ors`."""

    def __init__(self, engine: Engine, keyring: Keyring, settings: Settings) -> None:
        """Open the door.

        Args:
            engine: Where sessions live.
            keyring: Identifies callers.
            settings: The server's settings.
        """
        self._engine = engine
        self._keyring = keyring
        self._settings = settings

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one HTTP request."""
        del receive
        await http.send_fault(send, NotSupportedError(f"no {scope['path']}"))
