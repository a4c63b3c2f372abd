"""What every shape of a conversation is read into: turns with calls, and results of calls. Pure data.

A key, a role or a type that no table lists is refused, never skipped: its content may be a call, and an
episode without its calls would be graded as one in which the agent did nothing.
"""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from typing_extensions import override

from ors_server.rewards.reward_errors import RewardFieldError

Message: TypeAlias = Mapping[str, Any]
"""A chat message: `role` and `content`, and what else its source gave it."""
Part: TypeAlias = Mapping[str, Any]
Content: TypeAlias = str | Sequence[Part] | None

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"

MAX_MESSAGES = 20_000
"""Messages, or items, of one conversation."""
MAX_PARTS = 20_000
"""Parts of one message, and calls of one message."""
MAX_EXPECTED = 12
"""Names that a refusal lists."""

REASONING_PARTS = frozenset({"reasoning", "thinking", "redacted_thinking"})
"""Types of a message's parts that are reasoning, not the message's text."""


class TranscriptError(RewardFieldError):
    """A conversation has a key, a role or a form that is not understood; nothing was judged."""

    code = "transcript"


class MissingRoleError(TranscriptError, KeyError):
    """An entry of a conversation has no role; AgentFly's rewards raise `KeyError` for it."""

    @override
    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """One call of a tool, as the agent wrote it."""

    name: str
    arguments: Any
    """An object, or text: JSON of one, or the text that the agent wrote instead."""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """What the system, the user or the assistant wrote."""

    role: str
    content: Content = None
    calls: tuple[WrittenCall, ...] = ()
    extra_keys: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further keys of the message, which rewards may look at."""
    continues_previous: bool = False
    """Whether it continues the preceding assistant turn, in formats where each part of a turn is a separate
    item."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What one call returned."""

    content: Content = None
    call_id: str | None = None
    name: str | None = None
    is_error: bool | None = None
    """`None` where the shape does not say."""
    error: str | None = None
    """Why it failed, where that is apart from the content."""
    may_hold_several: bool = False
    """Whether it may hold the results of several calls, as a JSON list."""


Event: TypeAlias = SaidTurn | ToolAnswer


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The keys of one kind of object."""

    kind: str
    read: frozenset[str]
    """Keys whose values are read."""
    carried: frozenset[str] = frozenset()
    """Keys that say nothing that a reward reads: ids, usage, marks for caches."""

    def check(self, value: Mapping[str, Any], where: str) -> None:
        """Refuse an object with a key that is in neither set, unless its value is null."""
        for key, entry in value.items():
            if key not in self.read and key not in self.carried and entry is not None:
                raise unexpected_error(where, f"key of {self.kind}", key, self.read)


def key_table(kind: str, read: str, carried: str = "") -> KeyTable:
    """Make a table of space-separated names."""
    return KeyTable(kind, frozenset(read.split()), frozenset(carried.split()))


def show(value: object) -> str:
    """Write a value for a message: bounded in length and depth."""
    return reprlib.repr(value)[:80]


def unexpected_error(where: str, kind: str, value: object, expected: Iterable[str]) -> TranscriptError:
    """Make the error for a key, role or type that is not understood."""
    names = sorted(expected)
    listed = ", ".join(names[:MAX_EXPECTED]) + (", ..." if names[MAX_EXPECTED:] else "")
    return TranscriptError(f"{where}: unknown {kind} {show(value)}; expected one of: {listed}")


def as_object(value: object, where: str) -> Mapping[str, Any]:
    """Return an object; of an instance of a provider's class, what it dumps.

    Raises:
        TranscriptError: It is neither.
    """
    dump: Any = getattr(value, "model_dump", None)
    read: object = dump() if callable(dump) and not isinstance(value, type) else value
    if isinstance(read, Mapping):
        return cast("Mapping[str, Any]", read)
    raise TranscriptError(f"{where}: expected an object, got {show(value)}")


def as_list(value: object, where: str, limit: int = MAX_PARTS) -> Sequence[Any]:
    """Return a list; also of an array that a table's column has.

    Raises:
        TranscriptError: It is not a list, or longer than the limit.
    """
    listed: Any = value
    if not isinstance(listed, Sequence) and callable(getattr(listed, "tolist", None)):
        listed = listed.tolist()
    if isinstance(listed, str | bytes) or not isinstance(listed, Sequence):
        raise TranscriptError(f"{where}: expected a list, got {show(value)}")
    entries = cast("Sequence[object]", listed)
    if len(entries) > limit:
        raise TranscriptError(f"{where}: expected at most {limit} entries, got {len(entries)}")
    return entries


def as_text(value: object, where: str) -> str:
    """Return a text.

    Raises:
        TranscriptError: It has another type.
    """
    if isinstance(value, str):
        return value
    raise TranscriptError(f"{where}: expected a text, got {show(value)}")


def as_name(value: object, where: str) -> str:
    """Return the name of a tool; an empty one is what the agent wrote, and the name of no tool.

    Raises:
        TranscriptError: It has another type.
    """
    if isinstance(value, str):
        return value
    raise TranscriptError(f"{where}: expected a tool's name, got {show(value)}")


def as_id(value: object, where: str) -> str | None:
    """Return the id of a call, `None` without an id.

    Raises:
        TranscriptError: It is neither text nor a number.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise TranscriptError(f"{where}: expected the id of a call as text, got {show(value)}")


def as_arguments(value: object) -> Any:
    """Return the arguments of a call: an object, empty where there are none, or what was written instead."""
    return {} if value is None else value


def text_of(message: Message) -> str:
    """Return the text of a chat message, a string or a list of parts, without its reasoning."""
    return text_of_content(message.get("content"))


def text_of_content(content: object) -> str:
    """Return the text of a message's content, without its reasoning."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = [cast("Message", part) for part in cast("Sequence[object]", content) if isinstance(part, Mapping)]
    texts = [part.get("text") for part in parts if part.get("type") not in REASONING_PARTS]
    return "\n".join(text for text in texts if isinstance(text, str))
