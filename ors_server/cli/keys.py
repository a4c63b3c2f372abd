"""Where commands take a server's API key from: never the command line, which others can read."""

import os

VARIABLE = "ORS_API_KEY"


def api_key() -> str | None:
    """Return the key of the environment variable `ORS_API_KEY`, or `None`."""
    return os.environ.get(VARIABLE) or None
