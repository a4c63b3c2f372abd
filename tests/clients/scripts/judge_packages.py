"""Lets the tools that receive packages judge them, and prints what each of them finds.

Usage: judge_packages.py HARBOR DISTRIBUTIONS PACKAGES TASKS
"""

import json
import subprocess
import sys
import typing
from pathlib import Path

import typing_extensions
from huggingface_hub import SpaceCard

# Harbor is written for Python 3.12, and needs no more of it than these two.
for name in ("TypedDict", "override"):
    setattr(typing, name, getattr(typing_extensions, name))


def run(program, *arguments):
    command = [Path(sys.executable).with_name(program), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"status": ran.returncode, "output": ran.stdout + ran.stderr}


def judge_task(folder):
    from harbor.lint import lint_task  # noqa: PLC0415  (found once `main` has its path)
    from harbor.models.task.task import Task  # noqa: PLC0415  (as above)

    findings = lint_task(folder)
    return {"name": Task(folder).name, "rules": sorted({finding.rule.value for finding in findings})}


def main(harbor, distributions, packages, tasks):
    sys.path.insert(0, harbor)
    files = sorted(file for file in Path(distributions).rglob("*") if file.is_file())
    dockerfiles = sorted(Path(packages).rglob("Dockerfile"))
    cards = [path for path in Path(packages).rglob("README.md") if (path.parent / "Dockerfile").exists()]
    folders = [path.parent for top in (packages, tasks) for path in Path(top).rglob("task.toml")]
    json.dump(
        {
            "twine": run("twine", "check", "--strict", *files),
            "wheels": run("check-wheel-contents", *(path for path in files if path.suffix == ".whl")),
            "hadolint": run("hadolint", "--format", "json", *dockerfiles),
            "dockerfiles": len(dockerfiles),
            "cards": {path.parent.name: SpaceCard.load(path).data.to_dict() for path in cards},
            "tasks": {str(folder): judge_task(folder) for folder in folders},
        },
        sys.stdout,
    )


main(*sys.argv[1:])
