"""Every failure that the server names, and whom each one blames.

An agent's mistake is not an exception: it is answered with a
[`Refusal`][ors_server.sessions.session_call.Refusal]. What remains is the fault of the client, of the
environment's author, of the machinery underneath, or of the server itself. One table in
`ors_server.doors.http.faults` holds how each class looks on a wire; this module knows nothing of HTTP.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, cast


class Blame(StrEnum):
    """Who has to act for the failure to go away."""

    CLIENT = "client"
    """The program that called the server: its request was wrong."""
    AUTHOR = "author"
    """The environment's author: their code raised, hung or returned nonsense."""
    MACHINERY = "machinery"
    """Something underneath (store, capacity, start-up); the same request may work later."""
    US = "us"
    """The server itself: a defect."""


class OrsServerError(Exception):
    """Base of every error that the server raises on purpose.

    The message says what was expected, what it got, and what to do.
    """

    blame: ClassVar[Blame] = Blame.US
    code: ClassVar[str] = "internal_error"
    """Stable machine-readable name of the failure."""


def first_of(error: BaseException) -> BaseException:
    """Return the first exception of a group, or the exception itself."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class ClientError(OrsServerError):
    """The request is wrong and stays wrong when it is repeated."""

    blame = Blame.CLIENT
    code = "bad_request"


class InvalidRequestError(ClientError):
    """The request's body or headers do not have the documented form."""

    code = "invalid_request"


class UnauthenticatedError(ClientError):
    """A credential is required and none, or an unknown one, was given."""

    code = "unauthenticated"


class ForbiddenError(ClientError):
    """The credential is known and its role does not allow this."""

    code = "forbidden"


class UnknownEnvironmentError(ClientError):
    """No environment of that name is served."""

    code = "unknown_environment"


class UnknownSplitError(ClientError):
    """The environment has no split of that name."""

    code = "unknown_split"


class UnknownTaskError(ClientError):
    """The split has no task at that index."""

    code = "unknown_task"


class TasksNotListableError(ClientError):
    """The environment's tasks are addressed by index only."""

    code = "tasks_not_listable"


class NotSupportedError(ClientError):
    """The environment does not implement an optional capability."""

    code = "not_supported"


class SessionExistsError(ClientError):
    """A session with that id is already live."""

    code = "session_exists"


class SessionNotFoundError(ClientError):
    """No live session has that id: it never existed, was deleted, or expired."""

    code = "session_not_found"


class SessionExpiredError(SessionNotFoundError):
    """The session was ended because it was idle for too long."""

    code = "session_expired"


class CallIdReusedError(ClientError):
    """The session knows a call of that id, and it was another call."""

    code = "call_id_reused"


class SessionDeletedError(ClientError):
    """The session was deleted or expired while the request waited."""

    code = "session_deleted"


class SessionInterruptedError(ClientError):
    """The server was killed while the session was live, and the session could not be rebuilt."""

    code = "session_interrupted"


class EpisodeNotFoundError(ClientError):
    """The store has no record of that name."""

    code = "episode_not_found"


class AmbiguousEpisodeError(ClientError):
    """Several episodes begin with what was given for one."""

    code = "ambiguous_episode"


class RecordError(ClientError):
    """A text is not a record of an episode as this server writes it."""

    code = "record"


class UnknownCallError(ClientError):
    """The session knows no call with that id, so there is nothing to resume."""

    code = "unknown_call"


class UnknownHostError(ClientError):
    """The server has no host with that name."""

    code = "unknown_host"


class UnknownSnapshotError(ClientError):
    """The session keeps no snapshot with that id."""

    code = "unknown_snapshot"


class EpisodeOverError(ClientError):
    """The episode has ended, so nothing can be continued."""

    code = "episode_over"


class PayloadTooLargeError(ClientError):
    """The request's body is larger than the server accepts."""

    code = "payload_too_large"


class HeaderTooLargeError(ClientError):
    """The request's line and headers are larger than the server accepts."""

    code = "header_too_large"


class RequestTimeoutError(ClientError):
    """The client began a request and did not continue it in time."""

    code = "request_timeout"


class MalformedRequestError(ClientError):
    """The bytes are not a request of HTTP/1.1, or could be read in two ways."""

    code = "malformed_request"


class UnsupportedCodingError(ClientError):
    """The request's body is coded in a way that the server does not decode."""

    code = "unsupported_coding"


class AuthorError(OrsServerError):
    """The environment's own code is at fault."""

    blame = Blame.AUTHOR
    code = "environment_error"


class EnvironmentDefinitionError(AuthorError):
    """An environment cannot be loaded: its class or declaration breaks a rule."""

    code = "environment_definition"


class DeclarationError(EnvironmentDefinitionError):
    """A key of a declaration, or the option that stands for it, is missing or does not fit."""

    code = "declaration"


class EnvironmentFailedError(AuthorError):
    """The environment's constructor, setup or one of its methods failed."""

    code = "environment_failed"


class ToolFailedError(AuthorError):
    """A tool raised, exited, or was cancelled from within."""

    code = "tool_failed"


class ToolTimeoutError(ToolFailedError):
    """A tool did not return within its time limit."""

    code = "tool_timeout"


class ToolOutputError(ToolFailedError):
    """A tool returned something that is not a legal step."""

    code = "tool_output"


class CallCancelledError(ClientError):
    """The caller cancelled the call, or left without a way to come back for its answer."""

    code = "call_cancelled"


class MachineryError(OrsServerError):
    """Something underneath the server failed; nothing was lost and a repeat is safe."""

    blame = Blame.MACHINERY
    code = "unavailable"
    retry_after: int = 1
    """Seconds after which a repeat is sensible, at least 1."""

    def __init__(self, message: str = "", *, retry_after: int | None = None) -> None:
        super().__init__(message)
        if retry_after is not None:
            self.retry_after = retry_after


class CapacityError(MachineryError):
    """A limit on live sessions is reached."""

    code = "capacity"
    retry_after = 5


class TooManyConnectionsError(MachineryError):
    """A limit on open connections is reached."""

    code = "too_many_connections"


class StartingError(MachineryError):
    """The environment's setup has not ended yet."""

    code = "starting"
    retry_after = 2


class StoreError(MachineryError):
    """The record could not be written, so the answer must not leave."""

    code = "store_unavailable"

    def __init__(self, message: str, *, pending_call: str | None = None) -> None:
        super().__init__(message)
        self.pending_call = pending_call
        """Id of the call that ran and whose step waits to be written; a repeat under this id writes it and
        runs nothing. `None` if nothing ran."""


class ShuttingDownError(MachineryError):
    """The server is stopping and takes no new work."""

    code = "shutting_down"


class SettingsError(ClientError):
    """The server's settings contradict each other or are unsafe."""

    code = "settings"


def error_of_code(code: str | None, message: str) -> OrsServerError:
    """Make the error of a code again, from a record; a tool's failure if no class here has the code."""
    return _CLASSES.get(code or "", ToolFailedError)(message)


_CLASSES: dict[str, type[OrsServerError]] = {
    value.code: value
    for value in list(globals().values())
    if isinstance(value, type) and issubclass(value, OrsServerError)
}


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that is kept: their frames would keep the session that failed."""
    error.__traceback__ = error.__cause__ = error.__context__ = None


BLAME_BY_CODE: Mapping[str, Blame] = MappingProxyType(
    {
        kind.code: kind.blame
        for kind in list(globals().values())
        if isinstance(kind, type) and issubclass(kind, OrsServerError)
    }
)
"""Whom the errors of this module blame, by their codes."""
