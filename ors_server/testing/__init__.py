"""What environments and servers are tested with: a clock, an in-process client, and conformance suites."""

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
from ors_server.testing.local_episode import Episode, play

__all__ = [
    "ENVIRONMENT_CHECKS",
    "CallRefusedError",
    "CheckVerdict",
    "EnvironmentCheck",
    "EnvironmentReport",
    "Episode",
    "FakeClock",
    "LocalClient",
    "LocalSession",
    "check_environment",
    "inspect_environment",
    "open_environment",
    "play",
]
