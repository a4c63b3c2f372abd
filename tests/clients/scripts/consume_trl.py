"""Plays the ladder through TRL's `OpenRewardSpec` and prints which number its trainer would train on.

Usage: `python consume_trl.py URL PART...`, with the interpreter of a virtual environment that has `trl`,
`datasets`, `transformers` and `openreward`. The script judges nothing: the test that starts it does.
"""

import json
import os
import sys
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl.experimental.openreward import OpenRewardSpec


def whole(env: Any) -> None:
    """Climbs to the top, with one mistake and one look."""
    env.climb(hand="left")
    env.look()
    env.climb(hand=7)
    env.climb(hand="right")
    env.jump()


def half(env: Any) -> None:
    """Climbs one rung and gives up."""
    env.climb(hand="left")


def blind(env: Any) -> None:
    """Does nothing that is judged."""
    env.look()


def consume(play: Any) -> dict[str, Any]:
    """Plays one rollout as the trainer does, and asks the reward function that it would ask."""
    spec = OpenRewardSpec(sys.argv[1], num_tasks=1)
    env = spec.environment_factory()
    env.reset(**dict(spec.train_dataset[0]))
    play(env)
    session = env._session.sid
    seen = {
        "trained_on": spec.reward_funcs(environments=[env])[0],
        "rewards": env.rewards,
        "finished": env.finished,
        "session": session,
    }
    env._close()
    return seen


if __name__ == "__main__":
    plays = {"whole": whole, "half": half, "blind": blind}
    sys.stdout.write(json.dumps({name: consume(plays[name]) for name in sys.argv[2:]}))
