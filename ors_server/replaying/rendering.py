"""Renders the result of a replay as text."""

import difflib
import json
from collections.abc import Generator, Sequence
from typing import Any, cast

from ors_server.recovery.step_comparison import ReplayDifference
from ors_server.replaying.replay_result import EpisodeReplay, ReplayVerdict, StepReplay, StepVerdict

MAX_LINES = 40
"""Maximum number of lines of one difference."""
MAX_WIDTH = 400
"""Maximum number of characters of one line."""
MAX_ARGUMENTS = 160
"""Maximum number of characters of a call's arguments."""


def render(replay: EpisodeReplay) -> Generator[str, None, None]:
    """Yield a replay for a reader, line by line."""
    origin = replay.origin
    place = "" if origin.split is None else f", {origin.split} {origin.index}"
    yield f"{origin.episode_id} ({origin.environment}{place}): {summarise(replay)}"
    for note in replay.notes:
        yield f"  note: {note}"
    for difference in replay.differences:
        yield f"  {difference.field}"
        yield from _indented(explain(difference))
    for step in replay.steps:
        yield from _render_step(step)


def summarise(replay: EpisodeReplay) -> str:
    """Return the verdict and the counts in one line."""
    total, same = len(replay.steps), replay.count(StepVerdict.SAME)
    parts = [f"{same} of {total} steps are the same"]
    parts += [
        f"{count} {word}"
        for verdict, word in (
            (StepVerdict.DIFFERENT, "different"),
            (StepVerdict.UNCERTAIN, "different after a call whose effects are unknown"),
            (StepVerdict.SKIPPED, "not comparable"),
            (StepVerdict.UNPLAYED, "not played"),
        )
        if (count := replay.count(verdict))
    ]
    parts += [f"the {difference.field} differs" for difference in replay.differences]
    reason = "" if replay.failure is None else f": {replay.failure}"
    if replay.verdict is ReplayVerdict.FAILED:
        return f"{replay.verdict}{reason}"
    return f"{replay.verdict}: {', '.join(parts)}"


def explain(difference: ReplayDifference) -> list[str]:
    """Return a difference as lines that begin with `-` (was), `+` (is) or a space (both)."""
    was, now = _lines(difference.was), _lines(difference.now)
    differing = [line for line in difflib.ndiff(was, now) if not line.startswith("?")]
    shown = [line[:MAX_WIDTH] + ("..." if len(line) > MAX_WIDTH else "") for line in differing[:MAX_LINES]]
    return shown + ([f"... {len(differing) - MAX_LINES} more lines"] if len(differing) > MAX_LINES else [])


def _render_step(step: StepReplay) -> Generator[str, None, None]:
    if step.verdict is StepVerdict.SAME:
        return
    arguments = json.dumps(step.arguments, ensure_ascii=False)
    cut = "..." if len(arguments) > MAX_ARGUMENTS else ""
    why = f" ({step.why})" if step.why else ""
    yield f"  step {step.number}, {step.tool} {arguments[:MAX_ARGUMENTS]}{cut}: {step.verdict}{why}"
    for difference in step.differences:
        yield f"    {difference.field}"
        yield from _indented(explain(difference), "      ")


def _indented(lines: Sequence[str], by: str = "    ") -> Generator[str, None, None]:
    for line in lines:
        yield f"{by}{line}"


def _lines(value: Any) -> list[str]:
    if isinstance(value, list):
        return [line for item in _items(value) for line in _block_lines(item)]
    if isinstance(value, str):
        return value.splitlines() or [""]
    return [json.dumps(value, ensure_ascii=False, sort_keys=True)]


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value)


def _block_lines(block: Any) -> list[str]:
    if not isinstance(block, dict) or "text" not in block:
        return [json.dumps(block, ensure_ascii=False, sort_keys=True)]
    known = cast("dict[str, Any]", block)
    detail = {} if known.get("detail") is None else {"detail": known["detail"]}
    about = [json.dumps(detail, ensure_ascii=False, sort_keys=True)] if detail else []
    return [*about, *(str(known["text"]).splitlines() or [""])]
