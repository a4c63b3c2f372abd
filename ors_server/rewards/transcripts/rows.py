"""The table of rows that hold a conversation: requests and responses of providers, rows of trainers, exports.

Sources: openai 3.57.0 (`ChatCompletion`, `Response`), anthropic 2.14.0 (`Message`), google-genai 3.6.1
(`GenerateContentResponse`), TRL 1.16 ("Dataset formats and types"), verl 0.9.1 (`main_eval.py`,
`multiturn_sft_dataset.py`, and the generations that its trainer writes), LLaMA-Factory's `data/README.md`,
and `ors_server.export`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ors_server.rewards.transcripts.conversation import ReadTranscript
from ors_server.rewards.transcripts.own_exports import (
    ReadRow,
    read_exported,
    read_messages,
    read_step_table,
    read_verl_export,
)
from ors_server.rewards.transcripts.shapes import SHAPES, read_conversation
from ors_server.rewards.transcripts.step_rows import is_step_row
from ors_server.rewards.transcripts.turns import (
    MAX_MESSAGES,
    KeyTable,
    TranscriptError,
    as_list,
    as_object,
    as_text,
    key_table,
    show,
)

Row: TypeAlias = Mapping[str, Any]

_REQUEST = (
    "model models tools functions tool_choice parallel_tool_calls temperature top_p top_k max_tokens stream "
    "max_completion_tokens stop stop_sequences seed n response_format metadata user thinking "
    "reasoning_effort chat_template_kwargs images videos audios id"
)
"""Parameters of a request, and columns next to a conversation, that say nothing of the episode."""
_RESPONSE = (
    "id object created created_at model status error incomplete_details parallel_tool_calls temperature "
    "tool_choice tools top_p background completed_at conversation max_output_tokens max_tool_calls "
    "moderation previous_response_id prompt_cache_diagnostics prompt_cache_key prompt_cache_options "
    "store prompt_cache_retention reasoning safety_identifier service_tier text tool_usage top_logprobs "
    "truncation "
    "usage user metadata access_programs image input_transformations system_fingerprint stream include"
)


@dataclass(frozen=True, slots=True)
class RowForm:
    """One kind of row."""

    needed: frozenset[str]
    """Keys by which it is recognised, all of which it has."""
    keys: KeyTable
    read: Callable[[Row], ReadRow]


def find_row_form(row: Row) -> RowForm | None:
    """Return the form of a row that holds a conversation; `None` for anything else."""
    present = {key for key, entry in row.items() if entry is not None}
    return next((form for form in ROW_FORMS if form.needed <= present), None)


def read_row(row: Row, form: RowForm) -> ReadRow:
    """Read a row of a form.

    Raises:
        TranscriptError: A key of it, or something in its conversation, is not understood.
    """
    form.keys.check(row, "row")
    return form.read(row)


def read_listed(value: object) -> ReadRow:
    """Read a list of messages, of items or of rows of the table of steps.

    Raises:
        TranscriptError: Something in it is not understood.
    """
    entries = as_list(value, "messages", MAX_MESSAGES)
    if entries and isinstance(entries[0], Mapping) and is_step_row(cast("Row", entries[0])):
        return read_step_table([as_object(entry, f"row {at}") for at, entry in enumerate(entries, 1)])
    return ReadRow(read_messages(entries))


def is_message(value: Row) -> bool:
    """Whether an object is one message of a conversation."""
    return any(shape.recognise(value) for shape in SHAPES if shape.name != "steps")


def _messages(row: Row) -> ReadRow:
    if "episode" in row and row["episode"] is not None:
        return read_exported(read_conversation(row["messages"], system=row.get("system")), row["episode"])
    return ReadRow(read_messages(row["messages"], row.get("system")))


def _completion(row: Row) -> ReadRow:
    if "conversations" in row:
        conversation = read_conversation(row["conversations"], system=row.get("system") or None)
    else:
        conversation = read_conversation(row["completion"], prompt=row.get("prompt"))
    if row.get("episode") is not None:
        return read_exported(conversation, row["episode"])
    return ReadRow(conversation)


def _pair(row: Row) -> ReadRow:
    del row
    raise TranscriptError(
        "row: a row of preferences holds two episodes; pass one, as prompt, completion (the chosen or the "
        "rejected messages) and episode (chosen_episode or rejected_episode)"
    )


def _verl(row: Row) -> ReadRow:
    if row.get("messages") is not None:
        read_conversation(None, prompt=row["prompt"])  # it repeats the first messages
        return read_verl_export(read_conversation(row["messages"]), row)
    responses = as_list(row.get("responses") or (), "row: responses")
    if len(responses) != 1:
        raise TranscriptError(
            f"row: expected messages, or responses with one text, got {len(responses)} responses; a row "
            "holds one episode"
        )
    text = as_text(responses[0], "row: responses")
    return ReadRow(read_conversation(text, prompt=row["prompt"]))


def _generation(row: Row) -> ReadRow:
    output = row["output"]
    if isinstance(output, str):
        return ReadRow(read_conversation(output, prompt=row.get("input")))
    return ReadRow(_responses(row))


def _responses(row: Row) -> ReadTranscript:
    if row.get("error") is not None:
        raise TranscriptError(f"row: the response failed: {show(row['error'])}; there is nothing to judge")
    return read_conversation(
        as_list(row["output"], "row: output"), prompt=row.get("input"), system=row.get("instructions")
    )


def _input(row: Row) -> ReadRow:
    if isinstance(row["input"], str):
        raise TranscriptError(
            f"row: expected output next to input, or the items of a conversation in input, got "
            f"{show(row['input'])} alone"
        )
    return ReadRow(read_conversation(row["input"], system=row.get("instructions")))


def _contents(row: Row) -> ReadRow:
    system = row.get("system_instruction") or row.get("systemInstruction")
    return ReadRow(read_conversation(row["contents"], system=system))


_CHOICE = key_table("a choice", "message", "index finish_reason logprobs stop_reason token_ids")
_CANDIDATE = key_table(
    "a candidate",
    "content",
    "citation_metadata finish_message token_count finish_reason grounding_metadata avg_logprobs index "
    "logprobs_result safety_ratings url_context_metadata continuation_token citationMetadata finishMessage "
    "tokenCount finishReason groundingMetadata avgLogprobs logprobsResult safetyRatings urlContextMetadata "
    "continuationToken",
)


def _choices(row: Row) -> ReadRow:
    choice = _only(row["choices"], "choices", _CHOICE)
    return ReadRow(read_conversation([choice.get("message")]))


def _candidates(row: Row) -> ReadRow:
    candidate = _only(row["candidates"], "candidates", _CANDIDATE)
    return ReadRow(read_conversation([candidate.get("content")]))


def _only(value: object, name: str, table: KeyTable) -> Row:
    entries = as_list(value, f"row: {name}")
    if len(entries) != 1:
        raise TranscriptError(f"row: expected one entry in {name}, got {len(entries)}")
    entry = as_object(entries[0], f"row: {name}")
    table.check(entry, f"row: {name}")
    return entry


def _form(needed: str, read: Callable[[Row], ReadRow], own: str, carried: str) -> RowForm:
    name = f"a row with {needed.replace(' ', ' and ')}"
    return RowForm(frozenset(needed.split()), key_table(name, f"{needed} {own}", carried), read)


_VERL = (
    "prompt responses messages extra_info statuses",
    "data_source ability reward_model train_mask tools reward rewards components agent_name raw_prompt index",
)

ROW_FORMS = (
    _form(
        "chosen rejected",
        _pair,
        "prompt",
        f"{_REQUEST} chosen_return rejected_return chosen_episode "
        "rejected_episode score_chosen score_rejected",
    ),
    _form("data_source prompt", _verl, *_VERL),
    _form("conversations", _completion, "system episode", f"{_REQUEST} reward train"),
    _form("prompt completion", _completion, "episode", f"{_REQUEST} reward advantage train label"),
    _form(
        "contents",
        _contents,
        "system_instruction systemInstruction",
        f"{_REQUEST} config generation_config generationConfig safety_settings safetySettings tool_config "
        "toolConfig cached_content cachedContent labels",
    ),
    _form(
        "candidates",
        _candidates,
        "",
        "sdk_http_response create_time model_version prompt_feedback response_id usage_metadata model_status "
        "automatic_function_calling_history parsed modelVersion promptFeedback responseId usageMetadata "
        "createTime modelStatus sdkHttpResponse",
    ),
    _form("choices", _choices, "", _RESPONSE),
    _form("input output", _generation, "instructions", f"{_RESPONSE} gts score step acc prompt"),
    _form("object output", lambda row: ReadRow(_responses(row)), "instructions input", f"{_RESPONSE} prompt"),
    _form("input", _input, "instructions", _RESPONSE),
    _form("messages", _messages, "system episode", f"{_REQUEST} reward"),
    _form("completion", _completion, "prompt episode", f"{_REQUEST} reward"),
)
"""Every kind of row that is read, in the order in which they are tried."""
