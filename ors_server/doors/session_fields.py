"""The fields with which a caller requests a session, for every door that takes them by these names."""

from dataclasses import fields
from typing import Annotated, TypeAlias

from pydantic import BaseModel, Field

from ors_server.doors.labels import MAX_BODY_LABELS, MAX_LABEL, MAX_LABEL_VALUE
from ors_server.model.trajectory import UserTurn
from ors_server.model.visibility import Visibility
from ors_server.model.wire import JSONObject
from ors_server.sessions.session_request import SessionRequest

MAX_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exact."""

Position: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Labels: TypeAlias = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=MAX_LABEL)],
        Annotated[str, Field(max_length=MAX_LABEL_VALUE)],
    ],
    Field(max_length=MAX_BODY_LABELS),
]
_REQUESTED = frozenset(item.name for item in fields(SessionRequest))


class SessionFields(BaseModel):
    """A new session: its task, by value or by split and index, and its options."""

    environment: str | None = None
    """Name, in any case; by default the default environment."""
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
    """Seed of the environment's random generator; random by default."""
    labels: Labels | None = None
    """Your names for the episode: its run, attempt, group; recorded, and never shown to the agent."""
    user_turns: list[UserTurn] | None = None
    """What the simulated user repeats instead of answering, from the metadata of recorded steps."""

    def as_request(self) -> SessionRequest:
        """Return the request; the door adds the caller's credential and labels."""
        named = {name: value for name, value in self if name in _REQUESTED and value is not None}
        return SessionRequest(**named)
