"""Harbor's lint rules, under its names, where they apply to what this server serves, and a few more.

The names and meanings are those of harbor 0.26 (`harbor/lint/models.py`). A folder that breaks
`invalid-task-config`, `unknown-config-field` or `invalid-task-files` is not served at all, and neither is one
with a Compose file, so those rules have nothing to report here.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ors_server.harbor.file_sets import HARBOR_IGNORE
from ors_server.harbor.task_config import ArtifactTable
from ors_server.harbor.task_folder import SOLVE_SCRIPT, TEST_SCRIPT, TaskFolder, absolute_path
from ors_server.sandboxes.egress import LOOPBACK
from ors_server.sandboxes.fresh import ROOT_NAMES

_CONVENTION = "/logs/artifacts"
_PINNED_IMAGE = re.compile(r"@sha256:[0-9a-fA-F]{64}$")
_TEST_FILE = re.compile(r"(?:^|/)(?:solution/solve\.sh|tests/(?:test\.sh|test_[^/]+\.py))$")
_PINNED = re.compile(r"={2,3}[^*]+$|@[0-9a-fA-F]{40}(?:#|$)|#sha256=[0-9a-fA-F]{64}$")
_LOCAL = re.compile(r"^[./]|^file:|\$|\.(?:whl|tar\.gz|zip)$")
_HEREDOC = re.compile(r"""<<-?\s*(['"]?)(\w+)\1""")
_INSTALLERS = (
    ("apt-get", "install"),
    ("apt", "install"),
    ("apt-get", "update"),
    ("apk", "add"),
    ("pip", "install"),
    ("pip3", "install"),
    ("python3", "-m", "pip", "install"),
    ("python", "-m", "pip", "install"),
    ("uv", "pip", "install"),
    ("uv", "tool", "install"),
    ("npm", "install"),
    ("npm", "i"),
    ("uvx",),
)
_OFFLINE = frozenset({"--offline", "--no-index"})
_VALUE_FLAGS = frozenset(
    (
        *("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-t"),
        *("--target", "--prefix", "--root", "--python", "-p", "--find-links", "-f", "--platform", "--index"),
        *("--default-index", "--from"),
    )
)

_Check = Callable[[TaskFolder], Iterator[str]]


def lint(folder: TaskFolder) -> dict[str, list[str]]:
    """Return the findings of a task by rule, with the place of each; the list of a rule may be empty."""
    return {rule: list(check(folder)) for rule, check in RULES.items()}


def unused_ignore_files(folder: TaskFolder) -> Iterator[str]:
    """Find files of ignore rules that no phase reads."""
    for file in sorted(folder.path.rglob(HARBOR_IGNORE)):
        parts = file.relative_to(folder.path).parts
        own = parts[2:] if parts[0] == "steps" else parts
        if not own or own[0] not in {"tests", "solution"}:
            yield f"{file}: ignore rules apply below tests/ and solution/ only"


def shared_verifiers(folder: TaskFolder) -> Iterator[str]:
    """Find steps whose verifier runs in the agent's root."""
    for step in folder.steps:
        if step.verifier_plan is None:
            where = folder.document.place("verifier") if not step.name else f"{folder.path}: step {step.name}"
            yield f"{where}: the verifier shares the agent's root; environment_mode = 'separate' does not"


def root_agents(folder: TaskFolder) -> Iterator[str]:
    """Find agents that are root: all but those of images with another user."""
    if folder.agent_user.partition(":")[0] in ROOT_NAMES:
        users = "one user" if folder.plan.image is None else "the users of its image"
        yield f"{folder.document.place('agent', 'user')}: the agent is root of its sandbox, which has {users}"


def overlapping_artifacts(folder: TaskFolder) -> Iterator[str]:
    """Find artefacts that are kept at the same path."""
    for step in folder.steps:
        sources = [absolute_path(entry.source, folder.work_dir) for entry in step.artifacts]
        targets = [_target(entry, folder.work_dir) for entry in step.artifacts]
        for number, target in enumerate(targets):
            if any(_overlaps(target, earlier) for earlier in targets[:number]):
                where = folder.document.place("artifacts", number)
                yield f"{where}: {sources[number]} is kept twice as {target}"


def _target(entry: ArtifactTable, work_dir: str) -> str:
    return entry.destination or absolute_path(entry.source, work_dir).lstrip("/")


def _overlaps(first: str, second: str) -> bool:
    return first == second or first.startswith(f"{second}/") or second.startswith(f"{first}/")


def artifacts_in_logs(folder: TaskFolder) -> Iterator[str]:
    """Find artefacts that overlap the logs which a separate verifier protects."""
    for step in folder.steps if any(step.verifier_plan is not None for step in folder.steps) else ():
        for number, entry in enumerate(step.artifacts):
            source = absolute_path(entry.source, folder.work_dir)
            if any(_overlaps(source, logs) for logs in ("/logs/verifier", "/logs/agent")):
                where = folder.document.place("artifacts", number)
                yield f"{where}: {source} overlaps the logs of the verifier"


def unpinned_images(folder: TaskFolder) -> Iterator[str]:
    """Find base images without a digest."""
    for file, line, name, words in _docker_lines(folder):
        image = words[0] if words else ""
        if name == "FROM" and image != "scratch" and "$" not in image and not _PINNED_IMAGE.search(image):
            yield f"{file}:{line}: {image} has no digest, so the name may later mean another image"


def test_leaks(folder: TaskFolder) -> Iterator[str]:
    """Find tests and solutions that the agent's root would have."""
    for file, line, name, words in _docker_lines(folder):
        if name in {"COPY", "ADD"} and file.parent.name == "environment":
            for source in words[:-1]:
                if _TEST_FILE.search(source):
                    yield f"{file}:{line}: {source} would show the agent its tests or solution"


def _docker_lines(folder: TaskFolder) -> Iterator[tuple[Path, int, str, list[str]]]:
    for file in sorted(folder.path.rglob("Dockerfile")):
        for line, text in _script_lines(file):
            name, _, value = text.partition(" ")
            try:
                words = [word for word in shlex.split(value) if not word.startswith("--")]
            except ValueError:
                continue
            yield file, line, name.upper(), words


def unpinned_packages(folder: TaskFolder) -> Iterator[str]:
    """Find Python packages that are installed without a version."""
    for file, line, command in _commands(folder, [TEST_SCRIPT, SOLVE_SCRIPT]):
        is_constrained = any(word.split("=", 1)[0] in {"-c", "--constraint"} for word in command)
        wrong = [
            package
            for package in _packages(command)
            if not (_LOCAL.search(package) or _PINNED.search(package))
        ]
        if wrong and not is_constrained:
            yield f"{file}:{line}: {', '.join(wrong)} without a version; a later build may install another"


def runtime_installs(folder: TaskFolder) -> Iterator[str]:
    """Find separate verifiers that install pytest when they run."""
    for file, line, command in _commands(folder, [TEST_SCRIPT]):
        if _is_separate(folder, file) and not _OFFLINE & set(command):
            names = {re.split(r"[<>=!~\[]", package)[0].lower() for package in _packages(command)}
            if names & {"pytest", "pytest-json-ctrf"}:
                yield f"{file}:{line}: install pytest in the separate verifier's image instead"


def downloads(folder: TaskFolder) -> Iterator[str]:
    """Find separate verifiers that fetch something when they run."""
    for file, line, command in _commands(folder, [TEST_SCRIPT]):
        if _is_separate(folder, file) and _reaches_out(command):
            yield (
                f"{file}:{line}: {command[0]} downloads at run time; add its files to the separate "
                "verifier's image instead"
            )


def set_ups_without_network(folder: TaskFolder) -> Iterator[str]:
    """Find verifiers that need a network for their set-up."""
    if any(step.verifier_network != LOOPBACK for step in folder.steps):
        return
    for file, line, command in _commands(folder, [TEST_SCRIPT]):
        is_install = any(tuple(command[: len(words)]) == words for words in _INSTALLERS)
        if (is_install and not _OFFLINE & set(command)) or _reaches_out(command):
            yield f"{file}:{line}: {shlex.join(command)[:80]} needs a network that the verifier lacks"


def unsaid_networks(folder: TaskFolder) -> Iterator[str]:
    """Find tasks that say nothing about their network."""
    environment = folder.config.environment
    if environment.network_mode is None:
        yield (
            f"{folder.document.place('environment')}: no network_mode, which means 'public' to Harbor; here "
            "such a task has no network: say network_mode = 'no-network' if the task needs none"
        )


def stand_in_roots(folder: TaskFolder) -> Iterator[str]:
    """Find base images for which the programs of this host stand in."""
    if folder.plan.base != "scratch" and folder.plan.image is None:
        file = folder.path / "environment" / "Dockerfile"
        yield (
            f"{file}:{folder.plan.base_line}: the programs of this host stand in for the image "
            f"{folder.plan.base!r}"
        )


def kept_systems(folder: TaskFolder) -> Iterator[str]:
    """Find tasks whose verifier trusts the agent's programs."""
    if folder.config.option("keep_system"):
        where = folder.document.place("metadata", "ors", "keep_system")
        yield f"{where}: the verifier trusts the agent's programs"


RULES: Mapping[str, _Check] = MappingProxyType(
    {
        "unused-harborignore": unused_ignore_files,
        "shared-verifier": shared_verifiers,
        "overlapping-artifacts": overlapping_artifacts,
        "artifact-log-overlap": artifacts_in_logs,
        "unpinned-python-dependency": unpinned_packages,
        "verifier-runtime-install": runtime_installs,
        "verifier-network-download": downloads,
        "agent-image-test-leak": test_leaks,
        "ors-verifier-needs-network": set_ups_without_network,
        "ors-unsaid-network": unsaid_networks,
        "ors-host-as-image": stand_in_roots,
        "ors-kept-system": kept_systems,
        "root-agent": root_agents,
        "unpinned-image": unpinned_images,
    }
)
"""By rule, the function that finds its breaches in one task."""
ON_REQUEST = ("root-agent", "unpinned-image")
"""Rules that Harbor's own lint leaves out unless they are selected."""


def _is_separate(folder: TaskFolder, script: Path) -> bool:
    return any(
        step.verifier_plan is not None and any(script.is_relative_to(tree) for tree in step.tests)
        for step in folder.steps
    )


def _commands(folder: TaskFolder, names: Sequence[str]) -> Iterator[tuple[Path, int, list[str]]]:
    """Yield the commands of the scripts of these names, word by word, as far as they can be read."""
    for file in sorted(path for name in names for path in folder.path.rglob(name)):
        for line, text in _script_lines(file):
            lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|(){}")
            lexer.whitespace_split = True
            try:
                words = list(lexer)
            except ValueError:
                continue
            command: list[str] = []
            for word in [*words, ";"]:
                if word and not word.strip(";&|(){}"):
                    if command:
                        yield file, line, command
                    command = []
                elif command or word not in {
                    "if",
                    "then",
                    "else",
                    "elif",
                    "do",
                    "while",
                    "until",
                    "!",
                    "sudo",
                }:
                    command.append(word)


def _script_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield lines with what continues them, without comments and the texts of here-documents."""
    pending, start, ends = "", 0, list[str]()
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for number, raw in enumerate(lines, 1):
        if ends:
            ends = ends[1:] if raw.strip() == ends[0] else ends
            continue
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        start = start or number
        if raw.rstrip().endswith("\\"):
            pending += raw.rstrip()[:-1] + " "
            continue
        ends = [match[2] for match in _HEREDOC.finditer(raw)]
        yield start, (pending + raw).strip()
        pending, start = "", 0


def _packages(command: Sequence[str]) -> list[str]:
    """Return the Python packages that a command installs."""
    words = next(
        (
            command[len(start) :]
            for start in _INSTALLERS
            if start[0] not in {"apt-get", "apt", "apk", "npm"} and tuple(command[: len(start)]) == start
        ),
        list[str](),
    )
    packages: list[str] = []
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in {"--with", "-w"}:
            packages.append(value if equals else next(rest, ""))
        elif flag in _VALUE_FLAGS:
            if not equals:
                next(rest, None)
        elif not word.startswith("-"):
            if command[0] == "uvx":
                break  # the program itself, and then its own arguments
            packages.append(word)
    return [package for package in packages if package]


def _reaches_out(command: Sequence[str]) -> bool:
    if command[0] not in {"curl", "wget"} and list(command[:2]) != ["git", "clone"]:
        return False
    for word in command[1:]:
        host = re.match(r"(?:--url=)?(?:https?|ftp|git|ssh)://(?:[^/@]*@)?([^/:]+)|git@([^:]+):", word)
        name = (host[1] or host[2]) if host else ""
        if "." in name and not name.startswith("127.") and not name.endswith(".localhost"):
            return True
    return False
