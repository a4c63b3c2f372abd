"""The page of one episode: its steps as they are read, what surrounds them, and where to go from here."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ors_server.console.views import formats
from ors_server.console.views.marks import (
    FAILED_NOTE,
    REFUSED_NOTE,
    Mark,
    StepMarks,
    highest_of,
    marks_of,
    word_of,
)
from ors_server.console.views.texts import FoldedText, TextSpan, fold, language_of
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.model.wire import Block, ImageBlock, compact_json

STEPS_PER_PAGE = 100
MAX_SIBLINGS = 24
GIST_CHARACTERS = 120
MAX_FIELDS = 20
"""Fields of a task, and metrics, that are shown."""
PROMPT_CHARACTERS = 900
"""Characters of a prompt that are in sight; the rest is folded away at the end of a paragraph."""
JSON_CHARACTERS = 4_000
"""Characters of metadata that the page has; the raw step has all."""

SAFE_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a page shows; others, such as SVG, which may hold a program, are only saved."""
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
    label: str = ""
    """The stream of a program, if the block is one."""
    is_error: bool = False
    is_note: bool = False
    is_terminal: bool = False
    """Whether lines keep their breaks and scroll."""
    is_image: bool = False
    """Whether the page shows it; an image of another type is only saved."""


@dataclass(frozen=True, slots=True)
class StepView:
    """One step."""

    number: int
    tool: str
    marks: StepMarks
    reward: float | None
    seconds: float
    gist: str
    """The first line of its main argument."""
    sign: str
    """The sign before the main argument; empty if the arguments are a list."""
    typed: FoldedText | None
    arguments: tuple[ArgumentView, ...]
    error_code: str | None
    error: str | None
    note: str | None
    """Whose fault an error is."""
    blocks: tuple[BlockView, ...]
    components: tuple[tuple[str, float], ...]
    total: float | None
    """The return after it; `None` where earlier steps were not read."""
    metadata: str | None

    @property
    def title(self) -> str:
        """The step in words, for the strip."""
        paid = "" if self.reward is None else f"reward {formats.reward(self.reward)}"
        parts = (f"Step {self.number}", formats.visible(self.tool), self.marks.words, paid)
        return ", ".join(part for part in parts if part)

    @property
    def is_prose(self) -> bool:
        """Whether the output is text that wraps."""
        return not any(block.is_terminal for block in self.blocks)


@dataclass(frozen=True, slots=True)
class RunningCallView:
    """A call that runs."""

    call_id: str
    tool: str
    seconds: float
    """Since it began."""
    gist: str
    sign: str
    typed: FoldedText | None
    arguments: tuple[ArgumentView, ...]


def view_running_call(
    call_id: str, tool: str, arguments: Mapping[str, Any], seconds: float
) -> RunningCallView:
    """Return a call as its step will be shown, without a result."""
    return RunningCallView(call_id, tool, seconds, *_view_arguments(tool, arguments))


def _view_arguments(
    tool: str, arguments: Mapping[str, Any]
) -> tuple[str, str, FoldedText | None, tuple[ArgumentView, ...]]:
    """Return the gist, the sign, what was typed, and the other arguments."""
    sign, main, rest = _split_arguments(arguments)
    gist = next(map(formats.plain, rest.values()), "") if main is None else main
    return (
        formats.visible(gist.strip().partition("\n")[0][:GIST_CHARACTERS]),
        sign,
        None if main is None else fold(main, "py" if tool == "python" else None),
        tuple(_view_argument(name, value, arguments) for name, value in rest.items()),
    )


def view_step(step: Step, total: float | None = None) -> StepView:
    """Return a step as the page shows it; `total` is the return after it."""
    gist, sign, typed, arguments = _view_arguments(step.tool, step.arguments)
    text_of_blocks = "\n".join(block.text for block in step.blocks if not isinstance(block, ImageBlock))
    is_repeated = step.error is not None and text_of_blocks.strip() == step.error.strip()
    notes = {StepStatus.REFUSED: REFUSED_NOTE, StepStatus.FAILED: FAILED_NOTE}
    return StepView(
        number=step.number,
        tool=step.tool,
        marks=marks_of(step),
        reward=step.reward,
        seconds=step.duration,
        gist=gist,
        sign=sign,
        typed=typed,
        arguments=arguments,
        error_code=step.error_code,
        error=step.error,
        note=notes.get(step.status),
        blocks=() if is_repeated else view_blocks(step.blocks),
        components=tuple(step.components.items()),
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
        return BlockView(index, is_image=block.mimeType in SAFE_IMAGES, label=block.mimeType)
    stream = (block.detail or {}).get("stream")
    is_stream = isinstance(stream, str)
    is_note = stream == "notes"
    return BlockView(
        index,
        fold(block.text),
        label=stream if isinstance(stream, str) and not is_note else "",
        is_error=stream == "stderr",
        is_note=is_note,
        is_terminal=is_stream,
    )


def _split_arguments(arguments: Mapping[str, Any]) -> tuple[str, str | None, Mapping[str, Any]]:
    """Take the argument that was typed out of a call: the only one with such a name, next to short ones."""
    for name, sign in _SIGNS.items():
        value = arguments.get(name)
        if isinstance(value, str):
            rest = {key: other for key, other in arguments.items() if key != name}
            return sign, value, rest
    return "", None, arguments


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


def pretty(value: object) -> str:
    """Return a value as JSON on several lines, cut where it is too long for a page."""
    text = json.dumps(value, indent=1, ensure_ascii=False, default=str)
    return (
        text
        if len(text) <= JSON_CHARACTERS
        else f"{text[:JSON_CHARACTERS]}\n… {len(text):,} characters in all"
    )


# The page around the steps


@dataclass(frozen=True, slots=True)
class SiblingView:
    """Another episode of the same task."""

    episode_id: str
    title: str
    episode_return: float | None
    is_this: bool


@dataclass(frozen=True, slots=True)
class Paragraphs:
    """A prompt's text: what is in sight, and what is folded away."""

    shown: tuple[str, ...]
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """An episode without its steps."""

    episode_id: str
    session_id: str
    title: str
    environment: str
    mark: Mark
    is_live: bool
    episode_return: float | None
    highest: float | None
    steps: int
    step_limit: int | None
    penalties: float | None
    seconds: float | None
    created_at: datetime
    end: str
    """The last line, in words."""
    prompt: tuple[Paragraphs | BlockView, ...]
    agent: str | None
    attempt: str | None
    replay_of: str | None
    """The episode that was played again in this one."""
    siblings: tuple[SiblingView, ...]
    figures: tuple[tuple[str, str, str], ...]
    """Name, value, and class of the name."""
    labels: tuple[tuple[str, str], ...]
    task: tuple[tuple[str, str], ...]
    policy: tuple[tuple[str, str], ...]
    """Only what differs from the default."""
    made_by: tuple[tuple[str, str], ...]
    forked_from: str | None
    incidents: tuple[str, ...]

    @property
    def last_page(self) -> int:
        """Number of the last page of steps, from 1."""
        return max(1, -(-self.steps // STEPS_PER_PAGE))


def view_episode(record: EpisodeRecord, siblings: Sequence[EpisodeRecord], now: datetime) -> EpisodeView:
    """Return everything that is around the steps."""
    origin, summary = record.origin, record.summary
    highest = highest_of(record)
    mark = word_of(summary, 1.0 if highest is None else highest)
    is_live, seconds = is_played(record), played_seconds(record, now)
    was_judged = summary.last_reward is not None or bool(summary.withheld)
    limit = origin.policy.get("step_limit")
    # The prompt has the long values.
    task = [(name, formats.plain(value)) for name, value in list(origin.task_spec.items())[:MAX_FIELDS]]
    return EpisodeView(
        episode_id=origin.episode_id,
        session_id=origin.session_id,
        title=task_title(record),
        environment=origin.environment,
        mark=mark,
        is_live=is_live,
        episode_return=summary.episode_return if was_judged else None,
        highest=highest,
        steps=summary.steps,
        step_limit=limit if isinstance(limit, int) else None,
        penalties=summary.penalty_sum if summary.penalties else None,
        seconds=seconds,
        created_at=origin.created_at,
        end=_end_of(record, mark, seconds),
        prompt=tuple(view_prompt(record)),
        agent=origin.labels.get("agent"),
        attempt=origin.labels.get("attempt"),
        replay_of=origin.labels.get("replay_of"),
        siblings=tuple(_view_sibling(sibling, origin.episode_id) for sibling in siblings),
        figures=tuple(_figures(record)),
        labels=tuple(sorted(origin.labels.items())),
        task=tuple(
            (name, text if len(text) <= GIST_CHARACTERS else f"{text[:GIST_CHARACTERS]}…")
            for name, text in task
        ),
        policy=tuple(policy_differences(origin.policy)),
        made_by=(
            ("environment", f"{origin.environment} {origin.environment_version}"),
            ("server", origin.server_version),
            ("sandbox", _sandbox(origin.sandbox)),
            *([("key", origin.credential_id)] if origin.credential_id else []),
            *sorted(origin.packages.items()),
        ),
        forked_from=None if origin.forked_from is None else origin.forked_from.session_id,
        incidents=tuple(f"{formats.moment(incident.at)}: {incident.text}" for incident in record.incidents),
    )


def is_played(record: EpisodeRecord) -> bool:
    """Return whether an episode is live."""
    return not record.is_closed and record.summary.stop_reason is None


def played_seconds(record: EpisodeRecord, now: datetime) -> float | None:
    """Return how long an episode took, or takes until now; `None` if that is unknown."""
    summary = record.summary
    last = summary.finished_at or (now if is_played(record) else summary.last_call_at)
    return None if last is None or summary.started_at is None else (last - summary.started_at).total_seconds()


def task_title(record: EpisodeRecord) -> str:
    """Name the task of an episode: environment, split and index, else the beginning of its hash."""
    origin = record.origin
    parts = [origin.environment, origin.split, None if origin.index is None else str(origin.index)]
    if origin.index is None:
        parts.append(origin.task_hash[:8])
    return " / ".join(part for part in parts if part)


def _view_sibling(record: EpisodeRecord, episode_id: str) -> SiblingView:
    agent = record.origin.labels.get("agent", record.origin.session_id)
    paid = record.summary.last_reward is not None
    return SiblingView(
        record.origin.episode_id,
        agent,
        record.summary.episode_return if paid else None,
        is_this=record.origin.episode_id == episode_id,
    )


def _end_of(record: EpisodeRecord, mark: Mark, seconds: float | None) -> str:
    summary = record.summary
    if summary.stop_reason is None:
        return "Waiting for the next call." if not record.is_closed else "The record ends here."
    steps = f"{summary.steps} step" + ("" if summary.steps == 1 else "s")
    paid = "" if summary.last_reward is None else f" Return {formats.amount(summary.episode_return)}."
    time = "" if seconds is None else f", {formats.duration(seconds)}"
    return f"{mark.word} after {steps}{time}.{paid}"


def view_prompt(record: EpisodeRecord) -> Sequence[Paragraphs | BlockView]:
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


def _figures(record: EpisodeRecord) -> Sequence[tuple[str, str, str]]:
    summary = record.summary
    was_judged = summary.last_reward is not None
    rows = [("Rewards", formats.reward(summary.reward_sum if was_judged else None), "")]
    rows.append(("Penalties", formats.reward(summary.penalty_sum if summary.penalties else None), ""))
    rows += [
        (cause.replace("_", " "), formats.reward(cost), "in") for cause, cost in summary.penalties.items()
    ]
    rows.append(("Return", formats.amount(summary.episode_return if was_judged else None), "sum"))
    if summary.withheld:
        rows.append(("Withheld", formats.reward(summary.withheld), ""))
    if summary.discounted_return != summary.episode_return:
        rows.append(("Discounted return", formats.amount(summary.discounted_return), ""))
    rows.append(("Ungraded steps", str(summary.ungraded_steps), ""))
    rows.append(("Failed calls", str(summary.failed_steps), ""))
    if summary.unjudged_steps:
        rows.append(("Unjudged steps", str(summary.unjudged_steps), ""))
    return rows + [
        (name, formats.amount(value), "") for name, value in sorted(summary.metrics.items())[:MAX_FIELDS]
    ]


def policy_differences(policy: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the rules that differ from the defaults."""
    defaults = EpisodePolicy().model_dump(mode="json")
    skipped = {"overridable"}
    rows: list[tuple[str, str]] = []
    for name, value in policy.items():
        if name in skipped or name not in defaults or value == defaults[name]:
            continue
        rows.append((name.replace("_", " "), formats.plain(value)))
    return rows


def _sandbox(sandbox: Mapping[str, Any] | None) -> str:
    if not sandbox:
        return formats.MISSING
    return f"{sandbox.get('backend', '')} {sandbox.get('level', '')}".strip()


def image_bytes(block: ImageBlock) -> bytes:
    """Return an image's bytes; none if its data is not base64."""
    data = block.data.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4))
    except (binascii.Error, ValueError):
        return b""


def raw_text(value: object) -> tuple[TextSpan, ...]:
    """Return a step exactly, as JSON in which every special character is an escape."""
    return (TextSpan(json.dumps(value, indent=2, ensure_ascii=True, default=str)),)
