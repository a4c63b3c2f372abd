"""The result of a tool call, as a client reads it.

Every `read_` function leaves out what this version of the standard does not know, and raises
`BrokenAnswerError` for JSON of another form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from ors_server.client.client_errors import BrokenAnswerError
from ors_server.client.typed_answers import first_problem
from ors_server.model.trajectory import is_unjudged
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock, ToolOutput

_Model = TypeVar("_Model", bound=BaseModel)

OVER = "episode_finished"
"""The refusal of calls after the episode's end."""

_REASONS = (("Tool input validation error", "input_validation"), ("Tool name collision", "name_collision"))
"""Beginnings of the messages of servers that send no reason (behaviour of `ors-sdk` 0.1.0)."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a tool call: an output, or the reason why the call did not run."""

    call_id: str
    """The id with which a repeat gets the same result."""
    tool: str
    """The tool's name."""
    output: ToolOutput
    """The tool's output; for a refused call, a message for the agent."""
    step: int | None = None
    """The step's number; `None` for a call that is not a step, and where the server does not send it."""
    refusal: str | None = None
    """Why the call did not run, charged or not: `not_found`, `input_validation` or `episode_finished`; `None`
    if it ran, and where an agent may not know that a charged call did not."""
    is_error: bool = False
    """Whether the output reports a mistake of the agent, where the server says so."""

    @property
    def reward(self) -> float | None:
        """The reward that was paid; `None` if nothing was judged."""
        return self.output.reward

    @property
    def is_unjudged(self) -> bool:
        """Whether the call's judgement failed; then the episode has no return."""
        return self.metadata is not None and is_unjudged(self.metadata)

    @property
    def finished(self) -> bool:
        """Whether the episode is over."""
        return self.output.finished

    @property
    def blocks(self) -> Sequence[TextBlock | ImageBlock]:
        """Content for the agent, in order."""
        return self.output.blocks

    @property
    def metadata(self) -> JSONObject | None:
        """Free data for the trainer."""
        return self.output.metadata

    @property
    def text(self) -> str:
        """The text for the agent, without images."""
        return text_of(self.output.blocks)


def text_of(blocks: Sequence[Any]) -> str:
    """Join the texts of blocks, line by line; other blocks are left out."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def refused(call_id: str, tool: str, error: str, reason: str | None, step: int | None = None) -> CallResult:
    """Return the result of a call that did not run.

    `reason` is for programs; without it, the reason is read from the beginning of `error`.
    """
    why = reason or next((name for start, name in _REASONS if error.startswith(start)), "not_found")
    output = ToolOutput(
        blocks=[TextBlock(text=error)], metadata={"error": {"code": why}}, finished=why == OVER
    )
    return CallResult(call_id, tool, output, step=step, refusal=why, is_error=True)


def read_output(value: Any) -> ToolOutput:
    """Read a tool's output."""
    if not isinstance(value, Mapping):
        raise BrokenAnswerError(f"expected a tool's output as a JSON object, got {type(value).__name__}")
    fields = dict(cast("Mapping[str, Any]", value))
    fields["blocks"] = read_blocks(fields.get("blocks", ()))
    return read_known(ToolOutput, fields)


def read_blocks(value: Any) -> list[TextBlock | ImageBlock]:
    """Read a list of blocks."""
    if not isinstance(value, list | tuple):
        raise BrokenAnswerError(f"expected blocks as a JSON array, got {type(value).__name__}")
    kinds: dict[str, type[TextBlock | ImageBlock]] = {"text": TextBlock, "image": ImageBlock}
    rows = cast("Sequence[Any]", value)
    return [
        block if isinstance(block, TextBlock | ImageBlock) else read_known(kinds[block["type"]], block)
        for block in rows
        if isinstance(block, TextBlock | ImageBlock) or _kind_of(block) in kinds
    ]


def _kind_of(block: Any) -> str:
    if not isinstance(block, Mapping):
        raise BrokenAnswerError(f"expected a block as a JSON object, got {type(block).__name__}")
    return str(cast("Mapping[str, Any]", block).get("type"))


def read_known(model: type[_Model], value: Any) -> _Model:
    """Read a body of the standard."""
    if not isinstance(value, Mapping):
        raise BrokenAnswerError(f"expected a {model.__name__} as a JSON object, got {type(value).__name__}")
    fields = cast("Mapping[str, Any]", value)
    try:
        # The models forbid unknown names, which a newer server may send.
        return model.model_validate({name: fields[name] for name in model.model_fields if name in fields})
    except ValidationError as error:
        raise BrokenAnswerError(
            f"the server's {model.__name__} does not have the standard's form: {first_problem(error)}"
        ) from error


def step_of(output: ToolOutput) -> int | None:
    """Return the step's number that ors-server writes into an output's metadata."""
    number = _episode_metadata(output).get("step")
    return number if isinstance(number, int) else None


def refusal_of(output: ToolOutput) -> str | None:
    """Return why a charged call did not run, as ors-server writes it into the metadata; `None` if it ran."""
    reason = _episode_metadata(output).get("refused")
    return reason if isinstance(reason, str) else None


def _episode_metadata(output: ToolOutput) -> Mapping[str, Any]:
    episode = (output.metadata or {}).get("episode")
    return cast("dict[str, Any]", episode) if isinstance(episode, dict) else {}
