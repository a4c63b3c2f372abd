"""Runs the application on a socket until a signal ends it."""

import gc
import socket
from typing import TYPE_CHECKING

import uvicorn
from typing_extensions import override

from ors_server.cli.announcement import announce, survey
from ors_server.cli.output import CommandError
from ors_server.errors import OrsServerError

if TYPE_CHECKING:
    from ors_server.app import App

GRACE_SECONDS = 5
"""Seconds that open requests have to end after a signal, before sessions are torn down."""
KEEP_ALIVE_SECONDS = 75
"""Seconds that an idle connection stays open: longer than the pools of clients keep theirs."""
BACKLOG = 2048
"""Connections that may wait to be accepted."""
COLLECTOR_THRESHOLDS = (20_000, 20, 50)
"""When the garbage collector looks at young, middle-aged and old objects; Python's own are 700, 10 and 10.

A server keeps what it is told, so nearly every look finds nothing, and looking so often takes a fifth of the
time of a call.
"""


def listen(app: "App", *, as_json: bool) -> None:
    """Serve until SIGINT, SIGTERM or an admin's wish; the sessions are torn down before this returns.

    Args:
        app: The application; its settings say where to listen.
        as_json: Whether the announcement is one line of JSON.

    Raises:
        CommandError: If the address cannot be had, or the application does not start.
    """
    listener = bind(app.settings.host, app.settings.port)
    with listener:
        server = _Server(app, listener, as_json=as_json)
        try:
            server.run(sockets=[listener])
        except SystemExit:
            known = isinstance(app.failure, OrsServerError)
            why = f": {app.failure}" if known else "; the log says why"
            raise CommandError(f"the server did not start{why}") from None


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        host: A name or address.
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
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener


class _Server(uvicorn.Server):
    """Announces itself once it can be reached."""

    def __init__(self, app: "App", listener: socket.socket, *, as_json: bool) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="auto",
                http="auto",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._app = app
        self._listener = listener
        self._as_json = as_json
        app.on_shutdown = self._stop

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # what stands now stays as long as the server does
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
        host, port = self._listener.getsockname()[:2]
        announce(await survey(self._app, host, port), as_json=self._as_json)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.begin_to_stop()
        await super().shutdown(sockets)

    def _stop(self) -> None:
        self.should_exit = True
