"""Trains a tiny model with TRL's GRPOTrainer on an environment that `ors-server` serves.

    python grpo_with_trl.py http://127.0.0.1:8080 MODEL_FOLDER

The trainer's rewards are the sums that the server recorded: the program asks the server for every
episode, and compares.
"""

import json
import os
import sys
import urllib.request
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]

from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import add_response_schema
from trl.experimental.openreward import OpenRewardSpec

STEPS = 12
"""Updates of the model."""
BATCH = 16
"""Episodes of one update."""
COMPLETION = 512
"""Most tokens of an episode, the tools' answers among them."""


class ServerSums:
    """A reward function: the sum of each rollout's rewards, which must be the server's."""

    __name__ = "return"

    def __init__(self, url: str) -> None:
        """Remember where the server is."""
        self.url = url
        self.compared = 0
        self.means: list[float] = []

    def __call__(self, environments: list[Any], **_: Any) -> list[float | None]:
        """Return the returns; `None` for a rollout that was paid nothing, or in which a judgement failed.

        Raises:
            RuntimeError: The server's sum differs.
        """
        returns = [self._sum(environment) for environment in environments]
        self.means.append(sum(value or 0.0 for value in returns) / len(returns))
        return returns

    def _sum(self, environment: Any) -> float | None:
        paid = [reward for reward in environment.rewards if reward is not None]
        with urllib.request.urlopen(f"{self.url}/_ors/sessions/{environment._session.sid}") as answer:
            episode = json.load(answer)["episode"]
        if episode["return"] != sum(paid):
            raise RuntimeError(
                f"the trainer received {sum(paid)}, and the server recorded {episode['return']}"
            )
        self.compared += 1
        return sum(paid) if paid and not episode["unjudged_steps"] else None


def main(url: str, folder: str) -> None:
    """Train the model in `folder` on the corridor, and print what came of it."""
    tokenizer = add_response_schema(AutoTokenizer.from_pretrained(folder))
    spec = OpenRewardSpec(url, env_name="corridor", split="train")
    returns = ServerSums(url)
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder),
        args=GRPOConfig(
            output_dir=f"{folder}/grpo",
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            num_generations=BATCH // 2,
            max_completion_length=COMPLETION,
            max_tool_calling_iterations=4,
            learning_rate=5e-4,
            beta=0.0,
            report_to="none",
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            logging_steps=1,
            seed=0,
        ),
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=returns,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(f"{folder}/trained")
    print(json.dumps({"compared": returns.compared, "means": returns.means}))


if __name__ == "__main__":
    main(*sys.argv[1:])
