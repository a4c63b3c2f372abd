"""What a row of the control API's table is, and how a request finds and satisfies it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from ors_server.errors import ClientError, EnvironmentFailedError, InvalidRequestError
from ors_server.transports.access import Caller, Role
from ors_server.transports.control_models import Mistake
from ors_server.transports.control_requests import MAX_INTEGER, Body, Query
from ors_server.transports.json_parts import json_parts
from ors_server.transports.sse import compact_json

PREFIX = "/_ors"
"""Where the control API is; no environment's name begins with an underscore."""

PATH_PARAMETERS: Mapping[str, TypeAdapter[Any]] = {
    "name": TypeAdapter(
        Annotated[str, Field(min_length=1, description="An environment's name, in any case.")]
    ),
    "split": TypeAdapter(Annotated[str, Field(min_length=1, description="A split's name.")]),
    "index": TypeAdapter(
        Annotated[int, Field(ge=0, le=MAX_INTEGER, description="A task's position in its split, from 0.")]
    ),
    "session_id": TypeAdapter(Annotated[str, Field(min_length=1, description="A session's id.")]),
    "snapshot_id": TypeAdapter(Annotated[str, Field(min_length=1, description="A snapshot's id.")]),
    "episode": TypeAdapter(
        Annotated[
            str,
            Field(
                min_length=1,
                description="An episode's id, at least 6 digits of its beginning, or its session's id.",
            ),
        ]
    ),
    "call_id": TypeAdapter(Annotated[str, Field(min_length=1, description="A call's id.")]),
}
"""Every name that may stand in braces in a path."""

_Body = TypeVar("_Body", bound=Body)
_Query = TypeVar("_Query", bound=Query)


class UnknownPathError(ClientError):
    """The control API has nothing at that path."""

    code = "unknown_path"


class MethodNotAllowedError(ClientError):
    """The path exists and does not know the method.

    Attributes:
        allowed: The methods that it knows.
    """

    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: Sequence[str] = ("GET",)) -> None:
        """Keep the message and the methods.

        Args:
            message: What came and what is possible.
            allowed: The methods that the path knows.
        """
        super().__init__(message)
        self.allowed = tuple(allowed)


class WrongRequestError(InvalidRequestError):
    """A request's path, query or body does not match its schema.

    Attributes:
        mistakes: What is wrong, one by one.
    """

    def __init__(self, mistakes: list[Mistake]) -> None:
        """Sum the mistakes up.

        Args:
            mistakes: At least one.
        """
        first = mistakes[0]
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        super().__init__(f"{'.'.join(map(str, first.place))}: {first.message}{more}")
        self.mistakes = mistakes


class MalformedBodyError(InvalidRequestError):
    """A request's body is not JSON."""

    code = "malformed_body"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that found its row, and whose caller is known and allowed."""

    caller: Caller
    path: Mapping[str, Any]
    """Values of the names in braces."""
    base_url: str
    """Scheme, host and mount point, as the caller spelled them."""
    query_string: str
    raw_body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """By lower-case name."""

    @property
    def session_id(self) -> str:
        """The session in the path."""
        session_id: str = self.path["session_id"]
        return session_id

    def query(self, model: type[_Query]) -> _Query:
        """Check the query parameters.

        Args:
            model: What they should be.

        Raises:
            WrongRequestError: If they are not, or one that stands alone is given twice.
        """
        pairs = parse_qsl(self.query_string, keep_blank_values=True)
        lists = {name: [value for key, value in pairs if key == name] for name in model.repeatable}
        single = [(key, value) for key, value in pairs if key not in lists]
        values: dict[str, Any] = {**dict(single), **{name: found for name, found in lists.items() if found}}
        if len(dict(single)) < len(single):
            raise WrongRequestError(
                [Mistake(place=["query"], message="a parameter is given twice", code="twice")]
            )
        try:
            return model.model_validate(values)
        except ValidationError as error:
            raise WrongRequestError(mistakes_of("query", error)) from error

    def body(self, model: type[_Body]) -> _Body:
        """Check the body.

        Args:
            model: What it should be.

        Raises:
            MalformedBodyError: If it is not JSON; NaN, infinities and numbers that become infinite are none.
            WrongRequestError: If it does not match.
        """
        try:
            compact_json(from_json(self.raw_body, allow_inf_nan=False))
        except ValueError as error:
            raise MalformedBodyError(
                f"the body is not JSON, or has numbers beyond its range: {error}"
            ) from error
        try:
            return model.model_validate_json(self.raw_body)
        except ValidationError as error:
            raise WrongRequestError(mistakes_of("body", error)) from error


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer that goes on: server-sent events, until there are no more or the reader leaves."""

    pieces: AsyncGenerator[bytes, None]
    """Whole events; closed by whoever sends them, wherever they stand."""


Handler: TypeAlias = Callable[[Request], Awaitable[BaseModel | EventStream]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table."""

    method: str
    path: str
    """Below the prefix, with parameters in braces."""
    handler: Handler
    summary: str
    answer: type[BaseModel]
    """What comes back; of an event stream, what the data of its `step` events is."""
    role: Role | None = Role.TRAINER
    """The least role that may; `None` needs no credential."""
    query: type[Query] | None = None
    body: type[Body] | None = None
    status: int = HTTPStatus.OK
    failures: tuple[int, ...] = ()
    """Statuses of failures beside those that its role, path, query and body imply."""
    is_stream: bool = False
    """Whether it answers with server-sent events."""

    @property
    def id(self) -> str:
        """The operation's name: its handler's."""
        return str(getattr(self.handler, "__name__", self.path))

    @property
    def parameters(self) -> list[str]:
        """Names in braces, in order."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the values of the names in braces, or `None` if the path is another one's.

        Args:
            segments: The path below the prefix, decoded piece by piece.
        """
        expected = self.path.split("/")[1:]
        if len(expected) != len(segments) or not all(segments):
            return None
        found: dict[str, str] = {}
        for part, segment in zip(expected, segments, strict=True):
            if part.startswith("{"):
                found[part[1:-1]] = segment
            elif part != segment:
                return None
        return found


def segments_of(raw_path: bytes) -> list[str] | None:
    """Cut a path into decoded pieces, so that an escaped slash stays inside its piece.

    Args:
        raw_path: As it stands in the request line, without the query.

    Returns:
        The pieces below the prefix, or `None` for a path that is not below it.
    """
    pieces = [unquote(piece) for piece in raw_path.decode("latin-1").split("/")]
    return pieces[2:] if pieces[:2] == PREFIX.split("/") else None


def encode(answer: BaseModel) -> str:
    """Write an answer as compact JSON.

    Args:
        answer: Any answer; what authors put into it may be no JSON at all.

    Raises:
        EnvironmentFailedError: If it is none.
    """
    return b"".join(encode_parts(answer)).decode("ascii")


def encode_parts(answer: BaseModel) -> Iterator[bytes]:
    """Write an answer as compact JSON, in parts of bounded length.

    Args:
        answer: As for `encode`.

    Raises:
        EnvironmentFailedError: If it is none.
    """
    try:
        yield from json_parts(answer.model_dump(mode="json", by_alias=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentFailedError("the environment gave something that is not JSON") from error


def check_path(values: Mapping[str, str]) -> dict[str, Any]:
    """Check the values of the names in braces.

    Args:
        values: As they stand in the path.

    Raises:
        WrongRequestError: If one has another type.
    """
    checked: dict[str, Any] = {}
    for name, value in values.items():
        try:
            checked[name] = PATH_PARAMETERS[name].validate_python(value)
        except ValidationError as error:
            raise WrongRequestError(mistakes_of("path", error, name)) from error
    return checked


def mistakes_of(part: str, error: ValidationError, *names: str) -> list[Mistake]:
    """Say what is wrong without repeating what came, which may be a secret.

    Args:
        part: `path`, `query` or `body`.
        error: What pydantic found.
        *names: Leads from the part to what was checked.
    """
    return [
        Mistake(place=[part, *names, *problem["loc"]], message=problem["msg"], code=problem["type"])
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
