"""Tasks in Harbor's format, of an environment whose tasks are solved by one call.

Harbor's agents have a shell and no tools of an environment. The agent writes the arguments of the call into a
file; the verifier, in a root of its own, makes the call in the environment, and the episode's return is the
reward. An environment that answers calls before the last one cannot be played so, and is refused.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import anyio

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.harbor.task_folder import TaskFolder
from ors_server.packaging.container_folders import IMAGE
from ors_server.packaging.environment_source import EnvironmentSource, PackagingError
from ors_server.packaging.known_plays import KnownReturn, returns_of_known_plays
from ors_server.packaging.text_forms import toml_table

ANSWER = "/app/answer.json"
GRADER = files("ors_server.packaging") / "harbor_grader.py.txt"
MAX_COPIES = 256 * 1024 * 1024
"""Bytes of the copies of the environment in all tasks: each task has all that its verifier needs."""
_TASK = {"schema_version": "1.4"}


def write_harbor(
    source: EnvironmentSource, folder: Path, *, tasks: int | None, splits: Sequence[str], image: str = IMAGE
) -> Sequence[str]:
    """Write a folder of tasks for each split; return the commands that use it.

    Args:
        tasks: Evenly spaced tasks of each split; all by default.
        splits: Names of the splits; all by default.
        image: The verifier's image, which has the server.

    Raises:
        PackagingError: If the environment is a Harbor dataset already, or its tasks need several calls.
    """
    definition = source.definition
    if source.kind == "harbor":
        raise PackagingError(f"{source.name} has Harbor's format already; publish its folder as it is")
    if definition.may_need_sandbox:
        raise PackagingError(
            f"{source.name}: its agents work in a sandbox of the environment, and Harbor's agents in "
            "Harbor's own; write its tasks in Harbor's format: ors-server new NAME --harbor"
        )

    async def play() -> list[KnownReturn]:
        return await returns_of_known_plays(definition, per_split=tasks, splits=splits)

    plays = anyio.run(play)
    copies = source.size * len(plays)
    if copies > MAX_COPIES:
        raise PackagingError(
            f"{source.name}: each of {len(plays)} tasks has a copy of the environment, {copies:,} bytes in "
            f"all; expected at most {MAX_COPIES:,}: choose fewer with --tasks or --split"
        )
    for play_of_task in plays:
        _write_task(source, folder, play_of_task, image)
    for split in {play_of_task.split for play_of_task in plays}:
        for path in sorted((folder / split).iterdir()):
            TaskFolder(path)  # this server's own reader refuses what it could not serve
    return [f"ors-server check {folder}", f"harbor run --path {folder / plays[0].split} --agent oracle"]


def _write_task(source: EnvironmentSource, folder: Path, play: KnownReturn, image: str) -> None:
    definition = source.definition
    task = folder / play.split / f"{source.name}-{play.index:05d}"
    if len(play.gold) != 1:
        raise PackagingError(
            f"{source.name}/{play.split}/{play.index}: its gold actions are {len(play.gold)} calls, and "
            "Harbor's agents make none: only tasks that one call solves can be Harbor's"
        )
    if play.has_images:
        raise PackagingError(f"{source.name}/{play.split}/{play.index}: Harbor's instructions have no images")
    ((name, arguments),) = play.gold
    schema = json.dumps(play.schemas.get(name, {}), indent=2, ensure_ascii=False)
    _write(
        task / "instruction.md",
        f"{play.prompt.strip()}\n\nAnswer in the file `{ANSWER}`: the arguments of one call of `{name}`, "
        f"as a JSON object. Their JSON Schema:\n\n```json\n{schema}\n```\n",
    )
    _write(
        task / "task.toml",
        "\n".join(
            (
                toml_table("", {**_TASK, "artifacts": [ANSWER]}),
                toml_table(
                    "metadata", {"environment": source.name, "split": play.split, "index": play.index}
                ),
                toml_table("agent", {"timeout_sec": 600.0}),
                toml_table("verifier", {"timeout_sec": _seconds(definition), "environment_mode": "separate"}),
                toml_table("environment", {"network_mode": "no-network"}),
            )
        ),
    )
    _write(task / "environment" / "Dockerfile", "FROM debian:12-slim\n\nWORKDIR /app\n")
    answer = json.dumps(arguments, ensure_ascii=False)
    _write(
        task / "solution" / "solve.sh", f"#!/bin/bash\ncat > {ANSWER} <<'ORS_ANSWER'\n{answer}\nORS_ANSWER\n"
    )
    _write(
        task / "tests" / "test.sh",
        "#!/bin/bash\n# Runs in a root of its own, which has the answer and no other file of the agent's.\n"
        f"python /tests/grade.py {ANSWER} /logs/verifier\n",
    )
    _write(task / "tests" / "Dockerfile", f"FROM {image}\n\nWORKDIR /app\nCOPY . /tests/\n")
    tests = task / "tests"
    source.write(tests / "environment")
    environment_path = "environment/environment.py" if source.is_single else "environment"
    facts = {
        "environment": environment_path,
        "tool": name,
        "task_spec": play.task_spec,
        "lowest": play.blank_return or 0.0,
    }
    _write(tests / "task.json", json.dumps(facts, ensure_ascii=False, indent=1) + "\n")
    with (tests / "grade.py").open("w", encoding="utf-8") as grader:
        grader.write(GRADER.read_text("utf-8"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if path.suffix == ".sh":
        path.chmod(0o755)


def _seconds(definition: EnvironmentDefinition) -> float:
    """Return how long a verifier may take: the episode's own limits, and the start of the server."""
    policy = definition.policy
    return 120.0 + sum(filter(None, (policy.setup_time_limit, policy.call_time_limit)))
