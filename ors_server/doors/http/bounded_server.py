"""The HTTP server: uvicorn over limited connections, which answers every accepted request before it stops."""

import asyncio
import logging
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import anyio
import anyio.lowlevel
from typing_extensions import override

from ors_server.doors.http.bounded_protocol import BoundedProtocol, BoundedServerState, Config, Server
from ors_server.doors.http.connection_limits import ConnectionLimits, Connections, raise_file_limit
from ors_server.model.errors import SettingsError
from ors_server.model.logs import get_logger

log = get_logger("ors_server.http")

KEEP_ALIVE_SECONDS = 75
"""Seconds that an idle connection stays open: longer than clients' pools keep theirs."""
BACKLOG = 2048
"""Connections that may wait to be accepted."""
GRACE_SECONDS = 5.0
"""Seconds for requests to end by themselves once the server stops."""
ABORT_SECONDS = 3.0
"""Seconds for answers to leave after all sessions were ended."""
PROGRESS_TICKS = 5
"""Tenths of a second between two checks for slow clients."""
REPORT_TICKS = 100
"""Tenths of a second between two log lines about refusals."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files for HTTPS."""

    certificate: Path
    key: Path | None = None
    """`None` if the private key is in the file of the certificate."""


class Application(Protocol):
    """An ASGI application that learns beforehand that the server stops."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection."""
        ...

    def begin_to_stop(self) -> None:
        """End the streams that last until a client closes them; returns at once."""
        ...

    async def end_sessions(self) -> None:
        """End all sessions, so that every request gets an answer."""
        ...


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Settings of a server, apart from what its clients may take."""

    grace_seconds: float = GRACE_SECONDS
    """Seconds for requests to end by themselves."""
    lifespan: Literal["on", "off"] = "on"
    """Whether the server starts and ends the application, or finds it running."""
    host: str = "127.0.0.1"
    """Address to bind to, unless the server is given sockets."""
    port: int = 0
    """TCP port, unless the server is given sockets; 0 takes a free one."""
    tls: TlsFiles | None = None
    """The certificate of a server that speaks HTTPS."""


def load_certificate(files: TlsFiles) -> ssl.SSLContext:
    """Return a TLS context with a certificate; `SettingsError` if its files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_into(context, files)
    return context


def _load_into(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        # A callback instead of a prompt for the passphrase, at which a server without a terminal would hang.
        context.load_cert_chain(files.certificate, files.key, password=_refuse_passphrase)
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"tls_cert {files.certificate}, tls_key {files.key or 'in the same file'}: expected PEM files of "
            f"a certificate and its private key without a passphrase: {reason}"
        ) from error


def _refuse_passphrase() -> str:
    raise ValueError("the private key has a passphrase")


class BoundedServer(Server):
    """Serves one application."""

    server_state: BoundedServerState

    def __init__(
        self, app: Application, limits: ConnectionLimits, options: ServerOptions | None = None
    ) -> None:
        self._options = options or ServerOptions()
        self._app = app
        super().__init__(
            Config(
                app,
                http=BoundedProtocol,
                ws="none",
                lifespan=self._options.lifespan,
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                host=self._options.host,
                port=self._options.port,
            )
        )
        tls = self._options.tls
        self._tls = None if tls is None else load_certificate(tls)
        self._limits = limits
        self.server_state = BoundedServerState(limits, Connections(limits))
        self._checked_at: float | None = None

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.server_state.open = Connections(self._limits, files=raise_file_limit(self._limits))
        self.config.ssl = self._tls
        await super().startup(sockets)

    def reload_certificate(self) -> bool:
        """Read the certificate again, for new connections; return whether the server has one.

        Raises:
            SettingsError: If it cannot be used; then the server keeps the old one.
        """
        if self._tls is None or self._options.tls is None:
            return False
        load_certificate(self._options.tls)  # a context that fails while it loads keeps half of the new files
        _load_into(self._tls, self._options.tls)
        return True

    @override
    async def on_tick(self, counter: int) -> bool:
        if counter % PROGRESS_TICKS == 0:
            self._check_progress()
        if counter % REPORT_TICKS == 0 and self.server_state.refused:
            log.warning("requests_refused", **self.server_state.refused)
            self.server_state.refused.clear()
        return await super().on_tick(counter)

    def _check_progress(self) -> None:
        """Check all connections; time for which the event loop was late does not count."""
        now = asyncio.get_running_loop().time()
        since, self._checked_at = self._checked_at, now
        if since is None:
            return
        seconds = min(now - since, 2 * PROGRESS_TICKS / 10)
        for connection in self._connections():
            connection.check_progress(seconds)

    def _connections(self) -> list[BoundedProtocol]:
        return cast("list[BoundedProtocol]", list(self.server_state.connections))

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let requests end, end what still runs, and tell the application."""
        self._app.begin_to_stop()
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in self._connections():
            connection.shutdown()
        if not await self._drain(self._options.grace_seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(self._app.end_sessions)
                await self._drain(ABORT_SECONDS)
                await self._abort()
        if not self.force_exit:
            await self.lifespan.shutdown()

    async def _drain(self, seconds: float) -> bool:
        """Wait until every request is answered and every connection closed; return whether that happened."""
        state = self.server_state
        with anyio.move_on_after(seconds):
            while (state.tasks or state.connections) and not self.force_exit:  # noqa: ASYNC110 (as uvicorn)
                await anyio.sleep(0.02)
        return not (state.tasks or state.connections)

    async def _abort(self) -> None:
        """Close connections whose clients do not read, and cancel requests that nothing ends."""
        for connection in self._connections():
            connection.transport.abort()
        await anyio.lowlevel.checkpoint()
        tasks = list(self.server_state.tasks)
        if not tasks:
            return
        log.warning("requests_cut_off", count=len(tasks))
        logging.getLogger("uvicorn.error").addFilter(_is_not_cancellation)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=ABORT_SECONDS)
        logging.getLogger("uvicorn.error").removeFilter(_is_not_cancellation)


def _is_not_cancellation(record: logging.LogRecord) -> bool:
    """Drop the traceback of a request that was cancelled because the server stops."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)
