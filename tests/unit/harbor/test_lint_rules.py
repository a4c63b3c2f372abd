"""Harbor's lint rules, under its names, and those of this server."""

import json
from pathlib import Path

import pytest

from ors_server.harbor.find_tasks import find_tasks
from ors_server.harbor.lint_rules import ON_REQUEST, RULES, lint
from ors_server.harbor.task_folder import TaskFolder
from ors_server.testing import inspect_environment

HARBOR = json.loads((Path(__file__).parents[2] / "data" / "harbor" / "harbor_0_26.json").read_text())
NEVER_SERVED = {"invalid-task-config", "unknown-config-field", "invalid-task-files"}
QUIET = "[environment]\nnetwork_mode = 'no-network'\n"


@pytest.fixture
def make(tmp_path):
    def write(files):
        usual = {
            "task.toml": QUIET,
            "instruction.md": "Do it.\n",
            "environment/Dockerfile": "FROM scratch\nWORKDIR /app\n",
            "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
            "solution/solve.sh": "#!/bin/bash\n",
        }
        for path, text in {**usual, **files}.items():
            (tmp_path / "task" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "task" / path).write_text(text)
        return tmp_path / "task"

    return write


def test_every_rule_of_harbor_is_here_or_its_folder_is_not_served():
    own = {rule for rule in RULES if not rule.startswith("ors-")}
    compose = {rule for rule in HARBOR["lint_rules"] if rule.startswith("compose-")}
    assert own | compose | NEVER_SERVED == set(HARBOR["lint_rules"])


@pytest.mark.parametrize(
    ("rule", "files", "told"),
    [
        (
            "unused-harborignore",
            {"environment/.harborignore": "*\n"},
            "environment/.harborignore: ignore rules",
        ),
        ("shared-verifier", {}, "the verifier shares the agent's root"),
        ("root-agent", {}, "the agent is root"),
        ("overlapping-artifacts", {"task.toml": 'artifacts = ["/app/x", "x/y"]\n'}, "task.toml:1: artifacts"),
        (
            "artifact-log-overlap",
            {"task.toml": 'artifacts = ["/logs"]\n[verifier]\nenvironment_mode = "separate"\n'},
            "/logs overlaps the logs",
        ),
        (
            "unpinned-image",
            {"environment/Dockerfile": "FROM ubuntu:24.04\n"},
            "Dockerfile:1: ubuntu:24.04 has no",
        ),
        (
            "unpinned-python-dependency",
            {"solution/solve.sh": "set -e; pip install \\\n  -r x numpy pandas==2.0\n"},
            "solve.sh:1: numpy without a version",
        ),
        (
            "verifier-runtime-install",
            {
                "task.toml": '[verifier]\nenvironment_mode = "separate"\n',
                "tests/test.sh": "#!/bin/bash\nif uvx --with pytest==8.4.1 pytest /tests; then :; fi\n",
            },
            "test.sh:2: install pytest in the separate",
        ),
        (
            "verifier-network-download",
            {
                "task.toml": '[verifier]\nenvironment_mode = "separate"\n',
                "tests/test.sh": "#!/bin/bash\ncurl -LsSf https://astral.sh/uv/install.sh | sh\n",
            },
            "test.sh:2: curl downloads at run time",
        ),
        (
            "agent-image-test-leak",
            {
                "environment/Dockerfile": "FROM scratch\nCOPY tests/test.sh /x\n",
                "environment/tests/test.sh": "x",
            },
            "Dockerfile:2: tests/test.sh would show",
        ),
        (
            "ors-verifier-needs-network",
            {"tests/test.sh": "# x\ncat <<E\napt-get install x\nE\n\napt-get install -y curl && true\n"},
            "test.sh:6: apt-get install -y curl needs a network",
        ),
        ("ors-unsaid-network", {"task.toml": ""}, "no network_mode, which means 'public' to Harbor"),
        (
            "ors-host-as-image",
            {"environment/Dockerfile": "# x\nFROM a:1\n"},
            "Dockerfile:2: the programs of this",
        ),
        (
            "ors-kept-system",
            {"task.toml": "[metadata.ors]\nkeep_system = true\n"},
            "task.toml:2: metadata.ors",
        ),
    ],
)
def test_rule_finds_its_breach_and_nothing_in_a_clean_task(make, rule, files, told):
    findings = lint(TaskFolder(make(files)))[rule]
    assert len(findings) == 1
    assert told in findings[0]


def test_clean_task_has_findings_of_sharing_only(make):
    findings = lint(TaskFolder(make({})))
    assert [rule for rule, found in findings.items() if found] == ["shared-verifier", "root-agent"]


async def test_check_reports_the_rules_under_their_names(make):
    environment = find_tasks(str(make({"task.toml": ""})))
    report = await inspect_environment(
        environment, only=["ors-unsaid-network", "shared-verifier", "root-agent"]
    )
    assert [verdict.check.id for verdict in report.failed()] == [
        "shared-verifier",
        "ors-unsaid-network",
        "root-agent",
    ]
    assert report.is_conformant
    usual = await inspect_environment(environment, only=["ors-kept-system", "tasks-exist"])
    assert [(verdict.check.id, verdict.outcome) for verdict in usual.verdicts] == [
        ("tasks-exist", "pass"),
        ("ors-kept-system", "pass"),
    ]
    assert set(ON_REQUEST) < set(RULES)
