"""The table of shapes: which reader takes which message, and the conversation that comes out.

| shape | recognised by |
|---|---|
| a constructor or a message of LangChain | `lc`, or `type` `human`, `ai`, ... without `role` |
| ShareGPT | `from` |
| Gemini | `parts` |
| an item of OpenAI's Responses API | `type` `function_call`, `function_call_output`, ... without `role` |
| a row of the table of steps (`ors-server export steps`) | `tool` and `number` |
| OpenAI's chat, Anthropic, Inspect, TRL, verl, the wire of ORS | `role` |

A conversation may mix shapes. Bounds: 20,000 messages, as many parts of one message, and nothing is followed
deeper than a result within a message; the time is linear.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ors_server.rewards.transcripts.conversation import ReadTranscript, assemble
from ors_server.rewards.transcripts.gemini import read_gemini
from ors_server.rewards.transcripts.langchain import is_langchain, read_langchain
from ors_server.rewards.transcripts.responses import ITEMS, read_item
from ors_server.rewards.transcripts.role_messages import ROLES, read_role_message
from ors_server.rewards.transcripts.sharegpt import read_sharegpt
from ors_server.rewards.transcripts.step_rows import is_step_row, read_step_row
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    MAX_MESSAGES,
    USER,
    Event,
    MissingRoleError,
    SaidTurn,
    as_list,
    as_object,
    show,
    unexpected_error,
)

Reader: TypeAlias = Callable[[Mapping[str, Any], str], Iterator[Event]]


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of a message."""

    name: str
    recognise: Callable[[Mapping[str, Any]], bool]
    read: Reader


SHAPES = (
    Shape("LangChain", is_langchain, read_langchain),
    Shape("ShareGPT", lambda message: "from" in message, read_sharegpt),
    Shape("Gemini", lambda message: "parts" in message, read_gemini),
    Shape("Responses", lambda message: "role" not in message and message.get("type") in ITEMS, read_item),
    Shape("steps", is_step_row, read_step_row),
    Shape("chat", lambda message: "role" in message, read_role_message),
)
"""The shapes in the order in which they are tried."""


def read_conversation(messages: object, prompt: object = None, system: object = None) -> ReadTranscript:
    """Read a conversation in any shape.

    Args:
        messages: A list of messages, as mappings or as instances of a provider's classes; or a text, which is
            what the assistant answered.
        prompt: What precedes the agent's part: a text or messages. Its calls are not the agent's.
        system: A separate system prompt: a text, or parts.

    Raises:
        TranscriptError: A shape, a role, a type or a key is not understood, or a bound is exceeded.
    """
    before = [*_system(system), *_events(prompt, USER, "prompt message")]
    return assemble(before, [*_events(messages, ASSISTANT, "message")])


def _system(system: object) -> Iterator[Event]:
    if system is None or system == "":
        return
    if isinstance(system, Mapping):  # Gemini's system_instruction is a content
        content = cast("Mapping[str, Any]", system)
        yield from read_gemini({"role": "system", **content}, "system")
        return
    yield from read_role_message({"role": "system", "content": system}, "system")


def _events(messages: object, role: str, entry_name: str) -> Iterator[Event]:
    if messages is None:
        return
    if isinstance(messages, str):
        yield SaidTurn(role, messages)
        return
    for number, entry in enumerate(_entries(messages, entry_name), 1):
        yield from _read(as_object(entry, f"{entry_name} {number}"), f"{entry_name} {number}")


def _entries(messages: object, entry_name: str) -> Sequence[Any]:
    if isinstance(messages, Mapping):
        return (cast("Mapping[str, Any]", messages),)
    return as_list(messages, f"{entry_name}s", MAX_MESSAGES)


def _read(message: Mapping[str, Any], where: str) -> Iterable[Event]:
    shape = next((shape for shape in SHAPES if shape.recognise(message)), None)
    if shape is not None:
        return shape.read(message, where)
    if "type" in message:
        raise unexpected_error(where, "type of message", message["type"], (*ITEMS, "ai", "human", "tool"))
    raise MissingRoleError(
        f"{where}: expected a message with role ({', '.join(ROLES)}), from, parts or type, "
        f"got the keys {show(list(message))}"
    )
