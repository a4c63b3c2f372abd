"""A command's result for agents and trainers, and its time limit."""

import math
from collections.abc import Iterable

from ors_server.environments.tool import ToolError
from ors_server.model.wire import JSONObject, TextBlock
from ors_server.sandboxes.base import ExecResult, Killed, Limits

LADDER_SECONDS = 13.0
"""Longest that ending a command takes: four rungs of a second at most and a new sandbox in ten
(`Sandbox.exec`), rounded up."""
SILENT = "(no output)"
"""Shown when a command printed nothing, since some hosts refuse an empty text."""
_STATUS_OF_SIGNALS = 128
_NEW_SHELL = "A new shell was started: files, variables and functions are kept, background jobs may be gone."
_NEW_SHELL_WITHOUT_STATE = (
    "A new shell was started: files and the working directory are kept; variables, functions, aliases, "
    "options and the umask are gone, and background jobs may be."
)


def clamp_time_limit(time_limit: float | None, limits: Limits, call_limit: float | None) -> float:
    """Return a command's time limit in seconds, so that it ends before its call does.

    Args:
        call_limit: Seconds of the whole call; `LADDER_SECONDS`, at most half, are left to end the command.

    Raises:
        ToolError: `time_limit` is not above 0.
    """
    if time_limit is not None and not time_limit > 0:
        raise ToolError(
            f"time_limit must be a number of seconds above 0, got {time_limit}; leave it out for the default"
        )
    seconds = min(limits.time_limit if time_limit is None else time_limit, limits.longest_time_limit)
    return seconds if call_limit is None else min(seconds, max(call_limit - LADDER_SECONDS, call_limit / 2))


def result_blocks(result: ExecResult, notes: Iterable[str]) -> list[TextBlock]:
    """Return an agent's view of a result: its streams and notes that are not empty, at least one block."""
    streams = {"stdout": result.stdout, "stderr": result.stderr, "background": result.background}
    blocks = [
        TextBlock(text=output.text, detail={"stream": name})
        for name, output in streams.items()
        if output.total
    ]
    text = " ".join(notes)
    if text:
        blocks.append(TextBlock(text=f"[{text}]", detail={"stream": "notes"}))
    return blocks or [TextBlock(text=SILENT, detail={"stream": "stdout"})]


def result_metadata(result: ExecResult, *, restarted: bool) -> JSONObject:
    """Return a result's metadata, for trainers."""
    return {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "killed": None if result.killed is None else result.killed.value,
        "shell_restarted": restarted,
        "state_lost": result.state_lost,
        "output_limit": result.output_limit,
        "stdout_bytes": result.stdout.total,
        "stderr_bytes": result.stderr.total,
        "cwd": result.cwd.encode(errors="replace").decode(),
        "duration_s": round(result.duration_s, 6),
    }


def describe_end(result: ExecResult, time_limit: float, limits: Limits) -> list[str]:
    """Return sentences about a command's end."""
    if result.killed is Killed.TIME_LIMIT:
        notes = [f"The command was stopped after its time limit of {seconds(time_limit)} seconds."]
    elif result.killed is Killed.OUTPUT_LIMIT:
        notes = [f"The command was stopped because it printed more than {limits.output_bytes} bytes."]
    elif result.exit_code:
        notes = [describe_status(result.exit_code)]
    else:
        notes = []
    notes += result.notes
    if result.shell_restarted:
        notes.append(_NEW_SHELL_WITHOUT_STATE if result.state_lost else _NEW_SHELL)
    return notes


def describe_status(status: int) -> str:
    """Return a sentence about an exit status from 1 to 255."""
    if status > _STATUS_OF_SIGNALS:
        return f"Exit status {status} (128 + n stands for signal n, here {status - _STATUS_OF_SIGNALS})."
    return f"Exit status {status}."


def seconds(value: float) -> str:
    """Render seconds without trailing zeros."""
    return f"{value:g}" if math.isfinite(value) else "unlimited"
