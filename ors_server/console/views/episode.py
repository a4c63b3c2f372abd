"""The page of one episode: its steps as they are read, what surrounds them, and where to go from here."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from ors_server.console.views import formats
from ors_server.console.views.marks import (
    FAILED_NOTE,
    REFUSED_NOTE,
    StepMarks,
    marks_of,
)
from ors_server.console.views.texts import FoldedText, fold, language_of
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.model.wire import Block, ImageBlock, compact_json

STEPS_PER_PAGE = 100
MAX_SIBLINGS = 24
SHORT_LABELS = ("run", "agent", "group", "attempt")
"""Labels that come first, and by which lists are filtered under their own names."""
MAX_LABELS = 6
"""Labels of one row."""
MAX_LABEL = 16
"""Characters of a run's id that are shown whole."""
GIST_CHARACTERS = 120
MAX_FIELDS = 20
"""Fields of a task, and metrics, that are shown."""
PROMPT_CHARACTERS = 900
"""Characters of a prompt that are in sight; the rest is folded away at the end of a paragraph."""
JSON_CHARACTERS = 4_000
"""Characters of metadata that the page has; the raw step has all."""

SAFE_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a page shows; others, such as SVG, which may hold a program, are only saved."""
_STEP: TypeAdapter[Step] = TypeAdapter(Step)
_SIGNS = {"command": "$", "cmd": "$", "expression": "=", "query": "?", "code": ">"}
"""Names of arguments that are shown as they were typed, with the sign before them."""


@dataclass(frozen=True, slots=True)
class ArgumentView:
    """One argument of a call."""

    name: str
    text: FoldedText
    is_code: bool
    """Whether it has several lines, which stay as they are."""


@dataclass(frozen=True, slots=True)
class BlockView:
    """One block of an output."""

    index: int
    text: FoldedText | None = None
    """`None` for an image."""
    stream: str = ""
    """Of a program; its lines keep their breaks and scroll."""
    image_type: str = ""
    is_image: bool = False
    """Whether the page shows it; an image of another type is only saved."""


@dataclass(frozen=True)
class CallView:
    """A call, as its agent made it."""

    tool: str
    gist: str
    """The first line of its main argument."""
    sign: str
    """The sign before the main argument; empty if the arguments are a list."""
    typed: FoldedText | None
    arguments: tuple[ArgumentView, ...]
    """Without the one that was typed."""
    seconds: float
    """It took so long, or has run so long."""


@dataclass(frozen=True)
class StepView(CallView):
    """One step."""

    step: Step
    marks: StepMarks
    note: str | None
    """Whose fault an error is."""
    blocks: tuple[BlockView, ...]
    total: float | None
    """The return after it; `None` where earlier steps were not read."""
    metadata: str | None

    @property
    def title(self) -> str:
        """The step in words, for the strip."""
        paid = "" if self.step.reward is None else f"reward {formats.reward(self.step.reward)}"
        parts = (f"Step {self.step.number}", formats.visible(self.tool), self.marks.words, paid)
        return ", ".join(part for part in parts if part)

    @property
    def is_prose(self) -> bool:
        """Whether the output is text that wraps."""
        return not any(block.stream for block in self.blocks)


def view_call(tool: str, arguments: Mapping[str, Any], seconds: float) -> CallView:
    """Return a call; an argument that was typed is kept apart: the only one with such a name."""
    main = next((name for name in _SIGNS if isinstance(arguments.get(name), str)), None)
    rest = {name: value for name, value in arguments.items() if name != main}
    typed: str | None = None if main is None else arguments[main]
    gist = next(map(formats.plain, rest.values()), "") if typed is None else typed
    return CallView(
        tool,
        formats.visible(gist.strip().partition("\n")[0][:GIST_CHARACTERS]),
        "" if main is None else _SIGNS[main],
        None if typed is None else fold(typed, "py" if tool == "python" else None),
        tuple(_view_argument(name, value, arguments) for name, value in rest.items()),
        seconds,
    )


def view_step(step: Step, total: float | None = None) -> StepView:
    """Return a step as the page shows it; `total` is the return after it."""
    call = view_call(step.tool, step.arguments, step.duration)
    text_of_blocks = "\n".join(block.text for block in step.blocks if not isinstance(block, ImageBlock))
    is_repeated = step.error is not None and text_of_blocks.strip() == step.error.strip()
    notes = {StepStatus.REFUSED: REFUSED_NOTE, StepStatus.FAILED: FAILED_NOTE}
    return StepView(
        **vars(call),
        step=step,
        marks=marks_of(step),
        note=notes.get(step.status),
        blocks=() if is_repeated else view_blocks(step.blocks),
        total=total if step.components else None,
        metadata=None if not step.metadata else pretty(step.metadata),
    )


def view_steps(steps: Sequence[Step]) -> tuple[StepView, ...]:
    """Return steps in order; with the return after each, if they are the episode's first."""
    total: float | None = 0.0 if steps and steps[0].number == 1 else None
    views: list[StepView] = []
    for step in steps:
        total = None if total is None else total + (step.reward or 0.0)
        views.append(view_step(step, total))
    return tuple(views)


def view_blocks(blocks: Sequence[Block]) -> tuple[BlockView, ...]:
    """Return the blocks of an output or a prompt."""
    return tuple(_view_block(index, block) for index, block in enumerate(blocks, 1))


def _view_block(index: int, block: Block) -> BlockView:
    if isinstance(block, ImageBlock):
        return BlockView(index, image_type=block.mimeType, is_image=block.mimeType in SAFE_IMAGES)
    stream = (block.detail or {}).get("stream")
    return BlockView(index, fold(block.text), stream if isinstance(stream, str) else "")


def _view_argument(name: str, value: object, arguments: Mapping[str, Any]) -> ArgumentView:
    if not isinstance(value, str):
        return ArgumentView(
            name, fold(pretty(value) if _is_long(value) else compact_json(value)), _is_long(value)
        )
    is_code = "\n" in value
    paths = (item for key, item in arguments.items() if "path" in key or "file" in key)
    languages = (language_of(path) for path in paths if isinstance(path, str))
    return ArgumentView(name, fold(value, next(languages, None) if is_code else None), is_code)


def _is_long(value: object) -> bool:
    return isinstance(value, (dict, list)) and len(compact_json(value)) > GIST_CHARACTERS


def pretty(value: object, characters: int = JSON_CHARACTERS) -> str:
    """Return a value as JSON on several lines, cut where it is too long for a page."""
    text = json.dumps(value, indent=1, ensure_ascii=False, default=str)
    return text if len(text) <= characters else f"{text[:characters]}\n… {len(text):,} characters in all"


def row_labels(record: EpisodeRecord) -> Sequence[tuple[str, str, str]]:
    """Return some labels: name, value, and the value as it is shown."""
    labels = sorted(record.origin.labels.items(), key=lambda pair: (pair[0] not in SHORT_LABELS, pair))
    # The last digits of a run's id tell it from others of the same agent and environment.
    return [
        (name, value, f"…{value[-6:]}" if name == "run" and len(value) > MAX_LABEL else value)
        for name, value in labels[:MAX_LABELS]
    ]


def earned(record: EpisodeRecord) -> float | None:
    """Return what an episode earned; `None` if nothing was judged."""
    return None if record.summary.last_reward is None else record.summary.episode_return


def task_fields(record: EpisodeRecord) -> Sequence[tuple[str, str]]:
    """Return the beginnings of the fields of a task; the prompt has the long ones."""
    fields = list(record.origin.task_spec.items())[:MAX_FIELDS]
    return [(name, gist(formats.plain(value), GIST_CHARACTERS)) for name, value in fields]


def gist(text: str, characters: int) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= characters else f"{text[:characters]}…"


def is_live(record: EpisodeRecord) -> bool:
    """Return whether an episode is live."""
    return not record.is_closed and record.summary.stop_reason is None


def played_seconds(record: EpisodeRecord, now: datetime) -> float | None:
    """Return how long an episode took, or takes until now; `None` if that is unknown."""
    summary = record.summary
    last = summary.finished_at or (now if is_live(record) else summary.last_call_at)
    return None if last is None or summary.started_at is None else (last - summary.started_at).total_seconds()


def task_title(record: EpisodeRecord) -> str:
    """Name the task of an episode: environment, split and index, else the beginning of its hash."""
    origin = record.origin
    parts = [origin.environment, origin.split, None if origin.index is None else str(origin.index)]
    if origin.index is None:
        parts.append(origin.task_hash[:8])
    return " / ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Paragraphs:
    """A prompt's text: what is in sight, and what is folded away."""

    shown: tuple[str, ...]
    rest: tuple[str, ...]


def prompt_blocks(record: EpisodeRecord) -> Sequence[Paragraphs | BlockView]:
    """Return the blocks of a prompt, long texts with what is folded away."""
    views: list[Paragraphs | BlockView] = []
    for index, block in enumerate(record.prompt or (), 1):
        if isinstance(block, ImageBlock):
            views.append(_view_block(index, block))
            continue
        shown: list[str] = []
        rest: list[str] = []
        for paragraph in formats.visible(block.text[: 1 << 18]).split("\n\n"):
            is_in_sight = not shown or (
                not rest and sum(map(len, shown)) + len(paragraph) <= PROMPT_CHARACTERS
            )
            (shown if is_in_sight else rest).append(paragraph)
        views.append(Paragraphs(tuple(shown), tuple(rest)))
    return views


def policy_differences(policy: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the rules that differ from the defaults."""
    defaults = EpisodePolicy().model_dump(mode="json", exclude={"overridable"})
    return [
        (name.replace("_", " "), formats.plain(value))
        for name, value in policy.items()
        if name in defaults and value != defaults[name]
    ]


def image_bytes(block: ImageBlock) -> bytes:
    """Return an image's bytes; none if its data is not base64."""
    data = block.data.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4))
    except (binascii.Error, ValueError):
        return b""


def raw_text(step: Step) -> str:
    """Return a step exactly, as JSON in which every special character is an escape."""
    return json.dumps(
        _STEP.dump_python(step, mode="json", by_alias=True), indent=2, ensure_ascii=True, default=str
    )
