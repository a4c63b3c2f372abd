"""`ors-server episodes show`: shows one episode: its origin, steps, rewards and figures.

The reasons of a step's reward, from its metadata, which agents never see.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ors_server.cli.command_output import CommandError, say
from ors_server.cli.episodes_list import show_number
from ors_server.cli.terminal import cut, make_console
from ors_server.model.printable import clean_line

if TYPE_CHECKING:
    from ors_server.cli.episodes_options import ShowOptions
    from ors_server.model.trajectory import EpisodeRecord, EpisodeSummary, Incident, Step, Transition
    from ors_server.model.wire import ImageBlock, TextBlock
    from ors_server.store.base import RecordReader


MAX_NAMED_CASES = 10
"""Failed cases that are named without `--full`."""


def reasons_of(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Return one line per reason: the reward's status and reason, failed cases, faults."""
    for name in ("status", "reason"):
        if f"reward_{name}" in metadata:
            yield f"{name}: {metadata[f'reward_{name}']}"
    extras = _mapping(metadata.get("reward_extras"))
    failed = _mapping(metadata.get("failed_cases")) | _mapping(extras.get("failed"))
    stated = [f"failed {name}: {why}" for name, why in failed.items()]
    stated += [f"fault: {fault}" for fault in _items(metadata.get("faults"))]
    yield from stated[:MAX_NAMED_CASES]
    if len(stated) > MAX_NAMED_CASES:
        yield f"and {len(stated) - MAX_NAMED_CASES} more; --full shows all of them"


def describe_reward(output: Mapping[str, Any]) -> str:
    """Return the reward of an output, as the control API gives it, or why it is missing, on one line."""
    if output["reward"] is not None:
        return f"reward {output['reward']:g}"
    metadata = _mapping(output.get("metadata"))
    reasons = list(reasons_of(metadata))
    if reasons:
        return f"reward none, {', '.join(reasons)}"
    if _mapping(metadata.get("episode")).get("withheld"):
        return "reward none yet: it is paid when the episode ends"
    if output["finished"]:
        return "reward none: the environment did not grade the episode"
    return "reward none: this step is not graded"


def is_unjudged(output: Mapping[str, Any]) -> bool:
    """Return whether the judgement of an output, as the control API gives it, failed."""
    from ors_server.model import trajectory

    return trajectory.is_unjudged(_mapping(output.get("metadata")))


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


STEPS_AT_ONCE = 100
"""Steps that are in memory at once."""

StyledLine: TypeAlias = tuple[str, str]
"""An escaped text and its style."""

PLAIN, HEADING, FAINT, ALARM = "", "bold", "dim", "red"


async def show_from(reader: "RecordReader", options: "ShowOptions") -> None:
    """Print one episode; raises `CommandError` if the episode has no step with this number."""
    from ors_server.model.recording import RECORD, STEP
    from ors_server.store.lookup import find_episode

    record = await find_episode(reader, options.episode)
    if options.step is not None:
        await _show_step(reader, record, options.step, options)
    elif options.json:
        steps: list[Any] = []
        while batch := await reader.steps(record.origin.episode_id, len(steps), len(steps) + STEPS_AT_ONCE):
            steps += map(STEP.as_json, batch)
        say(json.dumps({**RECORD.as_json(record), "steps": steps}))
    else:
        await _show_all(reader, record, whole=options.full)


async def _show_step(
    reader: "RecordReader", record: "EpisodeRecord", number: int, options: "ShowOptions"
) -> None:
    from ors_server.model.recording import STEP

    steps = await reader.steps(record.origin.episode_id, number - 1, number)
    if not steps:
        raise CommandError(
            f"the episode {record.origin.episode_id} has {record.summary.steps} steps, and none has the "
            f"number {number}"
        )
    if options.json:
        say(json.dumps(STEP.as_json(steps[0])))
    else:
        print_lines(step_lines(steps[0], whole=options.full))


async def _show_all(reader: "RecordReader", record: "EpisodeRecord", *, whole: bool) -> None:
    print_lines(header_lines(record))
    if record.prompt is not None:
        print_lines([("", PLAIN), ("prompt", HEADING)])
        print_lines(block_lines(record.prompt, whole=whole))
    shown = 0
    while batch := await reader.steps(record.origin.episode_id, shown, shown + STEPS_AT_ONCE):
        for step in batch:
            print_lines([("", PLAIN)])
            print_lines(step_lines(step, whole=whole))
        shown += len(batch)
    print_lines(transition_lines(record.transitions))
    print_lines(incident_lines(record.incidents))
    print_lines([("", PLAIN)])
    print_lines(summary_lines(record.summary, is_closed=record.is_closed))


def print_lines(lines: "Iterator[StyledLine] | Sequence[StyledLine]") -> None:
    """Print lines as they are, at any width of the terminal."""
    from rich.text import Text

    console = make_console()
    for text, style in lines:
        console.print(Text(text, style=style), soft_wrap=True)


def header_lines(record: "EpisodeRecord") -> Iterator[StyledLine]:
    """Yield the lines about an episode's origin."""
    origin = record.origin
    yield f"episode {clean_line(origin.episode_id)}", HEADING
    task = "" if origin.split is None else f"{origin.split}/{origin.index}, "
    packages = ", ".join(f"{name} {version}" for name, version in origin.packages.items())
    sandbox = "none"
    if origin.sandbox is not None:
        gaps = origin.sandbox.get("gaps") or ()
        open_ = f", open: {'; '.join(map(str, gaps))}" if gaps else ""
        image = f", image {str(origin.sandbox['image'])[:12]}" if origin.sandbox.get("image") else ""
        backend, level = origin.sandbox.get("backend"), origin.sandbox.get("level")
        sandbox = f"{backend}, level {level}{image}{open_}"
    rows: dict[str, str | None] = {
        "environment": f"{origin.environment} {origin.environment_version}",
        "task": f"{task}hash {origin.task_hash}",
        "server": f"ors-server {origin.server_version}{f', {packages}' if packages else ''}",
        "session": origin.session_id,
        "credential": origin.credential_id,
        "created": show_time(origin.created_at),
        "seed": str(origin.seed),
        "visibility": origin.visibility,
        "toolset": origin.toolset,
        "labels": " ".join(f"{key}={value}" for key, value in origin.labels.items()),
        "policy": _show_settings(origin.policy),
        "sandbox": sandbox,
    }
    if origin.forked_from is not None:
        rows["forked from"] = f"{origin.forked_from.session_id} after {origin.forked_from.steps} steps"
    for name, value in rows.items():
        if value:
            yield f"  {name:<12} {clean_line(value)}", PLAIN


def step_lines(step: "Step", *, whole: bool) -> Iterator[StyledLine]:
    """Yield the lines about one step: its call, output and reward.

    Args:
        whole: Whether nothing is cut and metadata, which agents never see, is shown too.
    """
    parts = [f"{clean_line(name)} {show_number(value)}" for name, value in step.components.items()]
    paid = show_paid(step) + (f" ({', '.join(parts)})" if len(parts) > 1 else "")
    end = ", finished" if step.finished else ""
    came = f"{step.status.value}, {paid}{end}"
    yield f"step {step.number}  {clean_line(step.tool)}  {came}  ({step.duration:.3f} s)", HEADING
    for name, value in step.arguments.items():
        yield from _argument_lines(name, value, whole=whole)
    if step.error is not None:
        lines, notice = cut(step.error, whole=whole)
        yield f"  error {clean_line(step.error_code or '')}: {lines[0]}", ALARM
        yield from _indented(lines[1:], notice, style=ALARM)
    if step.blocks:
        yield "  ->", FAINT
        yield from block_lines(step.blocks, whole=whole)
    if whole and step.metadata:
        yield from _argument_lines("metadata", step.metadata, whole=True)
    elif step.metadata:
        for text in reasons_of(step.metadata):
            yield f"  {clean_line(text)}", FAINT


def show_paid(step: "Step") -> str:
    """Write a step's reward, or the reward that was withheld."""
    if step.reward is not None:
        return f"reward {show_number(step.reward)}"
    return "no reward" if step.earned is None else f"{show_number(step.earned)} withheld"


def block_lines(blocks: "Sequence[TextBlock | ImageBlock]", *, whole: bool) -> Iterator[StyledLine]:
    """Yield the lines of blocks; an image is its type and size."""
    for block in blocks:
        if block.type == "image":
            size = len(block.data) * 3 // 4 - block.data[-2:].count("=")
            yield f"    [{clean_line(block.mimeType)}, {size:,} bytes]", FAINT
        else:
            yield from _indented(*cut(block.text, whole=whole))


def transition_lines(transitions: "Sequence[Transition]") -> Iterator[StyledLine]:
    """Yield a line for each transition."""
    if transitions:
        yield "", PLAIN
        yield "transitions", HEADING
    for move in transitions:
        reason = "" if move.stop_reason is None else f" ({move.stop_reason})"
        yield f"  {show_time(move.at)}  {move.event:<12} -> {move.phase}{reason}", PLAIN


def incident_lines(incidents: "Sequence[Incident]") -> Iterator[StyledLine]:
    """Yield a line for each incident."""
    if incidents:
        yield "", PLAIN
        yield "incidents", HEADING
    for incident in incidents:
        yield f"  {show_time(incident.at)}  {incident.kind:<12} {clean_line(incident.text)}", PLAIN


def summary_lines(summary: "EpisodeSummary", *, is_closed: bool) -> Iterator[StyledLine]:
    """Yield the lines about an episode's figures.

    Args:
        is_closed: Whether they are final.
    """
    from ors_server.model.failures import FailureKind, failure_of
    from ors_server.model.trajectory import FIGURES, STEP_COUNTS, STEP_MAXIMA

    failure = failure_of(summary)
    reason = "" if summary.stop_reason is None else f", {summary.stop_reason}"
    yield f"summary  {summary.phase}{reason}{'' if is_closed else ', session still there'}", HEADING
    penalties = "".join(f", {cause} {show_number(penalty)}" for cause, penalty in summary.penalties.items())
    counts = ", ".join(f"{getattr(summary, name)} {FIGURES[name].words}" for name in STEP_COUNTS)
    rows = {
        "return": f"{show_number(summary.episode_return)} = rewards {show_number(summary.reward_sum)}"
        f" + penalties {show_number(summary.penalty_sum)}{f' ({penalties[2:]})' if penalties else ''}",
        "steps": f"{summary.steps} ({counts})",
        "rewards": f"last {show_number(summary.last_reward)}, "
        f"discounted return {show_number(summary.discounted_return)}",
        **{FIGURES[name].words: show_number(getattr(summary, name)) for name in STEP_MAXIMA},
        "played": f"{_show_moment(summary.started_at)} to {_show_moment(summary.finished_at)}",
    }
    if failure is not None and failure.kind is not FailureKind.NONE:
        rows["failure"] = (
            f"{failure.kind} ({failure.stage}): do not train on the return"
            f"{'; play the task again' if failure.retry else ''}"
        )
    if summary.unjudged_steps:
        rows["unjudged"] = (
            "a judgement failed, so the return lacks a part; judge the episode again: ors-server regrade ID"
        )
    if summary.withheld:
        rows["withheld"] = show_number(summary.withheld)
    rows |= {name: show_number(value) for name, value in summary.metrics.items()}
    for name, value in rows.items():
        yield f"  {clean_line(name):<12} {clean_line(value)}", PLAIN


def show_time(moment: datetime) -> str:
    """Write a time in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def _show_moment(moment: datetime | None) -> str:
    return "-" if moment is None else show_time(moment)


def _argument_lines(name: str, value: object, *, whole: bool) -> Iterator[StyledLine]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    lines, notice = cut(text, whole=whole)
    if lines[1:] or notice is not None:
        yield f"  {clean_line(name)}:", PLAIN
        yield from _indented(lines, notice)
    else:
        yield f"  {clean_line(name)}: {lines[0]}", PLAIN


def _indented(lines: Sequence[str], notice: str | None, style: str = PLAIN) -> Iterator[StyledLine]:
    for line in lines:
        yield f"    {line}", style
    if notice is not None:
        yield f"    {notice}", FAINT


def _show_settings(policy: Mapping[str, Any]) -> str:
    from ors_server.model.policy import EpisodePolicy

    usual = EpisodePolicy().model_dump(mode="json")
    set_ = {
        name: value
        for name, value in policy.items()
        if name != "overridable" and (name not in usual or value != usual[name])
    }
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in set_.items()) or "as by default"
