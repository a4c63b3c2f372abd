"""Runs OpenEnv's static validation of folders, and its reader of their plans; prints what both say."""

import json
import sys
from pathlib import Path

from openenv.cli.__main__ import app
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.runtime.contracts import load_runtime_plan
from typer.testing import CliRunner


def judge(folder):
    ran = CliRunner().invoke(app, ["validate", folder, "--level", "static", "--json"])
    report = json.loads(ran.stdout)
    execution = ExecutionDeclaration(**report["manifest"]["execution"])
    plan = load_runtime_plan(Path(folder), execution)
    return {
        "status": ran.exit_code,
        "checks": {result["check_id"]: result["status"] for result in report["results"]},
        "actions": plan.actions,
    }


json.dump({folder: judge(folder) for folder in sys.argv[1:]}, sys.stdout)
