"""An operation of the control API: one row of the table, and the signature of its handler.

The row says where the operation is and who may use it. The signature says what it takes (the parameters of
the path by name, a model of the query, a model of the body) and what it gives. Requests are checked, and the
OpenAPI description is written, from these two alone.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from http import HTTPStatus
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails, from_json

from ors_server.doors.access import Caller, Role
from ors_server.doors.http.request_errors import (
    MalformedBodyError,
    Mistake,
    Problem,
    ResponseModel,
    WrongRequestError,
)
from ors_server.doors.http.sse import event, json_parts
from ors_server.model.errors import EnvironmentFailedError, OrsServerError
from ors_server.model.wire import compact_json

PREFIX = "/_ors"
"""Path of the control API; no environment's name begins with an underscore."""

LAST_EVENT = "last-event-id"
"""The header with which a reader of events comes back: the id of the last event that it has."""

_Content = TypeVar("_Content")


class RequestBody(BaseModel):
    """Base of the bodies that callers send."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RequestQuery(BaseModel):
    """Base of query parameters, which travel as text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repeatable: ClassVar[frozenset[str]] = frozenset()
    """Parameters that may be given several times; each is a list."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request whose operation is known, and whose caller may use it."""

    caller: Caller
    base_url: str
    """Scheme, host and mount point, as the caller spelled them."""
    query_string: str
    raw_body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """By lower-case name."""


@dataclass(frozen=True, slots=True)
class EventResponse(Generic[_Content]):
    """A response of server-sent events, until there are no more or the reader leaves."""

    pieces: AsyncGenerator[bytes, None]
    """Whole events; their sender closes the generator, also before its end."""


@dataclass(frozen=True, slots=True)
class WrittenAnswer(Generic[_Content]):
    """An answer whose handler wrote it as JSON itself, because checking and dumping models took too long."""

    pieces: Sequence[bytes]
    """One JSON value of the content's form, in pieces."""


Handler: TypeAlias = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class HandlerSignature:
    """The parts of an operation that its handler's signature states."""

    summary: str
    """The first line of its docstring."""
    answer: Any
    """The response's type; of an event stream, the type of the data of its `step` events."""
    is_stream: bool
    request: str | None
    """Name of the argument that takes the request itself; the next two take the query and the body."""
    query: tuple[str, type[RequestQuery]] | None
    body: tuple[str, type[RequestBody]] | None
    path: Mapping[str, TypeAdapter[Any]]
    """The other arguments, which are in the path."""


@cache
def _read_signature(function: Callable[..., Any]) -> HandlerSignature:
    hints = get_type_hints(function, include_extras=True)
    answer = hints.pop("return")
    models = {name: kind for name, kind in hints.items() if isinstance(kind, type)}
    queries = [(name, kind) for name, kind in models.items() if issubclass(kind, RequestQuery)]
    bodies = [(name, kind) for name, kind in models.items() if issubclass(kind, RequestBody)]
    requests = [name for name, kind in models.items() if kind is ControlRequest]
    taken = {*dict(queries), *dict(bodies), *requests}
    is_stream = get_origin(answer) is EventResponse
    is_wrapped = get_origin(answer) in {EventResponse, WrittenAnswer}
    return HandlerSignature(
        summary=(inspect.getdoc(function) or function.__name__).partition("\n")[0].rstrip("."),
        answer=get_args(answer)[0] if is_wrapped else answer,
        is_stream=is_stream,
        request=next(iter(requests), None),
        query=next(iter(queries), None),
        body=next(iter(bodies), None),
        path={name: TypeAdapter(hints[name]) for name in hints if name not in taken},
    )


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table."""

    method: str
    path: str
    """Below the prefix; names in braces are arguments of the handler."""
    handler: Handler
    role: Role | None = Role.TRAINER
    """The lowest role that may use it; `None` needs no credential."""
    status: int = HTTPStatus.OK
    failures: tuple[int, ...] = ()
    """Statuses of failures, besides those that follow from its role, path, query and body."""

    @property
    def id(self) -> str:
        """The operation's name: its handler's."""
        return str(getattr(self.handler, "__name__", self.path))

    @property
    def signature(self) -> HandlerSignature:
        """The handler's arguments and answer."""
        return _read_signature(getattr(self.handler, "__func__", self.handler))

    @property
    def body(self) -> type[RequestBody] | None:
        """The model of its body, if it takes one."""
        return None if self.signature.body is None else self.signature.body[1]

    @property
    def query(self) -> type[RequestQuery] | None:
        """The model of its query, if it takes one."""
        return None if self.signature.query is None else self.signature.query[1]

    @property
    def parameters(self) -> list[str]:
        """Names in braces, in order."""
        return [part[1:-1] for part in _parts(self.path) if part.startswith("{")]

    @property
    def all_failures(self) -> list[int]:
        """Statuses of every failure, in order."""
        statuses = {*self.failures}
        if self.role is not None:
            statuses |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
        if self.body is not None:
            statuses |= {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
        if self.body is not None or self.query is not None or self.parameters:
            statuses.add(HTTPStatus.UNPROCESSABLE_ENTITY)
        return sorted(map(int, statuses))

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the values of the names in braces, or `None` if the path is another one's."""
        expected = _parts(self.path)
        if len(expected) != len(segments) or not all(segments):
            return None
        values: dict[str, str] = {}
        for part, segment in zip(expected, segments, strict=True):
            if part.startswith("{"):
                values[part[1:-1]] = segment
            elif part != segment:
                return None
        return values

    def check_path(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Check the values of the names in braces; `WrongRequestError` if one has another type."""
        checked: dict[str, Any] = {}
        for name, value in values.items():
            try:
                checked[name] = self.signature.path[name].validate_python(value)
            except ValidationError as error:
                raise WrongRequestError(mistakes_of("path", error, name)) from error
        return checked

    def run(self, request: ControlRequest, path: Mapping[str, Any]) -> Awaitable[Any]:
        """Check the query and the body, and call the handler.

        Raises:
            MalformedBodyError: If the body is not JSON; NaN, infinities and numbers that become infinite are
                not JSON either.
            WrongRequestError: If the query or the body does not match its model.
        """
        arguments = dict(path)
        wanted = self.signature
        if wanted.request is not None:
            arguments[wanted.request] = request
        if wanted.query is not None:
            arguments[wanted.query[0]] = _read_query(wanted.query[1], request.query_string)
        if wanted.body is not None:
            arguments[wanted.body[0]] = _read_body(wanted.body[1], request.raw_body)
        return self.handler(**arguments)


_JSON_TYPES: Mapping[type[object], str] = {
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


@cache
def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[1:])


def _read_query(model: type[RequestQuery], text: str) -> RequestQuery:
    pairs = parse_qsl(text, keep_blank_values=True)
    lists = {name: [value for key, value in pairs if key == name] for name in model.repeatable}
    single = [(key, value) for key, value in pairs if key not in lists]
    values: dict[str, Any] = {
        **dict(single),
        **{name: repeated for name, repeated in lists.items() if repeated},
    }
    if len(dict(single)) < len(single):
        raise WrongRequestError(
            [Mistake(place=["query"], message="a parameter is given twice", code="twice")]
        )
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise WrongRequestError(mistakes_of("query", error, fields=model.model_fields)) from error


def _read_body(model: type[RequestBody], text: bytes) -> RequestBody:
    if not text.strip():
        raise MalformedBodyError("the body is empty: expected a JSON object")
    try:
        compact_json(from_json(text, allow_inf_nan=False))
    except ValueError as error:
        raise MalformedBodyError(f"the body is not JSON, or has numbers beyond its range: {error}") from error
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise WrongRequestError(mistakes_of("body", error, fields=model.model_fields)) from error


def mistakes_of(part: str, error: ValidationError, *names: str, fields: Iterable[str] = ()) -> list[Mistake]:
    """Return what is wrong, without the values, which may be secret: of those, only the types.

    Args:
        part: `path`, `query`, `header` or `body`.
        *names: Path from the part to the value that was checked.
        fields: The names that the part may have, to suggest the nearest.
    """
    return [
        Mistake(
            place=[part, *names, *problem["loc"]],
            message=_message(problem, sorted(fields)),
            code=problem["type"],
        )
        for problem in error.errors(include_url=False, include_context=False)
    ]


def _message(problem: ErrorDetails, fields: Sequence[str]) -> str:
    words = problem["msg"].removeprefix("Value error, ")
    code, location = problem["type"], problem["loc"]
    if code == "missing":
        return "it is missing"
    if code == "extra_forbidden":
        if len(location) != 1 or not fields:
            return "unknown field; leave it out"
        near = get_close_matches(str(location[0]), fields, n=1)
        hint = f"did you mean {near[0]!r}? Expected" if near else "expected"
        return f"unknown field; {hint} one of {', '.join(fields)}"
    if code.endswith("_type"):
        return f"{words}, got {_JSON_TYPES.get(type(cast('object', problem['input'])), 'another type')}"
    return words


def segments_of(raw_path: bytes) -> list[str] | None:
    """Cut a path of a request line into decoded pieces, so that an escaped slash stays inside its piece.

    The prefix is left out; `None` for a path that is not below it.
    """
    pieces = [unquote(piece) for piece in raw_path.decode("latin-1").split("/")]
    return pieces[2:] if pieces[:2] == PREFIX.split("/") else None


class _Root(RootModel[Any]):
    model_config = ResponseModel.model_config


@cache
def _root_model(kind: Any) -> type[_Root]:
    return create_model(str(kind.__name__), __base__=_Root, root=(kind, ...))


def encode(answer: object) -> str:
    """Write an answer as compact JSON; see `encode_parts`."""
    return b"".join(encode_parts(answer)).decode("ascii")


def encode_parts(answer: object) -> Iterator[bytes]:
    """Write a model, or a dataclass of the record, as compact JSON in parts of bounded length.

    Raises:
        EnvironmentFailedError: If an author has put a value into it that is not JSON.
    """
    kind: Any = type(answer)
    model = answer if isinstance(answer, BaseModel) else _root_model(kind).model_construct(answer)
    try:
        yield from json_parts(model.model_dump(mode="json", by_alias=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentFailedError("the environment returned a value that is not JSON") from error


def problem_event(error: OrsServerError) -> bytes:
    """Write a failure as an event."""
    return event("error", encode(Problem(detail=str(error), code=error.code, blame=error.blame)))
