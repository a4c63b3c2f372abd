"""Reads documents of the Agent Trajectory Interchange Format (ATIF), versions 1.0 to 1.8.

A document that `atif` wrote becomes the record from which it was made. One of another program has no rewards:
they are unknown, and not 0. Every function raises `RecordError` for a document that cannot be read.
"""

import re
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import from_json

from ors_server._version import __version__
from ors_server.export.atif import OWN, VERSION
from ors_server.export.episode_file import Episode
from ors_server.export.media import with_data
from ors_server.model.errors import RecordError
from ors_server.model.model_turn import MAX_MESSAGES, MODEL_TURN
from ors_server.model.recording import BLOCKS, RECORD, STEP, task_digest
from ors_server.model.trajectory import (
    Blocks,
    EpisodeOrigin,
    EpisodeRecord,
    Step,
    StepStatus,
    complete_summary,
    first_summary,
)
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock

MAX_BYTES = 256 * 1024 * 1024
"""Bytes of the largest document."""
_READ = re.compile(r"ATIF-v1\.[0-8]")


# The objects of the format (`harbor/models/trajectories` of Harbor 0.26); each forbids unknown keys, as the
# format does. Each version only adds keys, so that one model reads all.


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


def find_documents(path: Path) -> Generator[Path]:
    """Yield a document, or every `*.json` below a folder, in order."""
    if path.is_dir():
        yield from sorted(found for found in path.rglob("*.json") if found.is_file())
    else:
        yield path


def read_document(path: Path, environment: str | None = None) -> Episode:
    """Read one document.

    Args:
        environment: Of episodes of other programs; the agent's name by default.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    if len(content) > MAX_BYTES:
        raise RecordError(f"{path} has more than {MAX_BYTES} bytes")
    try:
        value: object = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise RecordError(f"{path} is not JSON: {error}") from error
    try:
        return _read(_parse(value), path.parent, environment)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def _parse(value: object) -> AtifTrajectory:
    stated = cast("JSONObject", value) if isinstance(value, dict) else {}
    version = stated.get("schema_version")
    if not isinstance(version, str) or _READ.fullmatch(version) is None:
        raise RecordError(
            f"expected a document with a schema_version from 'ATIF-v1.0' to {VERSION!r}, got {version!r:.80}"
        )
    try:
        return AtifTrajectory.model_validate(stated)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"])) or "the document"
        raise RecordError(f"{location}: {first['msg']}") from error


def _read(document: AtifTrajectory, folder: Path, environment: str | None) -> Episode:
    own = (document.extra or {}).get(OWN)
    if isinstance(own, dict) and isinstance(cast("JSONObject", own).get("record"), dict):
        return _read_own(document, dict(cast("JSONObject", own)["record"]), folder)
    return _ForeignReader(document, folder, environment).read()


def _read_own(document: AtifTrajectory, stated: JSONObject, folder: Path) -> Episode:
    if isinstance(stated.get("prompt"), list):
        stated["prompt"] = with_data(stated["prompt"], folder)
    record = RECORD.of_json(stated)
    steps: list[Step] = []
    for step in document.steps:
        calls = {call.tool_call_id: call for call in step.tool_calls or ()}
        for result in step.observation.results if step.observation else ():
            own: Any = (result.extra or {}).get(OWN)
            extras = cast("JSONObject", own) if isinstance(own, dict) else None
            if extras is None or result.source_call_id is None:
                continue
            call = calls[result.source_call_id]
            blocks: list[Any] = [{"type": "text", "text": result.content}]
            if "blocks" in extras:
                blocks = with_data(extras["blocks"], folder)
            steps.append(
                STEP.of_json(
                    {**extras, "tool": call.function_name, "arguments": call.arguments, "blocks": blocks}
                )
            )
    for number, read in enumerate(steps, 1):
        if read.number != number:
            raise RecordError(f"call {number} is the step {read.number} of its episode; they count from 1")
    return replace(record, summary=complete_summary(record.summary, steps)), tuple(steps)


class _ForeignReader:
    """Reads a document of another program as an episode that nothing judged."""

    def __init__(self, document: AtifTrajectory, folder: Path, environment: str | None) -> None:
        self._document = document
        self._folder = folder
        self._environment = environment or document.agent.name
        self._steps: list[Step] = []
        self._unattached: list[JSONObject] = []
        times = (_time_of(step) for step in document.steps)
        self._time = next((time for time in times if time is not None), datetime.fromtimestamp(0, UTC))

    def read(self) -> Episode:
        """Return the episode: user and system before the agent's first message are its prompt."""
        rest = list(self._document.steps)
        prompt: list[TextBlock | ImageBlock] = []
        while rest and rest[0].source != "agent":
            prompt += self._blocks(rest.pop(0).message)
        created_at = self._time
        for step in rest:
            self._add(step)
        origin = self._origin(created_at)
        state = first_summary(origin)
        summary = replace(
            state,
            phase="finished",
            steps=len(self._steps),
            stop_reason="completed",
            started_at=created_at,
            last_call_at=self._steps[-1].started_at if self._steps else None,
            finished_at=self._time,
        )
        steps = tuple(self._steps)
        record = EpisodeRecord(
            origin, complete_summary(summary, steps), tuple(prompt) or None, is_closed=True
        )
        return record, steps

    def _origin(self, created_at: datetime) -> EpisodeOrigin:
        document = self._document
        about = document.model_dump(mode="json", exclude_none=True, exclude={"steps"})
        if self._unattached:  # messages after the last call, which no step can have
            about["closing_messages"] = self._unattached
        run = document.session_id
        identity = document.trajectory_id or document.model_dump_json()
        task = {"atif": about}
        return EpisodeOrigin(
            session_id=f"atif-{sha256(identity.encode()).hexdigest()[:32]}",
            environment=self._environment,
            environment_version=document.agent.version,
            server_version=__version__,
            task_spec=task,
            task_hash=task_digest(task),
            split=None,
            index=None,
            created_at=created_at,
            policy={},
            # The same document is the same episode, however often it is read.
            episode_id=sha256(f"{run}\0{identity}".encode()).hexdigest()[:32],
            labels={"agent": document.agent.name, **({} if run is None else {"run": run})},
        )

    def _add(self, step: AtifStep) -> None:
        self._time = max(_time_of(step) or self._time, self._time)
        message: JSONObject = {
            "role": "assistant" if step.source == "agent" else step.source,
            "content": _text(self._blocks(step.message)),
        }
        results = step.observation.results if step.observation else []
        if step.source == "agent":
            message |= _model_fields(step)
        self._unattached.append(message)
        for call in step.tool_calls or ():
            answers = [result for result in results if result.source_call_id == call.tool_call_id]
            turn: JSONObject = {
                "messages": self._unattached[-MAX_MESSAGES:],
                "tool_call_id": call.tool_call_id,
            }
            self._unattached = []
            self._steps.append(
                self._step(call.tool_call_id, call.function_name, call.arguments, answers, turn)
            )
        # Results of no call: the agent acted without the usual form of calls, and reads them as the user's.
        for result in results:
            if result.source_call_id is None and (text := _text(self._result_blocks(result))):
                self._unattached.append({"role": "user", "content": text})

    def _step(
        self,
        call_id: str,
        tool: str,
        arguments: JSONObject,
        answers: Sequence[ObservationResult],
        turn: JSONObject,
    ) -> Step:
        number = len(self._steps) + 1
        metadata: JSONObject = {MODEL_TURN: turn}
        extras = [result.extra for result in answers if result.extra]
        if extras:
            metadata["atif"] = extras
        return Step(
            number=number,
            call_id=f"{number}:{call_id}",
            tool=tool,
            arguments=arguments,
            status=StepStatus.UNGRADED,
            blocks=tuple(block for result in answers for block in self._result_blocks(result)),
            reward=None,
            components={},
            finished=False,
            error=None,
            error_code=None,
            metadata=metadata,
            started_at=self._time,
            duration=0.0,
        )

    def _result_blocks(self, result: ObservationResult) -> Blocks:
        return self._blocks(result.content or "")

    def _blocks(self, content: str | Sequence[ContentPart]) -> Blocks:
        if isinstance(content, str):
            return (TextBlock(text=content),) if content else ()
        return BLOCKS.of_json([self._block(part) for part in content])

    def _block(self, part: ContentPart) -> JSONObject:
        if part.source is None:
            return {"type": "text", "text": part.text or ""}
        if part.type != "image" or "://" in part.source.path:
            note = f"[{part.type}: {part.source.media_type}, {part.source.path}]"
            return {"type": "text", "text": note}
        rows = [{"type": "image", "mimeType": part.source.media_type, "data": {"path": part.source.path}}]
        block: JSONObject = with_data(rows, self._folder)[0]
        return block


def _model_fields(step: AtifStep) -> JSONObject:
    """Return the fields of a model's message besides its text, in the form of chat completions."""
    fields: JSONObject = {}
    if step.tool_calls:
        fields["tool_calls"] = [
            {"id": call.tool_call_id, "type": "function", "function": {"name": call.function_name}}
            for call in step.tool_calls
        ]
    if step.reasoning_content:
        fields["reasoning_content"] = step.reasoning_content
    if step.model_name:
        fields["model"] = step.model_name
    if step.metrics is not None:
        metrics = step.metrics.model_dump(mode="json", exclude_none=True)
        tokens = {
            name: metrics.pop(name) for name in ("prompt_tokens", "completion_tokens") if name in metrics
        }
        if tokens:
            fields["usage"] = tokens
        fields |= metrics
    return fields


def _text(blocks: Blocks) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def _time_of(step: AtifStep) -> datetime | None:
    if step.timestamp is None:
        return None
    try:
        time = datetime.fromisoformat(step.timestamp)
    except ValueError as error:
        raise RecordError(f"step {step.step_id}: the timestamp {step.timestamp!r} is not ISO 8601") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)
