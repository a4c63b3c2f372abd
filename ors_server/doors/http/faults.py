"""The HTTP status and JSON-RPC code of every error: one table."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import TypedDict

from ors_server.client.bounded_http import BrokenAnswerError
from ors_server.doors.http.request_errors import (
    MalformedBodyError,
    MethodNotAllowedError,
    UnknownPathError,
    WrongRequestError,
)
from ors_server.environments.boundary import AuthorRaisedError
from ors_server.environments.calling_client import AbilityError, AskError
from ors_server.environments.declared.row_faults import BadRowsError
from ors_server.environments.simulated_user import user_errors as users
from ors_server.grading import grading_errors as grading
from ors_server.model import errors
from ors_server.model.errors import OrsServerError, StartingError, StoreError
from ors_server.processes.offload import offload_errors as offload
from ors_server.resources import resource_errors as resources
from ors_server.rewards import reward_errors as rewards
from ors_server.rewards.transcripts.turns import MissingRoleError, TranscriptError
from ors_server.sandboxes import sandbox_errors as sandboxes

JSONRPC_INVALID_PARAMS = -32602
JSONRPC_INTERNAL = -32603
JSONRPC_UNAUTHORISED = -32001
"""In JSON-RPC's range for servers' own errors."""
JSONRPC_NOT_FOUND = -32004
JSONRPC_UNAVAILABLE = -32005


@dataclass(frozen=True, slots=True)
class Fault:
    """The wire forms of one class of error."""

    status: int
    """HTTP status of an answer that has not begun yet."""
    jsonrpc: int
    """JSON-RPC error code over MCP."""
    control: int | None = None
    """HTTP status on the control API, where it differs because ORS follows its reference implementation."""

    @property
    def control_status(self) -> int:
        """HTTP status on the control API."""
        return self.status if self.control is None else self.control


FAULTS = MappingProxyType(
    {
        errors.OrsServerError: Fault(500, JSONRPC_INTERNAL),
        errors.ClientError: Fault(400, JSONRPC_INVALID_PARAMS),
        errors.InvalidRequestError: Fault(400, JSONRPC_INVALID_PARAMS, control=422),
        errors.UnauthenticatedError: Fault(401, JSONRPC_UNAUTHORISED),
        errors.ForbiddenError: Fault(403, JSONRPC_UNAUTHORISED),
        errors.UnknownEnvironmentError: Fault(404, JSONRPC_INVALID_PARAMS),
        errors.UnknownSplitError: Fault(400, JSONRPC_INVALID_PARAMS, control=404),
        errors.UnknownTaskError: Fault(400, JSONRPC_INVALID_PARAMS, control=404),
        errors.TasksNotListableError: Fault(400, JSONRPC_INVALID_PARAMS),
        errors.NotSupportedError: Fault(404, JSONRPC_INVALID_PARAMS),
        errors.SessionExistsError: Fault(400, JSONRPC_INVALID_PARAMS, control=409),
        errors.SessionNotFoundError: Fault(404, JSONRPC_NOT_FOUND),
        errors.SessionExpiredError: Fault(404, JSONRPC_NOT_FOUND),
        errors.CallIdReusedError: Fault(409, JSONRPC_INVALID_PARAMS),
        errors.SessionDeletedError: Fault(410, JSONRPC_NOT_FOUND),
        errors.SessionInterruptedError: Fault(410, JSONRPC_NOT_FOUND),
        errors.UnknownCallError: Fault(404, JSONRPC_NOT_FOUND),
        errors.UnknownHostError: Fault(404, JSONRPC_INVALID_PARAMS),
        errors.UnknownSnapshotError: Fault(404, JSONRPC_INVALID_PARAMS),
        errors.EpisodeNotFoundError: Fault(404, JSONRPC_INVALID_PARAMS),
        errors.AmbiguousEpisodeError: Fault(409, JSONRPC_INVALID_PARAMS),
        errors.RecordError: Fault(400, JSONRPC_INVALID_PARAMS, control=422),
        errors.EpisodeOverError: Fault(409, JSONRPC_INVALID_PARAMS),
        errors.PayloadTooLargeError: Fault(413, JSONRPC_INVALID_PARAMS),
        errors.HeaderTooLargeError: Fault(431, JSONRPC_INVALID_PARAMS),
        errors.RequestTimeoutError: Fault(408, JSONRPC_INVALID_PARAMS),
        errors.MalformedRequestError: Fault(400, JSONRPC_INVALID_PARAMS),
        errors.UnsupportedCodingError: Fault(415, JSONRPC_INVALID_PARAMS),
        errors.CallCancelledError: Fault(409, JSONRPC_INTERNAL),
        errors.SettingsError: Fault(500, JSONRPC_INTERNAL),
        errors.AuthorError: Fault(500, JSONRPC_INTERNAL),
        errors.EnvironmentDefinitionError: Fault(500, JSONRPC_INTERNAL),
        errors.DeclarationError: Fault(500, JSONRPC_INTERNAL),
        BadRowsError: Fault(500, JSONRPC_INTERNAL),
        errors.EnvironmentFailedError: Fault(500, JSONRPC_INTERNAL),
        errors.ToolFailedError: Fault(500, JSONRPC_INTERNAL),
        errors.ToolTimeoutError: Fault(500, JSONRPC_INTERNAL),
        errors.ToolOutputError: Fault(500, JSONRPC_INTERNAL),
        errors.MachineryError: Fault(503, JSONRPC_UNAVAILABLE),
        BrokenAnswerError: Fault(503, JSONRPC_UNAVAILABLE),
        errors.CapacityError: Fault(429, JSONRPC_UNAVAILABLE),
        errors.TooManyConnectionsError: Fault(503, JSONRPC_UNAVAILABLE),
        errors.StartingError: Fault(503, JSONRPC_UNAVAILABLE),
        errors.StoreError: Fault(503, JSONRPC_UNAVAILABLE),
        errors.ShuttingDownError: Fault(503, JSONRPC_UNAVAILABLE),
        offload.WorkerLostError: Fault(503, JSONRPC_UNAVAILABLE),
        offload.WorkerDiedError: Fault(503, JSONRPC_UNAVAILABLE),
        offload.WorkerStalledError: Fault(503, JSONRPC_UNAVAILABLE),
        AuthorRaisedError: Fault(500, JSONRPC_INTERNAL),
        UnknownPathError: Fault(404, JSONRPC_INVALID_PARAMS),
        MethodNotAllowedError: Fault(405, JSONRPC_INVALID_PARAMS),
        MalformedBodyError: Fault(400, JSONRPC_INVALID_PARAMS),
        WrongRequestError: Fault(422, JSONRPC_INVALID_PARAMS),
        AskError: Fault(400, JSONRPC_INVALID_PARAMS),
        sandboxes.SandboxError: Fault(503, JSONRPC_UNAVAILABLE),
        sandboxes.SandboxUnavailableError: Fault(503, JSONRPC_UNAVAILABLE),
        sandboxes.SandboxStartError: Fault(503, JSONRPC_UNAVAILABLE),
        sandboxes.SandboxClosedError: Fault(503, JSONRPC_UNAVAILABLE),
        sandboxes.FreshEndedError: Fault(503, JSONRPC_UNAVAILABLE),
        sandboxes.SandboxStarvedError: Fault(503, JSONRPC_UNAVAILABLE),
        sandboxes.SnapshotError: Fault(503, JSONRPC_UNAVAILABLE),
        sandboxes.SandboxCommandError: Fault(400, JSONRPC_INVALID_PARAMS),
        sandboxes.SandboxShellError: Fault(400, JSONRPC_INVALID_PARAMS),
        sandboxes.SandboxFileError: Fault(400, JSONRPC_INVALID_PARAMS),
        sandboxes.SandboxPathError: Fault(400, JSONRPC_INVALID_PARAMS),
        sandboxes.SandboxFileMissingError: Fault(404, JSONRPC_INVALID_PARAMS),
        sandboxes.SandboxFileTooLargeError: Fault(413, JSONRPC_INVALID_PARAMS),
        sandboxes.SandboxFrozenError: Fault(409, JSONRPC_INVALID_PARAMS),
        sandboxes.UnsandboxedRefusedError: Fault(403, JSONRPC_UNAUTHORISED),
        grading.GradingError: Fault(500, JSONRPC_INTERNAL),
        grading.GraderFailedError: Fault(503, JSONRPC_UNAVAILABLE),
        resources.ResourceError: Fault(503, JSONRPC_UNAVAILABLE),
        resources.ResourceStartError: Fault(503, JSONRPC_UNAVAILABLE),
        resources.ResourceTimeoutError: Fault(503, JSONRPC_UNAVAILABLE),
        resources.ResourceClosedError: Fault(503, JSONRPC_UNAVAILABLE),
        resources.ResourceUseError: Fault(500, JSONRPC_INTERNAL),
        resources.MissingRequirementError: Fault(500, JSONRPC_INTERNAL),
        resources.ResourceCallError: Fault(500, JSONRPC_INTERNAL),
        resources.UnboundResourceError: Fault(500, JSONRPC_INTERNAL),
        rewards.RewardError: Fault(500, JSONRPC_INTERNAL),
        rewards.RewardDefinitionError: Fault(500, JSONRPC_INTERNAL),
        rewards.MissingPackageError: Fault(500, JSONRPC_INTERNAL),
        rewards.RewardFieldError: Fault(500, JSONRPC_INTERNAL),
        TranscriptError: Fault(500, JSONRPC_INTERNAL),
        MissingRoleError: Fault(500, JSONRPC_INTERNAL),
        rewards.RewardValueError: Fault(500, JSONRPC_INTERNAL),
        rewards.UnknownRewardError: Fault(500, JSONRPC_INTERNAL),
        rewards.NoRewardError: Fault(500, JSONRPC_INTERNAL),
        rewards.BatchError: Fault(500, JSONRPC_INTERNAL),
        rewards.JudgeError: Fault(503, JSONRPC_UNAVAILABLE),
        rewards.JudgeBudgetError: Fault(503, JSONRPC_UNAVAILABLE),
        rewards.JudgeSettingsError: Fault(500, JSONRPC_INTERNAL),
        users.UserError: Fault(503, JSONRPC_UNAVAILABLE),
        users.UserBudgetError: Fault(503, JSONRPC_UNAVAILABLE),
        users.UserSettingsError: Fault(500, JSONRPC_INTERNAL),
        users.UserRecordError: Fault(500, JSONRPC_INTERNAL),
        AbilityError: Fault(400, JSONRPC_INVALID_PARAMS),
    }
)
"""A row for every class of error, as a test demands; a class without one would look like its parent."""


def look_up(error: OrsServerError) -> Fault:
    """Return an error's row: that of the nearest class it derives from."""
    return next(FAULTS[base] for base in type(error).__mro__ if base in FAULTS)


class PendingFields(TypedDict, total=False):
    """Fields about a call that ran and whose step is not stored yet."""

    pending: bool
    call_id: str


def pending_fields(error: OrsServerError) -> PendingFields:
    """Return the fields of an error's answer besides `detail`, `code` and `blame`."""
    if isinstance(error, StoreError) and error.pending_call is not None:
        return {"pending": True, "call_id": error.pending_call}
    return {}


def extra_headers(error: OrsServerError) -> dict[str, str]:
    """Return extra HTTP headers for an error."""
    if isinstance(error, StartingError):
        return {"x-backend-state": "starting", "retry-after": str(error.retry_after)}
    if isinstance(error, errors.MachineryError):
        return {"retry-after": str(error.retry_after)}
    if isinstance(error, errors.UnauthenticatedError):
        return {"www-authenticate": "Bearer"}
    if isinstance(error, errors.UnsupportedCodingError):
        return {"accept-encoding": "gzip, identity"}
    return {}
