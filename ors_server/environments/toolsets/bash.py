"""The `bash` tool: a persistent shell in the session's sandbox."""

from functools import cache

from typing_extensions import override

from ors_server.environments.argument_names import only_these_arguments, seconds_of, shell_text_of
from ors_server.environments.call_context import CallContext
from ors_server.environments.tool import ForbiddenActionError, ToolError, tool
from ors_server.environments.toolsets.command_results import (
    clamp_time_limit,
    describe_end,
    result_blocks,
    result_metadata,
)
from ors_server.environments.toolsets.file_access import encode
from ors_server.environments.toolsets.forbidden_commands import (
    UncheckableError,
    find_violation,
    parse_patterns,
)
from ors_server.environments.toolsets.milestones import pay_progress
from ors_server.environments.toolsets.sandboxed import SandboxToolset
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.policy import PenaltyCause
from ors_server.model.wire import ToolOutput
from ors_server.sandboxes.base import ExecResult
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.sandbox_errors import SandboxCommandError, SandboxShellError

_RESTARTED = "The shell was restarted: files are kept, variables, jobs and the working directory are not."


class BashTools(SandboxToolset):
    """One shell per session; commands that the policy forbids are not run."""

    @override
    @classmethod
    def check_environment(cls, environment: type) -> None:
        super().check_environment(environment)
        try:
            parse_patterns(environment.policy.forbidden_commands)  # type: ignore[attr-defined]  # every environment has a policy
        except ValueError as error:
            raise EnvironmentDefinitionError(f"{environment.__name__}: {error}") from error

    def _shorten(self, time_limit: float | None) -> float | None:
        """Return the seconds that a command may take; a subclass may allow fewer than were requested.

        Raises:
            ToolError: If no command may run any more.
        """
        return time_limit

    @tool
    @only_these_arguments(
        command=("command", shell_text_of),
        cmd=("command", shell_text_of),
        script="command",
        timeout="time_limit",
        timeout_ms=("time_limit", seconds_of),
    )
    async def bash(
        self,
        context: CallContext,
        command: str | None = None,
        time_limit: float | None = None,
        restart: bool = False,  # noqa: FBT001, FBT002  (an agent names its arguments)
    ) -> ToolOutput:
        """Run a command in a bash shell and return its output.

        The shell is kept between calls, with its working directory, variables, functions and background jobs.
        There is no terminal and standard input is empty, so use non-interactive options. The middle of a long
        output is left out. Output of background jobs is returned by a later call.

        Args:
            command: The bash command to run; it may have several lines.
            time_limit: Seconds after which the command is stopped; the shell is kept. Leave it out for the
                default.
            restart: Whether to start a new shell first. Only files are kept from the old one.
        """
        time_limit = self._shorten(time_limit)
        checked = _check_command(command, self.sandbox.limits.command_bytes, restart=restart)
        seconds = clamp_time_limit(time_limit, self.sandbox.limits, context.time_limit)
        # Before a restart: a refused call changes nothing.
        await _refuse_forbidden(checked, context.policy.forbidden_commands)
        if restart:
            try:
                await self.sandbox.restart()
            except SandboxShellError as error:
                raise ToolError(str(error)) from error
        if checked is None:
            nothing = ExecResult(None, Output(), Output(), self.sandbox.work_dir, 0.0)
            restarted = ToolOutput(
                blocks=[*result_blocks(nothing, [_RESTARTED])],
                metadata={"bash": result_metadata(nothing, restarted=True)},
            )
            return await pay_progress(self.environment, restarted)
        try:
            result = await self.sandbox.exec(checked, time_limit=seconds)
        except SandboxCommandError as error:
            raise ToolError(str(error)) from error
        if result.exit_code != 0:
            context.charge(PenaltyCause.COMMAND_ERROR)
        notes = [*([_RESTARTED] if restart else []), *describe_end(result, seconds, self.sandbox.limits)]
        output = ToolOutput(
            blocks=[*result_blocks(result, notes)],
            metadata={"bash": result_metadata(result, restarted=restart or result.shell_restarted)},
        )
        return await pay_progress(self.environment, output)


_patterns = cache(parse_patterns)


async def _refuse_forbidden(command: str | None, rules: tuple[str, ...]) -> None:
    try:
        violation = await find_violation(_patterns(rules), command or "")
    except UncheckableError as error:
        raise ToolError(f"the command was not run, since {error}; write a simpler one") from error
    if violation is not None:
        raise ForbiddenActionError(
            f"forbidden: the rule {violation.rule!r} matches {violation.command!r}; nothing was run"
        )


def _check_command(command: str | None, max_bytes: int, *, restart: bool) -> str | None:
    if command is None:
        if restart:
            return None
        raise ToolError("expected a command, or restart=true for a new shell")
    if "\0" in command:
        raise ToolError(
            f"expected text without NUL characters; there is one at position {command.index(chr(0))}"
        )
    size = len(encode(command))
    if size > max_bytes:
        raise ToolError(f"expected at most {max_bytes} bytes, got {size}; write the data to files, in parts")
    return command
