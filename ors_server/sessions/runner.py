"""Runs one tool under its time limit and says what came of it; knows nothing of sums or stores."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
from pydantic import ValidationError

from ors_server.authoring.boundary import AuthorRaisedError, Stray, call_author, describe
from ors_server.authoring.context import CallContext
from ors_server.authoring.definition import ToolDefinition
from ors_server.authoring.tool import ForbiddenActionError, ToolError
from ors_server.episode import Outcome, OutcomeKind
from ors_server.errors import OrsServerError, ToolFailedError, ToolOutputError
from ors_server.policy import EpisodePolicy
from ors_server.sessions.output import check_output, tell_agent
from ors_server.wire import JSONObject, ToolOutput


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What came of running a tool."""

    outcome: Outcome
    output: ToolOutput | None
    """The content for the agent; `None` after a fault."""
    error: OrsServerError | None = None
    """The fault."""


@dataclass(frozen=True, slots=True)
class ToolJob:
    """A tool that is about to run once."""

    tool: ToolDefinition
    function: Callable[[Any, CallContext], Any]
    """The tool, bound to its object."""
    parsed: Any
    """Its validated arguments."""
    context: CallContext
    policy: EpisodePolicy
    time_limit: float | None
    """Seconds."""
    max_output_bytes: int


class InvalidArgumentsError(ValueError):
    """The agent's arguments do not fit the tool's parameters; the text is for the agent."""


def parse_arguments(tool: ToolDefinition, arguments: JSONObject) -> Any:
    """Validate an agent's arguments.

    Args:
        tool: The tool.
        arguments: As the agent sent them.

    Raises:
        InvalidArgumentsError: If they do not fit; the text begins as the reference implementation's does.
        ToolFailedError: If the author's own validator raised something else.
    """
    try:
        return tool.parse(arguments)
    except ValidationError as error:
        msg = f"Tool input validation error: {error.errors(include_context=False, include_url=False)}"
        raise InvalidArgumentsError(msg) from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise ToolFailedError(f"validating the input of {tool.name!r} failed: {describe(error)}") from error


async def run_tool(job: ToolJob, stray: Stray) -> ToolRun:
    """Run a tool once.

    Args:
        job: The tool, its arguments and its limits.
        stray: Told of the worker thread of a blocking tool.

    Returns:
        What came of it; a tool that raises, hangs or returns nonsense is a result, not an error.
    """
    scope = anyio.CancelScope(deadline=_deadline(job.time_limit))
    try:
        with scope:
            result = await call_author(job.function, job.parsed, job.context, stray=stray, on_loop=job.tool.is_async)
            output = check_output(job.tool.adopt(result), job.policy, job.max_output_bytes)
            return ToolRun(Outcome(OutcomeKind.COMPLETED, output.reward, output.finished), output)
    except AuthorRaisedError as raised:
        return _judge_raise(raised.error)
    except OrsServerError as error:
        return _fault(error)
    text = f"{job.tool.name!r} did not return within {job.time_limit:g} seconds and was stopped"
    return ToolRun(Outcome(OutcomeKind.TIMEOUT), tell_agent(text, "timeout", {"time_limit": job.time_limit}))


def _deadline(seconds: float | None) -> float:
    return math.inf if seconds is None else anyio.current_time() + seconds


def _judge_raise(error: BaseException) -> ToolRun:
    if isinstance(error, ForbiddenActionError):
        return ToolRun(Outcome(OutcomeKind.FORBIDDEN), tell_agent(str(error) or "forbidden", "forbidden"))
    if isinstance(error, ToolError):
        return ToolRun(Outcome(OutcomeKind.TOOL_ERROR), tell_agent(str(error) or "the tool failed", "tool_error"))
    if isinstance(error, ValidationError):
        return _fault(ToolOutputError(str(error)), error)
    return _fault(ToolFailedError(str(error) or type(error).__name__), error)


def _fault(error: OrsServerError, cause: BaseException | None = None) -> ToolRun:
    if cause is not None:
        error.__cause__ = cause
    return ToolRun(Outcome(OutcomeKind.FAULT), None, error)
