"""Runs the application on a socket until a signal ends it."""

import asyncio
import errno
import gc
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from typing_extensions import override

from ors_server.cli.announcement import announce, survey
from ors_server.cli.command_output import CommandError
from ors_server.doors.http.bounded_server import BACKLOG, BoundedServer, ServerOptions, TlsFiles
from ors_server.doors.http.connection_limits import ConnectionLimits
from ors_server.model.errors import OrsServerError, SettingsError
from ors_server.model.logs import get_logger

if TYPE_CHECKING:
    from ors_server.app import App
    from ors_server.cli.reloading import Reloader
    from ors_server.model.settings import Settings

log = get_logger("ors_server.serve")


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
        super().__init__(app, ConnectionLimits.of(app.settings), ServerOptions(tls=_tls_of(app.settings)))
        self._served = app
        self._listener = listener
        self._as_json = as_json
        self._reloader = reloader
        self._was_hung_up = False
        app.on_shutdown = self._stop

    @override
    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        watching = None if self._reloader is None else asyncio.create_task(self._reloader.watch())
        hangups = self._handle_hangups()
        try:
            await super().serve(sockets)
        finally:
            if hangups:
                asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
            if self._was_hung_up:
                signal.raise_signal(signal.SIGHUP)  # its parent learns what ended it, as of SIGTERM
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

    def _handle_hangups(self) -> bool:
        """Reload files on SIGHUP, or end in order without any to reload; return whether it is handled.

        A server that was started to ignore the end of its terminal (`nohup`) still ignores it.
        """
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        if is_ignored and not self._has_files:
            return False
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
        return True

    @property
    def _has_files(self) -> bool:
        return self._served.settings.api_keys_file is not None or self._served.settings.tls_cert is not None

    def _hang_up(self) -> None:
        if not self._has_files:
            self._was_hung_up = True
            self._stop()
            return
        if self._served.settings.api_keys_file is not None:
            try:
                log.info("keys_reloaded", keys=self._served.reload_keys())
            except SettingsError as error:
                log.error("keys_not_reloaded", error=str(error))  # noqa: TRY400  (a mistake in a file; no traceback)
        try:
            if self.reload_certificate():
                log.info("certificate_reloaded")
        except SettingsError as error:
            log.error("certificate_not_reloaded", error=str(error))  # noqa: TRY400  (as above)

    def _stop(self) -> None:
        self.should_exit = True


def _tls_of(settings: "Settings") -> TlsFiles | None:
    return None if settings.tls_cert is None else TlsFiles(settings.tls_cert, settings.tls_key)
