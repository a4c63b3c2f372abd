"""What a tool call came to, as the control API tells it."""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from ors_server.errors import Blame, InvalidRequestError
from ors_server.sessions.session_call import Call, Completed, Refusal, RefusalReason, Scored
from ors_server.transports.access import Caller
from ors_server.transports.control_models import Answer
from ors_server.transports.redaction import may_see_rewards, redact, withhold
from ors_server.visibility import Visibility
from ors_server.wire import ToolOutput


class CompletedCall(Answer):
    """The tool gave an output, or a charged mistake was answered by the server."""

    call_id: str
    kind: Literal["completed"] = "completed"
    step: int
    is_error: bool
    """Whether the output tells the agent of a mistake of its own."""
    output: ToolOutput
    """For agents, reward and metadata are empty unless the session's visibility is `visible`."""


class RefusedCall(Answer):
    """The call was not run, or its result was discarded; nothing was paid."""

    call_id: str
    kind: Literal["refused"] = "refused"
    step: int | None
    """`None` for a call after the end, which is no step."""
    reason: RefusalReason
    detail: str


class FailedCall(Answer):
    """The call failed through no fault of the agent's; nothing was paid."""

    call_id: str
    kind: Literal["failed"] = "failed"
    step: int | None = None
    """`None` for a call that is no step."""
    code: str
    blame: Blame
    detail: str


class CallAnswer(RootModel[Annotated[CompletedCall | RefusedCall | FailedCall, Field(discriminator="kind")]]):
    """What a call came to; `kind` tells which."""


class CancelAnswer(Answer):
    """Whether a call was stopped."""

    call_id: str
    cancelled: bool
    """False when it had its result already, which stays."""


def show_call(call: Call, caller: Caller, visibility: Visibility) -> CompletedCall | RefusedCall | FailedCall:
    """Show what a call came to, as far as its reader may know.

    Args:
        call: A call that has its result.
        caller: Who reads.
        visibility: The session's setting.

    Raises:
        StoreError: If the record could not be written, so that the result must not leave.
        InvalidRequestError: If the id is that of a scored group, which is no tool call.
    """
    result = call.result
    if isinstance(result, Completed):
        output = redact(result.output, caller, visibility)
        return CompletedCall(call_id=call.id, step=result.step, is_error=result.is_error, output=output)
    if isinstance(result, Refusal):
        return RefusedCall(call_id=call.id, step=result.step, reason=result.reason, detail=result.error)
    if result is None or isinstance(result, Scored):
        raise InvalidRequestError(f"the call {call.id!r} scored a group; its answer has another form")
    if call.is_unwritten:
        raise result.error
    error = result.error if may_see_rewards(caller, visibility) else withhold(result.error, call.id)
    return FailedCall(
        call_id=call.id,
        step=result.step,
        code=error.code,
        blame=error.blame,
        detail=str(error) or type(error).__name__,
    )
