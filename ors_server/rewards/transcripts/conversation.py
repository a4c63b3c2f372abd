"""Puts turns and results together: messages in one form, and every call with its result.

What holds of a `ReadTranscript`: its messages have the roles `system`, `user`, `assistant` and `tool`; calls
are in `tool_calls` of the assistant's messages, as OpenAI writes them, or flat if they were flat; each
call that the agent made is in `calls` once, in order, and so is each result that answers no call.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.transcripts.role_messages import combine_calls, read_arguments
from ors_server.rewards.transcripts.text_calls import read_text_answers, read_text_calls
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Content,
    Event,
    Message,
    SaidTurn,
    ToolAnswer,
    TranscriptError,
    WrittenCall,
    show,
    text_of_content,
)

MAX_CHARACTERS = 20_000_000
"""Characters of text of one conversation."""
MAX_TURN_CALLS = 1_000
"""Calls of one turn, which results without ids are compared with one by one."""

_FAILED = re.compile(
    r"\s*(?:(?:\w{0,60}(?:Error|Exception)|error|ERROR)\s{0,2}:|Traceback \(most recent call last\))"
)
"""How a result begins that is an error, where the shape has no mark of one."""


@dataclass(slots=True, eq=False)
class AnsweredCall:
    """A call that the agent made, and what it returned."""

    name: str
    arguments: Any
    """An object, or the text that is not JSON of one."""
    id: str | None = None
    result: str | None = None
    """`None` where nothing was returned."""
    error: str | None = None
    """Why it failed, if it did."""
    latency_ms: float | None = None
    """Milliseconds; `None` where nothing says."""


class ReadMessages(tuple[Message, ...]):  # noqa: SLOT001  (it adds an attribute)
    """Messages in the one form that rewards read."""

    played_from: int = 0
    """Number of the messages at the beginning that are the prompt, and not the agent's doing."""

    @property
    def played(self) -> Sequence[Message]:
        """The messages after the prompt."""
        return self[self.played_from :]


@dataclass(frozen=True, slots=True)
class ReadTranscript:
    """A conversation in one form."""

    messages: ReadMessages
    calls: tuple[AnsweredCall, ...]


def assemble(prompt: Iterable[Event], play: Iterable[Event]) -> ReadTranscript:
    """Put the events of a prompt, and of what the agent did after it, together.

    Raises:
        TranscriptError: A result cannot be given to its call, a call that is written as text cannot be read,
            or the texts are too long.
    """
    # One assembly for both parts, since a result may answer a call of the prompt; its calls are then dropped.
    assembly = _Assembly()
    for event in prompt:
        assembly.add(event)
    assembly.close()
    messages, calls = len(assembly.messages), len(assembly.calls)
    for event in play:
        assembly.add(event)
    assembly.close()
    read = ReadMessages(assembly.messages)
    read.played_from = messages
    return ReadTranscript(read, tuple(assembly.calls[calls:]))


def is_failure(text: str) -> bool:
    """Whether a tool's result says by its own text that the call failed."""
    if _FAILED.match(text) is not None:
        return True
    bare = text.strip()
    if not bare.startswith('{"error"') and not re.match(r'\{\s{0,20}"error"', bare):
        return False
    try:
        value: Any = parse_json(bare)
    except JSONTextError:
        return False
    return bool(value.get("error"))


@dataclass(slots=True)
class _Assembly:
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: list[AnsweredCall] = field(default_factory=list[AnsweredCall])
    open: list[AnsweredCall] = field(default_factory=list[AnsweredCall])
    """Calls of the last turn, with and without results."""
    unanswered: dict[str, list[AnsweredCall]] = field(default_factory=dict[str, list[AnsweredCall]])
    """Calls without a result, by id; an id may come again in a later turn."""
    answered_in_order: int = 0
    size: int = 0

    def add(self, event: Event) -> None:
        if isinstance(event, ToolAnswer):
            self._add_result(event)
        elif event.role == ASSISTANT:
            self._add_assistant_turn(event)
        elif event.role == USER and (
            answers := read_text_answers(text_of_content(event.content), f"message {len(self.messages) + 1}")
        ):
            for text in answers:
                self._add_result(ToolAnswer(text))
        else:
            self._append({**event.extra_keys, "role": event.role, "content": _as_chat_content(event.content)})

    def close(self) -> None:
        """End a turn: of results without ids there must be as many as calls, or none."""
        missing = sum(call.result is None for call in self.open)
        # Results without ids are given in order; if some are missing, nothing says which.
        if self.answered_in_order and missing:
            raise TranscriptError(
                f"message {len(self.messages)}: {len(self.open)} calls have {self.answered_in_order} results "
                "without the id of a call, so nothing says which call returned what"
            )
        self.answered_in_order = 0

    def _add_assistant_turn(self, event: SaidTurn) -> None:
        where = f"message {len(self.messages) + 1}"
        text = text_of_content(event.content)
        read = read_text_calls(text, where)
        calls = combine_calls(event.calls, read.calls, where)
        content = (
            _as_chat_content(event.content) if read.text == text else _replace_text(event.content, read.text)
        )
        last = self.messages[-1] if self.messages else {}
        # Items of one turn (text, reasoning, calls) come apart in some shapes; the earlier message takes them
        # in.
        if event.continues_previous and last.get("role") == ASSISTANT:
            earlier = last["content"]
            if earlier and content:
                # Two texts stay two parts.
                earlier, content = (
                    [{"type": "text", "text": item}] if isinstance(item, str) else item
                    for item in (earlier, content)
                )
                last["content"] = [*earlier, *content]
            else:
                last["content"] = earlier or content
        else:
            self.close()
            self.open = []
            last = {**event.extra_keys, "role": ASSISTANT, "content": content}
            self._append(last)
        # A source's own `tool_calls` stay as they were written.
        if calls and "tool_calls" not in event.extra_keys:
            last["tool_calls"] = [
                *last.get("tool_calls", ()),
                *(
                    {
                        **({} if call.id is None else {"id": call.id}),
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in calls
                ),
            ]
        answered = [AnsweredCall(call.name, _arguments(call), call.id) for call in calls]
        self.open += answered
        self.calls += answered
        # By id: a later turn may use an id again, so the oldest open call of an id is answered first.
        for call in answered:
            if call.id is not None:
                self.unanswered.setdefault(call.id, []).append(call)
        if len(self.open) > MAX_TURN_CALLS:
            raise TranscriptError(f"{where}: expected at most {MAX_TURN_CALLS} calls in one turn, got more")

    def _add_result(self, answer: ToolAnswer) -> None:
        text = text_of_content(answer.content)
        waiting = [call for call in self.open if call.result is None]
        # One message may hold a JSON list with a result for every waiting call.
        if answer.may_hold_several and len(waiting) > 1 and (texts := _split(text, len(waiting))):
            for part in texts:
                self._add_result(ToolAnswer(part))
            return
        call = self._find_call(answer, waiting)
        text = text or answer.error or ""
        # Only where the shape does not say: the text of a result is the tool's, and may only look like an
        # error.
        failed = is_failure(text) if answer.is_error is None else answer.is_error
        call.result, call.error = text, (answer.error or text or "error") if failed else None
        message: dict[str, Any] = {"role": TOOL, "content": _as_chat_content(answer.content) or text}
        call_fields = {"name": call.name or None, "tool_call_id": answer.call_id or call.id}
        message |= {key: value for key, value in call_fields.items() if value is not None}
        self._append(message | ({"is_error": True} if failed else {}))

    def _find_call(self, answer: ToolAnswer, waiting: Sequence[AnsweredCall]) -> AnsweredCall:
        """Return the call that a result answers: by its id, else by its name, else the next one."""
        if answer.call_id is not None and self.unanswered.get(answer.call_id):
            return self.unanswered[answer.call_id].pop(0)
        if not self.open:
            # The conversation does not have the call, but something was called: the result counts as one.
            self.calls.append(AnsweredCall(answer.name or "", {}, answer.call_id))
            return self.calls[-1]
        # A result with an id answers by position only where calls have none.
        if answer.call_id is None or any(call.id is None for call in self.open):
            call = next((call for call in waiting if answer.name in {None, call.name}), None)
            if call is not None:
                self.answered_in_order += 1
                self._forget(call)
                return call
        raise TranscriptError(
            f"message {len(self.messages) + 1}: a result of the call {show(answer.call_id or answer.name)} "
            f"answers none of the calls before it ({show(', '.join(_label(call) for call in waiting))})"
        )

    def _forget(self, call: AnsweredCall) -> None:
        if call.id is not None:
            self.unanswered[call.id].remove(call)

    def _append(self, message: dict[str, Any]) -> None:
        # A message of the user or the system ends the turn: results behind it answer nothing in front of it.
        if message["role"] in {USER, SYSTEM}:
            self.close()
            self.open = []
        self.size += len(text_of_content(message["content"]))
        if self.size > MAX_CHARACTERS:
            raise TranscriptError(f"expected at most {MAX_CHARACTERS} characters in a conversation, got more")
        self.messages.append(message)


def _label(call: AnsweredCall) -> str:
    return f"{call.name} {call.id}" if call.id else call.name


def _arguments(call: WrittenCall) -> Any:
    read = read_arguments(call.arguments)
    return call.arguments if read is None else dict(read)


def _split(text: str, count: int) -> list[str]:
    """Return the texts of a JSON list of as many results; empty if it is nothing of this."""
    try:
        value: object = parse_json(text)
    except JSONTextError:
        return []
    entries = cast("list[object]", value) if isinstance(value, list) else []
    if len(entries) != count:
        return []
    return [entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False) for entry in entries]


def _as_chat_content(content: Content) -> Any:
    """Return a content in the form of chat messages: a text where it is one."""
    if content is None or isinstance(content, str):
        return content
    if len(content) == 1 and content[0].get("type") == "text":
        return content[0]["text"]
    return list(content)


def _replace_text(content: Content, text: str) -> Any:
    """Return a content whose text is another one."""
    if content is None or isinstance(content, str):
        return text
    rest = [part for part in content if part.get("type") != "text"]
    return [{"type": "text", "text": text}, *rest] if rest else text
