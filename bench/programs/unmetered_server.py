"""Serves as `ors-server` does, but counts nothing for `/metrics` and does not ask whether a call has a span.

Usage: [ARGUMENT...] of `ors-server`
"""

import sys

from ors_server.cli.main import main
from ors_server.doors.http.messages import HttpMeters
from ors_server.sessions.call_meters import EnvironmentMeters
from ors_server.timing import spans


def nothing(*_: object) -> None:
    """Count nothing."""


def never() -> bool:
    """Leave every call without a span."""
    return False


# By name: these are methods and functions that the server itself never replaces.
for owner, name, instead in (
    (HttpMeters, "count", nothing),
    (EnvironmentMeters, "count_step", nothing),
    (EnvironmentMeters, "count_end", nothing),
    (spans, "is_traced", never),
):
    if not hasattr(owner, name):
        sys.exit(f"{owner} has no {name} any more")
    setattr(owner, name, instead)
sys.exit(main())
