"""Runs the application on a socket until a signal ends it."""

import asyncio
import errno
import gc
import os
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from ors_server.cli.announcement import announce, announce_host, survey
from ors_server.cli.command_output import CommandError
from ors_server.doors.http.bounded_server import BACKLOG, BoundedServer, ServerOptions, TlsFiles
from ors_server.doors.http.connection_limits import ConnectionLimits
from ors_server.model.errors import OrsServerError, SettingsError
from ors_server.model.host_slot import RESTART_SIGNAL, SHUTDOWN_STATUS, SUSPEND_SIGNAL
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
    slot = app.settings.slot
    if slot.descriptor is None:  # the server's own, or that of a host on another machine than the front
        listener = bind(app.settings.host, app.settings.port)
    else:
        listener = socket.socket(fileno=slot.descriptor)  # the launcher's, which outlives this host
    with listener:
        server = _AnnouncedServer(app, listener, as_json=as_json, reloader=reloader)
        try:
            server.run(sockets=[listener])
        except SystemExit:
            is_known = isinstance(app.failure, OrsServerError)
            why = f": {app.failure}" if is_known else "; the log says why"
            kind = SettingsError if isinstance(app.failure, SettingsError) else CommandError
            raise kind(f"the server did not start{why}") from None
        if server.status and not slot.is_alone:
            raise SystemExit(server.status)  # it tells the supervisor what to do


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        port: TCP port; 0 takes a free one.

    Raises:
        CommandError: If the address is taken or unknown.
    """
    listener: socket.socket | None = None
    try:
        addresses = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
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
        settings = app.settings
        options = ServerOptions(tls=_tls_of(settings))
        if settings.on_stop == "suspend":
            options = replace(options, grace_seconds=settings.teardown_seconds)
        super().__init__(app, ConnectionLimits.of(settings), options)
        self._served = app
        self._listener = listener
        self._as_json = as_json
        self._reloader = reloader
        self._was_hung_up = False
        self.status = 0
        """Exit status of a host of several, which says why it ended."""
        app.on_shutdown = partial(self._leave, SHUTDOWN_STATUS)
        app.on_leave = self._leave
        if not settings.slot.is_alone and settings.slot.folder is not None:
            app.on_restart = partial(os.kill, os.getppid(), RESTART_SIGNAL)

    @override
    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        watching = None if self._reloader is None else asyncio.create_task(self._reloader.watch())
        hangups = self._handle_hangups()
        if not self._served.settings.slot.is_alone:
            asyncio.get_running_loop().add_signal_handler(SUSPEND_SIGNAL, self._suspend)
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
        settings = self._served.settings
        if settings.slot.descriptor is not None:  # behind a launcher's front, whose address the settings have
            announce_host(await survey(self._served, settings.host, settings.port))
            return
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

    def _leave(self, status: int) -> None:
        self.status = status
        self._stop()

    def _suspend(self) -> None:
        """Stop, and leave the sessions to the host that is started next in this one's place."""
        self._served.manager.suspends = True
        self._options = replace(self._options, grace_seconds=self._served.settings.teardown_seconds)
        self._stop()

    def _stop(self) -> None:
        self.should_exit = True


def _tls_of(settings: "Settings") -> TlsFiles | None:
    if settings.tls_cert is None or not settings.slot.is_alone:  # the front speaks TLS for its hosts
        return None
    return TlsFiles(settings.tls_cert, settings.tls_key)
