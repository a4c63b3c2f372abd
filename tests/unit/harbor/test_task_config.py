"""`task.toml`: every key of Harbor's is known, and what is wrong is named with file and line."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from ors_server.harbor import task_config
from ors_server.harbor.task_config import TaskDocument, TaskFolderError, find_lines, line_of

HARBOR = json.loads((Path(__file__).parents[2] / "data" / "harbor" / "harbor_0_26.json").read_text())
MODELS: dict[str, type[BaseModel]] = {
    "": task_config.TaskToml,
    "task": task_config.PackageTable,
    "task.authors": task_config.AuthorTable,
    "agent": task_config.AgentTable,
    "verifier": task_config.VerifierTable,
    "verifier.collect": task_config.CollectTable,
    "environment": task_config.EnvironmentTable,
    "environment.healthcheck": task_config.HealthcheckTable,
    "environment.tpu": task_config.TpuTable,
    "environment.mcp_servers": task_config.McpServerTable,
    "solution": task_config.SolutionTable,
    "steps": task_config.StepTable,
    "artifacts": task_config.ArtifactTable,
}


@pytest.fixture
def read(tmp_path):
    def write(text):
        (tmp_path / "task.toml").write_text(text)
        return TaskDocument(tmp_path / "task.toml")

    return write


@pytest.mark.parametrize("table", MODELS)
def test_every_key_of_harbor_is_known_and_no_other(table):
    own = set(MODELS[table].model_fields) - {"memory", "storage"}
    assert own == set(HARBOR["keys"][table])


def test_defaults_are_harbors(read):
    config = read("").config
    assert config.verifier.timeout_sec == 600.0
    assert config.environment.build_timeout_sec == 600.0
    assert config.agent.timeout_sec is None
    assert config.schema_version == "1.4"


def test_old_spellings_are_taken(read):
    config = read(
        'version = "1.1"\n[environment]\nmemory = "1.5G"\nstorage = "512m"\nallow_internet = false\n'
    ).config
    assert config.schema_version == "1.1"
    assert (config.environment.memory_mb, config.environment.storage_mb) == (1536, 512)
    assert config.environment.network_mode == "no-network"
    assert read(
        '[environment]\nallow_internet = true\nnetwork_mode = "no-network"\n'
    ).config.environment.network_mode


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[agent]\ntimeout_secs = 3\n",
            "task.toml:2: agent.timeout_secs: unknown key; did you mean 'timeout_sec'?",
        ),
        ("[verifyer]\n", "task.toml:1: verifyer: unknown key; did you mean 'verifier'?"),
        ("agnt = 1\n", "task.toml:1: agnt: unknown key; did you mean 'agent'?"),
        (
            "[[steps]]\nname = 'a'\n[steps.verifier]\nx = 1\n",
            "task.toml:4: steps[0].verifier.x: unknown key; expected",
        ),
        ("[[steps]]\nname = 'a/b'\n", "steps[0]: a step's name is the name of a folder"),
        ("[[steps]]\nname = 'CON'\n", "a step's name is the name of a folder"),
        ("[[steps]]\nname = 'a'\n[[steps]]\nname = 'A'\n", "the names of steps differ"),
        ("[verifier]\ntimeout_sec = nan\n", "task.toml:2: verifier.timeout_sec:"),
        ("[verifier]\ntimeout_sec = inf\n", "expected a finite number, got inf"),
        ("[verifier]\ntimeout_sec = 0\n", "input should be greater than 0, got 0"),
        ("[verifier]\ntimeout_sec = true\n", "task.toml:2: verifier.timeout_sec:"),
        (
            'schema_version = "2.0"\n',
            "schema_version: input should be '1.0', '1.1', '1.2', '1.3' or '1.4', got '2.0'",
        ),
        ("[environment]\nmemory = '2G'\nmemory_mb = 3\n", "memory = '2G' and memory_mb = 3 contradict"),
        ("[environment]\nmemory = '2X'\n", "expected a size such as '1G' or '512M', got '2X'"),
        ("[environment]\nworkdir = 'app'\n", "expected an absolute path in normal form, got 'app'"),
        (
            "[environment]\nallowed_hosts = ['a']\n",
            "allowed_hosts is only valid with network_mode = 'allowlist'",
        ),
        (
            "[environment.env]\nA = 1\n",
            "task.toml:2: environment.env.A: input should be a valid string, got 1",
        ),
        ("[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\n", "contradicts the table"),
        ("artifacts = [{ source = '../x' }]\n", "an artifact's source has no '..'"),
        (
            "artifacts = [{ source = '/x', destination = '/y' }]\n",
            "an artifact's destination is a relative path",
        ),
        ("multi_step_reward_strategy = 'mean'\n", "multi_step_reward_strategy needs [[steps]]"),
        ("[task]\nname = 'alone'\n", "task.toml:2: task.name:"),
        ("a =\n", "task.toml: Invalid value"),
        ("[agent]\nuser = 1.5\n", "task.toml:2: agent.user: input should be a valid string, got 1.5"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(read, text, told):
    with pytest.raises(TaskFolderError) as caught:
        read(text)
    assert told in str(caught.value)


def test_every_mistake_of_a_file_is_named(read):
    with pytest.raises(TaskFolderError) as caught:
        read("x = 1\n[agent]\ny = 2\n")
    assert "task.toml:1: x: unknown key" in str(caught.value)
    assert "task.toml:3: agent.y: unknown key" in str(caught.value)


def test_metadata_may_hold_anything(read):
    assert read("[metadata]\nanything = { goes = [1] }\n").config.metadata == {"anything": {"goes": [1]}}


def test_lines_of_tables_arrays_and_texts():
    text = 'a = """\n[no]\nb = 1\n"""\n[x.y] # comment\n"k" = 1\n[[s]]\nn = 1\n[[s]]\n[s.v]\nm.o = 2\n'
    lines = find_lines(text)
    assert line_of(lines, ("a",)) == 1
    assert line_of(lines, ("b",)) is None
    assert line_of(lines, ("x", "y", "k")) == 6
    assert line_of(lines, ("s", 0, "n")) == 8
    assert line_of(lines, ("s", 1, "v", "m", "o")) == 11
    assert line_of(lines, ("s", 1, "w")) == 9
