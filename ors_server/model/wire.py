"""The bodies of the Open Reward Standard, to the letter.

Field names, defaults and the refusal of unknown fields follow the standard's data types page and the
behaviour of its reference implementation (`openreward` 0.1.167). The models are frozen: data here, behaviour
elsewhere. Also how JSON crosses the wire: as ASCII without spaces.
"""

import json
import json.encoder
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, FailFast, Field, field_validator, model_validator

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object; keys are strings, values are JSON values."""

_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _make_writer() -> Callable[[Any], str]:
    # Once: `JSONEncoder.encode` makes an encoder for each value, half of the time of a short one.
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return _COMPACT.encode
    write = json.encoder.encode_basestring_ascii
    settings = None, _COMPACT.default, write, None, ":", ",", False, False, False
    encode: Callable[[Any, int], Iterable[str]] = make(*settings)

    def write_compactly(value: Any) -> str:
        return "".join(encode(value, 0))

    return write_compactly


compact_json = _make_writer()
"""Write a JSON value as ASCII JSON without spaces.

Raises `TypeError` if it holds what is not JSON, `ValueError` if it holds NaN or an infinity, and
`RecursionError` if it is nested too deeply or contains itself.
"""

MESSAGE_BLOCK_TYPES = ("text", "image", "reasoning", "tool_call", "tool_result")
"""Block types that a message may hold, as advertised by `/tools`."""


_set = object.__setattr__
_IMAGE_TYPE = re.compile(r"image/[A-Za-z0-9.+-]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


_LOOKED_AT = 2048
"""Characters at either end of an image's data that are checked."""


_Row = TypeVar("_Row")
Rows: TypeAlias = Annotated[list[_Row], FailFast()]
"""A list that is refused at its first wrong value: noting 300,000 holds the event loop for half a second."""


class WireModel(BaseModel):
    """Base of everything that crosses the wire: frozen, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


ModelT = TypeVar("ModelT", bound=WireModel)


def make_of_checked(model: type[ModelT], values: dict[str, Any]) -> ModelT:
    """Make a model of values that were checked: every field by name; `values` must not be used again."""
    made = model.__new__(model)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", set(values))
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


class TextBlock(WireModel):
    """A piece of text shown to the agent."""

    text: str
    """What the agent reads."""
    detail: JSONObject | None = None
    """Free data about the block; not shown to the agent."""
    type: Literal["text"] = "text"


class ImageBlock(WireModel):
    """An image shown to the agent."""

    data: str
    """The image's bytes in base64."""
    mimeType: str  # noqa: N815  (the wire's word)
    """For instance `image/png`."""
    detail: JSONObject | None = None
    type: Literal["image"] = "image"

    @field_validator("data", mode="before")
    @classmethod
    def _check_data(cls, value: Any) -> Any:
        if not isinstance(value, str):
            kind = type(value).__name__
            msg = f"an image's data must be base64 text, got {kind}: base64.b64encode(...).decode()"
            raise ValueError(msg)  # noqa: TRY004  (pydantic reports ValueError)
        if value.startswith("data:"):
            raise ValueError("an image's data is base64 alone; give what follows 'base64,' in the data URL")
        # Plain base64 or that for URLs; only the ends are looked at, for images are long.
        is_short = len(value) <= 2 * _LOOKED_AT
        ends = value if is_short else value[:_LOOKED_AT].rstrip() + value[-_LOOKED_AT:]
        if not value.isascii() or _BASE64.fullmatch("".join(ends.split())) is None:
            raise ValueError("an image's data is base64 text of its bytes: base64.b64encode(...).decode()")
        return value

    @field_validator("mimeType")
    @classmethod
    def _check_type(cls, value: str) -> str:
        if not _IMAGE_TYPE.fullmatch(value):
            raise ValueError(f"an image's mimeType must be a type such as image/png, got {value!r:.40}")
        return value


class ReasoningBlock(WireModel):
    """An assistant's recorded reasoning inside a conversation prompt."""

    text: str
    """The model's reasoning."""
    signature: str | None = None
    """The provider's signature of it."""
    detail: JSONObject | None = None
    type: Literal["reasoning"] = "reasoning"


class ToolCallBlock(WireModel):
    """An assistant's recorded tool call inside a conversation prompt."""

    id: str
    """By which a result names the call."""
    name: str
    """The tool's name."""
    input: JSONObject
    """The tool's arguments, by name."""
    detail: JSONObject | None = None
    type: Literal["tool_call"] = "tool_call"


Block: TypeAlias = Annotated[TextBlock | ImageBlock, Field(discriminator="type")]
"""What prompts and tool outputs are made of."""


_BLOCKS = frozenset({TextBlock, ImageBlock})


class ToolResultBlock(WireModel):
    """The answer to a recorded tool call inside a conversation prompt."""

    tool_call_id: str
    """The call that the result belongs to."""
    blocks: Rows[Block]
    """What the tool returned, in order."""
    is_error: bool = False
    """Whether the call failed."""
    detail: JSONObject | None = None
    type: Literal["tool_result"] = "tool_result"


MessageBlock: TypeAlias = Annotated[
    TextBlock | ImageBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock, Field(discriminator="type")
]
"""What messages are made of."""

_PLACES: dict[str, frozenset[str]] = {
    "system": frozenset({"text", "image"}),
    "user": frozenset({"text", "image", "tool_result"}),
    "assistant": frozenset({"text", "image", "reasoning", "tool_call"}),
}


class Message(WireModel):
    """One turn of a conversation prompt.

    Which blocks a role may hold follows the reference implementation: tool results belong to the user,
    reasoning and tool calls to the assistant.
    """

    role: Literal["system", "user", "assistant"]
    """Who wrote it."""
    blocks: Rows[MessageBlock]
    """Its content, in order."""
    detail: JSONObject | None = None

    @model_validator(mode="before")
    @classmethod
    def _explain_blocks(cls, value: Any) -> Any:
        fields = cast("JSONObject", value) if isinstance(value, dict) else {}
        blocks: object = fields.get("blocks")
        if "content" in fields or isinstance(blocks, str) or _holds_text(blocks):
            role = fields.get("role", "user")
            raise ValueError(
                "a message's content is a list of blocks under the name `blocks`: "
                f'Message(role={role!r}, blocks=[TextBlock(text="...")])'
            )
        return cast("object", value)

    @model_validator(mode="after")
    def _check_places(self) -> Self:
        for block in self.blocks:
            if block.type not in _PLACES[self.role]:
                allowed = ", ".join(sorted(_PLACES[self.role]))
                raise ValueError(f"a {self.role} message must hold {allowed} blocks, got {block.type!r}")
        return self


class ToolOutput(WireModel):
    """What one tool call gives back.

    Prefer the constructors [`ongoing`][ors_server.model.wire.ToolOutput.ongoing] and
    [`final`][ors_server.model.wire.ToolOutput.final]: a step that ends the episode must then say its reward.
    """

    blocks: Rows[Block] = Field(default_factory=list[Block])
    """Content for the agent, in order."""
    metadata: JSONObject | None = None
    """Free data for the trainer; never shown to the agent."""
    reward: float | None = None
    """The step's reward; `None` means that no judgement was made, 0.0 that the agent earned nothing."""
    finished: bool = False
    """Whether the episode is over."""

    @field_validator("reward", mode="before")
    @classmethod
    def _refuse_other_types(cls, value: Any) -> Any:
        return check_number(value, "a reward")

    @field_validator("blocks", mode="before")
    @classmethod
    def _explain_blocks(cls, value: Any) -> Any:
        if isinstance(value, str) or _holds_text(value):
            raise ValueError('blocks is a list of blocks: blocks=[TextBlock(text="...")]')
        return value

    @field_validator("reward")
    @classmethod
    def _refuse_nonsense(cls, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError(f"a reward must be a finite number or None, got {value}")
        return value

    @classmethod
    def ongoing(
        cls,
        *content: str | TextBlock | ImageBlock,
        reward: float | None = None,
        metadata: JSONObject | None = None,
    ) -> "ToolOutput":
        """Make a step after which the episode continues.

        Args:
            *content: Blocks for the agent, in order; a string becomes a text block.
            reward: A finite number, or `None` for no judgement.

        Raises:
            ValueError: If the reward is NaN or infinite (pydantic's `ValidationError`).
        """
        return cls._of(content, metadata=metadata, reward=reward, finished=False)

    @classmethod
    def final(
        cls, *content: str | TextBlock | ImageBlock, reward: float | None, metadata: JSONObject | None = None
    ) -> "ToolOutput":
        """Make the step that ends the episode.

        Args:
            *content: Blocks for the agent, in order; a string becomes a text block.
            reward: A finite number; `None` must be written out and says that the episode could not be graded.

        Raises:
            ValueError: If the reward is NaN or infinite (pydantic's `ValidationError`).
        """
        return cls._of(content, metadata=metadata, reward=reward, finished=True)

    @classmethod
    def _of(cls, content: Sequence[str | TextBlock | ImageBlock], **rest: Any) -> "ToolOutput":
        """Make one of all fields; those of most steps need no check, which costs five times as much."""
        blocks: list[TextBlock | ImageBlock] = []
        for item in content:
            blocks.append(TextBlock(text=item) if isinstance(item, str) else item)  # noqa: PERF401  (a frame less)
        values: dict[str, Any] = {"blocks": blocks, **rest}
        reward = rest["reward"]
        is_number = reward is None or (type(reward) is float and math.isfinite(reward))
        is_plain = values["metadata"] is None and _BLOCKS.issuperset(map(type, values["blocks"]))
        return make_of_checked(cls, values) if cls is ToolOutput and is_number and is_plain else cls(**values)


def check_number(value: Any, label: str) -> Any:
    """Refuse what would silently become a number, a truth value or text, by a `ValueError`."""
    if isinstance(value, bool | str | bytes) or type(value).__name__ in {"bool_", "bool"}:
        hint = "write float(...)"
        if not isinstance(value, str | bytes):
            hint += f", {float(bool(value))} here"
        raise ValueError(f"{label} must be a number, got {value!r:.40} ({type(value).__name__}); {hint}")
    return value


def _holds_text(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, str) for item in cast("list[object]", value))


def as_blocks(content: Sequence[str | TextBlock | ImageBlock]) -> list[TextBlock | ImageBlock]:
    """Turn strings and blocks into blocks, keeping the order."""
    return [TextBlock(text=item) if isinstance(item, str) else item for item in content]


class ToolSpec(WireModel):
    """How a tool is announced: exactly these three keys, always present."""

    name: str
    description: str
    input_schema: JSONObject | None
    """JSON Schema of the arguments; `None` for a tool without parameters."""


class TerminalToolSpec(WireModel):
    """The tool that receives the assistant's final message."""

    name: str
    arg: str | None
    """Name of the one parameter that takes the message; `None` when the tool takes none."""
    description: str


class Split(WireModel):
    """A named list of tasks."""

    name: str
    """Under which tasks are requested."""
    type: Literal["train", "validation", "test"]
    """What the split is for."""


def named_split(name: str) -> Split:
    """Return the split of a bare name, whose type is its name, or `validation` for any other name."""
    types: dict[str, Literal["train", "validation", "test"]] = {"train": "train", "test": "test"}
    return Split(name=name, type=types.get(name, "validation"))


class ToolListing(WireModel):
    """The answer of `/tools` and `/task_tools`."""

    tools: Rows[ToolSpec]
    terminal_tool: TerminalToolSpec | None = None
    supports_score_group: bool = False
    message_block_types: list[str] = Field(default_factory=lambda: list(MESSAGE_BLOCK_TYPES))


class GroupCandidate(WireModel):
    """One rollout of a group that is to be scored together."""

    messages: Rows[Message]
    """The conversation of one rollout."""
    metadata: JSONObject | None = None
    """Fields for the reward."""


class GroupScore(WireModel):
    """The score of one rollout of a group."""

    reward: float
    """The score of the candidate."""
    metadata: JSONObject | None = None
    """What the reward reports in addition."""

    @field_validator("reward", mode="before")
    @classmethod
    def _refuse_other_types(cls, value: Any) -> Any:
        return check_number(value, "a group score")

    @field_validator("reward")
    @classmethod
    def _refuse_nonsense(cls, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError(f"a group score must be a finite number, got {value}")
        return value


class Secret(WireModel):
    """A secret as the `X-Secrets` header carries it."""

    value: str = Field(repr=False)
    allowed_domains: list[str] | None = None


class SplitRequest(WireModel):
    """Body of `/tasks` and `/num_tasks`."""

    split: str


class TaskRequest(WireModel):
    """Body of `/task`."""

    split: str
    index: int


class TaskRangeRequest(WireModel):
    """Body of `/task_range`: a slice with Python's rules."""

    split: str
    start: int | None = None
    stop: int | None = None


def names_one_task(task_spec: JSONObject | None, split: str | None, index: int | None) -> bool:
    """Whether a request names one task, once: by value, or by split and index."""
    return (split is None) == (index is None) and (task_spec is None) != (split is None)


class CreateRequest(WireModel):
    """Body of `/create`: a task by value, or by split and index."""

    env_name: str | None = None
    task_spec: JSONObject | None = Field(default=None, repr=False)
    split: str | None = None
    index: int | None = None
    toolset_name: str | None = None
    secrets: dict[str, str] | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if not names_one_task(self.task_spec, self.split, self.index):
            raise ValueError("Provide either task_spec or both split and index, not both/neither")
        return self


class CallRequest(WireModel):
    """Body of `/call`."""

    name: str
    input: JSONObject
    task_id: str | None = None
    """Id of a call to resume, or the client's own id for a new call."""
    model_turn: JSONObject | None = Field(default=None, alias="org.openrewardstandard/model_turn")
    """A field of ours: what the model wrote before the call."""


class ScoreGroupRequest(WireModel):
    """Body of `/score_group`."""

    candidates: Rows[GroupCandidate]
    task_id: str | None = None
