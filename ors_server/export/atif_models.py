"""The objects of ATIF 1.0 to 1.8 as they are read; each forbids unknown keys, as the format does.

Source: `harbor/models/trajectories` of Harbor 0.26. Each version only adds keys, so that one model reads all.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator


class AtifModel(BaseModel):
    """Base of every object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    extra: dict[str, Any] | None = None


class MediaSource(BaseModel):
    """Where the bytes of an image or a sound are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    media_type: str
    path: str
    duration_sec: float | None = None


class ContentPart(BaseModel):
    """A part of a message or a result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: MediaSource | None = None


class AtifCall(AtifModel):
    """A call that an agent made."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class ObservationResult(AtifModel):
    """The result of a call."""

    source_call_id: str | None = None
    content: str | list[ContentPart] | None = None
    subagent_trajectory_ref: list[dict[str, Any]] | dict[str, Any] | None = None


class Observation(BaseModel):
    """What an agent saw after its calls."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    results: list[ObservationResult]


class AtifMetrics(AtifModel):
    """Tokens and costs of one step."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None


class AtifStep(AtifModel):
    """A message of the system, the user or the agent, with the agent's calls."""

    step_id: int = Field(ge=1)
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: str | list[ContentPart]
    reasoning_content: str | None = None
    tool_calls: list[AtifCall] | None = None
    observation: Observation | None = None
    metrics: AtifMetrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = Field(default=None, ge=0)


class AtifAgent(AtifModel):
    """The agent that played."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None


class AtifTrajectory(AtifModel):
    """One document."""

    schema_version: str
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AtifAgent
    steps: list[AtifStep] = Field(min_length=1)
    notes: str | None = None
    final_metrics: dict[str, JsonValue] | None = None
    continued_trajectory_ref: str | None = None
    subagent_trajectories: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        for number, step in enumerate(self.steps, 1):
            if step.step_id != number:
                raise ValueError(f"step {number} has the step_id {step.step_id}; they count from 1, in order")
            known = {call.tool_call_id for call in step.tool_calls or ()}
            for result in step.observation.results if step.observation else ():
                if result.source_call_id is not None and result.source_call_id not in known:
                    raise ValueError(
                        f"step {number}: a result names the call {result.source_call_id!r}, "
                        "which the step does not make"
                    )
        return self
