"""Packages of an environment: what is in them, what never is, and what is refused."""

import json
import os
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from ors_server.cli.main import main
from ors_server.environments.loading import define, environment_at
from ors_server.harbor.task_folder import TaskFolder
from ors_server.packaging.environment_source import PackagingError, read_source
from ors_server.packaging.writing import PackageOptions, PackageTarget, write

TARGETS = list(PackageTarget)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What `ors-server new` makes: a class, and data with a declaration."""
    folder = tmp_path_factory.mktemp("made")
    assert main(["new", "sums", "--in", str(folder)]) == 0
    assert main(["new", "quiz", "--declared", "--in", str(folder)]) == 0
    return folder


@pytest.fixture
def sums(made, tmp_path):
    """A copy of the folder with the class, to change."""
    folder = tmp_path / "sums"
    subprocess.run(["cp", "-r", made / "sums", folder], check=True)  # noqa: S607
    return folder


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def environment_of(place):
    return define(environment_at(place))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sums", "quiz"])
def test_every_target_takes_every_kind_and_its_copy_has_the_same_tasks(made, tmp_path, name, target):
    folder = tmp_path / "out"
    options = PackageOptions(tasks=1) if target is PackageTarget.HARBOR else None
    source = read_source(str(made / name))
    assert write(source, target, folder, options)
    for text in (path.read_text() for path in folder.rglob("*") if path.is_file()):
        assert str(made) not in text
        assert str(tmp_path) not in text
    for path in names(folder):
        assert "test_sums" not in path
        assert "__pycache__" not in path
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("target", TARGETS)
def test_commands_name_the_folder_by_a_path_and_never_as_a_name_of_a_registry(
    made, tmp_path, monkeypatch, target
):
    monkeypatch.chdir(tmp_path)
    options = PackageOptions(tasks=1) if target is PackageTarget.HARBOR else None
    source = read_source(str(made / "sums"))
    # Each first command has one path; that of pip is where a bare name would be looked up.
    for folder in ("out", "o u't", "deep/out", str(tmp_path / "absolute"), f"../{tmp_path.name}/up"):
        commands = write(source, target, Path(folder), options)
        path = folder if folder.startswith(("/", "../")) else f"./{folder}"
        assert path in shlex.split(commands[0])
        assert folder not in shlex.split(" ".join(commands)) or folder == path
        assert ".part" not in " ".join(commands)


def test_a_single_file_is_a_package_too(made, tmp_path):
    file = tmp_path / "words.py"
    text = (made / "sums" / "environment.py").read_text()
    file.write_text(text.replace('"sums"', '"words"'))
    source = read_source(str(file))
    write(source, PackageTarget.PIP, tmp_path / "project")
    assert environment_of(f"{tmp_path}/project/src/words_environment:Sums").name == "words"
    write(source, PackageTarget.DOCKER, tmp_path / "image")
    assert '"/opt/environments/words/environment.py"' in (tmp_path / "image/Dockerfile").read_text()
    write(source, PackageTarget.HARBOR, tmp_path / "tasks", PackageOptions(tasks=1, splits=("test",)))
    assert grade(tmp_path / "tasks/test/words-00000", '{"answer": 20000}') == {"reward": 1.0}


def test_a_pip_project_names_its_class_by_an_entry_point_and_keeps_what_its_author_wrote(sums, tmp_path):
    project = sums / "pyproject.toml"
    project.write_text(
        project.read_text()
        .replace('version = "0.1.0"', 'version = "2.5"\nlicense = "MIT"')
        .replace("dependencies = [", 'dependencies = ["numpy>=2", ')
    )
    write(read_source(str(sums)), PackageTarget.PIP, tmp_path / "project")
    made_project = tomllib.loads((tmp_path / "project/pyproject.toml").read_text())
    table = made_project["project"]
    assert table["entry-points"]["ors_server.environments"] == {"sums": "sums_environment:Sums"}
    assert (table["name"], table["version"], table["license"]) == ("sums-environment", "2.5", "MIT")
    assert table["dependencies"][0].startswith("ors-mcp-server>=")
    assert table["dependencies"][1:] == ["numpy>=2"]
    write(read_source(str(sums)), PackageTarget.DOCKER, tmp_path / "image")
    assert (tmp_path / "image/requirements.txt").read_text() == "numpy>=2\n"
    assert "-r /tmp/requirements.txt" in (tmp_path / "image/Dockerfile").read_text()


@pytest.mark.parametrize("name", ["sums", "quiz"])
def test_pip_installs_the_project_and_its_class_loads_away_from_its_folder(made, tmp_path, name):
    write(read_source(str(made / name)), PackageTarget.PIP, tmp_path / "project")
    chosen = ["--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--target"]
    install = [sys.executable, "-m", "pip", "install", *chosen, str(tmp_path / "site"), "./project"]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)
    program = (
        "from ors_server.environments.loading import load_environments as load\n"
        f"print([d.name for d in load(['{name}'])])"
    )
    variables = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{Path(__file__).parents[3]}"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == f"['{name}']\n", ran.stderr


def test_a_new_folder_is_a_project_itself(made, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=made / "sums", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(tmp_path / "site")], check=True)
    assert {"sums_environment/__init__.py", "sums_environment/environment.py"} <= names(tmp_path / "site")
    assert not [path for path in names(tmp_path / "site") if "test_" in path]
    points = next((tmp_path / "site").glob("*.dist-info/entry_points.txt")).read_text()
    assert "sums = sums_environment:Sums" in points


def test_a_space_has_front_matter_and_serves_the_public(made, tmp_path):
    write(read_source(str(made / "quiz")), PackageTarget.SPACE, tmp_path / "space")
    front = yaml.safe_load((tmp_path / "space/README.md").read_text().split("---\n")[1])
    assert (front["sdk"], front["app_port"], front["base_path"]) == ("docker", 7860, "/console/play")
    assert front["colorFrom"] in {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert len(front["short_description"]) <= 60
    dockerfile = (tmp_path / "space/Dockerfile").read_text()
    for line in ("EXPOSE 7860", 'ORS_PUBLIC="true"', "USER 1000", "COPY environments /opt/environments"):
        assert line in dockerfile


def test_the_validation_block_has_the_policy_s_range_and_what_gold_and_blank_actions_earn(made, tmp_path):
    source = read_source(str(made / "sums"))
    write(source, PackageTarget.OPENENV, tmp_path / "openenv")
    manifest = yaml.safe_load((tmp_path / "openenv/openenv.yaml").read_text())
    block = manifest["validation"]
    assert block["reward"] == {"range": [0.0, 1.0], "oracle_tolerance": 0.0, "floor_margin": 1.0}
    assert block["capabilities"]["declared_tools"] == ["submit"]
    assert block["capabilities"]["declared_task_count"] == {"train": 100, "test": 20}
    plan = json.loads((tmp_path / "openenv/validation/runtime.json").read_text())
    assert plan["actions"] == [{"type": "call_tool", "tool_name": "submit", "arguments": {"answer": 20}}]
    assert (tmp_path / "openenv" / block["capabilities"]["oracle"]["location"]).stat().st_mode & 0o111


def grade(task, answer):
    """Call the grader of a task as its test.sh does, and return what it wrote."""
    folder = task.parent / "logs"
    folder.mkdir(exist_ok=True)
    file = folder / "answer.json"
    file.unlink(missing_ok=True)
    if answer is not None:
        file.write_text(answer)
    runpy.run_path(str(task / "tests/grade.py"))["grade"](file, folder)
    return json.loads((folder / "reward.json").read_text())


def test_a_task_for_harbor_is_read_by_our_reader_and_pays_its_solution_only(made, tmp_path):
    write(
        read_source(str(made / "quiz")),
        PackageTarget.HARBOR,
        tmp_path / "tasks",
        PackageOptions(splits=("train",)),
    )
    tasks = sorted((tmp_path / "tasks/train").iterdir())
    assert [task.name for task in tasks] == ["quiz-00000", "quiz-00001", "quiz-00002"]
    for task in tasks:
        TaskFolder(task)
    instruction = (tasks[0] / "instruction.md").read_text()
    assert "What is 2 + 3?" in instruction
    assert "/app/answer.json" in instruction
    # Neither the agent's image nor its instruction has the answer.
    assert (tasks[0] / "environment/Dockerfile").read_text() == "FROM debian:12-slim\n\nWORKDIR /app\n"
    solution = (tasks[0] / "solution/solve.sh").read_text()
    answer = solution.split("\n")[2]
    assert grade(tasks[0], answer) == {"reward": 1.0}
    assert grade(tasks[0], '{"answer": "7"}') == {"reward": 0.0}
    for hostile in (None, "[", '{"answer": NaN, "x": 1}', "[" * 100_000, '{"tool": "submit"}', '["5"]'):
        assert grade(tasks[0], hostile)["reward"] <= 0.0


def test_what_is_private_is_never_packed(sums, tmp_path):
    secrets = [
        ".env",
        ".git/config",
        ".cache/x",
        "id_rsa",
        "server.pem",
        "my_credentials.json",
        "api_keys.toml",
    ]
    caches = ["__pycache__/environment.pyc", "node_modules/x.js", ".venv/lib/x.py", "episodes.db", "run.log"]
    for name in (*secrets, *caches, "data/.env", "data/words.txt"):
        (sums / name).parent.mkdir(parents=True, exist_ok=True)
        (sums / name).write_text("private")
    source = read_source(str(sums))
    assert set(source.files) == {"__init__.py", "environment.py", "data/words.txt"}
    assert "my_credentials.json" in source.left_out
    assert ".env" not in source.left_out


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('DATA = "/home/ann/data.jsonl"', r"environment.py:\d+: the absolute path '/home/ann/data.jsonl'"),
        ('DATA = "~/data.jsonl"', "the absolute path"),
        ('DATA = "C:\\\\Users\\\\ann\\\\data.jsonl"', "the absolute path"),
        ('DATA = "{here}/data.jsonl"', "the absolute path"),
        ('KEY = "sk-{long}"', "looks like a credential"),
        ('KEY = "hf_{long}"', "looks like a credential"),
    ],
)
def test_paths_and_credentials_of_the_author_s_machine_are_refused(sums, code, words):
    text = code.replace("{here}", str(sums)).replace("{long}", "a1B2" * 10)
    (sums / "environment.py").write_text(f"{(sums / 'environment.py').read_text()}\n{text}\n")
    with pytest.raises(PackagingError, match=words):
        read_source(str(sums))


TOKEN = "a1B2" * 10


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("mykey.txt", b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n", 1),
        ("armour", b"\n-----BEGIN PGP PRIVATE KEY BLOCK-----\n", 2),
        ("notes.md", f"# Notes\n\nuse hf_{TOKEN}\n".encode(), 3),
        ("data.jsonl", f'{{"a": "ghp_{TOKEN}"}}\n'.encode(), 1),
        ("windows.txt", f"\r\nsk-{TOKEN}\r\n".encode("utf-16"), 2),
        ("long.md", b"a line of words\n" * 400_000 + f"github_pat_{TOKEN}".encode(), 400_001),
        # Half of it in one piece of what is read, half in the next.
        ("split.md", b"x\n" * 524_283 + f"ghp_{TOKEN}".encode(), 524_284),
    ],
)
def test_credentials_in_texts_of_any_ending_and_length_are_refused_with_file_and_line(
    sums, name, content, line
):
    (sums / name).write_bytes(content)
    with pytest.raises(
        PackagingError, match=rf"^{name}:{line}: this looks like a credential; .*move the file"
    ):
        read_source(str(sums))


def test_words_and_programs_that_only_resemble_credentials_are_packed(sums):
    (sums / "page.css").write_text(".sk-fading-circle-with-long-name, .task-a1B2a1B2a1B2a1B2a1B2a1B2 {}")
    (sums / "cut.md").write_text("x" * (1 << 20) + f"sk-{TOKEN}")  # a word, of which a part resembles one
    (sums / "library.so").write_bytes(b"\x7fELF\0-----BEGIN PRIVATE KEY-----\0")
    assert {"page.css", "cut.md", "library.so"} <= set(read_source(str(sums)).files)


def test_rows_that_the_declaration_names_are_not_searched_and_other_data_is(made, tmp_path):
    folder = tmp_path / "quiz"
    subprocess.run(["cp", "-r", made / "quiz", folder], check=True)  # noqa: S607
    rows = (folder / "train.jsonl").read_text()
    (folder / "train.jsonl").write_text(rows.replace("What", f"hf_{TOKEN} What"))
    assert read_source(str(folder)).name == "quiz"
    (folder / "other.jsonl").write_text(f'"hf_{TOKEN}"')
    with pytest.raises(PackagingError, match=r"^other.jsonl:1: this looks"):
        read_source(str(folder))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "prod.env",
            "env.local",
            "netrc",
            "kubeconfig",
            "service-account-1.json",
            "htpasswd",
            "id_ecdsa_sk",
        ),
        *("deep/tls.key", "Server.PEM", "putty.ppk"),
    ],
)
def test_files_that_hold_credentials_by_name_are_left_out_and_told(sums, name):
    (sums / name).parent.mkdir(exist_ok=True)
    (sums / name).write_text("x")
    (sums / "env.py").write_text("")
    source = read_source(str(sums))
    assert name in source.left_out
    assert name not in source.files
    assert "env.py" in source.files


def test_paths_of_every_machine_and_words_that_are_none_are_no_reason_to_refuse(sums):
    text = '\nSHELL, TEMPORARY, WORD, ROUTE = "/bin/sh", "/tmp/work", "and/or", "/app/answer.json"\n'
    (sums / "environment.py").write_text((sums / "environment.py").read_text() + text)
    assert read_source(str(sums)).name == "sums"


@pytest.mark.parametrize("place", ["/somewhere/train.jsonl", "../train.jsonl"])
def test_data_outside_of_the_folder_is_refused(made, tmp_path, place):
    folder = tmp_path / "in" / "quiz"
    subprocess.run(["cp", "-r", made / "quiz", tmp_path / "quiz"], check=True)  # noqa: S607
    folder.parent.mkdir()
    (tmp_path / "quiz").rename(folder)
    rows = (folder / "train.jsonl").read_text()
    target = Path(place if place.startswith("..") else str(tmp_path / "train.jsonl"))
    (folder / target).resolve().write_text(rows)
    declaration = folder / "environment.toml"
    declaration.write_text(declaration.read_text().replace('"train.jsonl"', f'"{target}"'))
    with pytest.raises(PackagingError, match="into the folder"):
        read_source(str(folder))


def test_a_link_out_of_the_folder_is_refused_and_one_within_it_is_a_copy(sums, tmp_path):
    (tmp_path / "private.txt").write_text("private")
    (sums / "same.txt").symlink_to("README.md")
    write(read_source(str(sums)), PackageTarget.DOCKER, tmp_path / "image")
    assert not (tmp_path / "image/environments/sums/same.txt").is_symlink()
    (sums / "link.txt").symlink_to(tmp_path / "private.txt")
    with pytest.raises(PackagingError, match="leads out of the folder"):
        read_source(str(sums))


def test_a_file_that_reads_its_neighbours_is_refused_with_advice(made, tmp_path):
    text = (made / "sums" / "environment.py").read_text()
    (tmp_path / "sizes.json").write_text("{}")
    read = "from pathlib import Path\n\n(Path(__file__).parent / 'sizes.json').read_text()\n"
    (tmp_path / "words.py").write_text(f"{read}\n{text}")
    with pytest.raises(PackagingError, match="a Python file is packed alone"):
        write(read_source(str(tmp_path / "words.py")), PackageTarget.DOCKER, tmp_path / "image")
    assert not (tmp_path / "image").exists()


def test_what_cannot_be_made_is_refused_and_leaves_nothing(sums, tmp_path, capsys):
    environment = sums / "environment.py"
    environment.write_text(environment.read_text().replace("def gold_actions", "def silver_actions"))
    for target in ("openenv", "harbor"):
        assert main(["package", str(sums), "--for", target, "-o", str(tmp_path / "x")]) == 1
        assert "give the class gold_actions" in capsys.readouterr().err
    assert main(["package", str(sums), "--for", "pip", "-o", str(sums / "pip")]) == 1
    assert "inside of the environment's folder" in capsys.readouterr().err
    assert main(["package", str(sums), "--for", "pip", "--tasks", "3", "-o", str(tmp_path / "x")]) == 1
    assert "--tasks and --split choose" in capsys.readouterr().err
    assert main(["package", str(tmp_path / "none"), "--for", "pip"]) == 2
    assert "expected the path of an environment" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["sums"]
