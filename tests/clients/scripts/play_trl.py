"""Plays a server through TRL's `OpenRewardSpec`, as its trainer would, and prints what it saw as one JSON
document.

Usage: `python play_trl.py URL`, with the interpreter of a virtual environment that has `trl`, `datasets`,
`transformers` and `openreward`; neither a model nor torch is needed. The script judges nothing: the test
that starts it does.
"""

import json
import os
import sys
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from transformers.utils import get_json_schema
from trl.experimental.openreward import OpenRewardSpec

URL = sys.argv[1]
NAME = {"env_name": os.environ["ENVIRONMENT"]} if "ENVIRONMENT" in os.environ else {}
"""The environment's name, where it is not the default one."""


def dataset_of(**options: Any) -> dict[str, Any]:
    """Builds a training set and tells its columns and rows."""
    dataset = OpenRewardSpec(URL, **NAME, **options).train_dataset
    return {"columns": sorted(dataset.column_names), "rows": [dict(row) for row in dataset]}


def rollouts() -> dict[str, Any]:
    """Plays one rollout for each row, as the trainer does: reset, tool calls, then the rewards of all."""
    spec = OpenRewardSpec(URL, num_tasks=4, **NAME)
    rows = [dict(row) for row in spec.train_dataset]
    environments = [spec.environment_factory() for _ in rows]
    prompts = [env.reset(**row) for env, row in zip(environments, rows, strict=True)]
    said = []
    for env, row in zip(environments, rows, strict=True):
        said.append([env.echo(text="nonsense"), env.echo(text=row["target"]), env.echo(text="again")])
    rewards = spec.reward_funcs(environments=environments)
    played = [{"rewards": e.rewards, "finished": e.finished, "metadata": e.metadata} for e in environments]
    for env in environments:
        env._close()
    return {"prompts": prompts, "said": said, "rewards": rewards, "played": played}


def tools() -> dict[str, Any]:
    """Calls the bound methods that differ from plain tools, and looks at their signatures."""
    spec = OpenRewardSpec(URL, indices=[0, 2], secrets={"K": ("v", ["example.org"])}, **NAME)
    env = spec.environment_factory()
    env.reset(task_index=2)
    seen = {
        "bound": sorted(n for n in vars(type(env)) if not n.startswith("_")),
        "hint": env.hint(),
        "tagged": env.tagged(1),
        "noargs": env.noargs(),
        "image": env.image(),
        "empty": env.empty(),
        "whoami": env.whoami(),
        "error": env.add(a="x"),
        "finish": env.finish(),
        "finished": env.finished,
        "reward": env.reward,
        "schema": get_json_schema(env.add),
    }
    seen["reset"] = env.reset(task_index=0)
    seen["after_reset"] = {"reward": env.reward, "finished": env.finished, "count": env.count()}
    env._close()
    return seen


def named() -> dict[str, Any]:
    """Resets to a task that the caller brings, which needs the environment's real name."""
    env = OpenRewardSpec(URL, env_name="refenv", num_tasks=1).environment_factory()
    prompt = env.reset(task_spec={"id": "brought", "target": "brought"})
    said = env.echo(text="brought")
    env._close()
    return {"prompt": prompt, "said": said, "reward": env.reward}


if __name__ == "__main__":
    seen = {
        "capped": dataset_of(num_tasks=3),
        "chosen": dataset_of(indices=[3, 1]),
        "whole": dataset_of(split="test"),
        "bare": dataset_of(num_tasks=1, include_metadata=False),
        "rollouts": rollouts(),
        "tools": tools(),
        "named": named(),
    }
    sys.stdout.write(json.dumps({name: seen[name] for name in sys.argv[2:]}))
