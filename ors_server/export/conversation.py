"""An episode as a conversation: the prompt, the agent's calls and their results.

The agent's messages have a text if its client attached it to the calls.
"""

import json
import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from ors_server.model.model_turn import (
    ModelMessage,
    ModelTurn,
    reasoning_of,
    recorded_turn,
    text_of_message,
)
from ors_server.model.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock

Blocks: TypeAlias = tuple[TextBlock | ImageBlock, ...]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

_CALL = re.compile(r"\[tool_call (?P<name>\S+)\] (?P<input>\{.*\})", re.DOTALL)
"""A recorded call of a conversation prompt, as `environments.prompt_blocks` writes it."""
_RAN = frozenset({StepStatus.GRADED, StepStatus.UNGRADED})


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool."""

    id: str
    name: str
    arguments: JSONObject


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One message of a conversation."""

    role: Role
    blocks: Blocks = ()
    calls: tuple[ToolUse, ...] = ()
    """An assistant's calls."""
    answers: ToolUse | None = None
    """The call whose result a tool's message is."""
    is_agents: bool = False
    """Whether the agent of the episode wrote it; false for an assistant's message of the prompt."""
    reasoning: str = ""
    """What the agent thought before it, where its client attached that."""
    has_run: bool = True
    """Whether the calls ran; false after a refusal, a fault or a cancellation."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """An episode as messages."""

    prompt: tuple[ConversationTurn, ...]
    """The prompt; empty if it was never requested."""
    play: tuple[ConversationTurn, ...]
    """The agent's messages, each followed by the results of its calls, in the order of the steps."""

    @property
    def turns(self) -> tuple[ConversationTurn, ...]:
        """Everything, in order."""
        return self.prompt + self.play

    def up_to_last_call(self) -> "Conversation":
        """Return the same without the results of the last message's calls, which train nothing."""
        last = max((at for at, turn in enumerate(self.play) if turn.calls), default=len(self.play))
        return Conversation(self.prompt, self.play[: last + 1])


def read_conversation(record: EpisodeRecord, steps: Iterable[Step]) -> Conversation:
    """Return an episode as a conversation, with the messages of its prompt."""
    prompt = read_prompt(record.prompt or ())
    play: list[ConversationTurn] = []
    for attached, group in group_calls(steps):
        uses = tuple(ToolUse(f"step_{step.number}", step.tool, step.arguments) for step in group)
        has_run = all(step.status in _RAN for step in group)
        message = ConversationTurn("assistant", calls=uses, is_agents=True, has_run=has_run)
        if attached.messages:
            *before, answer = attached.messages
            if prompt and not play and prompt[0].role != "system":
                own_prompts = [message for message in before if message.role == "system"][:1]
                prompt[:0] = [ConversationTurn("system", _blocks_of(message)) for message in own_prompts]
            _add_unused(before, play)
            message = replace(message, blocks=_blocks_of(answer), reasoning=reasoning_of(answer))
        if play and play[-1].role == "assistant":
            message = _joined(play.pop(), message)
        play.append(message)
        play.extend(
            ConversationTurn("tool", blocks=result_of(step), answers=use)
            for step, use in zip(group, uses, strict=True)
        )
    return Conversation(tuple(prompt), tuple(play))


def group_calls(steps: Iterable[Step]) -> Generator[tuple[ModelTurn, Sequence[Step]]]:
    """Group steps by the message of the model that made their calls; yield each message with its steps.

    A step without a recorded message is alone, with an empty turn.
    """
    turn, group, pending = ModelTurn(), list[Step](), set[str]()
    for step in steps:
        attached = recorded_turn(step.metadata) or ModelTurn()
        if not attached.messages and attached.tool_call_id in pending:
            pending.discard(attached.tool_call_id)
            group.append(step)
            continue
        if group:
            yield turn, group
        turn, group, pending = attached, [step], _other_calls(attached)
    if group:
        yield turn, group


def _add_unused(messages: Iterable[ModelMessage], play: list[ConversationTurn]) -> None:
    """Add messages that led to no call: what the agent wrote, and the reminders that it got."""
    for message in messages:
        blocks = _blocks_of(message)
        if not blocks or message.role not in {"assistant", "user"}:
            continue
        is_agents = message.role == "assistant"
        reasoning = reasoning_of(message) if is_agents else ""
        turn = ConversationTurn(message.role, blocks, is_agents=is_agents, reasoning=reasoning)
        if is_agents and play and play[-1].role == "assistant":
            turn = _joined(play.pop(), turn)
        play.append(turn)


def _joined(first: ConversationTurn, second: ConversationTurn) -> ConversationTurn:
    """Return two messages of the agent as one, because chat templates take them in turn with others."""
    reasoning = "\n".join(text for text in (first.reasoning, second.reasoning) if text)
    return replace(second, blocks=(*first.blocks, *second.blocks), reasoning=reasoning)


def _blocks_of(message: ModelMessage) -> Blocks:
    text = text_of_message(message)
    return (TextBlock(text=text),) if text else ()


def _other_calls(turn: ModelTurn) -> set[str]:
    """Return the ids of the calls of a turn's last message that later steps may have made."""
    if not turn.messages:
        return set()
    calls: Any = turn.messages[-1].__pydantic_extra__.get("tool_calls")
    rows = cast("list[object]", calls) if isinstance(calls, list) else []
    # A client may send anything as an id; only texts can be those of later calls.
    ids: list[Any] = [cast("JSONObject", row).get("id") for row in rows if isinstance(row, dict)]
    return {call_id for call_id in ids if isinstance(call_id, str)} - {turn.tool_call_id or ""}


def result_of(step: Step) -> Blocks:
    """Return a step's output; where there was none, its error as text."""
    if step.blocks or step.error is None:
        return step.blocks
    return (TextBlock(text=step.error),)


def read_prompt(blocks: Sequence[TextBlock | ImageBlock]) -> list[ConversationTurn]:
    """Return a prompt's messages; a prompt that is not a conversation is one message of the user.

    Text after a tool's result belongs to the result, because the record does not mark its end.
    """
    if not blocks:
        return []
    if _role_of(blocks[0]) is None:
        return [ConversationTurn("user", blocks=tuple(blocks))]
    turns: list[ConversationTurn] = []
    calls: dict[str, ToolUse] = {}
    for block in blocks:
        role = _role_of(block)
        if role is not None:
            turns.append(ConversationTurn(role))
        else:
            _extend(turns, block, calls)
    # A tool's empty result stays: its call would have no answer otherwise.
    return [turn for turn in turns if turn.blocks or turn.calls or turn.role == "tool"]


def _role_of(block: TextBlock | ImageBlock) -> Role | None:
    if not isinstance(block, TextBlock) or block.detail is None:
        return None
    role = block.detail.get("role")
    # Both the detail and the text: a task's own text `[user]` is not a heading.
    if role not in {"system", "user", "assistant"} or block.text != f"[{role}]":
        return None
    return cast("Role", role)


def _extend(turns: list[ConversationTurn], block: TextBlock | ImageBlock, calls: dict[str, ToolUse]) -> None:
    last, detail = turns[-1], block.detail or {}
    if detail.get("type") == "tool_call" and isinstance(block, TextBlock):
        use = _read_call(block.text, str(detail.get("id")))
        if use is not None:
            calls[use.id] = use
            turns[-1] = ConversationTurn(last.role, last.blocks, (*last.calls, use))
            return
    if detail.get("type") == "tool_result":
        called = str(detail.get("tool_call_id"))
        turns.append(ConversationTurn("tool", answers=calls.get(called, ToolUse(called, "", {}))))
        return
    turns[-1] = ConversationTurn(last.role, (*last.blocks, block), last.calls, last.answers)


def _read_call(text: str, call_id: str) -> ToolUse | None:
    match = _CALL.fullmatch(text)
    if match is None:
        return None
    try:
        return ToolUse(call_id, match["name"], json.loads(match["input"]))
    except ValueError:
        return None


def text_of(blocks: Iterable[TextBlock | ImageBlock]) -> str:
    """Return blocks as one text, each on its own lines, with a note instead of each image."""
    return "\n".join(block.text if isinstance(block, TextBlock) else note_of(block) for block in blocks)


def note_of(image: ImageBlock) -> str:
    """Return the note that replaces an image where a format takes text only."""
    return f"[image: {image.mimeType}]"
