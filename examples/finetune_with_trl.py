"""Trains a tiny model on recorded episodes with TRL: first on what earned most, then on what was preferred.

    python finetune_with_trl.py episodes.jsonl preferences.jsonl MODEL_FOLDER

The files come from `ors-server export trl`, without and with --preferences; README.md has the commands.
"""

import copy
import json
import sys
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset
from tiny_model import CONTEXT, make_model, make_tokenizer
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

LEAST_REWARD = 0.5
"""Episodes with a lower return are not imitated."""


def main(episodes: str, preferences: str, folder: str) -> None:
    """Fine-tune a new model on both files, and save it with its tokenizer."""
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    imitated = read(episodes).filter(lambda row: row["reward"] is not None and row["reward"] >= LEAST_REWARD)
    imitation = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=f"{folder}/sft",
            assistant_only_loss=True,  # the tools' answers are not learned
            max_length=CONTEXT,
            max_steps=60,
            per_device_train_batch_size=4,
            learning_rate=3e-3,
            **_small(),
        ),
        train_dataset=imitated.select_columns(["prompt", "completion", "tools"]),
        processing_class=tokenizer,
    )
    imitation.train()
    preference = DPOTrainer(
        model=model,
        ref_model=copy.deepcopy(model),
        args=DPOConfig(
            output_dir=f"{folder}/dpo",
            max_length=CONTEXT,
            max_steps=20,
            per_device_train_batch_size=2,
            learning_rate=1e-4,
            **_small(),
        ),
        train_dataset=read(preferences).select_columns(["prompt", "chosen", "rejected", "tools"]),
        processing_class=tokenizer,
    )
    preference.train()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(json.dumps({"sft": _losses(imitation), "dpo": _losses(preference), "imitated": len(imitated)}))


def read(file: str) -> Dataset:
    """Read a file that `ors-server export trl` wrote."""
    return load_dataset("json", data_files=file, split="train", cache_dir=str(Path(file).parent / "cache"))


def _small() -> dict[str, Any]:
    return {
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "seed": 0,
    }


def _losses(trainer: Any) -> list[float]:
    """Return the first and the last loss."""
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return [losses[0], losses[-1]]


if __name__ == "__main__":
    main(*sys.argv[1:])
