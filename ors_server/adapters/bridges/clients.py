"""Blocking clients that the episodes of one process share."""

import os
from functools import lru_cache

from ors_server.adapters.bridges import ServedEnvironment
from ors_server.client.blocking import Client

_MAX_SERVERS = 64


def shared_client(served: ServedEnvironment) -> Client:
    """Return the client of a server; a forked process gets its own."""
    # The process id is part of the key: a forked worker of a trainer must not use its parent's
    # connections.
    return _client(os.getpid(), served.url, served.api_key)


@lru_cache(maxsize=_MAX_SERVERS)
def _client(_: int, url: str, api_key: str | None) -> Client:
    return Client(url, api_key)
