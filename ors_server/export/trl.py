"""Rows of TRL's trainers: conversational prompts and completions, and preferences.

Source: "Dataset formats and types" in TRL's documentation, and `trl/data_utils.py` of TRL 1.16. `arguments`
are objects, `tools` is JSON text, and contents are texts, in which a note replaces each image.
"""

from collections.abc import Sequence
from typing import Any

from ors_server.export.chat import ConversationOptions, call_message, row_conversation
from ors_server.export.conversation import Conversation, ConversationTurn, text_of
from ors_server.export.episodes import LeftOutError, describe, judged_return
from ors_server.export.offered_tools import as_text, tools_of
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import JSONObject

NOTHING_ASKED = "whose prompt ends with a system message"


def trl_row(record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions) -> JSONObject:
    """Return an episode as one line of a prompt-completion dataset.

    `reward` is the return, null where nothing was judged.
    """
    conversation = trl_conversation(record, steps, options)
    return {
        "prompt": [trl_message(turn) for turn in conversation.prompt],
        "completion": [trl_message(turn) for turn in conversation.play],
        "reward": judged_return(record.summary),
        "tools": as_text(tools_of(options.offered, record.origin)),
        "episode": describe(record, steps),
    }


def preference_row(
    chosen: tuple[EpisodeRecord, Sequence[Step]],
    rejected: tuple[EpisodeRecord, Sequence[Step]],
    options: ConversationOptions,
) -> JSONObject:
    """Return two episodes of one task, the better one first, as one line of a preference dataset."""
    better, worse = (trl_conversation(*episode, options) for episode in (chosen, rejected))
    prompt = [trl_message(turn) for turn in better.prompt]
    # A row has one prompt, so the two conversations must begin with the same one.
    if prompt != [trl_message(turn) for turn in worse.prompt]:
        raise LeftOutError("pairs with different prompts")
    return {
        "prompt": prompt,
        "chosen": [trl_message(turn) for turn in better.play],
        "rejected": [trl_message(turn) for turn in worse.play],
        "tools": as_text(tools_of(options.offered, chosen[0].origin)),
        "chosen_return": judged_return(chosen[0].summary),
        "rejected_return": judged_return(rejected[0].summary),
        "chosen_episode": describe(*chosen),
        "rejected_episode": describe(*rejected),
    }


def trl_conversation(
    record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions
) -> Conversation:
    """Return the conversation of a row; raises `LeftOutError` if its prompt ends with a system message."""
    conversation = row_conversation(record, steps, options)
    if conversation.prompt[-1].role == "system":
        raise LeftOutError(NOTHING_ASKED)
    return conversation


def trl_message(turn: ConversationTurn) -> JSONObject:
    """Return one message as chat templates take it."""
    message: dict[str, Any] = {"role": turn.role, "content": text_of(turn.blocks)}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [call_message(use.id, use.name, use.arguments) for use in turn.calls]
    if turn.answers is not None:
        message |= {"name": turn.answers.name, "tool_call_id": turn.answers.id}
    return message
