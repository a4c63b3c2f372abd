"""What a tool call came to, as a client reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from ors_server.client.errors import BrokenAnswerError
from ors_server.wire import ImageBlock, JSONObject, TextBlock, ToolOutput

_Model = TypeVar("_Model", bound=BaseModel)

OVER = "episode_finished"
"""Why a call is refused once the episode has ended."""

_REASONS = (("Tool input validation error", "input_validation"), ("Tool name collision", "name_collision"))
"""How the words of servers that give no reason begin (behaviour of `ors-sdk` 0.1.0)."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a tool call came to: an output, or the reason why the call was not run."""

    call_id: str
    tool: str
    output: ToolOutput
    """The tool's output; for a call that was refused, what to tell the agent."""
    step: int | None = None
    """The step's number; `None` for a call that is no step, and where the server does not say."""
    refusal: str | None = None
    """Why the call was not run, whether it was charged or not: `not_found`, `input_validation`,
    `episode_finished`; `None` if it ran, and where an agent is not told that a charged call did not."""
    is_error: bool = False
    """Whether the output tells the agent of a mistake of its own, where the server says so."""

    @property
    def reward(self) -> float | None:
        """What was paid; `None` if nothing was judged."""
        return self.output.reward

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
        """The text for the agent; pictures are left out."""
        return text_of(self.output.blocks)


def text_of(blocks: Sequence[Any]) -> str:
    """Join the texts of blocks, line by line.

    Args:
        blocks: Blocks of any kind; only text blocks count.
    """
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def refused(call_id: str, tool: str, error: str, reason: str | None, step: int | None = None) -> CallResult:
    """Make the result of a call that was not run.

    Args:
        tool: The tool that was asked for.
        reason: Why, for programs; read from the words where the server gives none.
        step: The step's number, if it is one.
    """
    why = reason or next((name for start, name in _REASONS if error.startswith(start)), "not_found")
    output = ToolOutput(
        blocks=[TextBlock(text=error)], metadata={"error": {"code": why}}, finished=why == OVER
    )
    return CallResult(call_id, tool, output, step=step, refusal=why, is_error=True)


def read_output(given: Any) -> ToolOutput:
    """Read a tool's output, leaving out what this version of the standard does not know.

    Raises:
        BrokenAnswerError: If it is none.
    """
    if not isinstance(given, Mapping):
        raise BrokenAnswerError(f"a tool's output is a JSON object, not {type(given).__name__}")
    fields = dict(cast("Mapping[str, Any]", given))
    fields["blocks"] = read_blocks(fields.get("blocks", ()))
    return read_known(ToolOutput, fields)


def read_blocks(given: Any) -> list[TextBlock | ImageBlock]:
    """Read blocks, leaving out kinds that this version of the standard does not know.

    Raises:
        BrokenAnswerError: If it is none, or a block has not its form.
    """
    if not isinstance(given, list | tuple):
        raise BrokenAnswerError(f"blocks are a JSON array, not {type(given).__name__}")
    kinds: dict[str, type[TextBlock | ImageBlock]] = {"text": TextBlock, "image": ImageBlock}
    rows = cast("Sequence[Any]", given)
    return [
        block if isinstance(block, TextBlock | ImageBlock) else read_known(kinds[block["type"]], block)
        for block in rows
        if isinstance(block, TextBlock | ImageBlock) or block.get("type") in kinds
    ]


def read_known(model: type[_Model], given: Any) -> _Model:
    """Read a body of the standard, leaving out fields that this version does not know.

    Raises:
        BrokenAnswerError: If it has not that form.
    """
    if not isinstance(given, Mapping):
        raise BrokenAnswerError(f"a {model.__name__} is a JSON object, not {type(given).__name__}")
    fields = cast("Mapping[str, Any]", given)
    try:
        return model.model_validate({name: fields[name] for name in model.model_fields if name in fields})
    except ValidationError as error:
        raise BrokenAnswerError(
            f"the server's {model.__name__} has not the standard's form: {error}"
        ) from error


def step_of(output: ToolOutput) -> int | None:
    """Return the step's number that a server of ours writes into an output's metadata."""
    number = _standing(output).get("step")
    return number if isinstance(number, int) else None


def refusal_of(output: ToolOutput) -> str | None:
    """Return why a call that was charged was not run, as a server of ours writes it; `None` if it ran."""
    reason = _standing(output).get("refused")
    return reason if isinstance(reason, str) else None


def _standing(output: ToolOutput) -> Mapping[str, Any]:
    standing = (output.metadata or {}).get("episode")
    return cast("dict[str, Any]", standing) if isinstance(standing, dict) else {}
