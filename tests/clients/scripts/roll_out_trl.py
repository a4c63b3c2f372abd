"""Plays groups of rollouts with TRL's `OpenRewardSpec`, as its trainer would; prints what each group earned.

Usage: `python roll_out_trl.py URL GROUPS SIZE`; it prints a line for each group once it has been reset,
and one with its rewards.
"""

import json
import os
import sys

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl.experimental.openreward import OpenRewardSpec

url, groups, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
spec = OpenRewardSpec(url, env_name="math_word_problems", num_tasks=size, split="test")
rows = [dict(row) for row in spec.train_dataset]
for _ in range(groups):
    environments = [spec.environment_factory() for _ in rows]
    for environment, row in zip(environments, rows, strict=True):
        environment.reset(**row)
    print("reset", flush=True)  # noqa: T201  (the test reads it)
    texts = [environment.calculator(expression=f"{n}+1") for n, environment in enumerate(environments)]
    # The last one hands in a wrong answer, so that its reward is another one.
    for row, environment in zip(rows, environments, strict=True):
        environment.submit(answer="123456789" if row is rows[-1] else row["answer"])
    rewards = spec.reward_funcs(environments=environments)
    for environment in environments:
        environment._close()
    print(json.dumps({"texts": texts, "rewards": rewards}), flush=True)  # noqa: T201  (as above)
