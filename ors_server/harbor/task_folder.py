"""Reads and checks the folder of one task; refuses what this server does not support, with file and line."""

import difflib
import hashlib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ors_server.harbor.dockerfile import ROOT_USERS, BuildPlan, find_image, read_dockerfile
from ors_server.harbor.file_sets import list_tree, read_harbor_ignore
from ors_server.harbor.task_config import (
    FILE,
    ArtifactTable,
    CollectTable,
    EnvironmentTable,
    HealthcheckTable,
    KeyPath,
    NetworkTable,
    StepTable,
    TaskDocument,
    TaskFolderError,
    VerifierTable,
)
from ors_server.sandboxes.base import MIB, Limits, SandboxRequest, SandboxRoot
from ors_server.sandboxes.cells.root_skeleton import MOUNT_POINTS
from ors_server.sandboxes.egress import LOOPBACK, SandboxNetwork

TEST_SCRIPT, SOLVE_SCRIPT, SETUP_SCRIPT = "test.sh", "solve.sh", "setup.sh"
OPTIONS = ("keep_system", "reward_range")
"""Keys of `[metadata.ors]`: options of this server."""
COVERED = ("proc", "dev", ".ors-control", ".ors-state", ".ors-home", ".ors-files")
"""Folders of `/` that are mounted over an image."""
DEFAULT_RANGE = (0.0, 1.0)
MAX_COMMAND_SECONDS = 600.0
"""Seconds that a command may take where the task has no time limit."""
MAX_TEXT_BYTES = 1_000_000
_CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)


@dataclass(frozen=True)
class TaskStep:
    """One step of a task; a task without steps has one, without a name."""

    name: str
    instruction: str
    tests: tuple[Path, ...]
    """Folders whose files are copied to `/tests`, in order."""
    script: str
    """The verifier's script, relative to `/tests`."""
    solution: Path | None
    """The folder of the oracle's script."""
    work_files: Path | None
    """The folder whose files are copied to the work dir before the step."""
    agent_seconds: float | None
    verifier_seconds: float
    verifier_variables: Mapping[str, str]
    collect: tuple[CollectTable, ...]
    verifier_plan: BuildPlan | None
    """The root of a separate verifier; `None` if the verifier shares the agent's root."""
    verifier_environment: EnvironmentTable
    """Limits, variables and work dir of a separate verifier's root."""
    verifier_user: str
    """Who runs the verifier; empty for root."""
    verifier_network: SandboxNetwork
    """What the verifier can connect to."""
    min_reward: Mapping[str, float]
    healthcheck: HealthcheckTable | None
    artifacts: tuple[ArtifactTable, ...]
    has_bundled_tests: bool = False
    """Whether the separate verifier's own root has the tests."""

    @property
    def users(self) -> list[str]:
        """Users other than root that run something in grading, over the agent's root if it is shared."""
        verifier = [self.verifier_user] if self.verifier_plan is None else []
        hooks = [str(hook.user) for hook in self.collect if hook.user is not None]
        return [user for user in dict.fromkeys((*verifier, *hooks)) if user and user not in ROOT_USERS]


class TaskFolder:
    """A task: its `task.toml`, steps, Dockerfile and limits, as they were when it was read."""

    def __init__(self, path: Path) -> None:
        """Read the folder.

        Raises:
            TaskFolderError: It breaks a rule of the format, or needs what this server does not have.
        """
        self.path = path.resolve()
        self.name = path.name
        self.document = TaskDocument(path / FILE)
        self.config = self.document.config
        has_own = self.config.agent.network_mode is not None
        table, key = (self.config.agent, "agent") if has_own else (self.config.environment, "environment")
        self.network = self._network_of(table, (key,))
        """What the session's commands can connect to in the agent's phase."""
        self._refuse_unsupported()
        # What a session's root is made of: the named image, or the Dockerfile.
        image = self.config.environment.docker_image
        self.plan = (
            self._read_plan(self.path / "environment", "environment")
            if image is None
            else self._plan_image(image, ("environment", "docker_image"))
        )
        self.work_dir = self.config.environment.workdir or self.plan.work_dir
        self._refuse_agent_users()
        self._refuse_system_paths()
        self.steps = tuple(self._read_steps())
        self.reward_range = self._read_range()
        digest = hashlib.sha256()
        for file in self.files():
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(self.path).as_posix()}\0{content}\0".encode())
        self.digest = digest.hexdigest()

    @property
    def limits(self) -> Limits:
        """What the session's processes may use."""
        longest = max(step.agent_seconds or MAX_COMMAND_SECONDS for step in self.steps)
        usual = Limits(longest_time_limit=max(Limits().longest_time_limit, longest))
        return _limits_of(self.config.environment, usual)

    @property
    def strategy(self) -> str:
        """How the figures of the steps are combined: `mean` or `final`."""
        return self.config.multi_step_reward_strategy or "mean"

    @property
    def agent_user(self) -> str:
        """Who runs the agent's commands: the user that the task names, else the image's."""
        stated = self.config.agent.user
        return _user_of(self.plan.user if stated is None else stated) or "root"

    def root(self, secrets: Mapping[str, str]) -> SandboxRoot:
        """Return the root of the task's sessions."""
        variables, image = self.variables(secrets), self.plan.image
        if image is None:
            return SandboxRoot(self.work_dir, variables)
        root = SandboxRoot.of_image(
            image.as_tree(), work_dir=self.work_dir, variables=variables, user=self.agent_user
        )
        return replace(root, keeps_system=bool(self.config.option("keep_system")))

    def variables(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the task's root, those of `[environment] env` last."""
        task_variables = resolve_variables(
            self.config.environment.env, secrets, self.document.place("environment", "env")
        )
        image = {} if self.plan.image is None else self.plan.image.variables
        return {**image, **self.plan.variables, **task_variables}

    def verifier_request(self, step: TaskStep, secrets: Mapping[str, str]) -> SandboxRequest:
        """Return the sandbox of a step's separate verifier."""
        plan, table = step.verifier_plan or self.plan, step.verifier_environment
        place = self.document.place("verifier", "environment", "env")
        variables = {**plan.variables, **resolve_variables(table.env, secrets, place)}
        work_dir = table.workdir or plan.work_dir
        if plan.image is None:
            root = SandboxRoot(work_dir, variables)
        else:
            root = SandboxRoot.of_image(
                plan.image.as_tree(), work_dir=work_dir, variables=variables, user="root"
            )
        return SandboxRequest(_limits_of(table, self.limits), root)

    def verifier_variables(self, step: TaskStep, secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a step's verifier alone."""
        return resolve_variables(step.verifier_variables, secrets, self.document.place("verifier", "env"))

    def files(self) -> Iterator[Path]:
        """Yield every file of the task, sorted."""
        yield from sorted(path for path in list_tree(self.path, self.path) if path.is_file())

    def _error(self, text: str, *key: str | int) -> TaskFolderError:
        return TaskFolderError(f"{self.document.place(*key)}: {text}")

    # Features that this server does not support

    def _refuse_unsupported(self) -> None:
        config = self.config
        self._refuse_environment(config.environment, ("environment",))
        self._refuse_verifier(config.verifier, ("verifier",))
        for number, step in enumerate(config.steps or ()):
            key: KeyPath = ("steps", number)
            step_key: KeyPath = (*key, "agent")
            if step.agent.network_mode and self._network_of(step.agent, step_key) != self.network:
                raise self._error(
                    "the network of a session stays the same in all steps: expected that of [agent]",
                    *step_key,
                    "network_mode",
                )
            self._refuse_verifier(step.verifier, (*key, "verifier"))
            self._refuse_services(step.artifacts, (*key, "artifacts"))
        self._refuse_services(config.artifacts, ("artifacts",))
        options = config.metadata.get("ors", {})
        if not isinstance(options, dict):
            raise self._error(
                f"expected a table of this server's options, got {options!r:.80}", "metadata", "ors"
            )
        for name in cast("dict[str, object]", options):
            if name not in OPTIONS:
                near = difflib.get_close_matches(name, OPTIONS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(OPTIONS)}"
                raise self._error(f"unknown option; {hint}", "metadata", "ors", name)
        for name in (
            "trajectory.json",
            *(f"steps/{step.name}/trajectory.json" for step in config.steps or ()),
        ):
            if (self.path / name).exists():
                raise TaskFolderError(
                    f"{self.path / name}: not supported, because an episode begins without earlier messages"
                )

    def _refuse_environment(self, table: EnvironmentTable, key: KeyPath) -> None:
        if table.os != "linux":
            raise self._error(f"expected os = 'linux', got {table.os!r}", *key, "os")
        if table.gpus:
            raise self._error(f"expected 0, got {table.gpus}: tasks have no GPU on this server", *key, "gpus")
        if table.tpu is not None:
            raise self._error("expected no TPU: tasks have none on this server", *key, "tpu")
        if table.mcp_servers:
            raise self._error("MCP servers are not supported: remove them", *key, "mcp_servers")

    def _network_of(self, table: NetworkTable, key: KeyPath) -> SandboxNetwork:
        if table.network_mode == "public":
            is_old = isinstance(table, EnvironmentTable) and table.allow_internet is not None
            raise self._error(
                "expected network_mode = 'no-network', or 'allowlist' with the hosts in allowed_hosts: no "
                "task reaches every host on this server",
                *key,
                "allow_internet" if is_old else "network_mode",
            )
        if not table.allowed_hosts:
            return LOOPBACK
        try:
            return SandboxNetwork.of(table.allowed_hosts)
        except ValueError as error:
            raise self._error(str(error), *key, "allowed_hosts") from error

    def _refuse_agent_users(self) -> None:
        for number, step in enumerate(self.config.steps or ()):
            user, key = step.agent.user, ("steps", number, "agent", "user")
            if self.plan.image is None:
                self._refuse_user(user, key)
            elif user is not None and _user_of(user) != self.agent_user:
                raise self._error(
                    f"the user of a session stays the same in all steps: expected {self.agent_user!r}, that "
                    f"of [agent] or of the image, got {user!r}",
                    *key,
                )
        if self.plan.image is None:
            self._refuse_user(self.config.agent.user, ("agent", "user"))

    def _refuse_user(self, user: str | int | None, key: KeyPath) -> None:
        if user is not None and str(user) not in ROOT_USERS:
            raise self._error(
                f"expected user 'root', got {user!r}: it is the only user of a task's sandbox, and "
                "has no rights on the host",
                *key,
            )

    def _refuse_verifier(self, table: VerifierTable, key: KeyPath) -> None:
        own = table.environment
        if own is not None:
            self._refuse_environment(own, (*key, "environment"))
            for name in ("healthcheck", "skills_dir"):
                if getattr(own, name) is not None:
                    raise self._error(
                        "a verifier's environment cannot have it on this server: remove it",
                        *key,
                        "environment",
                        name,
                    )
        for number, hook in enumerate(table.collect):
            if hook.service != "main":
                raise self._error(
                    f"expected the service 'main', got {hook.service!r}: a task has one container here",
                    *key,
                    "collect",
                    number,
                    "service",
                )

    def _refuse_services(self, artifacts: list[ArtifactTable], key: KeyPath) -> None:
        for number, artifact in enumerate(artifacts):
            if artifact.service not in {None, "main"}:
                raise self._error(
                    f"expected the service 'main', got {artifact.service!r}: a task has one container here",
                    *key,
                    number,
                    "service",
                )

    # The parts

    def _plan_image(self, name: str, key: KeyPath) -> BuildPlan:
        image = find_image(name)
        if image is None:
            raise self._error(
                f"the image {name!r} is not in the cache: add it with ors-server images add", *key
            )
        return BuildPlan(base=name, image=image, user=image.user, work_dir=image.work_dir)

    def _read_plan(self, folder: Path, name: str) -> BuildPlan:
        if (folder / "docker-compose.yaml").exists():
            raise TaskFolderError(
                f"{folder / 'docker-compose.yaml'}: a task has one container here, by its Dockerfile"
            )
        if not (folder / "Dockerfile").is_file():
            raise TaskFolderError(
                f"{self.path}: {name}/Dockerfile is missing; `FROM scratch` means this host's tools"
            )
        return read_dockerfile(folder / "Dockerfile", self.path)

    def _refuse_system_paths(self) -> None:
        key = ("environment", "workdir") if self.config.environment.workdir else ()
        covered = MOUNT_POINTS if self.plan.image is None else COVERED
        for path, where in (
            (self.work_dir, self.document.place(*key)),
            *((file.target, str(self.path / "environment/Dockerfile")) for file in self.plan.files),
        ):
            if path.split("/")[1] in covered:
                raise TaskFolderError(
                    f"{where}: {path} is in a folder of the system, which a task cannot write"
                )

    def _read_steps(self) -> Iterator[TaskStep]:
        if not self.config.steps:
            yield self._read_step(self.path, StepTable(name="task"), ())
            return
        for number, step in enumerate(self.config.steps):
            folder = self.path / "steps" / step.name
            if not folder.resolve().is_relative_to(self.path) or not folder.is_dir():
                raise self._error(f"there is no folder {folder}", "steps", number, "name")
            yield self._read_step(folder, step, ("steps", number))

    def _read_step(self, folder: Path, table: StepTable, key: KeyPath) -> TaskStep:
        """Read one step; `key` is empty for a task without steps."""
        config, name = self.config, table.name if key else ""
        verifier = table.verifier if key else config.verifier
        is_separate = (verifier.mode or config.verifier.mode) == "separate"
        tests = [path for path in dict.fromkeys((self.path / "tests", folder / "tests")) if path.is_dir()]
        plan, has_bundled_tests = None, False
        if is_separate:
            plan, has_bundled_tests = self._read_verifier_plan(folder, verifier, (*key, "verifier"))
        user, network = self._read_verifier_rights(verifier, (*key, "verifier"), plan)
        has_own_time = "timeout_sec" in verifier.model_fields_set
        solutions = [
            path
            for path in dict.fromkeys((folder / "solution", self.path / "solution"))
            if (path / SOLVE_SCRIPT).is_file()
        ]
        for path in solutions[:1]:
            list_tree(path, self.path)
        thresholds = table.min_reward
        if thresholds is None or not isinstance(thresholds, dict):
            thresholds = {} if thresholds is None else {"reward": thresholds}
        return TaskStep(
            name=name,
            instruction=self._read_instruction(folder / "instruction.md"),
            tests=tuple(tests),
            script=self._find_test(folder, tests, plan if has_bundled_tests else None),
            solution=solutions[0] if solutions else None,
            work_files=folder / "workdir" if name and (folder / "workdir").is_dir() else None,
            agent_seconds=table.agent.timeout_sec or config.agent.timeout_sec,
            verifier_seconds=(verifier if has_own_time else config.verifier).timeout_sec,
            verifier_variables={**config.verifier.env, **verifier.env},
            collect=tuple(verifier.collect or config.verifier.collect),
            verifier_plan=plan,
            verifier_environment=verifier.environment or config.verifier.environment or config.environment,
            verifier_user=user,
            verifier_network=network,
            min_reward=thresholds,
            healthcheck=table.healthcheck,
            artifacts=(*config.artifacts, *(table.artifacts if name else ())),
            has_bundled_tests=has_bundled_tests,
        )

    def _read_verifier_plan(
        self, folder: Path, verifier: VerifierTable, key: KeyPath
    ) -> tuple[BuildPlan, bool]:
        """Return the root of a separate verifier, and whether the tests are in it already."""
        levels = dict.fromkeys(((folder, key), (self.path, ("verifier",))))
        for (path, level), table in zip(levels, (verifier, self.config.verifier), strict=False):
            own = table.environment
            if own is not None and own.docker_image is not None:
                return self._plan_image(own.docker_image, (*level, "environment", "docker_image")), True
            if (path / "tests/Dockerfile").is_file():
                return self._read_plan(path / "tests", "tests"), True
        return self.plan, False

    def _read_verifier_rights(
        self, verifier: VerifierTable, key: KeyPath, plan: BuildPlan | None
    ) -> tuple[str, SandboxNetwork]:
        """Return who runs a verifier, and its network: what its own tables say, and not those of the task.

        Without a word about it, a separate verifier, which has a `plan`, is run by the user of its image.
        A verifier does not get the network of `[environment]`: the tests would be within reach of it without
        a word about them.
        """
        common = self.config.verifier
        user, user_key = (verifier.user, key) if verifier.user is not None else (common.user, ("verifier",))
        if (plan or self.plan).image is None:
            self._refuse_user(user, (*user_key, "user"))
        if user is None and plan is not None:
            user = plan.user
        name = "" if user is None else str(user)
        hooks, hooks_key = (verifier.collect, key) if verifier.collect else (common.collect, ("verifier",))
        for number, hook in enumerate(hooks if self.plan.image is None else ()):
            self._refuse_user(hook.user, (*hooks_key, "collect", number, "user"))
        phases: list[tuple[VerifierTable, KeyPath]] = [(verifier, key), (common, ("verifier",))]
        environments = [(table.environment, (*level, "environment")) for table, level in phases]
        for table, level in (*phases, *environments):
            if table is not None and table.network_mode is not None:
                return name, self._network_of(table, level)
        return name, LOOPBACK

    def _read_instruction(self, path: Path) -> str:
        if not path.is_file() or not path.resolve().is_relative_to(self.path):
            raise TaskFolderError(f"{path}: the instruction is missing")
        try:
            content = path.read_bytes()
            if len(content) > MAX_TEXT_BYTES:
                raise TaskFolderError(f"{path}: expected at most {MAX_TEXT_BYTES} bytes, got {len(content)}")
            lines = content.decode("utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise TaskFolderError(f"{path}: {error}") from error
        # A canary marks the data of benchmarks and is not for the agent.
        while lines and _CANARY.match(lines[0].strip()):
            del lines[0]
        text = "\n".join(lines).strip("\n")
        if not text.strip():
            raise TaskFolderError(f"{path}: the instruction is empty")
        return text

    def _find_test(self, folder: Path, tests: list[Path], bundling: BuildPlan | None) -> str:
        """Return the name of the verifier's script; `bundling` is the root that brings its tests itself."""
        if bundling is not None:
            path = f"tests/{TEST_SCRIPT}"
            image = None if bundling.image is None else bundling.image.path
            # A link of the image's is not followed here.
            if image is not None and ((image / "tests").is_symlink() or os.path.lexists(image / path)):
                return TEST_SCRIPT
            if any(file.target == f"/{path}" for file in bundling.files):
                return TEST_SCRIPT
            raise TaskFolderError(f"{folder}: the verifier's root has no /{path}, the verifier's script")
        for candidate in reversed(tests):
            script = candidate / TEST_SCRIPT
            if script.is_file():
                list_tree(candidate, self.path)
                if read_harbor_ignore(candidate, self.path)(TEST_SCRIPT, False):  # noqa: FBT003  (by position)
                    raise TaskFolderError(f"{script}: its own .harborignore leaves it out")
                return TEST_SCRIPT
        raise TaskFolderError(f"{folder / 'tests' / TEST_SCRIPT}: the verifier's script is missing")

    def _read_range(self) -> tuple[float, float]:
        stated = self.config.option("reward_range")
        if stated is None:
            return DEFAULT_RANGE
        numbers = (
            [item for item in cast("list[object]", stated) if isinstance(item, int | float)]
            if isinstance(stated, list)
            else []
        )
        if len(numbers) != 2 or not numbers[0] < numbers[1]:  # noqa: PLR2004  (least and greatest)
            raise self._error(
                f"expected [least, greatest], two numbers in order, got {stated!r:.80}",
                *("metadata", "ors", "reward_range"),
            )
        return float(numbers[0]), float(numbers[1])


def _limits_of(environment: EnvironmentTable, usual: Limits) -> Limits:
    """Return the limits that a table states; the usual ones where it states none."""
    return replace(
        usual,
        cpus=environment.cpus or usual.cpus,
        memory_bytes=(environment.memory_mb or 0) * MIB or usual.memory_bytes,
        disk_bytes=(environment.storage_mb or 0) * MIB or usual.disk_bytes,
    )


def resolve_variables(table: Mapping[str, str], values: Mapping[str, str], where: str) -> dict[str, str]:
    """Return variables in which `${NAME}` and `${NAME:-default}` are filled from named values only.

    The server's own environment is never read: a task's author could otherwise ask for every secret in it.

    Raises:
        TaskFolderError: A value without a default is missing.
    """
    resolved: dict[str, str] = {}
    for name, text in table.items():
        match = _TEMPLATE.fullmatch(text)
        if match is None:
            resolved[name] = text
        elif match[1] in values:
            resolved[name] = values[match[1]]
        elif match[2] is not None:
            resolved[name] = match[2]
        else:
            raise TaskFolderError(
                f"{where}: {name} needs {match[1]!r}, which is not among the secrets of the session"
            )
    return resolved


def _user_of(name: str | int) -> str:
    """Return a user's name as sandboxes take it: every name of root is `root`."""
    return "root" if str(name) in ROOT_USERS else str(name)


def absolute_path(path: str, work_dir: str) -> str:
    """Return a path of the root in normal form."""
    return "/" + posixpath.normpath(posixpath.join(work_dir, path)).lstrip("/")
