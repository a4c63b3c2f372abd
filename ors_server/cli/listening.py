"""Runs the application on a socket until a signal ends it."""

import asyncio
import errno
import gc
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from typing_extensions import override

from ors_server.cli.announcement import announce, survey
from ors_server.cli.command_output import CommandError
from ors_server.errors import OrsServerError, SettingsError
from ors_server.http_server.bounded_server import BACKLOG, BoundedServer
from ors_server.http_server.connection_limits import ConnectionLimits

if TYPE_CHECKING:
    from ors_server.app import App
    from ors_server.cli.reloading import Reloader


def listen(app: "App", *, as_json: bool, reloader: "Reloader | None" = None) -> None:
    """Serve until SIGINT, SIGTERM or an admin's request; sessions are torn down before this returns.

    Raises:
        CommandError: If the address cannot be used, or the application does not start.
        SettingsError: If a setting keeps it from starting.
    """
    listener = bind(app.settings.host, app.settings.port)
    with listener:
        server = _AnnouncedServer(app, listener, as_json=as_json, reloader=reloader)
        try:
            server.run(sockets=[listener])
        except SystemExit:
            known = isinstance(app.failure, OrsServerError)
            why = f": {app.failure}" if known else "; the log says why"
            kind = SettingsError if isinstance(app.failure, SettingsError) else CommandError
            raise kind(f"the server did not start{why}") from None


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        port: TCP port; 0 takes a free one.

    Raises:
        CommandError: If the address is taken or unknown.
    """
    listener: socket.socket | None = None
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        # The protocol is named so that accepted connections know that they are TCP and send without delay.
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        advice = "; choose another --port, or 0 for a free one" if error.errno == errno.EADDRINUSE else ""
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror or error}{advice}") from error
    return listener


class _AnnouncedServer(BoundedServer):
    """Prints the announcement once it can be reached."""

    def __init__(
        self, app: "App", listener: socket.socket, *, as_json: bool, reloader: "Reloader | None"
    ) -> None:
        super().__init__(app, ConnectionLimits.of(app.settings))
        self._served = app
        self._listener = listener
        self._as_json = as_json
        self._reloader = reloader
        app.on_shutdown = self._stop

    @override
    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        watching = None if self._reloader is None else asyncio.create_task(self._reloader.watch())
        try:
            await super().serve(sockets)
        finally:
            if watching is not None:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # what exists now lives as long as the server
        host, port = self._listener.getsockname()[:2]
        announce(await survey(self._served, host, port), as_json=self._as_json)

    def _stop(self) -> None:
        self.should_exit = True
