"""The tool calls of an episode, from its steps or from its messages, in order. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.reward_trajectory import Message, Trajectory, text_of


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool."""

    name: str
    arguments: Mapping[str, Any] | None
    """By name; `None` if they are not a JSON object."""
    result: str | None = None
    """What the call returned, as far as it is known."""
    failed: bool = False
    """Whether the call returned an error."""


def read_calls(trajectory: Trajectory) -> list[ToolCall]:
    """Return the tool calls of an episode, in order.

    Calls in the assistant's messages count (`tool_calls` as OpenAI writes them); where there are none, the
    steps.
    """
    results = {
        str(message["tool_call_id"]): text_of(message)
        for message in trajectory.messages
        if message.get("role") == "tool" and "tool_call_id" in message
    }
    made = [
        (str(call.get("id", "")), _of_message(call))
        for message in trajectory.messages
        for call in _calls_of(message)
    ]
    if not made:
        return [
            ToolCall(step.action, _arguments(step.action_input), step.whole_result, bool(step.error))
            for step in trajectory.steps
        ]
    if len(made) == len(trajectory.steps):  # a server's own record: its steps know which calls failed
        return [
            ToolCall(call.name, call.arguments, step.whole_result, step.error is not None)
            for (_, call), step in zip(made, trajectory.steps, strict=True)
        ]
    return [ToolCall(call.name, call.arguments, results.get(key)) for key, call in made]


def _calls_of(message: Message) -> list[Mapping[str, Any]]:
    calls: Any = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, Sequence) or isinstance(calls, str):
        return []
    listed = cast("Sequence[object]", calls)
    return [cast("Mapping[str, Any]", call) for call in listed if isinstance(call, Mapping)]


def _of_message(call: Mapping[str, Any]) -> ToolCall:
    inner: Any = call.get("function", call)
    if not isinstance(inner, Mapping):
        return ToolCall("", None)
    function = cast("Mapping[str, Any]", inner)
    return ToolCall(str(function.get("name", "")), _arguments(function.get("arguments")))


def _arguments(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        try:
            value = parse_json(value or "{}", exact=True)
        except JSONTextError:
            return None
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None
