"""An episode as a conversation: what the agent was told, what it called, what it was answered.

Only what is on record is said. The words that an agent spoke between its calls never reached the server, so
no turn of the agent has any; a result that an environment gave without words has none either.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from ors_server.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.wire import ImageBlock, JSONObject, TextBlock

Blocks: TypeAlias = tuple[TextBlock | ImageBlock, ...]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

_CALL = re.compile(r"\[tool_call (?P<name>\S+)\] (?P<input>\{.*\})", re.DOTALL)
"""How `authoring.prompts` writes a recorded call of a conversation prompt."""
_RAN = frozenset({StepStatus.GRADED, StepStatus.UNGRADED})


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool."""

    id: str
    name: str
    arguments: JSONObject


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Role
    blocks: Blocks = ()
    calls: tuple[ToolUse, ...] = ()
    """What an assistant called."""
    answers: ToolUse | None = None
    """The call that a tool's message answers."""
    is_agents: bool = False
    """Whether the agent of the episode did it. An assistant of a conversation prompt is the environment's."""
    has_run: bool = True
    """Whether what was called was run; not so after a refusal, a fault or a cancellation."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """An episode, turn by turn."""

    prompt: tuple[Turn, ...]
    """What the agent was told before it began; empty if nobody asked for the prompt."""
    play: tuple[Turn, ...]
    """The agent's calls and their results, by turns, in the order of the steps."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Everything, in order."""
        return self.prompt + self.play

    def up_to_last_call(self) -> "Conversation":
        """Return the same without the result of the last call, from which nobody learns anything."""
        return self if not self.play else Conversation(self.prompt, self.play[:-1])


def read_conversation(record: EpisodeRecord, steps: Iterable[Step]) -> Conversation:
    """Tell an episode as a conversation.

    Args:
        record: The episode; its prompt is taken apart again where it was a conversation of its own.
        steps: Its steps, in order.
    """
    play: list[Turn] = []
    for step in steps:
        use = ToolUse(f"step_{step.number}", step.tool, step.arguments)
        has_run = step.status in _RAN
        play.append(Turn("assistant", calls=(use,), is_agents=True, has_run=has_run))
        play.append(Turn("tool", blocks=result_of(step), answers=use))
    return Conversation(tuple(read_prompt(record.prompt or ())), tuple(play))


def result_of(step: Step) -> Blocks:
    """Return what the agent was answered; where there was no output, what it was told went wrong."""
    if step.blocks or step.error is None:
        return step.blocks
    return (TextBlock(text=step.error),)


def read_prompt(blocks: Sequence[TextBlock | ImageBlock]) -> list[Turn]:
    """Read a prompt's blocks as messages.

    A conversation prompt is on record as blocks with a mark before each message (`authoring.prompts`); the
    marks are read back. Text after a tool's result belongs to the result, since the record does not say where
    it ends. Any other prompt is one message of the user.

    Args:
        blocks: The prompt, as it is on record.
    """
    if not blocks:
        return []
    if _role_of(blocks[0]) is None:
        return [Turn("user", blocks=tuple(blocks))]
    turns: list[Turn] = []
    calls: dict[str, ToolUse] = {}
    for block in blocks:
        role = _role_of(block)
        if role is not None:
            turns.append(Turn(role))
        else:
            _extend(turns, block, calls)
    return [turn for turn in turns if turn.blocks or turn.calls or turn.role == "tool"]


def _role_of(block: TextBlock | ImageBlock) -> Role | None:
    if not isinstance(block, TextBlock) or block.detail is None:
        return None
    role = block.detail.get("role")
    if role not in {"system", "user", "assistant"} or block.text != f"[{role}]":
        return None
    return cast("Role", role)


def _extend(turns: list[Turn], block: TextBlock | ImageBlock, calls: dict[str, ToolUse]) -> None:
    last, detail = turns[-1], block.detail or {}
    if detail.get("type") == "tool_call" and isinstance(block, TextBlock):
        use = _read_call(block.text, str(detail.get("id")))
        if use is not None:
            calls[use.id] = use
            turns[-1] = Turn(last.role, last.blocks, (*last.calls, use))
            return
    if detail.get("type") == "tool_result":
        called = str(detail.get("tool_call_id"))
        turns.append(Turn("tool", answers=calls.get(called, ToolUse(called, "", {}))))
        return
    turns[-1] = Turn(last.role, (*last.blocks, block), last.calls, last.answers)


def _read_call(text: str, call_id: str) -> ToolUse | None:
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    try:
        return ToolUse(call_id, found["name"], json.loads(found["input"]))
    except ValueError:
        return None


def text_of(blocks: Iterable[TextBlock | ImageBlock]) -> str:
    """Return blocks as one text, each on lines of its own, with a note in the place of each image."""
    return "\n".join(block.text if isinstance(block, TextBlock) else note_of(block) for block in blocks)


def note_of(image: ImageBlock) -> str:
    """Return what stands in the place of an image where a format takes text only."""
    return f"[image: {image.mimeType}]"
