"""Rolls out a policy in skyrl-gym, in an environment that `ors-server` keeps; prints the returns as JSON.

    python rollout_with_skyrl_gym.py http://127.0.0.1:8080

The policy stands where a trainer's generator puts a model: it reads text and writes text. It walks to the
right, which is where the lamp is in training.
"""

import json
import sys

import skyrl_gym

from ors_server.adapters import to_skyrl_gym
from ors_server.client import Client

TASKS = 3


def write_text(prompt: str) -> str:
    """Return what the policy says to a prompt or an observation."""
    del prompt  # a model would read it
    return f"<tool_call>{json.dumps({'name': 'walk', 'arguments': {'direction': 'right'}})}</tool_call>"


def roll_out(index: int) -> tuple[str, float]:
    """Play a task; the session's id, and the sum of its rewards."""
    env = skyrl_gym.make("ors_corridor", env_config={}, extras={"index": index})
    prompt, info = env.init([])
    text = write_text(str(prompt))
    total = 0.0
    while True:
        step = env.step(text)
        total += step["reward"]
        if step["done"]:
            env.close()
            return info["session_id"], total
        text = write_text(str(step["observations"]))


def main() -> None:
    """Play each task of the split, and compare each sum with the server's record."""
    url = sys.argv[1]
    skyrl_gym.register(id="ors_corridor", entry_point=to_skyrl_gym(url, "corridor", split="train"))
    played = [roll_out(index) for index in range(TASKS)]
    with Client(url) as client:
        recorded = [client.summary(session_id).episode_return for session_id, _ in played]
    json.dump({"returns": [total for _, total in played], "recorded": recorded}, sys.stdout)


if __name__ == "__main__":
    main()
