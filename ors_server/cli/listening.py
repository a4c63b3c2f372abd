"""Runs the application on a socket: until a signal ends it, or as long as it is evaluated."""

import asyncio
import errno
import gc
import os
import secrets
import signal
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
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
    from ors_server.environments.definition import EnvironmentDefinition
    from ors_server.evaluation.targets import Target
    from ors_server.model.settings import Settings
    from ors_server.store.base import EpisodeStore

log = get_logger("ors_server.serve")
LOOPBACK = "127.0.0.1"
CLOSING_SECONDS = 1
"""For open requests to end when the run is over."""


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
        tls: TlsFiles | None = None
        if settings.tls_cert is not None and settings.slot.is_alone:  # a front speaks TLS for its hosts
            tls = TlsFiles(settings.tls_cert, settings.tls_key)
        options = ServerOptions(tls=tls)
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
        # On SIGHUP, files are reloaded; without any, the server ends in order. One that was started to ignore
        # the end of its terminal (`nohup`) still ignores it.
        handles_hangups = self._has_files or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        if handles_hangups:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
        if not self._served.settings.slot.is_alone:
            asyncio.get_running_loop().add_signal_handler(SUSPEND_SIGNAL, self._suspend)
        try:
            await super().serve(sockets)
        finally:
            if handles_hangups:
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


class _EvaluationServer(BoundedServer):
    """Leaves signals to the evaluation; `started_or_failed` is set when it can be reached, or cannot."""

    def __init__(self, app: "App") -> None:
        super().__init__(
            app,
            ConnectionLimits.of(app.settings),
            ServerOptions(lifespan="off", grace_seconds=CLOSING_SECONDS),
        )
        self.started_or_failed = anyio.Event()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.started_or_failed.set()

    @override
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def open_served_target(
    definition: "EnvironmentDefinition", name: str, settings: "Settings", store: "EpisodeStore"
) -> AsyncGenerator["Target"]:
    """Run an environment and serve it on a free loopback port; leaving the context ends both.

    Without keys in the settings it has a random one, or the agent's program could call it as a trainer.

    Raises:
        CommandError: If the server does not start.
    """
    from pydantic import SecretStr

    from ors_server.app import App
    from ors_server.evaluation.local_target import IDLE_SECONDS, local_target

    keys = settings.api_keys
    if keys is None and settings.api_keys_file is None:
        keys = SecretStr(f"trainer:eval:{secrets.token_urlsafe(32)}")
    own = settings.model_copy(
        update={
            "host": LOOPBACK,
            "port": 0,
            "public_url": None,
            "idle_seconds": IDLE_SECONDS,
            "api_keys": keys,
        }
    )
    app = App([definition], own, store=store)
    listener = bind(LOOPBACK, 0)
    root = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    with listener:
        server = _EvaluationServer(app)
        async with app.running(), anyio.create_task_group() as group:
            group.start_soon(_serve, server, [listener])
            await server.started_or_failed.wait()
            if not server.started:
                raise CommandError(f"the server at {root} did not start; the log says why")
            try:
                async with app.client(root) as client:
                    yield local_target(client, definition, name, gives_urls=True)
            finally:
                server.should_exit = True


async def _serve(server: _EvaluationServer, sockets: list[socket.socket]) -> None:
    try:
        await server.serve(sockets=sockets)
    finally:
        server.started_or_failed.set()
