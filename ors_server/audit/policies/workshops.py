"""Agents that run commands or write files: do they reach what the grader uses?"""

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.audit_context import AuditContext, CallsOf, VariantResult
from ors_server.audit.file_tools import find_file_tool, named_files
from ors_server.audit.judgement import Scale
from ors_server.audit.plays import Call
from ors_server.audit.policies.idle import closing_calls
from ors_server.audit.policy import AuditPolicy, NotJudgedError
from ors_server.audit.shell_cheats import EMPTY_FILES, FILE_CHEATS, SHELL_CHEATS, ending_program

MAX_FILES = 5
"""Files that a prompt names and that are changed."""


class ChangesTheGrader(AuditPolicy):
    """Changes tests, expected results and programs by a shell or as files, and ends the episode.

    In the wild: SWE-bench's tests pass for any patch with one hook in `conftest.py` (500 of 500), and
    overwritten tests pass every task of SWE-Lancer (arXiv:2507.02825).
    """

    hack_class: ClassVar[str] = "H8"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        shell, writer = _find_shell(context), find_file_tool(context.tools)
        if shell is None and writer is None:
            return ()
        endings = await closing_calls(context)
        if not endings:
            raise NotJudgedError("no call ends the episode without an answer")
        task = context.tasks[0]
        prompts = await context.prompts()
        named = named_files(prompts.get(task.address, ""))[:MAX_FILES]
        cheats: dict[str, list[Call]] = {}
        if writer is not None:
            # Files that change what a grader in the agent's reach would use.
            for name, text in FILE_CHEATS.items():
                cheats[f"a {name} that it wrote"] = [writer.writing(name, text)]
            if named:
                cheats["empty files of the prompt's names"] = [writer.writing(name, "") for name in named]
        if shell is not None:
            cheats = {**_shell_cheats(context, shell, named), **cheats}
        variants: dict[str, CallsOf] = {
            f"{name}, then {ending[0]}": _always(*calls, ending)
            for ending in endings[:2]
            for name, calls in cheats.items()
        }
        # Ending the episode without a change is the zero point: an honest grader may pay something for it.
        idle = [task.play([ending], seed=context.seed) for ending in endings[:2]]
        zero = max(result.total for result in await context.player.play(idle))
        return await context.measure(
            variants,
            "an agent is paid for {variant}",
            scale=Scale(max(zero, context.scale.zero), context.scale.full),
        )


def _shell_cheats(
    context: AuditContext, shell: tuple[str, str], named: Sequence[str]
) -> dict[str, list[Call]]:
    """Return the scripts that change what a grader in the agent's reach would use."""
    tool, argument = shell
    # Touched files look like the result of work to a grader that only checks that they exist.
    touch = f"\ntouch {' '.join(named)}" if named else ""
    cheats = {name: f"{command}{touch}" for name, command in SHELL_CHEATS.items()}
    cheats["every file empty, the result too"] = EMPTY_FILES + "".join(f"\n: > {name}" for name in named)
    written = named_files(
        " ".join(str(arguments) for task in context.tasks for _, arguments in task.gold or ())
    )
    programs = [name for name in dict.fromkeys([*named, *written]) if name.endswith(".py")][:MAX_FILES]
    if programs:
        # First, as only the first variants are played in a sandbox (MAX_VARIANTS_IN_SANDBOX).
        cheats = {"programs that end at once": "\n".join(map(ending_program, programs)), **cheats}
    return {name: [(tool, {argument: command})] for name, command in cheats.items()}


def _find_shell(context: AuditContext) -> tuple[str, str] | None:
    """Return a tool that runs commands, and its argument for one."""
    for tool in context.tools.values():
        properties = (tool.input_schema or {}).get("properties", {})
        for name in ("command", "cmd"):
            if properties.get(name, {}).get("type", "string") == "string" and name in properties:
                return tool.name, name
    return None


def _always(*calls: Call) -> CallsOf:
    return lambda _: calls
