"""Messages in the ShareGPT form: `from` and `value`.

Sources: `data/README.md` and `src/llamafactory/data/converter.py` of LLaMA-Factory, and axolotl's
`chat_template` data. A `function_call` is the JSON of a call, or of a list of calls; an `observation` may
hold the results of several calls, as a JSON list.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.transcripts.calls import read_call
from ors_server.rewards.transcripts.text_calls import read_text_calls
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Event,
    SaidTurn,
    ToolAnswer,
    TranscriptError,
    as_text,
    key_table,
    show,
    unexpected_error,
)

_CALLS: Final = "function_call"
ROLES: Mapping[str, str] = MappingProxyType(
    {
        "system": SYSTEM,
        "human": USER,
        "user": USER,
        "gpt": ASSISTANT,
        "assistant": ASSISTANT,
        "chatgpt": ASSISTANT,
        "bing": ASSISTANT,
        "bard": ASSISTANT,
        _CALLS: _CALLS,
        "observation": TOOL,
        "tool": TOOL,
    }
)
_MESSAGE: Final = key_table("a message of ShareGPT", "from value", "train weight name label id text")


def read_sharegpt(message: Mapping[str, Any], where: str) -> Iterator[Event]:
    """Read one message.

    Raises:
        TranscriptError: Its `from`, or a key of it, is not understood.
    """
    _MESSAGE.check(message, where)
    written = message["from"]
    role = ROLES.get(written) if isinstance(written, str) else None
    if role is None:
        raise unexpected_error(where, "from", written, ROLES)
    text = as_text(message.get("value"), f"{where}: value")
    if role == TOOL:
        yield ToolAnswer(text, may_hold_several=True)
    elif role == _CALLS:
        yield _read_calls(text, where, as_text(message.get("text", ""), f"{where}: text"))
    else:
        yield SaidTurn(role, text)


def _read_calls(text: str, where: str, said: str) -> SaidTurn:
    try:
        value = parse_json(text)
    except JSONTextError:
        read = read_text_calls(text, where)  # a thought and the calls in a model's own marks
        if not read.calls:
            raise TranscriptError(
                f"{where}: expected the JSON of calls in a function_call, got {show(text)}"
            ) from None
        return SaidTurn(ASSISTANT, read.text, read.calls, continues_previous=True)
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    if not listed:
        raise TranscriptError(f"{where}: expected at least one call in a function_call, got none")
    calls = tuple(read_call(entry, f"{where}, call {number}") for number, entry in enumerate(listed, 1))
    return SaidTurn(ASSISTANT, said, calls, continues_previous=True)
