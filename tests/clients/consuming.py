"""What the tests of consumers share: the environment, what it pays, and the server's word on an episode."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ors_server.client import Client, Summary
from tests.clients.conftest import ROOT

LADDER = f"{Path(__file__).parents[1] / 'fixtures' / 'consumed_environment.py'}:Ladder"
MISJUDGED = f"{Path(__file__).parents[1] / 'fixtures' / 'consumed_environment.py'}:Misjudged"
"""The same rungs, with a judge that fails."""
UNREADY = f"{Path(__file__).parents[1] / 'fixtures' / 'consumed_environment.py'}:Unready"
"""The same rungs, and a setup that fails."""
REWARDS = (0.125, 0.5, 0.25)
"""What the three steps of an episode earn."""


@dataclass(frozen=True)
class Consumers:
    """One process that plays the ladder at two servers: what it imports takes longer than its plays."""

    urls: dict[str, str]
    """Addresses of servers: by the setting `emit`, and `null`, which answers a failed judgement with null."""
    answer: Callable[[str], Any]

    @classmethod
    def start(
        cls, serve_with: Callable[..., str], play: Any, *parts: str, null: tuple[str, ...] = ()
    ) -> "Consumers":
        """Starts the servers and has every part played at each; `play` is the script.

        `null` are parts for a server that pays with each step and answers a failed judgement with null.
        """
        urls = {
            emit: serve_with(None, LADDER, MISJUDGED, ORS_EMIT=emit, ORS_UNJUDGED="error")
            for emit in ("dense", "final")
        }
        plays = [f"{url}#{part}" for url in urls.values() for part in parts]
        if null:
            urls["null"] = serve_with(None, LADDER, MISJUDGED, ORS_EMIT="dense", ORS_UNJUDGED="null")
            plays += [f"{urls['null']}#{part}" for part in null]
        play.start(urls["dense"], *plays, PYTHONPATH=str(ROOT))
        return cls(urls, play.answer)

    def of(self, emit: str) -> tuple[str, str, Callable[[str], Any]]:
        """Gives what a test of one server needs: how it pays, its address, and what came of a part."""
        url = self.urls[emit]
        return emit, url, lambda part: self.answer(f"{url}#{part}")


def returns_of(url: str, session_id: str) -> Summary:
    """Asks the server for the figures of an episode that somebody else played."""
    with Client(url) as client:
        return client.summary(session_id)
