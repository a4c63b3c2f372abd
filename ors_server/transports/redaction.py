"""Removes from outputs and errors what an agent may not see; a trainer sees everything."""

from uuid import uuid4

from ors_server import errors
from ors_server.errors import Blame, OrsServerError
from ors_server.logs import get_logger
from ors_server.sandboxes import sandbox_errors as sandboxes
from ors_server.transports.access import Caller, Role
from ors_server.visibility import Visibility
from ors_server.wire import ToolOutput

log = get_logger("ors_server.session")

FAILED = "The tool failed through no fault of yours, and nothing was charged"
"""The message to an agent about a failure of the environment's code."""

_PLAIN = (
    errors.ClientError,
    errors.CapacityError,
    errors.StartingError,
    errors.StoreError,
    errors.ShuttingDownError,
)
_SECRETIVE = (
    errors.SettingsError,
    sandboxes.SandboxCommandError,
    sandboxes.SandboxFileError,
    sandboxes.SandboxFrozenError,
)
_INSTEAD = {
    Blame.AUTHOR: errors.EnvironmentFailedError,
    Blame.MACHINERY: errors.MachineryError,
    Blame.CLIENT: errors.ClientError,
    Blame.US: OrsServerError,
}


def may_see_rewards(caller: Caller, visibility: Visibility) -> bool:
    """Whether a caller may see rewards in the content of answers."""
    return caller.role >= Role.TRAINER or visibility is Visibility.VISIBLE


def redact(output: ToolOutput, caller: Caller, visibility: Visibility) -> ToolOutput:
    """Remove reward and metadata from an output for a caller who may not see them."""
    if may_see_rewards(caller, visibility):
        return output
    return output.model_copy(update={"reward": None, "metadata": None})


def withhold(error: OrsServerError, failure_id: str | None = None) -> OrsServerError:
    """Return an error as an agent may read it: without an author's message, which may hold the answer.

    The message goes to the log, under the id that the agent reads: the failed call's, or a new one.
    """
    if isinstance(error, _PLAIN) and not isinstance(error, _SECRETIVE):
        return error
    failure_id = failure_id or uuid4().hex
    log.warning("failure_withheld", failure_id=failure_id, code=error.code, error=str(error))
    is_tools = isinstance(error, errors.ToolFailedError)
    kind: type[OrsServerError] = errors.ToolFailedError if is_tools else _INSTEAD[error.blame]
    return kind(f"{FAILED}. The server's log and record hold the reason, under the id {failure_id}.")
