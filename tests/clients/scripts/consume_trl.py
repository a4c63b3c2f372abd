"""Plays the ladder through TRL's `OpenRewardSpec` and prints which number its trainer would train on.

Usage: `python consume_trl.py URL URL#PART...`, with the interpreter of a virtual environment that has `trl`,
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

from ors_server.adapters import trl_returns


def whole(env: Any) -> None:
    """Climbs to the top, with one mistake and one look."""
    env.climb(hand="left")
    env.look()
    env.climb(hand=7)
    env.climb(hand="right")
    env.jump()


SAID: list[str] = []
"""What was said instead of what the server would have said."""


def left_open(env: Any) -> None:
    """Climbs one rung; nobody closes the rollout, as at the end of a training run."""
    env.climb(hand="left")


def half(env: Any) -> None:
    """Climbs one rung and gives up."""
    env.climb(hand="left")


def blind(env: Any) -> None:
    """Does nothing that is judged."""
    env.look()


def refused(env: Any) -> None:
    """Makes the calls that never leave TRL; its trainer turns the exceptions into answers of the tools."""
    for tool, arguments in (("climb", {"foot": "left"}), ("climb", {}), ("fly", {})):
        try:
            getattr(env, tool)(**arguments)
        except (TypeError, AttributeError) as error:
            SAID.append(type(error).__name__)
    env.climb(hand="left")


def slips(env: Any) -> None:
    """Calls a tool that raises between two that pay."""
    env.climb(hand="left")
    SAID.append(env.slip())
    SAID.append(env.climb(hand="right"))


def misjudged(env: Any) -> None:
    """Climbs a rung, and ends by a call whose judgement fails."""
    env.climb(hand="left")
    env.land(answer="x")


def misjudged_middle(env: Any) -> None:
    """Climbs a rung, has a call whose judgement fails, and looks around."""
    env.climb(hand="left")
    env.weigh(answer="x")
    env.look()


PLAYS = {
    "misjudged": misjudged,
    "misjudged_middle": misjudged_middle,
    "whole": whole,
    "half": half,
    "blind": blind,
    "refused": refused,
    "slips": slips,
    "open": left_open,
}


def consume(url: str, part: str) -> dict[str, Any]:
    """Plays one rollout as the trainer does, and asks the reward function that it would ask."""
    os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = url
    spec = OpenRewardSpec(
        url, num_tasks=1, **({"env_name": "misjudged"} if part.startswith("misjudged") else {})
    )
    play = PLAYS[part]
    env = spec.environment_factory()
    env.reset(**dict(spec.train_dataset[0]))
    play(env)
    session = env._session.sid
    bare = OpenRewardSpec(url, num_tasks=1, include_metadata=False)
    seen = {
        "trained_on": spec.reward_funcs(environments=[env])[0],
        "returned": trl_returns([env], completions=[[]])[0],
        "rewards": env.rewards,
        "finished": env.finished,
        "session": session,
        "said": list(SAID),
        "columns": spec.train_dataset.column_names,
        "answers": spec.train_dataset["answer"][:1],
        "columns_without": bare.train_dataset.column_names,
    }
    SAID.clear()
    if play is not left_open:
        env._close()
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps({word: consume(*word.split("#")) for word in sys.argv[2:]}))
