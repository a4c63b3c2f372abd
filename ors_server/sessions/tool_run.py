"""One run of a tool, and how what it returned or raised ends the call; knows nothing of sums or stores."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from ors_server.authoring.boundary import describe, describe_authors, text_of
from ors_server.authoring.call_context import CallContext
from ors_server.authoring.definition import ToolDefinition
from ors_server.authoring.tool import ForbiddenActionError, ToolError
from ors_server.call_clock import CallClock
from ors_server.episode import CallOutcome, OutcomeKind
from ors_server.errors import OrsServerError, ToolFailedError, ToolOutputError
from ors_server.logs import secret_values
from ors_server.policy import EpisodePolicy
from ors_server.rewards.result import RewardStatus
from ors_server.rewards.result_output import has_result, numeric_extras
from ors_server.sessions.checked_output import CheckedOutput, check_output, make_error_output
from ors_server.sessions.episode_recorder import EndedCall
from ors_server.trajectory import REWARD_REASON, REWARD_STATUS, is_unjudged
from ors_server.wire import TextBlock, ToolOutput

ANSWER = "answer"
"""The argument of a finishing call that is the agent's final response."""

Grade: TypeAlias = Callable[[ToolOutput, str], Awaitable[ToolOutput]]
"""Grades an output that ends the episode without a reward, given the agent's final response."""


@dataclass(slots=True)
class ToolRun:
    """A tool that runs once."""

    tool: ToolDefinition
    parsed: Any
    """Its validated arguments."""
    context: CallContext
    clock: CallClock
    """Counts the call's own time and knows its limit."""
    started: float
    """Seconds from the origin of the server's clock."""

    async def check_return(
        self, result: Any, policy: EpisodePolicy, max_bytes: int, grade: Grade | None
    ) -> EndedCall:
        """End the call by what the tool returned, after grading it if it ends the episode ungraded.

        Args:
            grade: `None` if the environment names no reward.
        """
        tool = self.tool
        try:
            output = tool.to_output(result)
            if grade is not None and output.finished and not has_result(output):
                self.clock.arm()
                output = await grade(output, self._final_response(output))
            checked = check_output(output, policy, max_bytes)
            self._note_missing_number(checked, is_graded=grade is not None)
        except ToolOutputError as error:
            return self.fail(_name_tool(tool, error))
        except OrsServerError as error:
            return self.fail(error)
        except Exception as error:  # noqa: BLE001  (an author's own subclass of an output may do anything)
            text = f"{tool.name!r} returned an illegal output: {describe(error)}"
            return self.fail(ToolOutputError(text), error)
        outcome = CallOutcome(
            OutcomeKind.COMPLETED,
            checked.reward,
            checked.finished,
            tuple(self.context.charged),
            numeric_extras(checked.metadata),
            is_unjudged=self.context.unjudged is not None,
        )
        return EndedCall(outcome, self.started, checked)

    def classify_error(self, error: BaseException) -> EndedCall:
        """End the call by what the tool raised."""
        text = text_of(error)
        if isinstance(error, ForbiddenActionError):
            output = make_error_output(text or "forbidden", "forbidden")
            return EndedCall(self.outcome(OutcomeKind.FORBIDDEN), self.started, output)
        if isinstance(error, ToolError):
            output = make_error_output(text or "the tool failed", "tool_error")
            return EndedCall(self.outcome(OutcomeKind.TOOL_ERROR), self.started, output)
        if isinstance(error, ValidationError):
            return self.fail(ToolOutputError(describe_authors(error)), error)
        return self.fail(ToolFailedError(describe_authors(error)), error)

    def fail(self, error: OrsServerError, cause: BaseException | None = None) -> EndedCall:
        """End the call by a fault, for which nothing is charged."""
        if cause is not None:
            error.__cause__ = cause
        text = str(error)
        if (masked := secret_values.mask(text)) != text:
            error.args = (masked,)
        return EndedCall(self.outcome(OutcomeKind.FAULT), self.started, error=error)

    def time_out(self) -> EndedCall:
        """End the call because its time was up."""
        limit = self.clock.limit
        text = f"{self.tool.name!r} did not return within {limit:g} seconds and was stopped"
        output = make_error_output(text, "timeout", {"time_limit": limit})
        return EndedCall(self.outcome(OutcomeKind.TIMEOUT), self.started, output)

    def cancel(self, error: OrsServerError) -> EndedCall:
        """End the call because it was cancelled."""
        return EndedCall(self.outcome(OutcomeKind.CANCELLED), self.started, error=error)

    def outcome(self, kind: OutcomeKind) -> CallOutcome:
        """Make an outcome without a reward."""
        return CallOutcome(kind, is_unjudged=self.context.unjudged is not None)

    def _note_missing_number(self, output: CheckedOutput, *, is_graded: bool) -> None:
        """Note an output whose status has no number, or that ends a graded episode without a reward."""
        metadata = output.metadata or {}
        if is_unjudged(metadata):
            self.context.note_unjudged(
                metadata[REWARD_STATUS], str(metadata.get(REWARD_REASON, "the output states no reason"))
            )
        elif is_graded and output.finished and output.reward is None:
            self.context.note_unjudged(
                RewardStatus.ERROR, "the output ends the episode without a reward, and the class has one"
            )

    def _final_response(self, output: ToolOutput) -> str:
        """Return the call's `answer`, a terminal tool's message, or else the tool's text."""
        given = self.parsed.model_dump(mode="json") if isinstance(self.parsed, BaseModel) else {}
        name = ANSWER if ANSWER in given else self.tool.terminal_arg
        if name not in given:
            return "\n".join(block.text for block in output.blocks if isinstance(block, TextBlock))
        value = given[name]
        return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _name_tool(tool: ToolDefinition, error: ToolOutputError) -> ToolOutputError:
    if not tool.where or str(error).startswith(tool.where):
        return error
    named = ToolOutputError(f"{tool.where}: {error}")
    named.__cause__ = error
    return named
