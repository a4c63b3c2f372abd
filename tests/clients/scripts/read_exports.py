"""Reads exports as their consumers do, and prints what came of it as one JSON document.

Usage: `python read_exports.py FOLDER`, with the interpreter of a virtual environment that has `trl`, in which
neither a model nor torch is needed. The script judges nothing: the test that starts it does.
"""

import json
import sys
from pathlib import Path
from typing import Any

import datasets
import trl
from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-not-found]  # in the client's environment
from transformers import PreTrainedTokenizerFast
from trl import data_utils

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
FAMILIES = ("qwen2_5", "qwen3", "llama3_1", "glm4moe", "gptoss")


def load(folder: Path, name: str, kind: str = "json") -> Any:
    """Loads a file with `datasets`, as every trainer of TRL does."""
    return datasets.load_dataset(
        kind, data_files=str(folder / name), split="train", cache_dir=str(folder / "c")
    )


def tokenizer(template: str) -> Any:
    """Makes a tokenizer of characters with one of TRL's chat templates."""
    characters = {chr(code): code for code in range(256)} | {"<unk>": 256}
    inner = Tokenizer(models.WordLevel(characters, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")
    made.chat_template = (TEMPLATES / f"{template}.jinja").read_text()
    return made


def tools_of(row: dict[str, Any]) -> Any:
    """Reads the announced tools as TRL's trainers do."""
    tools = row.get("tools")
    return json.loads(tools) if isinstance(tools, str) else tools


def render(rows: Any, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Puts rows into text with a chat template, as `SFTTrainer` and `DPOTrainer` do for every row."""
    return [
        {
            "template": family,
            **data_utils.maybe_apply_chat_template(
                {name: row[name] for name in names}, tokenizer(family), tools=tools_of(row)
            ),
        }
        for family in FAMILIES
        for row in rows
    ]


def prompt_completion(folder: Path) -> dict[str, Any]:
    rows = load(folder, "trl.jsonl")
    return {
        "columns": rows.column_names,
        "is_conversational": [data_utils.is_conversational(row) for row in rows],
        "rewards": rows["reward"][:],
        "rows": list(rows),
        "rendered": render(rows, ("prompt", "completion")),
    }


def preferences(folder: Path) -> dict[str, Any]:
    """Reads a preference dataset, and unpairs it."""
    rows = load(folder, "preferences.jsonl")
    kept = rows.select_columns(["prompt", "chosen", "rejected"])
    unpaired = data_utils.maybe_unpair_preference_dataset(kept)
    return {
        "columns": rows.column_names,
        "is_conversational": [data_utils.is_conversational(row) for row in rows],
        "extracted": [data_utils.maybe_extract_prompt(row) == row for row in kept],
        "rendered": render(rows, ("prompt", "chosen", "rejected")),
        "labels": unpaired["label"][:],
    }


def masked(folder: Path) -> list[dict[str, str]]:
    """Finds what TRL trains on: the assistant's tokens by its training template, within the completion."""
    made, found = tokenizer("qwen3_training"), []
    for row in load(folder, "trl.jsonl"):
        told = {"tools": tools_of(row), "tokenize": True, "return_dict": True}
        before = made.apply_chat_template(row["prompt"], add_generation_prompt=True, **told)["input_ids"]
        whole = made.apply_chat_template(
            row["prompt"] + row["completion"], return_assistant_tokens_mask=True, **told
        )
        pairs = list(zip(whole["input_ids"], whole["assistant_masks"], strict=True))
        trained = [token for token, mask in pairs[len(before) :] if mask]
        found.append({"trained": "".join(made.convert_ids_to_tokens(trained)).replace("<unk>", "?")})
    return found


def sharegpt(folder: Path) -> dict[str, Any]:
    """Reads conversations of `from` and `value`, and turns them into messages with TRL."""
    rows = load(folder, "sharegpt.jsonl")
    return {
        "is_from_value": [data_utils.is_conversational_from_value(row) for row in rows],
        "roles": [[said["from"] for said in row["conversations"]] for row in rows],
        "tools": [json.loads(row["tools"] or "[]") for row in rows],
        "converted": [sorted(data_utils.maybe_convert_to_chatml(dict(row))) for row in rows],
    }


def openai(folder: Path) -> dict[str, Any]:
    rows = load(folder, "openai.jsonl")
    texts = [row for row in rows if all(not isinstance(said["content"], list) for said in row["messages"])]
    return {
        "columns": rows.column_names,
        "count": len(rows),
        "weights": [[said.get("weight") for said in row["messages"]] for row in rows],
        "rendered": [
            data_utils.maybe_apply_chat_template(
                {"messages": row["messages"]}, tokenizer("qwen3"), tools=tools_of(row)
            )["text"]
            for row in texts
        ],
    }


def tables(folder: Path) -> dict[str, Any]:
    """Reads parquet files as `datasets` does, and verl with it."""
    verl = load(folder, "verl.parquet", "parquet")
    made = tokenizer("qwen3")
    return {
        "verl": list(verl),
        "prompts": [
            made.apply_chat_template(row["prompt"], add_generation_prompt=True, tokenize=False)
            for row in verl
        ],
        "messages": [
            made.apply_chat_template(row["messages"], tools=tools_of(row), tokenize=False) for row in verl
        ],
        "episodes": load(folder, "episodes.parquet", "parquet").num_rows,
        "steps": load(folder, "steps.parquet", "parquet").num_rows,
        "plain": load(folder, "plain.jsonl").num_rows,
    }


PARTS = (prompt_completion, preferences, masked, sharegpt, openai, tables)

if __name__ == "__main__":
    datasets.disable_progress_bars()
    place = Path(sys.argv[1])
    sys.stdout.write(json.dumps({part.__name__: part(place) for part in PARTS}, default=str))
