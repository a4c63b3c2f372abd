"""What the control API takes.

Bodies are strict: a number in quotes is no number, and an unknown field is a mistake worth telling.
"""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ors_server.sessions.session_request import MAX_FORKS
from ors_server.visibility import Visibility
from ors_server.wire import JSONObject

MAX_PAGE = 500
"""Most tasks, sessions or steps of one answer."""

MAX_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exact."""

SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$"
"""Session ids that fit into a URL as they are."""


def _whole(value: object) -> object:
    """Take 5.0 for 5, as JSON Schema does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Position: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


class Body(BaseModel):
    """Base of what callers send."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Query(BaseModel):
    """Base of query parameters, which travel as text."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    repeatable: ClassVar[frozenset[str]] = frozenset()
    """Parameters that may be given several times, each of which is a list."""


class PageQuery(Query):
    """A slice by position."""

    start: Position = 0
    """First position, from 0."""
    stop: Position | None = None
    """Last position, exclusive; at most 500 after the first, which is also the default."""

    @property
    def end(self) -> int:
        """The last position, exclusive, within the limit of one page."""
        limit = self.start + MAX_PAGE
        return limit if self.stop is None else min(self.stop, limit)


class SessionOrderBody(Body):
    """A wish for a session: a task by value, or by split and index."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "required": ["task_spec"],
                    "properties": {
                        "task_spec": {"type": "object"},
                        "split": {"type": "null"},
                        "index": {"type": "null"},
                    },
                },
                {
                    "required": ["split", "index"],
                    "properties": {
                        "task_spec": {"type": "null"},
                        "split": {"type": "string"},
                        "index": {"type": "integer"},
                    },
                },
            ]
        }
    )

    environment: str | None = None
    """Name, in any case; the default environment otherwise."""
    task_spec: JSONObject | None = None
    split: str | None = None
    index: Position | None = None
    secrets: dict[str, str] | None = None
    """Handed to the environment; never stored, logged or shown."""
    policy: JSONObject | None = None
    """Overrides of the environment's policy by field name, as far as it allows them."""
    visibility: Annotated[Visibility, Field(strict=False)] | None = None
    """What the agent sees of rewards."""
    toolset: str | None = None
    seed: Position | None = None
    """What the environment draws its chances from; the server draws one otherwise."""
    labels: dict[str, str] | None = None
    """What you call the episode: its run, attempt, group; recorded, and never shown to the agent."""
    session_id: Annotated[str, Field(pattern=SESSION_ID_PATTERN)] | None = None
    """Your own id; the server makes one otherwise."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        by_place = self.split is not None and self.index is not None
        half_place = (self.split is None) != (self.index is None)
        if (self.task_spec is not None) == by_place or half_place:
            raise ValueError("give either task_spec, or both split and index")
        return self


class ForkBody(Body):
    """Which copies of a session are wanted."""

    count: Annotated[int, Field(ge=1, le=MAX_FORKS), BeforeValidator(_whole)] = 1
    """How many; each goes on by itself."""
    snapshot_id: str | None = None
    """From when; from now otherwise."""


class SessionsQuery(Query):
    """Which live sessions to list."""

    environment: str | None = None
    phase: Literal["created", "ready", "playing", "finished", "failed"] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100
    cursor: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,1024}$")] | None = None
    """`next_cursor` of the page before."""


class CallBody(Body):
    """A tool call."""

    name: Annotated[str, Field(min_length=1)]
    arguments: JSONObject = Field(default_factory=dict)
    call_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Your own id; a second request with the same id gets the first one's result and runs nothing."""
