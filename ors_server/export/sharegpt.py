"""Rows in the ShareGPT form: `conversations` of `from` and `value`.

Source: `data/README.md` and `src/llamafactory/data/converter.py` of LLaMA-Factory: `human` and `observation`
alternate with `gpt` and `function_call`, and `system` and `tools` (JSON text) are keys of their own. axolotl
reads `train` with `message_field_training: train`; LLaMA-Factory ignores it. A `function_call` holds calls
only, so what the agent wrote with them is its key `text`, which both ignore.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ors_server.export.chat import ConversationOptions, TrainedCalls, is_trained, row_conversation
from ors_server.export.conversation import Conversation, ConversationTurn, ToolUse, text_of
from ors_server.export.episodes import LeftOutError, describe
from ors_server.export.offered_tools import as_function, tools_of
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import JSONObject

OUT_OF_TURN = "whose prompt does not alternate as this form demands"

_INPUTS = frozenset({"human", "observation"})
_NAMES = {"user": "human", "tool": "observation", "assistant": "gpt"}


def sharegpt_row(record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions) -> JSONObject:
    """Return an episode as one line."""
    whole = row_conversation(record, steps, replace(options, keeps_last_result=True))
    conversation = Conversation(whole.prompt, tuple(_call_by_call(whole.play)))
    if not options.keeps_last_result:
        conversation = conversation.up_to_last_call()
    turns = list(conversation.turns)
    system = text_of(turns.pop(0).blocks) if turns[0].role == "system" else ""
    messages = _joined([_message(turn, options.trained) for turn in turns])
    if any((message["from"] in _INPUTS) != (index % 2 == 0) for index, message in enumerate(messages)):
        raise LeftOutError(OUT_OF_TURN)
    tools = tools_of(options.offered, record.origin)
    return {
        "conversations": messages,
        "system": system,
        "tools": json.dumps([as_function(tool) for tool in tools], ensure_ascii=False) if tools else "",
        "episode": describe(record, steps),
    }


def _call_by_call(play: Sequence[ConversationTurn]) -> Iterator[ConversationTurn]:
    """Yield the calls of one message one after the other, each with its result.

    Observations in a row are one message, so that nothing would say which call returned what.
    """
    results = {turn.answers.id: turn for turn in play if turn.answers is not None}
    for turn in play:
        if turn.answers is not None:
            continue
        if not turn.calls:
            yield turn
        for number, use in enumerate(turn.calls):
            yield replace(turn, calls=(use,)) if number == 0 else replace(turn, calls=(use,), blocks=())
            yield results[use.id]


def _message(turn: ConversationTurn, trained: TrainedCalls) -> JSONObject:
    if turn.role == "system" or (turn.calls and turn.blocks and not turn.is_agents):
        raise LeftOutError(OUT_OF_TURN)
    message: dict[str, Any] = {"from": _NAMES[turn.role], "value": text_of(turn.blocks)}
    if turn.calls:
        calls = [_call(use) for use in turn.calls]
        text = json.dumps(calls if calls[1:] else calls[0], ensure_ascii=False)
        message = {"from": "function_call", "value": text}
        if turn.blocks:
            message["text"] = text_of(turn.blocks)
    return message | {"train": is_trained(turn, trained)}


def _call(use: ToolUse) -> JSONObject:
    return {"name": use.name, "arguments": use.arguments}


def _joined(messages: Sequence[JSONObject]) -> list[JSONObject]:
    joined: list[JSONObject] = []
    for message in messages:
        # The form alternates strictly, so inputs in a row become one message.
        if joined and message["from"] in _INPUTS and joined[-1]["from"] == message["from"]:
            joined[-1]["value"] += f"\n{message['value']}"
        else:
            joined.append(dict(message))
    return joined
