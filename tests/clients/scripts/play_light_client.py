"""Plays an episode with the client of ors-mcp-client beside another package; prints what came as JSON."""

import json
import logging
import sys
from importlib import metadata

import ors_server
from ors_server import adapters
from ors_server.client import Client
from ors_server.model.logs import get_logger


def absence(get):
    """Why a name is not there."""
    try:
        get()
    except ImportError as error:
        return str(error)
    return "it is there"


def main():
    url, distribution = sys.argv[1:]
    logging.basicConfig(format="%(levelname)s %(message)s")
    log = get_logger("ors_server.light")
    log.warning("played", token="agt_secret", steps=2)
    try:
        json.loads("no JSON")
    except ValueError:
        log.exception("failed")
    with Client(url) as client, client.episode("ladder", split="train", index=0) as episode:
        episode.call("climb", {"hand": "left"})
        episode.call("jump")
        summary = episode.check()
    json.dump(
        {
            "return": summary.episode_return,
            "session_id": summary.session_id,
            "version": metadata.version(distribution),
            "from": ors_server.__file__,
            "distributions": [found.metadata["Name"] for found in metadata.distributions()],
            "missing": absence(lambda: ors_server.Environment),
            "missing_adapter": absence(lambda: adapters.from_gymnasium),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
