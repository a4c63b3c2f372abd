"""Transcripts of attempts, read from the episode store for a report; bounded in number and size."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ors_server.evaluation.runs import Attempt
from ors_server.model.trajectory import Step
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.base import RecordReader

MAX_TRANSCRIPTS = 100
"""Maximum number of transcripts of one report."""
MAX_STEPS = 50
"""Maximum number of steps of one transcript."""
MAX_CHARACTERS = 2000
"""Maximum number of characters of one text."""


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """One tool call."""

    number: int
    tool: str
    arguments: str
    """As JSON."""
    answer: str
    verdict: str
    """Status and reward."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One attempt: its prompt and its first steps."""

    attempt: Attempt
    prompt: str
    steps: tuple[TranscriptStep, ...]
    left_out: int
    """Number of further steps."""


async def read_transcripts(reader: RecordReader, attempts: Iterable[Attempt]) -> list[Transcript]:
    """Read the transcripts of attempts in the store: failed ones first, then the lowest returns."""
    transcripts: list[Transcript] = []
    for attempt in sorted(
        attempts, key=lambda attempt: (attempt.error is None, attempt.episode_return or 0.0, attempt.key)
    ):
        if len(transcripts) == MAX_TRANSCRIPTS:
            break
        record = None if attempt.episode_id is None else await reader.find(attempt.episode_id)
        if record is not None:
            steps = await reader.steps(record.origin.episode_id, 0, MAX_STEPS)
            transcripts.append(
                Transcript(
                    attempt,
                    _text(record.prompt or ()),
                    tuple(map(_step, steps)),
                    max(0, record.summary.steps - len(steps)),
                )
            )
    return transcripts


def _step(step: Step) -> TranscriptStep:
    reward = "no reward" if step.reward is None else f"reward {step.reward:g}"
    answer = _text(step.blocks) if step.error is None else _cut(f"{step.error_code}: {step.error}")
    return TranscriptStep(
        step.number,
        step.tool,
        _cut(json.dumps(dict(step.arguments), ensure_ascii=False, indent=1)),
        answer,
        f"{step.status.value}, {reward}{', finished' if step.finished else ''}",
    )


def _text(blocks: Iterable[TextBlock | ImageBlock]) -> str:
    texts = (block.text if isinstance(block, TextBlock) else f"[{block.mimeType}]" for block in blocks)
    return _cut("\n\n".join(texts))


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}… {len(text) - MAX_CHARACTERS:,} more characters"
