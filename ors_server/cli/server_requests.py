"""Requests to the control API of a running server, made with the client."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from ors_server.cli.command_output import CommandError
from ors_server.model.errors import CapacityError, OrsServerError

if TYPE_CHECKING:
    from ors_server.client.async_client import AsyncClient

VARIABLE = "ORS_API_KEY"
"""The environment variable that holds the API key, because other users can read command lines."""
TIME_LIMIT = 660.0
"""Seconds to wait for an answer: a little more than a tool call may take by default."""


def api_key() -> str | None:
    """Return the key of the environment variable `ORS_API_KEY`, or `None`."""
    return os.environ.get(VARIABLE) or None


@asynccontextmanager
async def open_server(url: str) -> AsyncGenerator["AsyncClient"]:
    """Open a client of a server that repeats no request; the key is read from the environment.

    Raises:
        InvalidRequestError: If the URL is not like http://127.0.0.1:8080.
    """
    from ors_server.client.async_client import AsyncClient
    from ors_server.client.client_options import ClientOptions
    from ors_server.client.connection import Patience

    options = ClientOptions(patience=Patience(seconds=0.0, silence=TIME_LIMIT))
    async with AsyncClient(url, api_key(), options=options) as client:
        yield client


async def ask(client: "AsyncClient", method: str, path: str, body: Any = None) -> Any:
    """Make a request to a path below `/_ors` and return the JSON of the response.

    Raises:
        CommandError: If the server cannot be reached or refuses.
    """
    from ors_server.client.client_errors import UnreachableError
    from ors_server.client.connection import HttpRequest

    request = HttpRequest(method, f"/_ors{path}", body, is_repeatable=False, time_limit=TIME_LIMIT)
    try:
        answer = await client.server.connection.answer(request)
    except UnreachableError as error:
        why = str(error.__cause__ or error) or type(error.__cause__).__name__
        raise CommandError(f"cannot reach {client.url}/_ors: {why}") from error
    except OrsServerError as error:  # 429 or 503, which other clients repeat
        is_full = isinstance(error, CapacityError)
        status = HTTPStatus.TOO_MANY_REQUESTS if is_full else HTTPStatus.SERVICE_UNAVAILABLE
        raise CommandError(f"the server refused with {status}: {error}") from error
    content = answer.content
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        detail = cast("dict[str, Any]", content).get("detail") if isinstance(content, dict) else None
        hint = f" (set {VARIABLE})" if answer.status in {401, 403} else ""
        raise CommandError(
            f"the server refused with {answer.status}: {detail or HTTPStatus(answer.status).phrase}{hint}"
        )
    return content


def is_url(text: str) -> bool:
    """Return whether a text is an HTTP URL rather than a reference to an environment."""
    return text.startswith(("http://", "https://"))
