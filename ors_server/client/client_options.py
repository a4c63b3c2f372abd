"""Options of a client, and its connections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx2

from ors_server.client.app_transport import AppTransport
from ors_server.client.bounded_http import ACCEPTED_CODINGS, tls_context
from ors_server.client.connection import BOUNDS, Connection, Patience
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.errors import InvalidRequestError

MAX_IDLE_CONNECTIONS = 100
"""Maximum number of idle connections."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of a client."""

    patience: Patience = field(default_factory=Patience)
    """How long the client waits and how often it repeats."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request, for example for a proxy."""
    transport: httpx2.AsyncBaseTransport | None = None
    """Carries requests; `AppTransport(app)` calls an ASGI application in this process."""
    connections: int = 1_000
    """Maximum number of connections at a time; each running call uses one."""
    clock: Clock = field(default_factory=SystemClock)
    """What tells the time; a fake one in tests."""


class HttpPool:
    """The connections to one server.

    Attributes:
        headers: Sent with every request, with the credential.
    """

    def __init__(self, url: str, api_key: str | None, options: ClientOptions) -> None:
        """Open nothing yet; the URL is one that `given_url` returned."""
        _check_key(api_key)
        self.options = options
        self.headers = {**options.headers, **({} if api_key is None else {"X-API-Key": api_key})}
        limits = httpx2.Limits(
            max_connections=options.connections, max_keepalive_connections=MAX_IDLE_CONNECTIONS
        )
        http = httpx2.AsyncClient(
            base_url=url,
            headers={**ACCEPTED_CODINGS, **self.headers},
            limits=limits,
            transport=options.transport,
            verify=tls_context() if options.transport is None else True,
            event_hooks={"response": [BOUNDS.apply]},
        )
        # Called directly, an application answers without the cost of an HTTP client.
        app = options.transport if isinstance(options.transport, AppTransport) else None
        self.connection = Connection(http, options.patience, options.clock, app, self.headers)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and " " not in url and has_port


def _check_key(api_key: object) -> None:
    if api_key is None or (isinstance(api_key, str) and api_key.isascii() and api_key.isprintable()):
        return
    raise InvalidRequestError(
        "expected an API key of printable ASCII characters without line breaks, as in the server's "
        "ORS_API_KEYS; this one has others, or is not a string"
    )


def given_url(url: object) -> str:
    """Return an http or https URL without a slash at its end."""
    if isinstance(url, str) and _is_address(url):
        return url.rstrip("/")
    raise InvalidRequestError(f"expected a URL such as http://127.0.0.1:8080, got {url!r:.80}")


def given_options(options: object) -> ClientOptions:
    """Return a client's options; the defaults for `None`."""
    if options is None:
        return ClientOptions()
    if isinstance(options, ClientOptions):
        return options
    raise InvalidRequestError(f"expected options=ClientOptions(...), got {type(options).__name__}")
