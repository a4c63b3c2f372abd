"""Runs TRL's own `GRPOTrainer` on two environments of `to_trl`, and prints what it was paid as JSON.

A tiny model with random weights makes no calls, so that each rollout is played when it begins, differently
for the rollouts of one group: what the trainer asks and computes afterwards is its own.
"""

import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from datasets import Dataset
from tiny_model import make_model, make_tokenizer  # type: ignore[import-not-found]  # of examples/
from trl import GRPOConfig, GRPOTrainer

from ors_server.adapters import to_trl

GENERATIONS = 4
SEEN: list[list[Any]] = []


def played(kind: Any, *plays: Any) -> Any:
    """A class whose rollouts are played by turns, and which keeps what it returned."""
    turns = itertools.cycle(plays)

    class Played(kind):  # type: ignore[misc]  # made at run time
        def reset(self, **row):
            prompt = super().reset(**row)
            self._session_id = self._episode.session_id
            for tool, arguments in next(turns):
                self._call(tool, arguments)
            return prompt

        def _reward(self):
            reward = super()._reward()
            SEEN.append([type(self).__name__, self._session_id, reward])
            return reward

    Played.__name__ = kind.__name__
    return Played


def main(url):
    climb: Any = ("climb", {"hand": "left"})
    jump: Any = ("jump", {})
    ladder = played(to_trl(url, "ladder"), [], [climb], [climb, jump], [jump])
    misjudged = played(
        to_trl(url, "misjudged", is_async=True),
        [climb, ("weigh", {"answer": "x"})],
        [climb],
        [climb, ("land", {"answer": "x"})],
        [climb, jump],
    )
    rows = ladder.rows(1, environment="ladder") + misjudged.rows(1, environment="misjudged")
    tokenizer = make_tokenizer()
    trained_on = []

    class Trainer(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            trained_on.append(
                [
                    [row["environment"] for row in inputs],
                    [round(value, 4) for value in output["advantages"].tolist()],
                ]
            )
            return output

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=make_model(tokenizer),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=1,
                per_device_train_batch_size=2 * GENERATIONS,
                num_generations=GENERATIONS,
                max_completion_length=8,
                beta=0.0,
                report_to="none",
                use_cpu=True,
                bf16=False,
                save_strategy="no",
                logging_steps=1,
                seed=0,
            ),
            train_dataset=Dataset.from_list(rows),
            environment_factory={"ladder": ladder, "misjudged": misjudged},
            processing_class=tokenizer,
        )
        trainer.train()
    json.dump(
        {
            "columns": trainer.reward_func_names,
            "seen": SEEN,
            "trained_on": trained_on,
            "logged": {
                name: value for name, value in trainer.state.log_history[0].items() if "reward" in name
            },
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1])
