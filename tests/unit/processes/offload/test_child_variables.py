"""Children of every kind print their environment: none has a key of this process unless it is named."""

import json
import os
import sys

import pytest

from ors_server import child_variables
from ors_server.adapters.worker_package import WorkerPackage
from ors_server.evaluation.agents.base import AgentSettingsError
from ors_server.evaluation.agents.command_agent import CommandAgent
from ors_server.processes import offload
from ors_server.processes.child_process import ChildProcess
from ors_server.processes.offload import FunctionPath, OffloadLimits, PreparedPool
from ors_server.resources import JvmChild, WorkerEnvResource, WorkerEnvResourceSpec
from ors_server.rewards.batch.batch_scorer import score_rows
from tests.unit.evaluation.agents.test_command_agent import played

KEYS = {
    "ORS_API_KEY": "trainer-key",
    "ORS_TOKEN_SECRET": "token-secret",
    "OPENAI_API_KEY": "sk-openai",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "HTTPS_PROXY": "http://user:password@127.0.0.1:9",
    "MY_DATABASE_URL": "postgresql://me:pw@host/db",
}
LIMITS = OffloadLimits(cpu_seconds=10.0)
READ = FunctionPath(f"{__name__}:read_environment")


def read_environment():
    return dict(os.environ)


def print_environment(answer: str) -> float:
    """Is a reward whose worker has to have no key."""
    return float(not set(KEYS) & set(os.environ) and answer == os.environ.get("ORS_JUDGE_MODEL"))


class Environment:
    def read(self):
        return dict(os.environ)


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_TIME", "C.UTF-8")


def shows_no_key(variables):
    assert not set(KEYS) & set(variables), variables
    assert variables["PATH"] == os.environ["PATH"]
    assert variables["LC_TIME"] == "C.UTF-8"
    return True


async def test_a_child_process_a_worker_and_a_prepared_worker_have_no_key():
    child = ChildProcess([sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"])
    child.wait()
    printed = os.read(child.output, 1 << 16)
    child.end()
    assert shows_no_key(json.loads(printed))
    # A worker that another test left idle has the variables of the time when it started.
    await offload.aclose()
    assert shows_no_key(await offload.run(read_environment, limits=LIMITS))
    pool = PreparedPool(__name__, size=1, variables={"OWN": "1"})
    variables = await pool.run(READ, limits=LIMITS)
    assert shows_no_key(variables)
    assert variables["OWN"] == "1"


async def test_an_environment_in_a_worker_has_what_its_author_and_its_operator_name(monkeypatch):
    async def read(**options):
        worker = WorkerEnvResource(WorkerEnvResourceSpec(f"{__name__}:Environment", **options), "r-0")
        await worker.start()
        try:
            return await worker.read()
        finally:
            await worker.end()

    assert shows_no_key(await read())
    assert (await read(variables={"OPENAI_API_KEY": os.environ["OPENAI_API_KEY"]}))[
        "OPENAI_API_KEY"
    ] == "sk-openai"
    monkeypatch.setenv("ORS_WORKER_VARIABLES", "MY_DATABASE_URL, NOT_SET")
    variables = await read()
    assert variables["MY_DATABASE_URL"] == KEYS["MY_DATABASE_URL"]
    assert set(KEYS) & set(variables) == {"MY_DATABASE_URL"}


def test_a_worker_that_judges_rows_has_the_judge_and_no_other_key(monkeypatch):
    monkeypatch.setenv("ORS_JUDGE_MODEL", "small")
    rows = [{"answer": "small"}, {"answer": "large"}]
    results = score_rows(f"{__file__}:print_environment", rows, jobs=1)
    assert [result.reward for result in results] == [1.0, 0.0]


@pytest.mark.external
def test_a_java_virtual_machine_has_no_key():
    child = JvmChild([], heap_mib=32, variables={"OWN": "1"})
    try:
        variables = child.call(lambda: dict(child.classes.java.lang.System.getenv()))
    finally:
        child.close()
    assert shows_no_key(variables)
    assert variables["OWN"] == "1"


def test_the_python_that_a_version_is_read_from_has_no_key(tmp_path, monkeypatch):
    python, printed = tmp_path / "python", tmp_path / "printed"
    python.write_text(f"#!/bin/sh\nenv > {printed}\necho 1.0\n")
    python.chmod(0o755)
    monkeypatch.setenv("ORS_X_PYTHON", str(python))
    package = WorkerPackage("x", "1.0", "ORS_X_PYTHON", "x.py:X")
    assert package.find_version("x") == "1.0"
    assert shows_no_key(dict(line.split("=", 1) for line in printed.read_text().splitlines()))


async def test_the_program_of_an_agent_has_the_url_and_what_the_evaluation_names():
    _, log = await played(CommandAgent("env"))
    variables = dict(line.split("=", 1) for line in "".join(log).splitlines())
    assert shows_no_key(variables)
    assert variables["ORS_AGENT_URL"].startswith("http://127.0.0.1/agent/")
    agent = CommandAgent("env", variables="OPENAI_API_KEY")
    _, log = await played(agent)
    variables = dict(line.split("=", 1) for line in "".join(log).splitlines())
    assert set(KEYS) & set(variables) == {"OPENAI_API_KEY"}
    assert agent.describe()["variables"] == ["OPENAI_API_KEY"]


async def test_the_keys_of_the_trainer_and_variables_that_are_not_set_are_refused():
    with pytest.raises(AgentSettingsError, match="names ORS_API_KEY, which is the trainer's"):
        CommandAgent("env", variables="OPENAI_API_KEY,ORS_API_KEY")
    with pytest.raises(AgentSettingsError, match="names NOT_SET, which is not set"):
        await CommandAgent("env", variables="NOT_SET").check(None)


def test_an_author_names_what_a_child_of_an_environment_gets():
    variables = child_variables(["MY_DATABASE_URL", "NOT_SET"], {"PATH": "/bin"})
    assert (variables["MY_DATABASE_URL"], variables["PATH"]) == (KEYS["MY_DATABASE_URL"], "/bin")
    assert set(KEYS) & set(variables) == {"MY_DATABASE_URL"}
