"""Grades one step: kills the agent's processes, copies the tests again, and runs the verifier.

Nothing that the agent left decides how the verifier starts: it has the host's own programs, an empty home, no
variable of the agent's shell, and newly created folders for its tests and its result.
"""

import base64
import hashlib
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

from ors_server.grading.evidence import gather_evidence
from ors_server.harbor.artifact_copies import ArtifactFilter, copy_artifact
from ors_server.harbor.file_sets import RootFile, list_root_files
from ors_server.harbor.reward_files import (
    MAX_BYTES,
    REWARD,
    RewardFileError,
    find_setup_failure,
    read_rewards,
)
from ors_server.harbor.root_files import RootFilesError, copy_files, copy_for_grading
from ors_server.harbor.task_config import ArtifactTable
from ors_server.harbor.task_folder import TaskFolder, TaskStep, absolute_path
from ors_server.model.wire import JSONObject
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.sandboxes.base import MIB, EntryKind, Sandbox, SandboxRequest
from ors_server.sandboxes.egress import LOOPBACK, SandboxNetwork
from ors_server.sandboxes.fresh import ROOT_NAMES, FreshRun, run_to_end
from ors_server.sandboxes.sandbox_errors import SandboxFileError, SandboxFileMissingError

OUTPUT = "/logs/verifier/test-stdout.txt"
ARTIFACTS_FOLDER = "/logs/artifacts"
"""The folder that is kept with every episode."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_OUTPUT_BYTES = 32 * 1024
"""Last bytes of the verifier's output that are kept."""
MAX_FILE, MAX_KEPT, MAX_LISTED = 64 * 1024, 256 * 1024, 500
"""Limits on artefacts: bytes of one that is kept whole, bytes of all such, and files that are listed."""
_DEPTH = 12
# A user who is not root may run the script and not change it.
_RUN_SCRIPT = (
    'cd -- "$1" || exit 97\nchmod +x -- "$2" 2>/dev/null || [ -x "$2" ] || exit 98\n'
    'exec >"$3" 2>&1\nexec "$2"\n'
)


@dataclass
class VerifierVerdict:
    """The result of a verifier."""

    result: RewardResult
    figures: dict[str, float] = field(default_factory=dict[str, float])
    """The numbers that it wrote, by key; empty without a reward."""
    record: JSONObject = field(default_factory=dict[str, Any])
    """The verifier's output and the artefacts, which are recorded with the episode."""
    setup_failure: str | None = None
    """The line of its output that looks like a failed set-up, if it wrote the least reward."""


async def check_rights(
    sandbox: Sandbox, folder: TaskFolder, step: TaskStep, secrets: Mapping[str, str]
) -> None:
    """Start what the step's verifier will need beyond the usual, so that a session without it fails at once.

    Raises:
        SandboxError: There is no such user, or no such network.
    """
    network = step.verifier_network
    if step.verifier_plan is not None and (step.verifier_user or network != LOOPBACK):
        verifier_sandbox = await sandbox.start_other(folder.verifier_request(step, secrets))
        try:
            await _run(verifier_sandbox, ["/bin/true"], step.verifier_user, network)
        finally:
            await verifier_sandbox.aclose()
    elif step.verifier_plan is None and network != LOOPBACK:
        await _run(sandbox, ["/bin/true"], "", network)
    for user in step.users:
        await _run(sandbox, ["/bin/true"], user)


async def _run(
    sandbox: Sandbox,
    argv: Sequence[str],
    user: str,
    network: SandboxNetwork = LOOPBACK,
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = 60.0,
) -> FreshRun:
    process = await sandbox.start_fresh(
        argv, environment=environment, writable=True, user=user, network=network
    )
    return await run_to_end(process, b"", time_limit=seconds, output_bytes=MIB)


async def verify(
    sandbox: Sandbox, folder: TaskFolder, step: TaskStep, secrets: Mapping[str, str]
) -> VerifierVerdict:
    """Grade a step. Failures of the verifier or of the task are results without a number.

    An agent could cause such a failure, or print what looks like a failed set-up. So the verifier also grades
    a copy of the task that no agent has played: a failure that does not happen there is the agent's.

    Args:
        secrets: Values for the `${NAME}` of variables.

    Raises:
        SandboxError: The machinery failed.
    """
    async with gather_evidence(sandbox, final=True) as evidence, evidence.at_work():
        record: JSONObject = {}
        verdict = await _judge(_verify(sandbox, folder, step, secrets, record), record)
        is_graded = verdict.result.reward is not None
        if is_graded and not verdict.setup_failure:
            return verdict
        control = await _judge(_verify_unplayed(sandbox, folder, step, secrets), {})
    record["control"] = {"reward": control.result.reward, "reason": control.result.reason}
    if control.result.reward is None or control.setup_failure:
        if not is_graded:
            return verdict
        reward = f"{verdict.result.reward:g}"
        reason = f"the verifier's own set-up failed, so its reward {reward} is not a judgement"
        return _failure(f"{reason}: {verdict.setup_failure}", record)
    if is_graded:
        return verdict
    min_reward = folder.reward_range[0]
    reason = f"the verifier grades an unplayed copy, and not what the agent left: {verdict.result.reason}"
    return VerifierVerdict(RewardResult(min_reward, reason=reason), {REWARD: min_reward}, record)


async def _judge(grading: Awaitable[VerifierVerdict], record: JSONObject) -> VerifierVerdict:
    try:
        return await grading
    except RootFilesError as error:
        return _failure(f"files could not be copied for the verifier: {error}", record)
    except (RewardFileError, SandboxFileError) as error:
        return _failure(str(error), record)


async def _verify_unplayed(
    sandbox: Sandbox, folder: TaskFolder, step: TaskStep, secrets: Mapping[str, str]
) -> VerifierVerdict:
    """Run the verifier in a new sandbox with the task's files, which no agent has changed."""
    is_separate = step.verifier_plan is not None
    request = SandboxRequest(folder.limits, folder.root(secrets))
    other = await sandbox.start_other(folder.verifier_request(step, secrets) if is_separate else request)
    try:
        if is_separate:
            return await _verify_apart(None, other, folder, step, secrets, {})
        await copy_files(other, folder.plan.files)
        return await _verify_inside(other, folder, step, secrets, {})
    finally:
        await other.aclose()


async def _verify(
    sandbox: Sandbox,
    folder: TaskFolder,
    step: TaskStep,
    secrets: Mapping[str, str],
    record: JSONObject,
) -> VerifierVerdict:
    for hook in step.collect:
        user = "" if hook.user is None else str(hook.user)
        argv = ["/bin/bash", "-c", hook.command]
        root = folder.variables(secrets)
        run = await _run(sandbox, argv, user, environment=root, seconds=hook.timeout_sec)
        if run.exit_code != 0:
            # The agent may have caused it; the tests judge what was collected.
            why = "took too long" if run.timed_out else f"ended with status {run.exit_code}"
            failure = f"{hook.command!r} {why}: {run.stderr.text.strip()[-300:]}"
            record["failed_hooks"] = [*record.get("failed_hooks", []), failure]
    if step.verifier_plan is not None:
        record["artifacts"] = await keep_artifacts(sandbox, folder, step)
        verifier_sandbox = await sandbox.start_other(folder.verifier_request(step, secrets))
        try:
            return await _verify_apart(sandbox, verifier_sandbox, folder, step, secrets, record)
        finally:
            await verifier_sandbox.aclose()
    verdict = await _verify_inside(sandbox, folder, step, secrets, record)
    if restored := await sandbox.list_restored():
        record["restored"] = restored[:MAX_LISTED]
    record["artifacts"] = await keep_artifacts(sandbox, folder, step)
    return verdict


async def _verify_inside(
    sandbox: Sandbox, folder: TaskFolder, step: TaskStep, secrets: Mapping[str, str], record: JSONObject
) -> VerifierVerdict:
    """Run a verifier that shares the task's root."""
    await copy_for_grading(sandbox, [RootFile(folder.work_dir, None, 0o755), *_verifier_files(folder, step)])
    variables = {**folder.variables(secrets), **folder.verifier_variables(step, secrets)}
    return await _run_tests(sandbox, folder, step, variables, folder.work_dir, record)


async def _verify_apart(
    sandbox: Sandbox | None,
    verifier_sandbox: Sandbox,
    folder: TaskFolder,
    step: TaskStep,
    secrets: Mapping[str, str],
    record: JSONObject,
) -> VerifierVerdict:
    """Run a separate verifier over the artefacts of the agent's sandbox; over none if `sandbox` is `None`."""
    plan = folder.plan if step.verifier_plan is None else step.verifier_plan
    request = folder.verifier_request(step, secrets)
    await copy_files(verifier_sandbox, plan.files)
    image = None if request.root is None else request.root.image
    for artifact in _entries(step):
        if sandbox is None:
            break
        source = absolute_path(artifact.source, folder.work_dir)
        chosen = ArtifactFilter(source, artifact.exclude, None if image is None else image.layers)
        await copy_artifact(sandbox, verifier_sandbox, chosen)
    # After the artefacts, so that nothing of the agent's is in the folders of the tests and of the result.
    work_dir = verifier_sandbox.work_dir
    files = _verifier_files(folder, step)
    await copy_for_grading(verifier_sandbox, files, keeps_tests=step.has_bundled_tests)
    own = dict[str, str]() if request.root is None else request.root.variables
    variables = {**own, **folder.verifier_variables(step, secrets)}
    return await _run_tests(verifier_sandbox, folder, step, variables, work_dir, record)


def _verifier_files(folder: TaskFolder, step: TaskStep) -> list[RootFile]:
    """Return the tests and the verifier's folders; a verifier that is not root writes into the last one."""
    trees = () if step.has_bundled_tests else step.tests
    tests = [file for tree in trees for file in list_root_files(tree, folder.path, "/tests")]
    script = f"/tests/{step.script}"
    tests = [replace(file, mode=0o755) if file.target == script else file for file in tests]
    paths = ("/tests", "/logs", "/logs/verifier")
    is_root = step.verifier_user in ROOT_NAMES
    modes = [0o777 if path == paths[-1] and not is_root else 0o755 for path in paths]
    return [*tests, *(RootFile(path, None, mode) for path, mode in zip(paths, modes, strict=True))]


async def _run_tests(
    sandbox: Sandbox,
    folder: TaskFolder,
    step: TaskStep,
    environment: Mapping[str, str],
    work_dir: str,
    record: JSONObject,
) -> VerifierVerdict:
    script = f"/tests/{step.script}"
    argv = ["/bin/bash", "-c", _RUN_SCRIPT, "bash", work_dir, script, OUTPUT]
    path = environment.get("PATH", "")
    # The system's folders first: the agent may have put programs into the task's folders of PATH.
    shown = {**environment, "PATH": f"{SYSTEM_PATH}:{path}" if path else SYSTEM_PATH}
    user, network = step.verifier_user, step.verifier_network
    if step.has_bundled_tests and user not in ROOT_NAMES:  # tests that were copied have their mode
        await _run(sandbox, ["/bin/chmod", "+x", "--", script], "")
    run = await _run(sandbox, argv, user, network, environment=shown, seconds=step.verifier_seconds)
    output = await _read_optional(sandbox, OUTPUT, max_bytes=None)
    text = (output or b"").decode("utf-8", "replace")
    record["verifier"] = {
        "exit_code": run.exit_code,
        "output": text[-MAX_OUTPUT_BYTES:],
        "seconds": run.spent_s,
    }
    if run.timed_out:
        reason = f"the verifier did not end within {step.verifier_seconds:g} seconds"
        return VerifierVerdict(RewardResult.without(RewardStatus.LIMIT, reason), {}, record)
    if run.exit_code in {97, 98}:
        return _failure(f"{script} could not be started: {run.stderr.text.strip()[-300:]}", record)
    names: list[str] = []
    with suppress(SandboxFileError):
        names = [entry.path.rpartition("/")[2] for entry in await sandbox.list_files("/logs/verifier")]
    figures = read_rewards(
        await _read_optional(sandbox, "/logs/verifier/reward.json"),
        await _read_optional(sandbox, "/logs/verifier/reward.txt"),
        names,
    )
    least, greatest = folder.reward_range
    reward = figures[REWARD]
    if not least <= reward <= greatest:
        return _failure(
            f"the verifier wrote the reward {reward:g}, expected one in [{least:g}, {greatest:g}]; "
            "reward_range in [metadata.ors] changes the range",
            record,
        )
    extras = {key: value for key, value in figures.items() if key != REWARD}
    setup_failure = find_setup_failure(text) if reward <= least else None
    return VerifierVerdict(RewardResult(reward, extras=extras), figures, record, setup_failure)


def _failure(reason: str, record: JSONObject) -> VerifierVerdict:
    return VerifierVerdict(RewardResult.without(RewardStatus.ERROR, reason), {}, record)


async def _read_optional(sandbox: Sandbox, path: str, max_bytes: int | None = MAX_BYTES) -> bytes | None:
    try:
        return await sandbox.read_file(path, most=max_bytes)
    except SandboxFileMissingError:
        return None


# Artefacts


async def keep_artifacts(sandbox: Sandbox, folder: TaskFolder, step: TaskStep) -> list[JSONObject]:
    """Return a row for each artefact: small files whole, of larger files only the size and digest."""
    rows: list[JSONObject] = []
    left = MAX_KEPT
    for artifact in _entries(step):
        source = absolute_path(artifact.source, folder.work_dir)
        paths = await _files_at(sandbox, source, artifact)
        if not paths and artifact.source != ARTIFACTS_FOLDER:
            rows.append({"source": artifact.source, "error": "there is no such file"})
        for path in paths[:MAX_LISTED]:
            row: JSONObject = {"source": artifact.source, "path": path}
            if artifact.destination:
                row["destination"] = artifact.destination
            try:
                content = await sandbox.read_file(path)
            except SandboxFileError as error:
                rows.append({**row, "error": str(error)})
                continue
            row |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            if len(content) <= min(MAX_FILE, left):
                left -= len(content)
                try:
                    row["text"] = content.decode("utf-8")
                except UnicodeDecodeError:
                    row["base64"] = base64.b64encode(content).decode()
            rows.append(row)
    return rows


def _entries(step: TaskStep) -> Sequence[ArtifactTable]:
    own = step.artifacts
    has_artifacts_folder = any(entry.source.rstrip("/") == ARTIFACTS_FOLDER for entry in own)
    return own if has_artifacts_folder else (ArtifactTable(source=ARTIFACTS_FOLDER), *own)


async def _files_at(sandbox: Sandbox, source: str, artifact: ArtifactTable) -> list[str]:
    try:
        entries = await sandbox.list_files(source, depth=_DEPTH)
    except SandboxFileMissingError:
        return []
    except SandboxFileError:
        return [source]  # a file, or something that reading it will refuse
    paths = [entry.path for entry in entries if entry.kind is EntryKind.FILE]
    chosen: list[str] = []
    for path in paths:
        relative = path.removeprefix(source).lstrip("/")
        names = (relative, *relative.split("/"))
        if not any(fnmatch(name, pattern.rstrip("/")) for name in names for pattern in artifact.exclude):
            chosen.append(path)
    return chosen
