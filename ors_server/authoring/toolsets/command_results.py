"""What a command's result looks like to an agent and to a trainer; how long a command may take."""

import math
from collections.abc import Iterable

from ors_server.authoring.tool import ToolError
from ors_server.sandboxes.base import ExecResult, Killed, Limits
from ors_server.sandboxes.captured_output import Output
from ors_server.wire import JSONObject, TextBlock

LADDER_SECONDS = 13.0
"""Longest that ending a command takes: four rungs of a second at most and a new sandbox in ten
(`Sandbox.exec`), rounded up."""
SILENT = "(no output)"
"""What an agent reads of a command that printed nothing: some hosts refuse an empty text."""
_STATUS_OF_SIGNALS = 128


def clamp_time_limit(wanted: float | None, limits: Limits, call_limit: float | None) -> float:
    """Return the seconds that a command gets, so that it ends before its call does.

    Args:
        call_limit: Seconds that the whole call has. What ending a command may take is left of it, or half of
            it where that is not enough.

    Raises:
        ToolError: The agent asked for no time at all.
    """
    if wanted is not None and not wanted > 0:
        raise ToolError(
            f"time_limit is a number of seconds above 0, not {wanted}; leave it out for the default"
        )
    seconds = min(limits.time_limit if wanted is None else wanted, limits.longest_time_limit)
    return seconds if call_limit is None else min(seconds, max(call_limit - LADDER_SECONDS, call_limit / 2))


def stream_block(output: Output, stream: str) -> TextBlock:
    """Return a block that shows one stream."""
    return TextBlock(text=output.text, detail={"stream": stream})


def result_blocks(result: ExecResult, notes: Iterable[str]) -> list[TextBlock]:
    """Return what an agent sees of a result: each stream and the notes where there are any; never nothing.

    Args:
        notes: What happened beyond the output, one sentence each.
    """
    streams = {"stdout": result.stdout, "stderr": result.stderr, "background": result.background}
    blocks = [stream_block(output, name) for name, output in streams.items() if output.total]
    said = " ".join(notes)
    if said:
        blocks.append(TextBlock(text=f"[{said}]", detail={"stream": "notes"}))
    return blocks or [TextBlock(text=SILENT, detail={"stream": "stdout"})]


def result_metadata(result: ExecResult, *, restarted: bool) -> JSONObject:
    """Return what a trainer reads of a result."""
    return {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "killed": None if result.killed is None else result.killed.value,
        "shell_restarted": restarted,
        "output_limit": result.output_limit,
        "stdout_bytes": result.stdout.total,
        "stderr_bytes": result.stderr.total,
        "cwd": result.cwd.encode(errors="replace").decode(),
        "duration_s": round(result.duration_s, 6),
    }


def describe_end(result: ExecResult, time_limit: float, limits: Limits) -> list[str]:
    """Return sentences about how a command ended, for a model that sees text only."""
    if result.killed is Killed.TIME_LIMIT:
        said = [f"The command was stopped after its time limit of {seconds(time_limit)} seconds."]
    elif result.killed is Killed.OUTPUT_LIMIT:
        said = [f"The command was stopped because it printed more than {limits.output_bytes} bytes."]
    elif result.exit_code:
        said = [describe_status(result.exit_code)]
    else:
        said = []
    said += result.notes
    if result.shell_restarted:
        said.append("A new shell answers from now on: files are kept, background jobs may be gone.")
    return said


def describe_status(status: int) -> str:
    """Return a sentence about an exit status other than 0.

    Args:
        status: From 1 to 255.
    """
    if status > _STATUS_OF_SIGNALS:
        return f"Exit status {status} (128 + n stands for signal n, here {status - _STATUS_OF_SIGNALS})."
    return f"Exit status {status}."


def seconds(value: float) -> str:
    """Render seconds without needless digits."""
    return f"{value:g}" if math.isfinite(value) else "unlimited"
