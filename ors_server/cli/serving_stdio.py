"""Serves one client over standard input and output, which carry only the protocol."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ors_server.cli.command_output import MisuseError
from ors_server.model.errors import ClientError

if TYPE_CHECKING:
    from ors_server.app import App


@contextmanager
def keep_stdout_clean() -> Generator[None]:
    """Send what environments print while they load to standard error: stdout is the protocol's."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def serve_over_stdio(app: "App", episode: str | None) -> None:
    """Serve an `environment/split/index`, or the lobby without one, until the client closes standard input.

    Raises:
        MisuseError: If the episode has another form.
    """
    import anyio

    from ors_server.doors.mcp.stdio_server import chosen_episode, serve_stdio

    try:
        order = chosen_episode(episode, os.environ)
    except ClientError as error:
        raise MisuseError(str(error)) from error

    async def run() -> None:
        async with app.running():
            await serve_stdio(app.manager, app.keyring, order)

    anyio.run(run)
