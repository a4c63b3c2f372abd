"""Errors of requests to the HTTP interfaces, and the JSON body of every unsuccessful response."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from ors_server.model.errors import Blame, ClientError, InvalidRequestError


class ResponseModel(BaseModel):
    """Base of what callers get."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_serialization_defaults_required=True,
        ser_json_inf_nan="constants",  # so that writing an answer fails, instead of telling a null
    )


class Mistake(ResponseModel):
    """One thing that is wrong with a request."""

    place: list[str | int]
    """Where: `body`, `query` or `path`, then the names and indices that lead there."""
    message: str
    code: str


class Problem(ResponseModel):
    """Every unsuccessful response."""

    detail: str
    """What was expected, what was found, and what to do."""
    code: str
    """Stable name of the failure."""
    blame: Blame
    """Who has to act: the client, the environment's author, the machinery underneath, or us."""
    mistakes: list[Mistake] | None = None
    """What is wrong with the request, one by one, where it was checked against a schema."""
    pending: bool = False
    """Whether the call ran and its step waits to be written; the same request again returns its result."""
    call_id: str | None = None
    """The id to send again for a pending call; nothing runs twice."""


class UnknownPathError(ClientError):
    """The control API has no operation at that path."""

    code = "unknown_path"


class MethodNotAllowedError(ClientError):
    """The path exists, but not with that method; `allowed` has the path's methods."""

    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: Sequence[str] = ("GET",)) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


class WrongRequestError(InvalidRequestError):
    """A request's path, query, header or body does not match its schema; `mistakes` are at least one."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        first = mistakes[0]
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        super().__init__(f"{'.'.join(map(str, first.place))}: {first.message}{more}")
        self.mistakes = mistakes


class MalformedBodyError(InvalidRequestError):
    """A request's body is not JSON."""

    code = "malformed_body"
