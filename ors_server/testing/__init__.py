"""Tests of environments and servers: a fake clock, a client in this process, and conformance suites."""

from typing import Any

from ors_server.deprecation import deprecated_names
from ors_server.testing.environment_checks import EnvironmentCheck
from ors_server.testing.environment_suite import (
    ENVIRONMENT_CHECKS,
    CheckVerdict,
    EnvironmentReport,
    check_environment,
    inspect_environment,
)
from ors_server.testing.fake_clock import FakeClock
from ors_server.testing.local_client import CallRefusedError, LocalClient, LocalSession, open_environment
from ors_server.testing.local_episode import LocalEpisode, play

__all__ = [
    "ENVIRONMENT_CHECKS",
    "CallRefusedError",
    "CheckVerdict",
    "EnvironmentCheck",
    "EnvironmentReport",
    "FakeClock",
    "LocalClient",
    "LocalEpisode",
    "LocalSession",
    "check_environment",
    "inspect_environment",
    "open_environment",
    "play",
]

_find_old = deprecated_names(
    __name__, {"Episode": "ors_server.testing.local_episode:LocalEpisode"}, removed_in="0.3"
)


def __getattr__(name: str) -> Any:
    """Find deprecated names."""
    return _find_old(name)
