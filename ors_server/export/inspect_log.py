"""Episodes as logs of Inspect, which `inspect view` opens: one log for the episodes of one task and run.

Source: `inspect_ai/log/_log.py` of inspect_ai 0.3.285, version 2 of the log. An attempt at a task is a
sample, its score is the return, and the score of an episode without a judgement is missing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO

from ors_server._version import __version__
from ors_server.export.chat import ConversationOptions, image_part
from ors_server.export.conversation import Blocks, ConversationTurn, read_conversation, text_of
from ors_server.export.episodes import describe, judged_return
from ors_server.export.offered_tools import tools_of
from ors_server.model.model_turn import recorded_turn
from ors_server.model.trajectory import EpisodeRecord, Step, StepStatus, seconds_of
from ors_server.model.wire import ImageBlock, JSONObject

LOG_VERSION = 2
SCORER = "return"
"""Name of the score: an episode's return."""
NO_MODEL = "none/none"
"""Inspect's name for a run without a model."""
_ERRORS = {"timeout": "timeout", "cancelled": "cancelled", "forbidden": "approval"}
"""Types of Inspect's tool errors by codes of ours; others are `unknown`."""


@dataclass(slots=True)
class InspectLog:
    """Writes one log, a sample at a time, so that only one is in memory.

    Inspect reads the head of a log without its samples, so that they must come last. The head has figures
    over all of them, and they wait for it in a temporary file.
    """

    file: IO[bytes]
    environment: str
    run: str | None
    samples: int = 0
    _waiting: IO[bytes] = field(default_factory=TemporaryFile, repr=False)
    _returns: list[float] = field(default_factory=list[float])
    _epochs: dict[str, int] = field(default_factory=dict[str, int])
    _created: str = ""
    _model: str = NO_MODEL
    _ended: datetime | None = None
    _version: str = ""

    def add(self, record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions) -> None:
        """Write an episode as a sample."""
        origin = record.origin
        if not self.samples:
            self._created, self._version = origin.created_at.isoformat(), origin.environment_version
            self._model = _model_of(steps)
        sample_id = origin.task_hash if origin.index is None else f"{origin.split}/{origin.index}"
        epoch = self._epochs[sample_id] = self._epochs.get(sample_id, 0) + 1
        if self.samples:
            self._waiting.write(b",\n")
        self._waiting.write(_dump(inspect_sample(record, steps, options, sample_id=sample_id, epoch=epoch)))
        self.samples += 1
        value = judged_return(record.summary)
        if value is not None:
            self._returns.append(value)
        ended = record.summary.finished_at
        if ended is not None and (self._ended is None or ended > self._ended):
            self._ended = ended

    def finish(self) -> None:
        """Write the head and the samples."""
        completed = None if self._ended is None else self._ended.isoformat()
        run = self.run or "episodes"
        head: JSONObject = {
            "version": LOG_VERSION,
            "status": "success",
            "eval": {
                "created": self._created,
                "eval_id": f"{self.environment}-{run}",
                "run_id": run,
                "task": self.environment,
                "task_id": self.environment,
                "task_version": self._version,
                "dataset": {
                    "name": self.environment,
                    "samples": len(self._epochs),
                    "sample_ids": list(self._epochs),
                    "shuffled": False,
                },
                "model": self._model,
                "config": {"epochs": max(self._epochs.values(), default=1)},
                "packages": {"ors-mcp-server": __version__},
                "scorers": [{"name": SCORER}],
            },
            "plan": {"name": "plan", "steps": [], "config": {}},
            "results": self._results(),
            "stats": {
                "started_at": self._created,
                **({} if completed is None else {"completed_at": completed}),
            },
        }
        with self._waiting as waiting:
            waiting.seek(0)
            self.file.write(_dump(head)[:-1] + b',"samples":[')
            copyfileobj(waiting, self.file)
            self.file.write(b"]}")

    def _results(self) -> JSONObject:
        returns = self._returns
        metrics: JSONObject = {}
        if returns:
            mean = sum(returns) / len(returns)
            metrics["mean"] = {"name": "mean", "value": mean}
            if len(returns) > 1:
                variance = sum((value - mean) ** 2 for value in returns) / (len(returns) - 1)
                metrics["stderr"] = {"name": "stderr", "value": (variance / len(returns)) ** 0.5}
        return {
            "total_samples": self.samples,
            "completed_samples": self.samples,
            "scores": [
                {
                    "name": SCORER,
                    "scorer": SCORER,
                    "scored_samples": len(returns),
                    "unscored_samples": self.samples - len(returns),
                    "params": {},
                    "metrics": metrics,
                }
            ],
        }


def inspect_sample(
    record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions, *, sample_id: str, epoch: int
) -> JSONObject:
    """Return an episode as a sample: its messages, its score, and a transcript with every step."""
    origin, summary = record.origin, record.summary
    conversation = read_conversation(record, steps)
    numbers = {f"step_{step.number}": step for step in steps}
    play = [_message(turn, numbers) for turn in conversation.play]
    prompt = [_message(turn, numbers) for turn in conversation.prompt]
    value = judged_return(summary)
    metadata: JSONObject = {**describe(record, steps), "session_id": origin.session_id}
    sample: JSONObject = {
        "id": sample_id,
        "epoch": epoch,
        "input": prompt or "",
        "target": "",
        "messages": [*prompt, *play],
        "output": {"model": _model_of(steps), "choices": _choices(play)},
        "scores": {},
        "metadata": {"task": origin.task_spec, "ors": metadata},
        "store": {},
        "events": _events(record, steps, options),
        "model_usage": {},
        "started_at": origin.created_at.isoformat(),
        "uuid": origin.episode_id,
    }
    if value is not None:
        sample["scores"][SCORER] = {
            "value": value,
            "explanation": f"the return of {summary.steps} steps, {summary.stop_reason or 'not ended'}",
            "metadata": {"rewards": metadata["rewards"], "components": metadata["components"]},
        }
    if summary.finished_at is not None:
        sample["completed_at"] = summary.finished_at.isoformat()
    if (seconds := seconds_of(summary)) is not None:
        sample["total_time"] = sample["working_time"] = seconds
    if summary.stop_reason == "failed":
        errors = [step.error for step in steps if step.status is StepStatus.FAILED]
        text = (errors[-1] if errors else None) or "the environment failed"
        sample["error"] = {"message": text, "traceback": text, "traceback_ansi": text}
    return sample


def log_name(environment: str, run: str | None, created: datetime) -> str:
    """Return a file's name in the form that Inspect sorts its logs by: time, task, id."""
    time = created.strftime("%Y-%m-%dT%H-%M-%S+00-00")
    words = (_plain(environment), _plain(run or "episodes"))
    return f"{time}_{words[0]}_{words[1]}.json"


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in text)[:80]


def _dump(value: JSONObject) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _model_of(steps: Sequence[Step]) -> str:
    for step in steps:
        turn = recorded_turn(step.metadata)
        for message in turn.messages if turn is not None else ():
            model = message.__pydantic_extra__.get("model")
            if isinstance(model, str) and model:
                return model
    return NO_MODEL


def _choices(play: Sequence[JSONObject]) -> list[JSONObject]:
    """Return the last message of the agent as the model's output."""
    last = next((message for message in reversed(play) if message["role"] == "assistant"), None)
    if last is None:
        return []
    return [{"message": last, "stop_reason": "tool_calls" if "tool_calls" in last else "stop"}]


def _message(turn: ConversationTurn, numbers: Mapping[str, Step]) -> JSONObject:
    message: JSONObject = {"role": turn.role, "content": _content(turn.blocks)}
    if turn.reasoning:
        text = [{"type": "text", "text": text_of(turn.blocks)}] if turn.blocks else []
        message["content"] = [{"type": "reasoning", "reasoning": turn.reasoning}, *text]
    if turn.calls:
        message["tool_calls"] = [
            {"id": use.id, "function": use.name, "arguments": use.arguments, "type": "function"}
            for use in turn.calls
        ]
    if turn.answers is not None:
        message |= {"tool_call_id": turn.answers.id, "function": turn.answers.name}
        step = numbers.get(turn.answers.id)
        if step is not None and step.error is not None:
            message["error"] = _error(step)
    return message


def _content(blocks: Blocks) -> str | list[JSONObject]:
    if not any(isinstance(block, ImageBlock) for block in blocks):
        return text_of(blocks)
    return [
        {"type": "image", "image": image_part(block)["image_url"]["url"]}
        if isinstance(block, ImageBlock)
        else {"type": "text", "text": block.text}
        for block in blocks
    ]


def _error(step: Step) -> JSONObject:
    return {"type": _ERRORS.get(step.error_code or "", "unknown"), "message": step.error or ""}


def _events(record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions) -> list[JSONObject]:
    """Return the transcript: each call as a tool event, and the final score."""
    created = record.origin.created_at
    tools = [tool.name for tool in tools_of(options.offered, record.origin) or ()]
    events: list[JSONObject] = [
        {
            "event": "info",
            "timestamp": created.isoformat(),
            "working_start": 0.0,
            "source": "ors-server",
            "data": {
                "episode": record.origin.episode_id,
                "seed": record.origin.seed,
                "image": record.origin.image,
                "tools": tools,
            },
        }
    ]
    for step in steps:
        event: JSONObject = {
            "event": "tool",
            "timestamp": step.started_at.isoformat(),
            "working_start": max(0.0, (step.started_at - created).total_seconds()),
            "working_time": step.duration,
            "type": "function",
            "id": f"step_{step.number}",
            "function": step.tool,
            "arguments": step.arguments,
            "result": _content(step.blocks),
            "events": [],
            "metadata": {
                "step": step.number,
                "status": step.status.value,
                "reward": step.reward,
                "components": dict(step.components),
                "finished": step.finished,
            },
        }
        if step.error is not None:
            event["error"] = _error(step)
        events.append(event)
    return events
