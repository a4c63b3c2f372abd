"""Rows of verl's parquet files.

Sources: "Prepare Data for Post-Training" in verl's documentation; `verl/trainer/main_eval.py` for
`responses`, a list of texts; `verl/utils/dataset/multiturn_sft_dataset.py` for `messages` and `tools`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ors_server.export.chat import ConversationOptions, is_trained, text_calls
from ors_server.export.conversation import ConversationTurn
from ors_server.export.episodes import describe, judged_return
from ors_server.export.offered_tools import as_text, tools_of
from ors_server.export.trl import trl_conversation, trl_message
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import JSONObject


@dataclass(frozen=True, slots=True)
class VerlOptions:
    """Options of verl's format alone."""

    ground_truth: str | None = None
    """Key of the task that holds the answer; without it, or where a task lacks it, the answer is null."""
    ability: str = "tool_use"
    """Category of the tasks."""
    data_source: str | None = None
    """Selects verl's reward function; the environment's name by default."""


def verl_row(
    record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions, extra: VerlOptions
) -> JSONObject:
    """Return an episode as one row."""
    conversation = trl_conversation(record, steps, options)
    origin, about = record.origin, describe(record, steps)
    play = [_message(turn) for turn in conversation.play]
    prompt = [_message(turn) for turn in conversation.prompt]
    truth: Any = None if extra.ground_truth is None else origin.task_spec.get(extra.ground_truth)
    if truth is not None and not isinstance(truth, str):
        truth = json.dumps(truth, ensure_ascii=False)
    return {
        "data_source": extra.data_source or origin.environment,
        "prompt": [{"role": message["role"], "content": message["content"]} for message in prompt],
        "ability": extra.ability,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {
            **{name: about[name] for name in ("episode_id", "environment", "split", "index", "task_hash")},
            **{name: about[name] for name in ("image", "seed", "stop_reason", "is_played_out")},
            "task_spec": json.dumps(origin.task_spec, ensure_ascii=False),
            "labels": json.dumps(about["labels"], ensure_ascii=False),
        },
        "messages": [*prompt, *play],
        # One entry per message of `messages`, prompt included.
        "train_mask": [int(is_trained(turn, options.trained)) for turn in conversation.turns],
        "tools": as_text(tools_of(options.offered, origin)),
        "responses": [json.dumps(play, ensure_ascii=False)],
        "reward": judged_return(record.summary),
        "rewards": about["rewards"],
        "statuses": about["statuses"],
        "components": json.dumps(about["components"]),
    }


def _message(turn: ConversationTurn) -> JSONObject:
    message = trl_message(turn)
    if turn.calls:
        # A column has one type, and arguments differ from call to call.
        message["tool_calls"] = text_calls(turn)
    return message
