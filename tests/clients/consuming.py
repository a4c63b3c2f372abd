"""What the tests of consumers share: the environment, what it pays, and the server's word on an episode."""

from pathlib import Path

from ors_server.client import Client, Summary

LADDER = f"{Path(__file__).parents[1] / 'fixtures' / 'consumed_environment.py'}:Ladder"
REWARDS = (0.125, 0.5, 0.25)
"""What the three steps of an episode earn."""


def returns_of(url: str, session_id: str) -> Summary:
    """Asks the server for the figures of an episode that somebody else played."""
    with Client(url) as client:
        return client.summary(session_id)
