"""Types of the requests that pages get, and of their answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote

from ors_server.console.browser_sessions import BrowserSession
from ors_server.doors.control.handlers import ControlHandlers
from ors_server.doors.control.operations import ControlRequest
from ors_server.doors.http.request_errors import UnknownPathError
from ors_server.model.clock import Clock
from ors_server.model.errors import MalformedRequestError
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.sessions.manager import SessionManager
from ors_server.store.base import RecordReader
from ors_server.store.lookup import find_episode

log = get_logger("ors_server.console")

MAX_FIELDS = 1_000
"""Parameters of one query or form."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request from a browser."""

    method: str
    segments: Sequence[str]
    """The parts of the path below the console's."""
    headers: Mapping[str, str]
    base_url: str
    """Scheme, host and mount point of the server."""
    root: str
    """Path of the console."""
    address: str
    """Of the peer."""
    query_string: str
    session: BrowserSession
    """That of a browser which has not signed in opens the sign-in only."""
    path: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parts of the path that have a name in the table of routes."""
    form: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query, in order; `MalformedRequestError` if it is too long."""
        try:
            return parse_qsl(self.query_string, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except ValueError:
            raise MalformedRequestError(f"a query has at most {MAX_FIELDS} fields") from None

    def value(self, name: str) -> str | None:
        """Return the first value of a parameter that is not empty."""
        return next((value for key, value in self.pairs if key == name and value), None)

    def number(self, name: str) -> int | None:
        """Return a whole number from a parameter; `None` for anything else."""
        return whole_number(self.value(name) or "")

    @property
    def own_address(self) -> str:
        """The page's address as links have it."""
        path = self.root + "".join(f"/{quote(part, safe='')}" for part in self.segments)
        return path + (f"?{self.query_string}" if self.query_string else "")

    @property
    def control(self) -> ControlRequest:
        """The request as operations of the control API take it: of the same caller."""
        key = self.session.credential
        headers = {} if key is None else {"x-api-key": key}
        return ControlRequest(self.session.caller, self.base_url, "", b"", headers)


def whole_number(text: str) -> int | None:
    """Read a whole number from 0 that JSON keeps exactly; `None` for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None  # noqa: PLR2004  (2**53)


def position_in(text: str) -> int:
    """Return the position from 0 of a number from 1."""
    number = whole_number(text)
    if not number:
        raise UnknownPathError("expected a number from 1")
    return number - 1


@dataclass(frozen=True, slots=True)
class Page:
    """A page to be written from a template, in a thread."""

    template: str
    values: Mapping[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, template: str, status: int = 200, /, **values: object) -> "Page":
        """Return a page with the usual headers."""
        return cls(template, values, status)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to another page."""

    location: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Download:
    """Bytes of the record."""

    content: bytes
    content_type: str
    name: str | None = None
    """The file's name, for what is saved and never shown."""


def note_action(
    request: PageRequest, action: str, session_id: str | None = None, episode_id: str | None = None
) -> None:
    """Write a line of the log about something that a person did, and with which key."""
    caller = request.session.caller
    log.info(
        "console_action",
        action=action,
        session_id=session_id,
        episode_id=episode_id,
        credential_id=caller.credential_id,
        role=caller.role.name.lower(),
    )


Answer: TypeAlias = Page | Redirect | Download | AsyncGenerator[bytes, None]
"""The last are server-sent events, until the reader leaves or there are no more."""
Handler: TypeAlias = Callable[[PageRequest], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table: names in braces are parts of the path."""

    method: str
    path: str
    handler: Handler

    def match(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """Return the named parts of a path below the console's, or `None` if it is another route's."""
        expected = self.path.split("/") if self.path else []
        if len(expected) != len(segments):
            return None
        pairs = list(zip(expected, segments, strict=True))
        if any(part != segment for part, segment in pairs if not part.startswith("{")):
            return None
        return {part[1:-1]: segment for part, segment in pairs if part.startswith("{")}


@dataclass(eq=False)
class PageGroup:
    """The pages about one subject, and what they answer from."""

    _store: RecordReader
    _manager: SessionManager
    _control: ControlHandlers
    _clock: Clock

    async def _find(self, request: PageRequest) -> EpisodeRecord:
        """Return the episode that the path names."""
        return await find_episode(self._store, request.path["episode"])

    async def _find_step(self, record: EpisodeRecord, request: PageRequest) -> Step:
        """Return the step of an episode that the path names."""
        position = position_in(request.path["number"])
        steps = await self._store.steps(record.origin.episode_id, position, position + 1)
        if not steps:
            raise UnknownPathError(f"the episode has {record.summary.steps} steps; there is no such step")
        return steps[0]
