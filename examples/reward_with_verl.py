"""Scores recorded answers with verl's own data set and reward manager, and a reward of this library.

    python reward_with_verl.py episodes.parquet MODEL_FOLDER

The file comes from `ors-server export verl --ground-truth answer`; README.md has the commands.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

from ors_server.rewards.adapters.verl import as_verl

REWARD = "math_equal_reward"
"""What the recorded environment pays by."""


async def main(file: str, folder: str) -> None:
    """Score the last answer of every episode, and print the scores beside the recorded returns."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = OmegaConf.create({"cache_dir": str(Path(file).parent / "verl"), "max_prompt_length": 1024})
    dataset = RLHFDataset(data_files=file, tokenizer=tokenizer, config=config)
    manager = NaiveRewardManager(config, tokenizer, as_verl(REWARD))
    scores = [(await manager.run_single(_batch(row, tokenizer)))["reward_score"] for row in dataset]
    print(json.dumps({"scores": scores, "returns": [row["reward"] for row in dataset]}))


def _batch(row: dict[str, Any], tokenizer: Any) -> DataProto:
    """Return a batch of one row, as verl's rollout leaves it: the answer is the response."""
    *_, call = (message for message in json.loads(row["responses"][0]) if message.get("tool_calls"))
    arguments = json.loads(call["tool_calls"][-1]["function"]["arguments"])
    answer = arguments.get("answer") or ""  # a random agent may leave it out
    response = torch.tensor([tokenizer(answer)["input_ids"]], dtype=torch.long)
    batch = DataProto.from_single_dict(collate_fn([row]))
    batch.batch["responses"] = response
    batch.batch["attention_mask"] = torch.ones_like(response)
    return batch


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
