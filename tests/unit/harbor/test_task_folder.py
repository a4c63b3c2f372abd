"""Folders that cannot be served: each is refused by name, with file and line, before anything is played."""

import pytest

from ors_server.harbor.dockerfile import read_dockerfile
from ors_server.harbor.find_tasks import find_tasks
from ors_server.harbor.ignore_rules import IgnoreRules
from ors_server.harbor.task_config import TaskFolderError
from ors_server.harbor.task_folder import TaskFolder, resolve_variables
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.sandboxes.base import Limits

ALLOWED = "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['pypi.org', '*.debian.org']\n"
SCRIPT = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"


@pytest.fixture
def make(tmp_path):
    def write(files, name="task"):
        folder = tmp_path / name
        usual = {
            "task.toml": "",
            "instruction.md": "Do it.\n",
            "environment/Dockerfile": "FROM scratch\nWORKDIR /app\n",
            "tests/test.sh": SCRIPT,
        }
        for path, text in {**usual, **files}.items():
            if text is None:
                continue
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return write


@pytest.mark.parametrize(
    ("config", "allowed"),
    [
        ("", ()),
        ("[environment]\nnetwork_mode = 'no-network'\n", ()),
        ("[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = []\n", ()),
        (
            ALLOWED,
            ("pypi.org", "*.debian.org"),
        ),
        (
            f"[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['10.1.0.0/16']\n{ALLOWED}",
            ("10.1.0.0/16",),
        ),
        (
            f"[agent]\nnetwork_mode = 'no-network'\n{ALLOWED}",
            (),
        ),
    ],
)
def test_a_session_connects_to_the_hosts_that_the_agents_phase_may_reach(make, config, allowed):
    environment = find_tasks(str(make({"task.toml": config})))
    session = environment(environment.make_task("test", 0))
    assert session.request_sandbox(Limits()).network.allowed == allowed


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"environment/Dockerfile": None}, "environment/Dockerfile is missing"),
        ({"instruction.md": None}, "instruction.md: the instruction is missing"),
        ({"instruction.md": "<!-- canary -->\n\n"}, "instruction.md: the instruction is empty"),
        ({"tests/test.sh": None}, "tests/test.sh: the verifier's script is missing"),
        (
            {
                "tests/test.sh": None,
                "tests/Dockerfile": "FROM scratch\nCOPY Dockerfile /tests/\n",
                "task.toml": "[verifier]\nenvironment_mode = 'separate'\n",
            },
            "the verifier's root has no /tests/test.sh, the verifier's script",
        ),
        ({"tests/.harborignore": "test.sh\n"}, "tests/test.sh: its own .harborignore leaves it out"),
        (
            {"task.toml": "[environment]\ngpus = 1\n"},
            "task.toml:2: environment.gpus: expected 0, got 1: tasks have no GPU",
        ),
        ({"task.toml": "[environment.tpu]\ntype = 'v6e'\ntopology = '2x2'\n"}, "environment.tpu"),
        (
            {"task.toml": "[environment]\nos = 'windows'\n"},
            "task.toml:2: environment.os: expected os = 'linux', got 'windows'",
        ),
        (
            {"task.toml": "[environment]\ndocker_image = 'x:1'\n"},
            "environment.docker_image: the image 'x:1' is not in the cache",
        ),
        (
            {"task.toml": "[environment]\nnetwork_mode = 'public'\n"},
            "environment.network_mode: expected network_mode = 'no-network'",
        ),
        (
            {"task.toml": "[environment]\nallow_internet = true\n"},
            "task.toml:2: environment.allow_internet: expected",
        ),
        ({"task.toml": "[agent]\nnetwork_mode = 'public'\n"}, "task.toml:2: agent.network_mode"),
        ({"task.toml": "[verifier]\nnetwork_mode = 'public'\n"}, "task.toml:2: verifier.network_mode"),
        (
            {"task.toml": "[verifier]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['127.0.0.1']\n"},
            "task.toml:3: verifier.allowed_hosts: '127.0.0.1' has loopback",
        ),
        (
            {"task.toml": "[verifier.environment]\nnetwork_mode = 'public'\n"},
            "task.toml:2: verifier.environment.network_mode: expected network_mode = 'no-network', or",
        ),
        (
            {"task.toml": "[verifier.environment]\ndocker_image = 'x:1'\n"},
            "task.toml:2: verifier.environment.docker_image: the image 'x:1' is not in the cache",
        ),
        (
            {"task.toml": "[verifier.environment.healthcheck]\ncommand = 'true'\n"},
            "verifier.environment.healthcheck: a verifier's environment cannot have it on this server",
        ),
        (
            {"task.toml": "[[verifier.collect]]\ncommand = 'x'\nuser = 'ada'\n"},
            "task.toml:3: verifier.collect[0].user: expected user 'root', got 'ada'",
        ),
        (
            {"task.toml": "[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['127.0.0.1']\n"},
            "task.toml:3: agent.allowed_hosts: '127.0.0.1' has loopback",
        ),
        (
            {
                "task.toml": "[[steps]]\nname = 'a'\n[steps.agent]\nnetwork_mode = 'allowlist'\n"
                "allowed_hosts = ['pypi.org']\n"
            },
            "the network of a session stays the same in all steps: expected that of [agent]",
        ),
        (
            {"task.toml": "[agent]\nuser = 'alice'\n"},
            "task.toml:2: agent.user: expected user 'root', got 'alice'",
        ),
        ({"task.toml": "[verifier]\nuser = 1000\n"}, "task.toml:2: verifier.user"),
        (
            {"task.toml": "[[environment.mcp_servers]]\nname = 'a'\nurl = 'http://a'\n"},
            "environment.mcp_servers",
        ),
        (
            {"task.toml": "[[verifier.collect]]\ncommand = 'x'\nservice = 'db'\n"},
            "verifier.collect[0].service",
        ),
        ({"task.toml": "artifacts = [{ source = '/x', service = 'db' }]\n"}, "artifacts[0]"),
        (
            {"task.toml": "[metadata.ors]\nkeep_systems = true\n"},
            "unknown option; did you mean 'keep_system'?",
        ),
        (
            {"task.toml": "[metadata.ors]\nreward_range = [1, 0]\n"},
            "metadata.ors.reward_range: expected [least",
        ),
        (
            {"task.toml": "[environment]\nworkdir = '/usr/src/app'\n"},
            "task.toml:2: environment.workdir: /usr/src/app",
        ),
        ({"task.toml": "[[steps]]\nname = 'one'\n"}, "there is no folder"),
        ({"environment/docker-compose.yaml": "services: {}\n"}, "a task has one container here"),
        ({"trajectory.json": "{}"}, "trajectory.json: not supported, because an episode begins without"),
        ({"environment/Dockerfile": "FROM a\nRUN apt-get update\n"}, "Dockerfile:2: RUN needs a builder"),
        ({"environment/Dockerfile": "FROM a\nFROM b\n"}, "Dockerfile:2: a second FROM"),
        ({"environment/Dockerfile": "WORKDIR /app\n"}, "Dockerfile:1: WORKDIR before FROM"),
        ({"environment/Dockerfile": "# nothing\n"}, "it has no FROM"),
        ({"environment/Dockerfile": "FROM a\nCOPY missing /x\n"}, "Dockerfile:2: there is no missing in"),
        (
            {"environment/Dockerfile": "FROM a\nCOPY ../tests /x\n"},
            "Dockerfile:2: ../tests leads out of environment/",
        ),
        ({"environment/Dockerfile": "FROM a\nCOPY --from=b /x /x\n"}, "Dockerfile:2: --from needs a builder"),
        (
            {"environment/Dockerfile": "FROM a\nADD https://x/y /x\n"},
            "Dockerfile:2: ADD https://x/y needs the network",
        ),
        ({"environment/Dockerfile": "FROM a\nUSER alice\n"}, "Dockerfile:2: USER alice"),
        ({"environment/Dockerfile": "FROM a\nCOPY --chown=1:1 . /x\n"}, "Dockerfile:2: --chown=1:1"),
        ({"environment/Dockerfile": "FROM a\nCOPY --chmod=4755 . /x\n"}, "without setuid, got 4755"),
        (
            {"environment/Dockerfile": "FROM a\nCOPY Dockerfile /etc/x\n"},
            "/etc/x is in a folder of the system",
        ),
        ({"environment/Dockerfile": "FROM a\nENTRYPOINT ['x']\n"}, "Dockerfile:2: an ENTRYPOINT is not run"),
        ({"environment/Dockerfile": "FROM a\nCOPY <<E /x\nhi\nE\n"}, "here-document"),
        ({"environment/Dockerfile": "FROM a\nFRMO b\n"}, "unknown instruction 'FRMO'"),
        ({"environment/Dockerfile": "FROM a\nENV A=1 \\\n"}, "continued by nothing"),
    ],
)
def test_folder_is_refused_by_name(make, files, told):
    with pytest.raises(TaskFolderError) as caught:
        TaskFolder(make(files))
    assert told in str(caught.value)


def test_links_out_of_a_task_are_refused(make):
    folder = make({})
    (folder / "tests" / "secret").symlink_to("/etc/passwd")
    with pytest.raises(TaskFolderError, match="leads out of the task"):
        TaskFolder(folder)
    (folder / "tests" / "secret").unlink()
    (folder / "tests" / "loop").symlink_to(folder / "tests")
    with pytest.raises(TaskFolderError, match="form a cycle"):
        TaskFolder(folder)


def test_faults_of_many_tasks_are_told_together(make, tmp_path):
    make({"task.toml": "[environment]\ngpus = 1\n"}, "all/a")
    make({"instruction.md": None}, "all/b")
    make({}, "all/c")
    with pytest.raises(EnvironmentDefinitionError) as caught:
        find_tasks(str(tmp_path / "all"))
    assert "2 of 3 tasks" in str(caught.value)
    assert "no GPU" in str(caught.value)
    assert "the instruction is missing" in str(caught.value)


def test_folder_of_folders_has_a_split_for_each(make, tmp_path):
    make({}, "sets/train/a")
    make({}, "sets/train/b")
    make({}, "sets/test/c")
    environment = find_tasks(str(tmp_path / "sets"))
    assert [(split.name, split.type) for split in environment.list_splits()] == [
        ("test", "test"),
        ("train", "train"),
    ]
    assert [task["task"] for task in environment.list_tasks("train")] == ["a", "b"]
    assert find_tasks(str(make({}, "alone"))).num_tasks("test") == 1
    assert find_tasks(str(tmp_path / "sets" / "train" / "a" / "tests")) is None


def test_version_follows_the_content_of_the_files(make, tmp_path):
    make({}, "v/a")
    before = find_tasks(str(tmp_path / "v"))
    (tmp_path / "v" / "a" / "tests" / "test.sh").write_text(SCRIPT + "# changed\n")
    after = find_tasks(str(tmp_path / "v"))
    assert before.version != after.version


def test_dockerfile_expands_variables_as_docker_does(make):
    text = """\
ARG A=1
FROM x:${A}
ENV B="two words" C='$A' F=a\\ b
ENV B2=$B D=$A-${E:-e}${B:+!}
ENV OLD style $B
WORKDIR /w
WORKDIR $D
"""
    folder = make({"environment/Dockerfile": text})
    plan = read_dockerfile(folder / "environment" / "Dockerfile", folder)
    assert plan.base == "x:1"
    assert plan.variables.pop("B2") == "two words"
    assert plan.variables == {"B": "two words", "C": "$A", "D": "1-e!", "F": "a b", "OLD": "style two words"}
    assert plan.work_dir == "/w/1-e!"


def test_ignore_rules_are_gits():
    rules = IgnoreRules(["# comment", "*.log", "!keep.log", "/build/", "docs/**/x", "a?c", "[ab].txt"])
    left_out = ["x.log", "deep/x.log", "build/y", "docs/x", "docs/p/q/x", "abc", "a.txt", "z/b.txt"]
    assert all(rules.leaves_out(path) for path in left_out)
    assert not any(
        rules.leaves_out(path) for path in ["keep.log", "sub/build", "docs/y", "ac", "c.txt", "build"]
    )
    assert rules.leaves_out("build", is_folder=True)


def test_variables_are_filled_from_named_values_only(monkeypatch):
    monkeypatch.setenv("SERVER_SECRET", "never")
    table = {"A": "${X}", "B": "${Y:-default}", "C": "plain ${X}", "D": "${Z:-}"}
    assert resolve_variables(table, {"X": "1"}, "here") == {
        "A": "1",
        "B": "default",
        "C": "plain ${X}",
        "D": "",
    }
    with pytest.raises(TaskFolderError, match="here: S needs 'SERVER_SECRET'"):
        resolve_variables({"S": "${SERVER_SECRET}"}, {}, "here")
