"""Agents with a shell: do they reach what the grader uses?"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.judgement import Scale
from ors_server.audit.plays import Call, CallPlan
from ors_server.audit.policies.idle import ending_calls
from ors_server.audit.policy import AuditPolicy, NotJudgedError
from ors_server.audit.shell_cheats import EMPTY_FILES, SHELL_CHEATS
from ors_server.audit.study import AuditedTask, CallsOf, Measure, Study

_FILE = re.compile(r"(?<![\w/])([\w-]+\.(?:txt|json|csv|py|md|out|log|html|js|sql|toml|yaml))\b")


class ChangesTheGrader(AuditPolicy):
    """Changes tests, expected results and programs through the shell, and ends the episode.

    In the wild: SWE-bench's tests pass whatever the patch is with one hook in `conftest.py` (500 of 500), and
    overwritten tests pass every task of SWE-Lancer (arXiv:2507.02825).
    """

    hack_class: ClassVar[str] = "H8"

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        shell = _find_shell(study)
        if shell is None:
            return ()
        endings = await ending_calls(study) + _submits(study)
        if not endings:
            raise NotJudgedError("no call ends the episode without an answer")
        tool, argument = shell
        task = study.tasks[0]
        (read,) = await study.player.play([_reading(study, task)])
        named = list(dict.fromkeys(_FILE.findall(" ".join(read.texts[:1]))))[:5]
        touch = f"\ntouch {' '.join(named)}" if named else ""
        variants: dict[str, CallsOf] = {}
        for name, command in SHELL_CHEATS.items():
            for ending in endings[:2]:
                variants[f"{name}, then {ending[0]}"] = _always((tool, {argument: command + touch}), ending)
        both = EMPTY_FILES + "".join(f"\n: > {name}" for name in named)
        variants["every file empty, the result too"] = _always((tool, {argument: both}), endings[0])
        idle = [task.play([ending], seed=study.seed) for ending in endings[:2]]
        zero = max(one.total for one in await study.player.play(idle))
        return await study.measure(
            variants,
            "an agent is paid for {variant}",
            scale=Scale(max(zero, study.scale.zero), study.scale.full),
        )


def _find_shell(study: Study) -> tuple[str, str] | None:
    """Return a tool that runs commands, and its argument for one."""
    for tool in study.tools.values():
        properties = (tool.input_schema or {}).get("properties", {})
        for name in ("command", "cmd"):
            if properties.get(name, {}).get("type", "string") == "string" and name in properties:
                return tool.name, name
    return None


def _submits(study: Study) -> list[Call]:
    """Return the call that ends the gold actions, if it has no argument."""
    for task in study.tasks:
        if task.gold and not task.gold[-1][1]:
            return [task.gold[-1]]
    return []


def _reading(study: Study, task: AuditedTask) -> CallPlan:
    return replace(task.play((), seed=study.seed), reads=True)


def _always(*calls: Call) -> CallsOf:
    return lambda _: calls
