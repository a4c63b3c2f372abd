"""Serves one client over standard input and output, which then carry the protocol and nothing else."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ors_server.cli.command_output import MisuseError
from ors_server.errors import ClientError

if TYPE_CHECKING:
    from ors_server.app import App


@contextmanager
def keep_stdout_clean() -> Generator[None]:
    """Send what environments print at load to standard error: standard output is the protocol's."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def serve_over_stdio(app: "App", episode: str | None) -> None:
    """Serve until the client closes standard input.

    Args:
        app: The application.
        episode: The one task to play, as environment/split/index; the lobby where there is none.

    Raises:
        MisuseError: If the episode is no such place.
    """
    import anyio

    from ors_server.transports.mcp.stdio_server import chosen_episode, serve_stdio

    try:
        order = chosen_episode(episode, os.environ)
    except ClientError as error:
        raise MisuseError(str(error)) from error

    async def run() -> None:
        async with app.running():
            await serve_stdio(app.manager, app.keyring, order)

    anyio.run(run)
