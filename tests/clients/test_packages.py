"""What `ors-server package` writes is accepted by the tools of those who receive it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ors_server.cli.main import main
from ors_server.harbor.lint_rules import lint
from ors_server.harbor.task_folder import TaskFolder
from tests.clients.conftest import PLAY_LIMIT, ROOT, SCRIPTS, client_python

pytestmark = pytest.mark.timeout(600)
DATA = ROOT / "tests" / "data"
OWN_TASKS = DATA / "harbor" / "tasks"
NAMES = ("sums", "quiz")
"""A class whose author wrote a project for it, and a declaration."""
DESCRIPTION = "Add: 'two' numbers # ± or \"more\" {than} that, in one line that no short description holds."
ON_REQUEST = {"root-agent", "unpinned-image"}
"""Rules of Harbor that a task may break by default."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The packages of both environments for every target, by `NAME-TARGET`, in one folder with them."""
    top = tmp_path_factory.mktemp("packages")
    assert main(["new", "sums", "--in", str(top)]) == 0
    assert main(["new", "quiz", "--declared", "--in", str(top)]) == 0
    project = top / "sums" / "pyproject.toml"
    stated = f'license = "MIT"\ndescription = {json.dumps(DESCRIPTION, ensure_ascii=False)}\n'
    lines = project.read_text().splitlines(keepends=True)
    text = "".join(stated if line.startswith("description =") else line for line in lines)
    project.write_text(text.replace("dependencies = [", 'dependencies = ["numpy>=2", '))
    for name in NAMES:
        for target in ("pip", "docker", "space", "openenv", "harbor"):
            chosen = ["--tasks", "1"] if target == "harbor" else []
            place = top / f"{name}-{target}"
            assert main(["package", str(top / name), "--for", target, "-o", str(place), *chosen]) == 0
    return top


@pytest.fixture(scope="module")
def distributions(packages, tmp_path_factory):
    """The distributions of the packages for pip; also of the folder as `ors-server new` made it."""
    folder = tmp_path_factory.mktemp("distributions")
    for name in ("sums-pip", "quiz-pip", "sums"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", str(folder / name)],
            cwd=packages / name,
            check=True,
            capture_output=True,
        )
    return folder


def judge(client, script, *arguments):
    command = [client_python(client), SCRIPTS / script, *arguments]
    ran = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=PLAY_LIMIT
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def judged(packages, distributions):
    """What the validators say of all packages, and Harbor's also of the tasks of `tests/data`."""
    harbor = DATA / "harbor_lint.zip"
    return judge("package_checks", "judge_packages.py", harbor, distributions, packages, OWN_TASKS)


def test_the_index_of_packages_takes_the_distributions(judged, distributions):
    assert len(list(distributions.rglob("*.whl"))) == len(list(distributions.rglob("*.tar.gz"))) == 3
    assert judged["twine"]["status"] == 0, judged["twine"]["output"]
    assert judged["twine"]["output"].count("PASSED") == 6
    assert judged["wheels"]["status"] == 0, judged["wheels"]["output"]
    assert judged["wheels"]["output"].count(": OK") == 3


def test_hadolint_has_nothing_to_say_about_any_dockerfile(judged):
    assert judged["dockerfiles"] > 3 * len(NAMES)
    assert json.loads(judged["hadolint"]["output"]) == []
    assert judged["hadolint"]["status"] == 0


def test_the_hub_reads_the_cards_of_spaces(judged):
    cards = judged["cards"]
    assert sorted(cards) == sorted(f"{name}-{target}" for name in NAMES for target in ("space", "openenv"))
    for card in cards.values():
        assert card["sdk"] == "docker"
        assert card["app_port"] in {7860, 8000}
    assert cards["sums-space"]["license"] == "mit"
    assert DESCRIPTION.startswith(cards["sums-space"]["short_description"].removesuffix("…"))


@pytest.mark.parametrize("name", NAMES)
def test_openenv_accepts_the_folder_and_its_plan(packages, openenv_judged, name):
    verdict = openenv_judged[str(packages / f"{name}-openenv")]
    assert (verdict["status"], verdict["checks"]) == (0, {"static.manifest": "pass"})
    assert [action["tool_name"] for action in verdict["actions"]] == ["submit"]


@pytest.fixture(scope="module")
def openenv_judged(packages):
    folders = [packages / f"{name}-openenv" for name in NAMES]
    return judge("openenv", "judge_openenv_folders.py", *folders)


def test_harbor_loads_every_task_and_its_lint_finds_nothing(judged, packages):
    tasks = {path: task for path, task in judged["tasks"].items() if Path(path).is_relative_to(packages)}
    assert len(tasks) == 4
    for path, task in tasks.items():
        assert task["name"] == Path(path).name
        assert set(task["rules"]) <= ON_REQUEST


def test_this_server_s_lint_finds_what_harbor_s_finds(judged):
    assert len(judged["tasks"]) == 4 + 12
    for path, task in judged["tasks"].items():
        findings = lint(TaskFolder(Path(path)))
        own = {rule for rule, places in findings.items() if places and not rule.startswith("ors-")}
        assert own == set(task["rules"]), path
