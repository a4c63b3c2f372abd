"""A running server's control API, as far as commands need it."""

import json
import urllib.error
import urllib.request
from typing import Any

from ors_server.cli.keys import VARIABLE, api_key
from ors_server.cli.output import CommandError, MisuseError

TIME_LIMIT = 660.0
"""Seconds to wait for an answer: a little more than a tool call may take by default."""


class RemoteServer:
    """A server by its URL."""

    def __init__(self, url: str) -> None:
        """Speak to a server.

        Args:
            url: Where it is, for instance `http://127.0.0.1:8080`.

        Raises:
            MisuseError: If this is no such URL.
        """
        if not is_url(url):
            raise MisuseError(f"expected a URL such as http://127.0.0.1:8080, not {url!r}")
        self._root = f"{url.rstrip('/')}/_ors"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request and return the answer's JSON.

        Args:
            method: HTTP method.
            path: Below `/_ors`.
            body: A JSON value.

        Raises:
            CommandError: If the server cannot be reached or refuses.
        """
        headers = {"Accept": "application/json"}
        if (key := api_key()) is not None:
            headers["X-API-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self._root + path, data, headers, method=method)  # noqa: S310  (checked)
        try:
            with urllib.request.urlopen(request, timeout=TIME_LIMIT) as answer:  # noqa: S310  (checked)
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise CommandError(f"the server refused with {error.code}: {_detail(error)}") from error
        except (urllib.error.URLError, OSError) as error:
            raise CommandError(f"cannot reach {self._root}: {getattr(error, 'reason', error)}") from error
        return json.loads(text) if text else None


def is_url(text: str) -> bool:
    """Say whether a text is an HTTP URL rather than a reference to an environment.

    Args:
        text: What was named.
    """
    return text.startswith(("http://", "https://"))


def _detail(error: urllib.error.HTTPError) -> str:
    hint = f" (set {VARIABLE})" if error.code in {401, 403} else ""
    with error:
        try:
            return f"{json.loads(error.read())['detail']}{hint}"
        except (ValueError, KeyError, TypeError):
            return f"{error.reason}{hint}"
