"""Episodes as documents of the Agent Trajectory Interchange Format (ATIF), version 1.8.

Source: `harbor/models/trajectories` of Harbor 0.26. Every object forbids unknown keys and has `extra` for
them: what ATIF has no place for is in `extra.ors`, so that `atif_reading` gets the same record back. Images
are files next to the document.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ors_server.export.conversation import (
    ConversationTurn,
    group_calls,
    note_of,
    read_prompt,
    result_of,
)
from ors_server.export.episodes import NO_CALLS, LeftOutError, judged_return
from ors_server.export.media import PICTURES, KeepImage, with_paths
from ors_server.export.offered_tools import OfferedTools, as_functions, tools_of
from ors_server.model.model_turn import (
    ModelMessage,
    ModelTurn,
    reasoning_of,
    recorded_turn,
    text_of_message,
)
from ors_server.model.recording import RECORD, STEP
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock

VERSION = "ATIF-v1.8"
OWN = "ors"
"""Key of every `extra` with what is ours."""
_TOKEN_FIELDS = ("prompt_token_ids", "completion_token_ids", "logprobs")


def atif_document(
    record: EpisodeRecord, steps: Sequence[Step], offered: OfferedTools, keep: KeepImage
) -> JSONObject:
    """Return an episode as one document; raises `LeftOutError` if it has neither a prompt nor a call."""
    origin, summary = record.origin, record.summary
    written = [*_prompt_steps(record, keep)]
    for turn, played in group_calls(steps):
        written += _turn_steps(turn, played, keep)
    if not written:
        raise LeftOutError(NO_CALLS)
    for number, step in enumerate(written, 1):
        step["step_id"] = number
    stated: JSONObject = RECORD.as_json(record)
    stated["prompt"] = None if record.prompt is None else with_paths(record.prompt, keep)
    models = [step["model_name"] for step in written if "model_name" in step]
    agent: JSONObject = {"name": origin.labels.get("agent", "ors-server"), "version": origin.server_version}
    if models:
        agent["model_name"] = models[0]
    if tools := tools_of(offered, origin):
        agent["tool_definitions"] = as_functions(tools)
    return {
        "schema_version": VERSION,
        "session_id": origin.labels.get("run", origin.session_id),
        "trajectory_id": origin.episode_id,
        "agent": agent,
        "steps": written,
        "final_metrics": {
            **_totals(written),
            "total_steps": len(written),
            "extra": {"reward": judged_return(summary), "stop_reason": summary.stop_reason},
        },
        "extra": {OWN: {"record": stated}},
    }


def _prompt_steps(record: EpisodeRecord, keep: KeepImage) -> Iterator[JSONObject]:
    turns = read_prompt(record.prompt or ())
    for turn in turns:
        if turn.role == "tool":
            continue
        step: JSONObject = {
            "source": {"assistant": "agent"}.get(turn.role, turn.role),
            "message": _content(turn.blocks, keep),
            "extra": {OWN: {"prompt": True}},
        }
        if turn.role == "assistant":
            step["is_copied_context"] = True
            _add_calls(step, turn, turns, keep)
        yield step


def _add_calls(
    step: JSONObject, turn: ConversationTurn, turns: Sequence[ConversationTurn], keep: KeepImage
) -> None:
    """Add the calls of an assistant's message of a conversation prompt, with their results."""
    if not turn.calls:
        return
    step["tool_calls"] = [
        {"tool_call_id": use.id, "function_name": use.name, "arguments": use.arguments} for use in turn.calls
    ]
    ids = {use.id for use in turn.calls}
    results = [
        {"source_call_id": answer.answers.id, "content": _content(answer.blocks, keep)}
        for answer in turns
        if answer.answers is not None and answer.answers.id in ids
    ]
    step["observation"] = {"results": results}


def _turn_steps(turn: ModelTurn, played: Sequence[Step], keep: KeepImage) -> Iterator[JSONObject]:
    """Yield the messages that led to no call, and the one that played these calls."""
    answer = turn.messages[-1] if turn.messages else None
    for message in turn.messages[:-1]:
        yield _message_step(message)
    step: JSONObject = {"source": "agent", "message": ""} if answer is None else _message_step(answer)
    step["timestamp"] = played[0].started_at.isoformat()
    call_ids: set[str] = set()
    calls: list[JSONObject] = []
    results: list[JSONObject] = []
    for call in played:
        own_id = (recorded_turn(call.metadata) or ModelTurn()).tool_call_id
        call_id = call.call_id if own_id is None or own_id in call_ids else own_id
        call_ids.add(call_id)
        calls.append({"tool_call_id": call_id, "function_name": call.tool, "arguments": call.arguments})
        blocks = result_of(call)
        fields: JSONObject = STEP.as_json(call)
        for name in ("tool", "arguments", "blocks"):
            del fields[name]
        match call.blocks:
            case (TextBlock(detail=None),):
                pass  # the content of the result is the whole of it
            case _:
                fields["blocks"] = with_paths(call.blocks, keep)
        results.append({"source_call_id": call_id, "content": _content(blocks, keep), "extra": {OWN: fields}})
    step["tool_calls"], step["observation"] = calls, {"results": results}
    yield step


def _message_step(message: ModelMessage) -> JSONObject:
    """Return a message as a step; what the model read of a tool that did not run is the system's."""
    source = {"assistant": "agent", "tool": "system"}.get(message.role, message.role)
    step: JSONObject = {"source": source, "message": text_of_message(message)}
    if source != "agent":
        return step
    extra: Mapping[str, Any] = message.__pydantic_extra__
    step["llm_call_count"] = 1
    if isinstance(extra.get("model"), str):
        step["model_name"] = extra["model"]
    if reasoning := reasoning_of(message):
        step["reasoning_content"] = reasoning
    metrics = _metrics(extra)
    if metrics:
        step["metrics"] = metrics
    return step


def _metrics(extra: Mapping[str, Any]) -> JSONObject:
    usage: Any = extra.get("usage")
    counts = cast("JSONObject", usage) if isinstance(usage, dict) else {}
    details: Any = counts.get("prompt_tokens_details")
    cached: Any = cast("JSONObject", details).get("cached_tokens") if isinstance(details, dict) else None
    metrics: JSONObject = {
        name: value
        for name, value in (
            ("prompt_tokens", counts.get("prompt_tokens")),
            ("completion_tokens", counts.get("completion_tokens")),
            ("cached_tokens", cached),
        )
        if isinstance(value, int)
    }
    for name in _TOKEN_FIELDS:
        values: Any = extra.get(name)
        kinds = (int, float) if name == "logprobs" else (int,)
        if isinstance(values, list) and all(isinstance(item, kinds) for item in cast("list[object]", values)):
            metrics[name] = values
    return metrics


def _totals(written: Sequence[JSONObject]) -> JSONObject:
    """Return the sums of the steps' token counts, where there are any."""
    totals: JSONObject = {}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        counts = [step["metrics"][name] for step in written if name in step.get("metrics", {})]
        if counts:
            totals[f"total_{name}"] = sum(counts)
    return totals


def _content(blocks: Sequence[TextBlock | ImageBlock], keep: KeepImage) -> str | list[JSONObject]:
    """Return blocks as a text, or as parts; a note replaces an image of a type that ATIF does not know."""
    if not blocks:
        return ""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [_part(block, keep) for block in blocks]


def _part(block: TextBlock | ImageBlock, keep: KeepImage) -> JSONObject:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if block.mimeType not in PICTURES:
        return {"type": "text", "text": note_of(block)}
    return {"type": "image", "source": {"media_type": block.mimeType, "path": keep(block)}}
