"""The `python` tool: a persistent interpreter in the session's sandbox, under its limits.

The interpreter is one of the agent's own processes (`inside/interpreter.py`). It is called through the
session's shell, so that its output is separated, counted and capped like a command's.
"""

import base64
import json
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

from ors_server.environments.argument_names import only_these_arguments, seconds_of
from ors_server.environments.call_context import CallContext
from ors_server.environments.tool import ToolError, tool
from ors_server.environments.toolsets.command_results import clamp_time_limit, result_blocks, result_metadata
from ors_server.environments.toolsets.command_results import seconds as shown_seconds
from ors_server.environments.toolsets.milestones import pay_progress
from ors_server.environments.toolsets.sandboxed import SandboxToolset
from ors_server.model.errors import EnvironmentFailedError
from ors_server.model.policy import PenaltyCause
from ors_server.model.wire import JSONObject, ToolOutput
from ors_server.sandboxes.base import ExecResult

_STEP_SECONDS = 30.0
_SPARE_SECONDS = 7.0
_REPORT_SECONDS = 5.0
_OVERHEAD_BYTES = 16_384
_FOLDER = ".python-tool"
_PROGRAM = "interpreter.py"
_PATH = 'PATH="$PATH:/usr/local/bin:/usr/bin:/bin"'
# Backslashes, `builtin` and `command`, because the agent's shell may have aliases or functions of these
# names.
_QUIETLY = "{ \\builtin set +exuv; } 2>/dev/null"
_LOOK = f"""\\builtin printf '%s\\n' "$HOME"; {_PATH} \\command -v python3"""
_GONE = "Its variables are gone; files are kept."


@dataclass(frozen=True, slots=True)
class _PythonRun:
    """The outcome of one piece of code."""

    result: ExecResult
    report: JSONObject
    was_lost: bool
    """Whether the interpreter of earlier calls had ended."""


class PythonTools(SandboxToolset):
    """One interpreter per session."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._folder: str | None = None
        self._was_started = False

    @tool
    @only_these_arguments(
        source="code",
        script="code",
        input="code",
        timeout="time_limit",
        timeout_ms=("time_limit", seconds_of),
    )
    async def python(
        self,
        context: CallContext,
        code: str | None = None,
        time_limit: float | None = None,
        restart: bool = False,  # noqa: FBT001, FBT002  (an agent names its arguments)
    ) -> ToolOutput:
        """Run Python code in an interpreter and return its output.

        The interpreter is kept between calls, with its variables, imports and functions. If the last line is
        an expression, its value is shown. The interpreter starts in the work dir; standard input is empty.
        The middle of a long output is left out.

        Args:
            code: Python code; it may have several lines.
            time_limit: Seconds after which the code is interrupted; if it does not stop then, its variables
                are lost. Leave it out for the default.
            restart: Whether to start a new interpreter first.
        """
        checked = _check_code(code, self.sandbox.limits.command_bytes, restart=restart)
        longest = self.sandbox.limits.longest_time_limit
        call_limit = longest if context.time_limit is None else min(longest, context.time_limit)
        # Starting the interpreter and fetching the report take time of the call, too.
        spare = max(call_limit - _SPARE_SECONDS, call_limit / 2)
        limit = clamp_time_limit(time_limit, self.sandbox.limits, spare)
        run = await self._run(checked or "", limit, restart=restart)
        metadata = _metadata(run, restart=restart)
        if metadata["exit_code"] != 0:
            context.charge(PenaltyCause.COMMAND_ERROR)
        blocks = result_blocks(run.result, _notes(run, limit, restart=restart))
        return await pay_progress(
            self.environment, ToolOutput(blocks=[*blocks], metadata={"python": metadata})
        )

    async def _run(self, code: str, limit: float, *, restart: bool) -> _PythonRun:
        folder = self._folder = self._folder or await self._look()
        request = {"id": token_hex(8), "code": code, "time_limit": limit, "restart": restart}
        run = await self._ask(folder, request)
        if not run.report.get("absent"):
            self._was_started = True
            return run
        # An interpreter that never ran cannot be missed; after a fork, only its old report shows that it did.
        was_lost = (self._was_started or run.report["was_there"]) and not restart
        started = await self._start(folder)
        run = await self._ask(folder, request)
        if run.report.get("absent"):
            printed = (started.stderr.text + run.result.stderr.text).strip()[-500:]
            raise ToolError(f"the interpreter did not start; remove the cause. It printed: {printed!r}")
        self._was_started = True
        return _PythonRun(run.result, run.report, was_lost)

    async def _look(self) -> str:
        result = await self.sandbox.exec(_LOOK, time_limit=_STEP_SECONDS)
        home, _, python = result.stdout.text.partition("\n")
        if not python.strip():
            raise EnvironmentFailedError(
                "the python tool needs a python3 inside the sandbox, on its PATH or in /usr/bin"
            )
        return f"{home}/{_FOLDER}"

    async def _start(self, folder: str) -> ExecResult:
        quoted_folder, work_dir = shlex.quote(folder), shlex.quote(self.sandbox.work_dir)
        steps = [
            f"{_PATH} \\command mkdir -p -m 700 {quoted_folder}",
            f"\\builtin printf %s {shlex.quote(_program())} >|{quoted_folder}/{_PROGRAM}",
            f"{_PATH} \\command python3 -I -S {quoted_folder}/{_PROGRAM} keep {quoted_folder} {work_dir}",
        ]
        command = f"({_QUIETLY}; {' && '.join(steps)}; \\builtin true)"
        return await self.sandbox.exec(command, time_limit=_STEP_SECONDS)

    async def _ask(self, folder: str, request: JSONObject) -> _PythonRun:
        # In base64, because the text passes through the shell's own syntax.
        sent = base64.b64encode(json.dumps(request, ensure_ascii=False).encode()).decode()
        quoted_folder = shlex.quote(folder)
        client = f"{_PATH} \\command python3 -I -S {quoted_folder}/{_PROGRAM} client {quoted_folder}"
        # Always with status 0: the code's status is in the report, and the shell's would be taken for it.
        command = f"({_QUIETLY}; \\builtin printf %s {sent} | {client}; \\builtin true)"
        result = await self.sandbox.exec(command, time_limit=request["time_limit"] + _SPARE_SECONDS)
        printed = await self.sandbox.exec(
            _report_command(quoted_folder, request["id"]), time_limit=_REPORT_SECONDS + 5.0
        )
        report = _read_report(printed.stdout.text)
        # The agent can write the file, or the client may have been killed before it reported.
        if report.get("id") != request["id"]:
            report = {"absent": True, "was_there": False} if result.killed is None else {"status": None}
        return _PythonRun(result, report, was_lost=False)


def _report_command(folder: str, request_id: str) -> str:
    """Return the command that prints the report on a request; it waits for an interpreter to end."""
    report = f'"$(<{folder}/report)"'
    wait = f"for _ in {{1..{int(_REPORT_SECONDS * 10)}}}"
    is_there = f"[[ {report} == *{request_id}* ]]"
    return (
        f"({_QUIETLY}; {wait}; do {is_there} && \\builtin break; "
        f"[[ -S {folder}/socket ]] || \\builtin break; "
        f"{_PATH} \\command sleep 0.1; done; \\builtin printf %s {report}) 2>/dev/null"
    )


def _read_report(text: str) -> JSONObject:
    """Return the interpreter's report, or nothing: the agent can write to the file too."""
    try:
        report: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("JSONObject", report) if isinstance(report, dict) else {}


@cache
def _program() -> str:
    return Path(__file__).with_name("inside").joinpath("interpreter.py").read_text(encoding="utf-8")


def _check_code(code: str | None, max_command_bytes: int, *, restart: bool) -> str | None:
    if code is None:
        if restart:
            return None
        raise ToolError("expected code, or restart=true for a new interpreter")
    try:
        size = len(json.dumps(code, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise ToolError("expected text that UTF-8 can encode, without lone surrogates") from None
    max_bytes = (max_command_bytes - _OVERHEAD_BYTES) * 3 // 4
    if size > max_bytes:
        raise ToolError(
            f"expected at most {max_bytes} bytes of code, got {size}; write the data to files, in parts"
        )
    return code


def _metadata(run: _PythonRun, *, restart: bool) -> JSONObject:
    result, report = run.result, run.report
    timed_out = report.get("why") == "time limit" or result.timed_out
    metadata = result_metadata(result, restarted=False)
    del metadata["shell_restarted"]
    return metadata | {
        "exit_code": report.get("status"),
        "timed_out": timed_out,
        "killed": "time limit" if timed_out else metadata["killed"],
        "interpreter_restarted": bool(
            restart or run.was_lost or report.get("replaced") or report.get("lost") is not None
        ),
        "cwd": report.get("cwd") or result.cwd,
    }


def _notes(run: _PythonRun, limit: float, *, restart: bool) -> list[str]:
    result, report = run.result, run.report
    notes: list[str] = []
    if restart:
        notes.append(f"The interpreter was restarted. {_GONE}")
    elif run.was_lost or report.get("lost") is not None:
        notes.append(f"The interpreter had ended since the last call; a new one ran this code. {_GONE}")
    if report.get("why") == "time limit" or result.timed_out:
        notes.append(f"The code was interrupted after its time limit of {shown_seconds(limit)} seconds.")
    if result.output_limit:
        notes.append("The code was interrupted because it printed too much.")
    notes += result.notes
    if report.get("replaced"):
        ended_itself = report["why"] is None or report.get("crashed") or report.get("exited")
        how = _ending(report) if ended_itself else "did not stop when interrupted and was killed"
        notes.append(f"The interpreter {how}; the next call starts a new one. {_GONE}")
    return notes


def _ending(report: JSONObject) -> str:
    return f"{'ended' if report.get('crashed') else 'exited'} with status {report['status']}"
