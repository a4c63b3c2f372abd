"""The exceptions of the client: the server's errors, by code or status, and errors that only a client has."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, cast

from ors_server.client.bounded_http import MAX_PROBLEM_BYTES
from ors_server.client.bounded_http import BrokenAnswerError as BrokenAnswerError  # noqa: PLC0414  (one of the client's)
from ors_server.model import errors
from ors_server.model.errors import AuthorError, Blame, ClientError, MachineryError, OrsServerError

MAX_SHOWN_CHARACTERS = 500
"""Characters that an error repeats of an answer that is not JSON."""


class UnreachableError(MachineryError):
    """The server could not be reached, or the connection broke again and again."""

    code = "unreachable"


class CallLostError(MachineryError):
    """A call's answer was lost, and a repetition could run the call twice."""

    code = "call_lost"


class CallTimeoutError(MachineryError):
    """A call was not answered within the client's own time limit; it may still run and be paid."""

    code = "call_timeout"


class ClosedError(ClientError):
    """The client is closed."""

    code = "client_closed"


CLOSED = "the client is closed: use it before `close` and inside its `with` statement, or make another client"


class SumMismatchError(OrsServerError):
    """The received rewards differ from the server's figures.

    Attributes:
        received: The client's figure.
        stated: The server's figure.
        strangers: Steps of other clients, in words; empty if none are known.
    """

    blame = Blame.MACHINERY
    code = "sum_mismatch"

    def __init__(
        self, message: str, *, received: object = None, stated: object = None, strangers: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.strangers = tuple(strangers)
        self.received = received
        self.stated = stated


class UnjudgedError(AuthorError):
    """A judgement of the episode failed, so that it has no return: neither train on it nor count it."""

    code = "unjudged"


def _classes() -> dict[str, type[OrsServerError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return {cls.code: cls for cls in classes if issubclass(cls, OrsServerError)}


BY_CODE: Mapping[str, type[OrsServerError]] = MappingProxyType(_classes())
"""The server's errors by the code that names them on every wire."""

BY_BLAME: Mapping[str, type[OrsServerError]] = MappingProxyType(
    {
        Blame.CLIENT.value: errors.ClientError,
        Blame.AUTHOR.value: errors.AuthorError,
        Blame.MACHINERY.value: MachineryError,
        Blame.US.value: OrsServerError,
    }
)
"""Classes for errors whose code this version does not know."""

BY_STATUS: Mapping[int, type[OrsServerError]] = MappingProxyType(
    {
        401: errors.UnauthenticatedError,
        403: errors.ForbiddenError,
        404: errors.SessionNotFoundError,
        410: errors.SessionDeletedError,
        413: errors.PayloadTooLargeError,
        422: errors.InvalidRequestError,
        429: errors.CapacityError,
        500: errors.AuthorError,
        502: MachineryError,
        503: MachineryError,
        504: MachineryError,
    }
)
"""Classes by HTTP status, for servers that send no code; 500 is an environment's exception there (behaviour
of `openreward` 0.1.167)."""


def error_from(problem: Any, status: int) -> OrsServerError:
    """Return the exception for an unsuccessful answer: its JSON, or its text."""
    if not isinstance(problem, dict):
        text = str(problem).strip()[:MAX_SHOWN_CHARACTERS] or f"HTTP status {status}"
        # No server of the standard says so much: it is another program's page, or an attack.
        if isinstance(problem, str) and len(problem.encode(errors="replace")) >= MAX_PROBLEM_BYTES:
            limit = f"{MAX_PROBLEM_BYTES:,} bytes that are read of it"
            return BrokenAnswerError(f"an answer of HTTP status {status} has more than the {limit}: {text}")
        return BY_STATUS.get(status, _unknown(status))(text)
    fields = cast("dict[str, Any]", problem)
    text = _text(fields.get("detail"), status)
    named = named_error(fields.get("code"), fields.get("blame"), text)
    return BY_STATUS.get(status, _unknown(status))(text) if named is None else named


def named_error(code: Any, blame: Any, text: str) -> OrsServerError | None:
    """Return the error of a code, or of the blame if the code is unknown; `None` without either."""
    cls = BY_CODE.get(str(code)) or _loaded(str(code)) or BY_BLAME.get(str(blame))
    return None if cls is None else cls(text)


def _loaded(code: str) -> type[OrsServerError] | None:
    """Return the class of a code that another loaded module defines, as for a server in this process."""
    classes = [OrsServerError]
    for cls in classes:
        # A class with another constructor cannot be made of the text alone.
        if cls.__init__ is OrsServerError.__init__ and vars(cls).get("code") == code:
            return cls
        classes += cls.__subclasses__()
    return None


def _text(detail: Any, status: int) -> str:
    if isinstance(detail, list):
        text = "; ".join(_problem(row) for row in cast("Sequence[Any]", detail))
    else:
        text = "" if detail is None else str(detail)
    return text if text.strip() else f"HTTP status {status}"


def _problem(row: Any) -> str:
    return str(cast("dict[str, Any]", row).get("msg", row)) if isinstance(row, dict) else str(row)


def _unknown(status: int) -> type[OrsServerError]:
    if status < HTTPStatus.BAD_REQUEST:
        return BrokenAnswerError
    return errors.ClientError if status < HTTPStatus.INTERNAL_SERVER_ERROR else MachineryError
