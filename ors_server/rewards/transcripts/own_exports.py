"""Rows that `ors-server export` wrote: which calls are the episode's, which failed, and what was submitted.

A row for training shows less than the record: the call that ended the episode is its last message, and only
the description next to the messages says how the episode ended. So a row is read with its description into
what the record itself would be read into, and refused where it leaves out what that takes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.transcripts.conversation import AnsweredCall, ReadMessages, ReadTranscript
from ors_server.rewards.transcripts.role_messages import read_arguments
from ors_server.rewards.transcripts.shapes import read_conversation
from ors_server.rewards.transcripts.step_rows import STATUSES
from ors_server.rewards.transcripts.submitted import COMPLETED, submitted_answer
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    TOOL,
    Message,
    TranscriptError,
    as_list,
    as_object,
    as_text,
    show,
    unexpected_error,
)

_NOTE: Final = re.compile(r"\n?^\[image: [\w.+-]+/[\w.+-]+\]$", re.MULTILINE)
"""The note that replaces an image where a format takes text only (`export.conversation.note_of`)."""
_STEP_ID: Final = re.compile(r"step_\d+")
"""Ids of calls in an export (`export.conversation.read_conversation`)."""


@dataclass(frozen=True, slots=True)
class ReadRow:
    """What a row says of an episode."""

    conversation: ReadTranscript
    final_response: str | None = None
    """What was submitted; `None` where the last message of the assistant is the final response."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The task's fields, where the row has them."""


def read_messages(messages: object, system: object = None) -> ReadTranscript:
    """Read messages that nothing describes.

    Raises:
        TranscriptError: They are an export's, whose end only its description tells, or are not understood.
    """
    if _is_undescribed(messages):
        raise TranscriptError(
            "row: expected the key episode in a row of `ors-server export openai`, which says how the "
            "episode ended; export it with --with-episode"
        )
    return read_conversation(messages, system=system)


def read_exported(conversation: ReadTranscript, episode: object) -> ReadRow:
    """Read the conversation of a row with the description of its episode, `episode`.

    Raises:
        TranscriptError: The description lacks the statuses, or the row leaves out a result that is needed.
    """
    about = as_object(episode, "row: episode")
    for name in ("statuses", "stop_reason"):
        if name not in about:
            raise TranscriptError(f"row: expected {name} in episode, got {show(list(about))}")
    statuses = as_list(about["statuses"], "row: statuses")
    if len(statuses) > len(conversation.calls):
        raise TranscriptError(
            f"row: expected the {len(statuses)} calls of the episode, got {len(conversation.calls)}"
        )
    return _end_with_submission(_keep_episode(conversation, statuses), statuses, about["stop_reason"])


def read_verl_export(conversation: ReadTranscript, row: Mapping[str, Any]) -> ReadRow:
    """Read the messages of a row for verl; of another's row, as they are.

    Raises:
        TranscriptError: An exported row has no statuses of its calls, or as `read_exported`.
    """
    extra = row.get("extra_info")
    about: Mapping[str, Any] = {} if extra is None else as_object(extra, "row: extra_info")
    if "is_played_out" not in about:
        return ReadRow(conversation)
    if row.get("statuses") is None:
        raise TranscriptError("row: expected statuses in a row of `ors-server export verl`; export it again")
    episode = {"statuses": row["statuses"], "stop_reason": about.get("stop_reason")}
    try:
        task: object = parse_json(as_text(about.get("task_spec"), "row: task_spec"))
    except JSONTextError as error:
        raise TranscriptError(f"row: task_spec: {error}") from None
    return replace(read_exported(conversation, episode), metadata=as_object(task, "row: task_spec"))


def read_step_table(rows: Sequence[Mapping[str, Any]]) -> ReadRow:
    """Read the rows of one episode of the table of steps.

    Raises:
        TranscriptError: They are not all the steps of one episode in order.
    """
    numbers, episodes = [row.get("number") for row in rows], {str(row.get("episode_id")) for row in rows}
    if numbers != list(range(1, len(rows) + 1)) or len(episodes) != 1:
        raise TranscriptError(
            f"rows: expected the steps of one episode, numbered from 1, got {show(numbers)} of "
            f"{len(episodes)} episodes"
        )
    conversation = read_conversation(rows)
    is_ended = bool(rows[-1].get("finished"))
    statuses = [row.get("status") for row in rows]
    for call, row in zip(conversation.calls, rows, strict=True):
        seconds: Any = row.get("duration")
        call.latency_ms = None if seconds is None else 1000.0 * float(seconds)
    return _end_with_submission(
        _keep_episode(conversation, statuses), statuses, COMPLETED if is_ended else None
    )


def _keep_episode(conversation: ReadTranscript, statuses: Sequence[Any]) -> ReadTranscript:
    """Return a conversation whose calls are the episode's last ones, as they ended."""
    before = len(conversation.calls) - len(statuses)
    calls = conversation.calls[before:]
    for call, status in zip(calls, statuses, strict=True):
        if status not in STATUSES:
            raise unexpected_error("row", "status", status, STATUSES)
        call.result = None if call.result is None else _without_notes(call.result)
        call.error = (call.result or "error") if STATUSES[status] else None
    messages = ReadMessages(
        {**message, "content": _without_notes(content)}
        if isinstance(content := message.get("content"), str)
        else message
        for message in conversation.messages
    )
    messages.played_from = max(conversation.messages.played_from, _find_first_message(conversation, before))
    return ReadTranscript(messages, calls)


def _find_first_message(conversation: ReadTranscript, before: int) -> int:
    """Return the number of messages up to the first call of the episode."""
    calls = 0
    for number, message in enumerate(conversation.messages[conversation.messages.played_from :]):
        calls += len(message.get("tool_calls", ()))
        if calls > before:
            return conversation.messages.played_from + number
    return len(conversation.messages)


def _end_with_submission(
    conversation: ReadTranscript, statuses: Sequence[Any], stop_reason: object
) -> ReadRow:
    last = conversation.calls[-1] if conversation.calls else None
    if last is None or stop_reason != COMPLETED or STATUSES[statuses[-1]]:
        if last is not None and last.result is None:
            raise TranscriptError(
                "row: expected the result of the last call, which the row leaves out; export it with "
                "--last-result"
            )
        return ReadRow(conversation, "")
    answer = submitted_answer(last.name, read_arguments(last.arguments) or {}, last.result)
    if answer is None:
        raise TranscriptError(
            "row: the final response is the result of the last call, which the row leaves out; export it "
            "with --last-result"
        )
    return ReadRow(_without_last(conversation, last, answer), answer)


def _without_last(conversation: ReadTranscript, last: AnsweredCall, answer: str) -> ReadTranscript:
    """Return a conversation that ends with what was submitted, in place of the call that did."""
    messages: list[Message] = list(conversation.messages)
    if last.result is not None and messages[-1].get("role") == TOOL:
        messages.pop()
    messages.pop()
    if answer:
        messages.append({"role": ASSISTANT, "content": answer})
    read = ReadMessages(messages)
    read.played_from = conversation.messages.played_from
    return ReadTranscript(read, conversation.calls[:-1])


def _without_notes(text: str) -> str:
    return _NOTE.sub("", text).removeprefix("\n") if "[image: " in text else text


def _is_undescribed(messages: object) -> bool:
    """Whether messages are an export's without a description: weights, ids of steps, and no last result."""
    if not isinstance(messages, list | tuple) or not messages:
        return False
    last: Any = cast("Sequence[Any]", messages)[-1]
    if not isinstance(last, Mapping) or "weight" not in last:
        return False
    calls: Any = cast("Mapping[str, Any]", last).get("tool_calls")
    entries = cast("Sequence[Any]", calls) if isinstance(calls, list | tuple) else ()
    ids = [str(cast("Mapping[str, Any]", call).get("id")) for call in entries if isinstance(call, Mapping)]
    return bool(ids) and all(map(_STEP_ID.fullmatch, ids))
