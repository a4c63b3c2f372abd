"""The environment whose tasks are folders in Harbor's format: a shell in the task's root, and `submit`."""

import base64
import io
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import anyio
from typing_extensions import override

from ors_server.environments.argument_names import only_these_arguments
from ors_server.environments.environment import Prompt
from ors_server.environments.episode_rewards import noting_judgement
from ors_server.environments.indexed_tasks import IndexedTasks
from ors_server.environments.tool import ToolError, tool
from ors_server.environments.toolsets.bash import BashTools
from ors_server.environments.toolsets.sandboxed import SandboxToolset
from ors_server.harbor.file_sets import RootFile, list_root_files
from ors_server.harbor.lint_rules import ON_REQUEST, RULES, lint
from ors_server.harbor.reward_files import REWARD, combine_steps, reward_below
from ors_server.harbor.root_files import RootFilesError, copy_files, remove_grading
from ors_server.harbor.task_config import HealthcheckTable, TaskFolderError
from ors_server.harbor.task_folder import (
    MAX_COMMAND_SECONDS,
    SETUP_SCRIPT,
    SOLVE_SCRIPT,
    TaskFolder,
    TaskStep,
    resolve_variables,
)
from ors_server.harbor.verifying import VerifierVerdict, check_rights, verify
from ors_server.model.wire import JSONObject, TextBlock, ToolOutput
from ors_server.rewards.result import RewardResult
from ors_server.rewards.result_output import graded_output
from ors_server.sandboxes.base import Limits, SandboxRequest

# An image's user, who need not be root, writes into the first two.
LOG_FOLDERS = (
    *(RootFile(f"/logs/{name}", None, 0o777) for name in ("agent", "artifacts")),
    RootFile("/logs/verifier", None, 0o755),
)
_CHUNK = 500_000
"""Characters of an oracle's archive in one command."""
_SETUP_SECONDS = 600.0
_ORACLE_LOG = "/logs/agent/oracle.txt"


class TaskShell(BashTools):
    """The shell of a task, which refuses commands once the task's time is over."""

    @override
    def _shorten(self, time_limit: float | None) -> float | None:
        left = cast("HarborTasks", self.environment).remaining_seconds()
        if left is None:
            return time_limit
        if left <= 0:
            raise ToolError("the time of this task is over; call submit, which grades the files as they are")
        return min(self.sandbox.limits.time_limit if time_limit is None else time_limit, left)


class TaskSubmit(SandboxToolset):
    """Ends a step of the task, and with the last one the episode."""

    @tool(exclusive=True)
    @only_these_arguments()
    async def submit(self) -> ToolOutput:
        """Submit your work. Call this once, when you are done.

        The files are graded as they are now. A task of several steps then shows the next one; otherwise the
        episode ends.
        """
        return await cast("HarborTasks", self.environment).grade_step()


class HarborTasks(IndexedTasks):
    """Base of the classes that `find_tasks` makes: one per folder of tasks."""

    toolsets = (TaskShell, TaskSubmit)
    lint_on_request: ClassVar[Sequence[str]] = ON_REQUEST
    """Rules of `lint_findings` that are reported only on request, by name."""
    _folders: ClassVar[Mapping[str, Sequence[TaskFolder]]] = {}
    hidden_files: ClassVar[Sequence[Path]] = ()
    """The folders of the tasks, which contain solutions and tests."""
    watched_files: ClassVar[Sequence[Path]] = ()

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        super().__init__(task_spec, secrets)
        self._folder = self._find(task_spec)
        self._position = 0
        self._figures: list[dict[str, float]] = []
        self._deadline: float | None = None

    @classmethod
    def folders(cls) -> list[TaskFolder]:
        """Return the folders of all tasks, in the order of the splits."""
        return [folder for folders in cls._folders.values() for folder in folders]

    @classmethod
    def _find(cls, task_spec: JSONObject) -> TaskFolder:
        for folder in cls._folders.get(str(task_spec.get("split")), ()):
            if folder.name == task_spec.get("task"):
                return folder
        raise TaskFolderError(f"unknown task {task_spec.get('task')!r}: no served folder has it")

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        folder = cls._folders[split][index]
        return {
            "split": split,
            "task": folder.name,
            "instruction": folder.steps[0].instruction,
            "steps": len(folder.steps),
            "base_image": folder.plan.base,
            "root": "host" if folder.plan.image is None else f"image:{folder.plan.image.image_id}",
            "digest": folder.digest,
        }

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]] | None:
        """Return the calls that run each step's solution and submit; `None` if a step has no solution."""
        folder = cls._find(task_spec)
        actions: list[tuple[str, dict[str, Any]]] = []
        for step in folder.steps:
            commands = _oracle_commands(folder, step)
            if commands is None:
                return None
            seconds = step.agent_seconds or MAX_COMMAND_SECONDS
            actions += [("bash", {"command": command, "time_limit": seconds}) for command in commands]
            actions.append(("submit", {}))
        return actions

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls that submit each step without any work."""
        return [("submit", {}) for _ in cls._find(task_spec).steps]

    @classmethod
    def lint_findings(cls) -> dict[str, list[str]]:
        """Return what the rules of the format find in the tasks: rule to findings, each with its place."""
        findings: dict[str, list[str]] = {rule: [] for rule in RULES}
        for folder in cls.folders():
            for rule, breaches in lint(folder).items():
                findings[rule] += breaches
        return findings

    @override
    def get_prompt(self) -> Prompt:
        return self._describe(self._folder.steps[0])

    @override
    def request_sandbox(self, limits: Limits) -> SandboxRequest:
        folder = self._folder
        return SandboxRequest(folder.limits, folder.root(self.secrets), folder.network)

    @override
    async def setup(self) -> None:
        environment = self._folder.config.environment
        for step in self._folder.steps:
            # So that a missing secret, user or network fails the setup, and not the grading after the agent's
            # work.
            self._folder.verifier_variables(step, self.secrets)
            await check_rights(self.sandbox, self._folder, step, self.secrets)
        with anyio.fail_after(environment.build_timeout_sec):
            await copy_files(self.sandbox, [*LOG_FOLDERS, *self._folder.plan.files])
            await self._check_health(environment.healthcheck)
            await self._begin_step()

    @override
    def save_state(self) -> JSONObject:
        left = self.remaining_seconds()
        return {"position": self._position, "figures": [dict(step) for step in self._figures], "left": left}

    @override
    def load_state(self, state: JSONObject) -> None:
        self._position, self._figures = state["position"], [dict(step) for step in state["figures"]]
        self._deadline = None if state["left"] is None else anyio.current_time() + state["left"]

    def remaining_seconds(self) -> float | None:
        """Return the seconds that the agent has left for the step; `None` without a limit."""
        return None if self._deadline is None else self._deadline - anyio.current_time()

    async def grade_step(self) -> ToolOutput:
        """Grade the step that is played; the output of the last one has the task's reward."""
        folder, step = self._folder, self._folder.steps[self._position]
        is_last = self._position == len(folder.steps) - 1
        with noting_judgement(self, mistakes=ToolError) as note:
            verdict = await verify(self.sandbox, folder, step, self.secrets)
            if verdict.result.reward is None:
                return _output(note(verdict.result), "Submitted.", {"steps": [verdict.record]})
        self._figures.append(verdict.figures)
        missed = reward_below(verdict.figures, step.min_reward)
        if is_last or missed is not None:
            return self._conclude(verdict, missed)
        self._position += 1
        await remove_grading(self.sandbox)
        await self._begin_step()
        following = folder.steps[self._position]
        text = f"The step is over. Step {self._position + 1} of {len(folder.steps)}:\n\n"
        record = {**verdict.record, "figures": verdict.figures}
        return ToolOutput(
            blocks=[TextBlock(text=text + self._describe(following))], metadata={"harbor": record}
        )

    def _conclude(self, verdict: VerifierVerdict, missed: str | None) -> ToolOutput:
        total = combine_steps(self._figures, self._folder.strategy)
        record: JSONObject = {**verdict.record, "figures": verdict.figures}
        if missed is not None:
            record["missed"] = missed
        extras = {key: value for key, value in total.items() if key != REWARD}
        if len(self._folder.steps) > 1:
            extras["steps"] = float(len(self._figures))
        result = RewardResult(total[REWARD], extras=extras, reason=verdict.result.reason)
        return _output(result, "Submitted.", record)

    def _describe(self, step: TaskStep) -> str:
        skills = self._folder.config.environment.skills_dir
        return step.instruction if not skills else f"{step.instruction}\n\nSkills are in {skills}."

    async def _begin_step(self) -> None:
        step = self._folder.steps[self._position]
        if step.work_files is not None:
            work_dir = self._folder.work_dir
            await copy_files(
                self.sandbox, list(list_root_files(step.work_files, self._folder.path, work_dir))
            )
            if (step.work_files / SETUP_SCRIPT).is_file():
                script = f"{work_dir.rstrip('/')}/{SETUP_SCRIPT}"
                command = f"cd {shlex.quote(work_dir)} && bash {shlex.quote(script)}"
                result = await self.sandbox.exec(command, time_limit=_SETUP_SECONDS)
                if result.exit_code != 0:
                    printed = result.stderr.text.strip()[-300:]
                    raise RootFilesError(
                        f"{SETUP_SCRIPT} of {step.name} ended with {result.exit_code}: {printed}"
                    )
        await self._check_health(step.healthcheck)
        self._deadline = None if step.agent_seconds is None else anyio.current_time() + step.agent_seconds

    async def _check_health(self, check: HealthcheckTable | None) -> None:
        if check is None:
            return
        began, failures = anyio.current_time(), 0
        while True:
            result = await self.sandbox.exec(f"( {check.command}\n)", time_limit=check.timeout_sec)
            if result.exit_code == 0:
                return
            is_starting = anyio.current_time() - began < check.start_period_sec
            failures += not is_starting
            if failures >= check.retries:
                printed = (result.stderr.text or result.stdout.text).strip()[-300:]
                raise RootFilesError(f"the healthcheck {check.command!r} failed {failures} times: {printed}")
            await anyio.sleep(check.start_interval_sec if is_starting else check.interval_sec)


def _output(result: RewardResult, text: str, record: JSONObject) -> ToolOutput:
    return graded_output(result, text, finished=True, metadata={"harbor": record})


def _oracle_commands(folder: TaskFolder, step: TaskStep) -> list[str] | None:
    """Return the commands that copy a step's solution and run it as Harbor's oracle does."""
    if step.solution is None:
        return None
    try:
        where = folder.document.place("solution", "env")
        variables = resolve_variables(folder.config.solution.env, {}, where)
    except TaskFolderError:
        return None  # it needs a secret, which only a session has
    files = [*list_root_files(step.solution, folder.path, "/solution")]
    text = base64.b64encode(_compress(files)).decode()
    pieces = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    commands = [
        f"{'rm -rf /solution; : >' if number == 0 else ''} /tmp/.oracle 2>/dev/null; "
        f"printf %s {piece} >> /tmp/.oracle"
        for number, piece in enumerate(pieces)
    ]
    settings = "".join(f" {shlex.quote(f'{name}={value}')}" for name, value in variables.items())
    run = (
        f"mkdir -p /solution /logs/agent && base64 -d /tmp/.oracle | tar -xz -C / && rm -f /tmp/.oracle && "
        f"chmod +x /solution/{SOLVE_SCRIPT} && (env DEBIAN_FRONTEND=noninteractive{settings} "
        f"/solution/{SOLVE_SCRIPT}) > {_ORACLE_LOG} 2>&1; echo status $?; tail -c 2000 {_ORACLE_LOG}"
    )
    return [*commands[:-1], f"{commands[-1]}; {run}"]


def _compress(files: Sequence[RootFile]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for file in files:
            entry = tarfile.TarInfo(file.target.lstrip("/"))
            entry.mode = file.mode
            content = b"" if file.source is None else file.source.read_bytes()
            entry.type = tarfile.DIRTYPE if file.source is None else tarfile.REGTYPE
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
