"""Plays one task of each environment by its gold actions, over ORS and over MCP, on a server that runs.

ORS is spoken by this package's client, MCP by the `mcp` package's at the address that agents get. The exit
status is 1 if an episode does not reach the most that its environment pays.

Usage: play_gold.py [--split train] [--index 0] URL ENVIRONMENT...
"""

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

import anyio
import mcp

from ors_server.client import Client, Episode

Actions = Sequence[tuple[str, dict[str, Any]]]
ROUNDING = 1e-6
"""How far a sum of rewards may be from the most."""


def main() -> int:
    """Play, and print a line per episode."""
    parser = argparse.ArgumentParser(description="Play gold actions over ORS and over MCP.")
    parser.add_argument("--split", default="train")
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("url")
    parser.add_argument("environments", nargs="+", metavar="environment")
    options = parser.parse_args()
    print(f"{'environment':20} door  calls  return  of       end  seconds")
    with Client(options.url) as client:
        are_good = [
            play(client, name, options.split, options.index, door)
            for name in options.environments
            for door in ("ORS", "MCP")
        ]
    return 0 if all(are_good) else 1


def play(client: Client, name: str, split: str, index: int, door: str) -> bool:
    """Play one episode, print its figures, and return whether it reached the most."""
    (entry,) = entry_points(group="ors_server.environments", name=name)
    environment = entry.load()
    actions: Actions = environment.gold_actions(client.task(split, index, name))
    most = environment.return_range[1] if environment.return_range else 1.0
    started = time.monotonic()
    with client.episode(name, split=split, index=index) as episode:
        if door == "ORS":
            play_over_ors(episode, actions)
        else:
            anyio.run(play_over_mcp, episode.access["agent_url"], actions)
        summary = episode.summary()
    seconds, end = time.monotonic() - started, str(summary.stop_reason)
    earned = summary.episode_return
    print(f"{name:20} {door:4} {len(actions):6} {earned:7.3f} {most:3g} {end:>9} {seconds:8.1f}", flush=True)
    return end == "completed" and abs(earned - most) < ROUNDING


def play_over_ors(episode: Episode, actions: Actions) -> None:
    """Make the calls, and compare the sum of their rewards with the server's."""
    for tool, arguments in actions:
        episode.call(tool, arguments)
    episode.check()


async def play_over_mcp(agent_url: str, actions: Actions) -> None:
    """Make the calls as an agent does, which sees no rewards."""
    async with mcp.Client(agent_url) as agent:
        for tool, arguments in actions:
            result = await agent.call_tool(tool, arguments)
            if result.is_error:
                raise RuntimeError(f"{tool}({arguments}) failed: {result.content}")


if __name__ == "__main__":
    sys.exit(main())
