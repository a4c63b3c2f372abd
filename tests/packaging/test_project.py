"""What the project's own files promise each other."""

import ast
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

import ors_server

ROOT = Path(__file__).parents[2]
WORLDS = sorted(ROOT.glob("requirements/worlds/*.lock"))
LOCKS = sorted([*ROOT.glob("requirements/*.lock"), *ROOT.glob("requirements/clients/*.lock"), *WORLDS])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    "fast_downward": "fast-downward-textworld",
    "opentelemetry": "opentelemetry-api",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",  # which pins it
    "typing_extensions": "typing-extensions",
    "pydantic_settings": "pydantic-settings",
    "mcp_types": "mcp-types",
    "tree_sitter": "tree-sitter",
    "tree_sitter_bash": "tree-sitter-bash",
}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_pins_each_package_with_hashes_and_names_no_place(lock):
    text = lock.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-(-index|-extra|-find|-trusted|i |f )", text, re.MULTILINE)
    entries = re.split(r"\n(?=\S)", text.strip())
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==[^ ]+", entry), entry
        assert "--hash=sha256:" in entry


def test_the_node_lock_names_no_place_to_download_from():
    text = (ROOT / "requirements/node/package-lock.json").read_text()
    assert '"resolved"' not in text
    assert '"integrity"' in text


def test_every_client_has_an_input_a_lock_and_an_environment():
    inputs = {path.stem for path in ROOT.glob("requirements/clients/*.txt") if "." not in path.stem}
    locks = {path.stem for path in ROOT.glob("requirements/clients/*.lock")}
    made = re.findall(r"^(?:CLIENTS|GRADERS|WRITERS) := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert inputs == locks == set(" ".join(made).split())


def test_every_tool_of_its_own_environment_has_a_group_and_a_lock():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (tools,) = re.findall(r"^TOOLS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for tool in tools.split():
        lock = (ROOT / f"requirements/{tool}.lock").read_text()
        for requirement in groups[tool]:
            name = re.split(r"[^a-z0-9-]", requirement)[0]
            assert re.search(rf"^{re.escape(name)}==", lock, re.MULTILINE), f"{tool}.lock lacks {name}"


@pytest.mark.parametrize("lock", WORLDS, ids=lambda lock: lock.stem)
def test_what_a_bundled_environment_needs_is_an_extra_and_fits_the_other_packages(lock):
    wanted = {re.split(r"[^a-z0-9_-]", name)[0] for name in PROJECT["optional-dependencies"][lock.stem]}
    pinned = set(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))
    names = {name for name, _ in pinned}
    assert wanted <= names
    others = "".join((ROOT / f"requirements/{name}.lock").read_text() for name in ("runtime", "dev"))
    for name, version in re.findall(r"^([a-z0-9._-]+)==(\S+)", others, re.MULTILINE):
        is_same = name not in names or (name, version) in pinned  # one for each Python, perhaps
        assert is_same, f"{lock.name} pins another version of {name}"
    assert re.search(
        rf"^  {lock.stem}\) packages=", (ROOT / "scripts/install_world.sh").read_text(), re.MULTILINE
    )


def test_every_folder_of_the_core_s_tests_exists():
    (words,) = re.findall(r"^CORE_TESTS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (names,) = re.findall(r"addprefix tests/unit/, ([\w ]+)\)", words)
    assert all((ROOT / "tests/unit" / name).is_dir() for name in names.split())


WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_actions_by_commit_and_calls_targets_that_exist(workflow):
    text = workflow.read_text()
    actions = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert actions
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in actions)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = [word for line in re.findall(r"run: make (.+)$", text, re.MULTILINE) for word in line.split()]
    assert {word for word in called if "=" not in word} <= targets


def test_an_action_has_one_version_in_all_workflows():
    used = {use for path in WORKFLOWS for use in re.findall(r"uses: (.+)$", path.read_text(), re.MULTILINE)}
    assert len(used) == len({use.partition("@")[0] for use in used})


def test_the_matrix_holds_every_python_that_is_supported():
    (matrix,) = re.findall(r"python: \[(.+)\]", (ROOT / ".github/workflows/ci.yml").read_text())
    supported = [
        name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)
    ]
    assert re.findall(r'"([^"]+)"', matrix) == supported


def test_the_newest_version_of_the_changelog_is_the_package_s():
    newest = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == ors_server.__version__


def test_every_third_party_import_is_a_declared_dependency(source_nodes):
    extras = [name for names in PROJECT["optional-dependencies"].values() for name in names]
    declared = {re.split(r"[^a-z0-9-]", name)[0] for name in [*PROJECT["dependencies"], *extras]}
    ours = {"ors_server", "ors_server_tasks", *sys.stdlib_module_names}
    optional = {"openreward", "ors"}  # environments written for these bring them along
    optional |= {
        "bfcl_eval",
        "inspect_ai",
        "nltk",
        "openenv",
        "skyrl_gym",
        "textarena",
        "verifiers",
    }  # in environments of their own
    for path, nodes in source_nodes.items():
        for node in nodes:
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                top = name.split(".")[0]
                if top not in ours | optional:
                    assert DISTRIBUTIONS.get(top, top) in declared, f"{path} imports {name}"


def test_the_extra_demands_the_version_of_datasets_that_reads_exports_without_loss():
    page = (ROOT / "docs" / "export.md").read_text()
    (version,) = re.findall(r"`datasets` loads the files.* It must be ([0-9.]+) or later", page)
    assert PROJECT["optional-dependencies"]["huggingface"] == [f"datasets>={version}"]


def test_no_module_of_the_package_imports_the_facade(source_nodes):
    for path, nodes in source_nodes.items():
        for node in nodes if path.startswith("ors_server/") else ():
            if isinstance(node, ast.Import):
                assert "ors_server" not in {alias.name for alias in node.names}, path
            if isinstance(node, ast.ImportFrom) and node.module == "ors_server":
                taken = {alias.name for alias in node.names}
                submodules = {name for name in taken if importlib.util.find_spec(f"ors_server.{name}")}
                assert taken == submodules, f"{path} imports {taken} from the facade"


def test_every_decision_has_the_three_sections():
    records = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert records
    for record in records:
        text = record.read_text()
        assert re.match(rf"# {int(record.name[:4])}\. ", text), record.name
        for section in ("Context", "Decision", "Consequences"):
            assert f"\n## {section}\n" in text, f"{record.name} lacks {section}"
