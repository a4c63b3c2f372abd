"""An environment of OpenEnv: `openenv.yaml` with its validation block, and a container that serves it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.packaging.container_folders import PLACE, front_matter, public_dockerfile
from ors_server.packaging.environment_source import EnvironmentSource, PackagingError
from ors_server.packaging.known_plays import KnownReturn, returns_of_known_plays
from ors_server.packaging.pip_project import version_of
from ors_server.packaging.text_forms import yaml_document

PORT = 8000
MAX_ACTIONS = 100
"""Actions of a runtime plan (openenv 0.10, `validation/runtime/contracts.py`)."""
PLAYED_TASKS = 3
"""Tasks of each split whose gold and blank actions are played for the figures."""
MIN_SECONDS = 60.0


def write_openenv(source: EnvironmentSource, folder: Path) -> Sequence[str]:
    """Write the environment; return the commands that use it.

    Raises:
        PackagingError: If the environment has no gold actions, or they earn no more than the blank ones.
    """
    definition = source.definition
    plays = anyio.run(_play, definition)
    counts = anyio.run(_count, definition)
    source.write(folder / "environments" / source.name)
    manifest = {
        "spec_version": 1,
        "name": source.name,
        "version": version_of(source),
        "type": "space",
        "port": PORT,
        "validation": validation_block(source, plays, counts),
    }
    (folder / "openenv.yaml").write_text(yaml_document(manifest), encoding="utf-8")
    plan = next((play for play in plays if 0 < len(play.gold) <= MAX_ACTIONS), plays[0])
    validation = folder / "validation"
    validation.mkdir()
    (validation / "runtime.json").write_text(
        json.dumps(_runtime_plan(plan), indent=2) + "\n", encoding="utf-8"
    )
    oracle = validation / "oracle.sh"
    oracle.write_text(
        "#!/bin/sh\n# Plays the gold actions in the environment's container: they must earn the most.\n"
        f"exec ors-server check {PLACE}/{source.name} --only gold-earns-the-most\n",
        encoding="utf-8",
    )
    oracle.chmod(0o755)
    dockerfile = public_dockerfile(source, PORT, {"ORS_OPENENV_ROOT": "true"})
    (folder / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    front = front_matter(source, PORT, ["openenv", "ors-server"])
    page = f"# {source.name}\n\n{source.description}\n\nAn OpenEnv environment, served by ors-server.\n"
    (folder / "README.md").write_text(f"---\n{front}---\n\n{page}", encoding="utf-8")
    return [f"openenv validate {folder} --level static", f"docker build -t {source.name}-openenv {folder}"]


async def _play(definition: EnvironmentDefinition) -> list[KnownReturn]:
    return await returns_of_known_plays(definition, per_split=PLAYED_TASKS)


async def _count(definition: EnvironmentDefinition) -> dict[str, int]:
    return {split.name: await definition.tasks.num_tasks(split.name) for split in definition.splits}


def validation_block(
    source: EnvironmentSource, plays: Sequence[KnownReturn], counts: dict[str, int]
) -> dict[str, Any]:
    """Return the block: the range from the declared return and the policy, the rest from what was played."""
    definition = source.definition
    gold = [play.gold_return for play in plays]
    blank = [play.blank_return for play in plays if play.blank_return is not None]
    low, high = definition.return_range or definition.policy.reward_range or (min([0.0, *blank]), max(gold))
    low, high = min([low, *blank]), max([high, *gold])
    if not low < high:
        raise PackagingError(
            f"{source.name}: expected gold actions that earn more than {low:g}, got {high:g}"
        )
    margin = high - max(blank, default=low)
    if margin <= 0:
        raise PackagingError(
            f"{source.name}: the blank actions earn {max(blank):g}, which is the most that can be earned"
        )
    sandbox = definition.sandbox
    memory = 1024 if sandbox is None else max(1024, 512 + sandbox.memory_bytes // 2**20)
    seconds = sum(filter(None, (definition.policy.setup_time_limit, definition.policy.call_time_limit)))
    return {
        "reward": {
            "range": [low, high],
            "oracle_tolerance": round(max(0.0, high - min(gold)), 9),
            "floor_margin": round(margin, 9),
        },
        "resources": {
            "cpu": 1.0,
            "memory_mb": memory,
            "disk_mb": max(512, 2 * source.size // 2**20),
            "episode_timeout_s": max(MIN_SECONDS, float(seconds)),
        },
        "network": {"mode": "no-network"},
        "capabilities": {
            "verifier": {"kind": "reward_channel"},
            "oracle": {"form": "script", "location": "validation/oracle.sh"},
            "declared_tools": sorted({name for play in plays for name in play.schemas}),
            "declared_task_count": counts,
        },
        "types": {"tags": ["ors"]},
        "execution": {
            "kind": "openenv_ws",
            "probe_path": "validation/runtime.json",
            "dockerfile": "Dockerfile",
        },
    }


def _runtime_plan(play: KnownReturn) -> dict[str, Any]:
    actions = [
        {"type": "call_tool", "tool_name": name, "arguments": dict(arguments)}
        for name, arguments in play.gold
    ]
    return {
        "plan_schema_version": "1",
        "reset": {
            "episode_id": "probe",
            "seed": 0,
            "options": {"split": play.split, "index": play.index},
        },
        "actions": actions[:MAX_ACTIONS] or [{"type": "list_tools"}],
    }
