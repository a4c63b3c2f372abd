"""Serves an environment on loopback while it is evaluated, for agents that are programs and need a URL."""

import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from socket import socket
from typing import TYPE_CHECKING

import anyio
from pydantic import SecretStr
from typing_extensions import override

from ors_server.app import App
from ors_server.cli.command_output import CommandError
from ors_server.cli.listening import bind
from ors_server.doors.http.bounded_server import BoundedServer, ServerOptions
from ors_server.doors.http.connection_limits import ConnectionLimits
from ors_server.evaluation.local_target import IDLE_SECONDS, local_target

if TYPE_CHECKING:
    from ors_server.environments.definition import EnvironmentDefinition
    from ors_server.evaluation.targets import Target
    from ors_server.model.settings import Settings
    from ors_server.store.base import EpisodeStore

LOOPBACK = "127.0.0.1"
CLOSING_SECONDS = 1
"""For open requests to end when the run is over."""


class _EvaluationServer(BoundedServer):
    """Leaves signals to the evaluation; `started_or_failed` is set when it can be reached, or cannot."""

    def __init__(self, app: App) -> None:
        super().__init__(
            app,
            ConnectionLimits.of(app.settings),
            ServerOptions(lifespan="off", grace_seconds=CLOSING_SECONDS),
        )
        self.started_or_failed = anyio.Event()

    @override
    async def startup(self, sockets: list[socket] | None = None) -> None:
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


async def _serve(server: _EvaluationServer, sockets: list[socket]) -> None:
    try:
        await server.serve(sockets=sockets)
    finally:
        server.started_or_failed.set()
