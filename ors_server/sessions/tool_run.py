"""Runs one tool under its time limit and says what came of it; knows nothing of sums or stores."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from ors_server.authoring.boundary import AuthorRaisedError, call_author, describe, describe_authors, text_of
from ors_server.authoring.context import CallContext
from ors_server.authoring.definition import ToolDefinition
from ors_server.authoring.tool import ForbiddenActionError, ToolError
from ors_server.call_clock import CallClock, counting
from ors_server.episode import CallOutcome, OutcomeKind
from ors_server.errors import OrsServerError, ToolFailedError, ToolOutputError
from ors_server.policy import EpisodePolicy
from ors_server.rewards.output import has_result, numeric_extras
from ors_server.sessions.checked_output import CheckedOutput, check_output, make_error_output
from ors_server.wire import TextBlock, ToolOutput
from ors_server.workers import LingeringThread

ANSWER = "answer"
"""The argument of a finishing call that is the agent's final response."""


@dataclass(slots=True)
class ToolRun:
    """What came of running a tool."""

    outcome: CallOutcome
    output: CheckedOutput | None
    """The content for the agent; `None` after a fault."""
    error: OrsServerError | None = None
    """The fault."""


@dataclass(slots=True)
class ToolJob:
    """A tool that is about to run once."""

    tool: ToolDefinition
    function: Callable[[Any, CallContext], Any]
    """The tool, bound to its object."""
    parsed: Any
    """Its validated arguments."""
    context: CallContext
    policy: EpisodePolicy
    clock: CallClock
    """Counts the call's own time and knows its limit."""
    max_output_bytes: int
    grade: Callable[[ToolOutput, str], Awaitable[ToolOutput]] | None = None
    """Grades an output that ends the episode without a reward, given what the agent handed in."""


async def run_tool(job: ToolJob, thread: LingeringThread) -> ToolRun:
    """Run a tool once.

    Args:
        job: The tool, its arguments and its limits.
        thread: Told of the worker thread of a blocking tool.

    Returns:
        What came of it; a tool that raises, hangs or returns nonsense is a result, not an error.
    """
    run: ToolRun | None = None
    try:
        with counting(job.clock):
            result = await call_author(
                job.function, job.parsed, job.context, thread=thread, on_loop=job.tool.is_async
            )
            run = await _check_return(job, result)
    except AuthorRaisedError as raised:
        run = _classify_error(raised.error)
    except OrsServerError as error:
        run = _fault(error)
    if job.clock.is_up:  # a late result is discarded, even if the tool swallowed its cancellation
        limit = job.clock.limit
        text = f"{job.tool.name!r} did not return within {limit:g} seconds and was stopped"
        return ToolRun(
            CallOutcome(OutcomeKind.TIMEOUT), make_error_output(text, "timeout", {"time_limit": limit})
        )
    return run


async def _check_return(job: ToolJob, result: Any) -> ToolRun:
    try:
        output = job.tool.to_output(result)
        if job.grade is not None and output.finished and not has_result(output):
            output = await job.grade(output, _final_response(job, output))
        checked = check_output(output, job.policy, job.max_output_bytes)
    except ToolOutputError as error:
        return _fault(_name_tool(job, error))
    except OrsServerError as error:
        return _fault(error)
    except Exception as error:  # noqa: BLE001  (an author's own subclass of an output may do anything)
        return _fault(
            ToolOutputError(f"{job.tool.name!r} returned an illegal output: {describe(error)}"), error
        )
    causes = tuple(job.context.charged)
    metrics = numeric_extras(checked.metadata)
    return ToolRun(
        CallOutcome(OutcomeKind.COMPLETED, checked.reward, checked.finished, causes, metrics), checked
    )


def _name_tool(job: ToolJob, error: ToolOutputError) -> ToolOutputError:
    where = job.tool.where
    if not where or str(error).startswith(where):
        return error
    named = ToolOutputError(f"{where}: {error}")
    named.__cause__ = error
    return named


def _final_response(job: ToolJob, output: ToolOutput) -> str:
    """What the agent handed in: the call's `answer`, a terminal tool's message, or else the tool's text."""
    given = job.parsed.model_dump(mode="json") if isinstance(job.parsed, BaseModel) else {}
    name = ANSWER if ANSWER in given else job.tool.terminal_arg
    if name not in given:
        return "\n".join(block.text for block in output.blocks if isinstance(block, TextBlock))
    value = given[name]
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _classify_error(error: BaseException) -> ToolRun:
    text = text_of(error)
    if isinstance(error, ForbiddenActionError):
        return ToolRun(
            CallOutcome(OutcomeKind.FORBIDDEN), make_error_output(text or "forbidden", "forbidden")
        )
    if isinstance(error, ToolError):
        return ToolRun(
            CallOutcome(OutcomeKind.TOOL_ERROR), make_error_output(text or "the tool failed", "tool_error")
        )
    if isinstance(error, ValidationError):
        return _fault(ToolOutputError(describe_authors(error)), error)
    return _fault(ToolFailedError(describe_authors(error)), error)


def _fault(error: OrsServerError, cause: BaseException | None = None) -> ToolRun:
    if cause is not None:
        error.__cause__ = cause
    return ToolRun(CallOutcome(OutcomeKind.FAULT), None, error)
