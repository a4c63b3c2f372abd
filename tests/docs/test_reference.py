"""What is written down of the code is what the code says."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import ors_server
import ors_server.testing
from ors_server.app import create_app
from ors_server.cli.main import COMMANDS, GROUPS
from ors_server.doors.http.bounded_protocol import BoundedProtocol
from ors_server.doors.http.faults import FAULTS
from ors_server.model.episode import TRANSITIONS
from ors_server.model.errors import Blame
from ors_server.model.settings import Settings
from ors_server.rewards.catalogue import list_rewards
from ors_server.rewards.deviations import DEVIATIONS
from tests.script_modules import load_script

ROOT = Path(__file__).parents[2]
PAGES = ["settings.md", "cli.md", "control-api.md", "errors.md", "rewards.md", "rewards-deviations.md"]
PAGES += ["environment.schema.json", "audit.schema.json"]


@pytest.fixture(scope="module")
def pages():
    return load_script("docs")


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_pages_are_up_to_date(pages, name):
    assert (ROOT / "docs/reference" / name).read_text() == pages.PAGES[name](), "run scripts/docs.py"


def test_every_page_that_is_written_is_tested(pages):
    assert set(pages.PAGES) == set(PAGES)


def test_every_reward_and_every_deviation_has_its_row(pages):
    names = re.findall(r"^\| `(\w+)` \|", pages.rewards_page(), re.MULTILINE)
    assert names == [entry.name for entry in list_rewards()]
    rows = [line for line in pages.deviations_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(DEVIATIONS)
    assert all(row.why.replace("|", "\\|") in line for row, line in zip(DEVIATIONS, rows, strict=True))


def test_every_setting_and_every_command_has_its_place(pages):
    settings, commands = pages.settings_page(), pages.cli_page()
    assert set(re.findall(r"^\| `(\w+)`", settings, re.MULTILINE)) == set(Settings.model_fields)
    assert set(re.findall(r"^## (\w+)$", commands, re.MULTILINE)) == {*COMMANDS, *GROUPS}
    grouped = {f"{name} {each.name}" for name, group in GROUPS.items() for each in group.registered_commands}
    assert set(re.findall(r"^### (\w+ \w+)$", commands, re.MULTILINE)) == grouped


def test_every_route_and_every_schema_of_the_control_api_has_its_place(pages):
    document, page = pages.openapi(), pages.control_api_page()
    routes = {f"{method.upper()} {path}" for path, each in document["paths"].items() for method in each}
    assert set(re.findall(r"^\| `([A-Z]+ /[^`]+)` \|", page, re.MULTILINE)) == routes
    schemas = set(document["components"]["schemas"])
    assert set(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == schemas
    assert {name.lower() for name in schemas} >= set(re.findall(r"\]\(#(\w+)\)", page))


def test_every_error_has_its_row_below_who_has_to_act(pages):
    text = pages.errors_page()
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [blame.value for blame in Blame]
    rows = dict(re.findall(r"^\| `\w+` \| `(\w+)` \| (\d+) \|", text, re.MULTILINE))
    assert rows == {error.__name__: str(fault.status) for error, fault in FAULTS.items()}


def test_every_setting_says_what_it_means(pages):
    assert all(pages.field_texts(Settings).get(name) for name in Settings.model_fields)


def test_the_state_diagram_is_drawn_from_the_table(pages):
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (drawn,) = re.findall(r"```mermaid\n(stateDiagram-v2.*?)\n```", text, re.DOTALL)
    assert drawn == pages.state_diagram()
    moves = {
        (before, event.strip(), after)
        for before, after, events in re.findall(r"^    (\w+) --> (\w+): (.+)$", drawn, re.MULTILINE)
        for event in events.split(",")
    }
    assert moves == {
        (before.value, event.value, after.value) for (before, event), after in TRANSITIONS.items()
    }


def test_the_rooms_of_the_architecture_are_the_packages_own():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {
        name
        for row in re.findall(r"^\| (`.+?`) \| .+\|$", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    package = ROOT / "ors_server"
    entries = [*package.glob("*.py"), *(path.parent for path in package.glob("*/__init__.py"))]
    assert rooms == {path.stem for path in entries} - {"__init__"}


def walk():
    """Returns the steps of a call that the architecture lists: file and function."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return re.findall(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", text, re.MULTILINE)


async def test_a_call_takes_the_steps_that_the_architecture_lists_in_their_order(tmp_path):
    package = f"{Path(ors_server.__file__).parent}/"
    entered = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            entered.append((frame.f_code.co_filename.removeprefix(package), frame.f_code.co_qualname))

    app = create_app(["math_word_problems"], Settings(store=str(tmp_path / "record.db")))
    async with app.running(), app.client() as client, client.episode(split="test", index=0) as episode:
        await episode.call("calculator", {"expression": "6 * 7"})
        sys.setprofile(note)
        try:
            result = await episode.call("calculator", {"expression": "7 * 7"})
        finally:
            sys.setprofile(None)
    assert result.text == "49"
    steps = walk()
    assert len(steps) > 15
    assert steps[0] == ("doors/http/bounded_protocol.py", "BoundedProtocol.on_message_complete")
    assert callable(BoundedProtocol.on_message_complete)  # the client of this process needs no bytes
    missing = [step for step in steps[1:] if step not in entered]
    assert missing == []
    places = [entered.index(step) for step in steps[1:]]
    assert places == sorted(places)


def test_the_architecture_names_every_room_of_rewards():
    named = set(re.findall(r"`rewards/(\w+)`", (ROOT / "ARCHITECTURE.md").read_text()))
    folder = ROOT / "ors_server" / "rewards"
    assert {path.parent.name for path in folder.glob("*/__init__.py")} <= named
    assert all((folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in named)


@pytest.mark.parametrize("module", [ors_server, ors_server.testing], ids=lambda module: module.__name__)
def test_every_public_name_is_documented(module):
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), name


def test_every_page_is_reached_from_the_readme():
    linked = set(re.findall(r"\((docs/[^)#]+)\)", (ROOT / "README.md").read_text()))
    overview = (ROOT / "docs/reference/audit-classes.md").read_text()
    linked |= {f"docs/reference/{page}" for page in re.findall(r"\((audit/[^)#]+)\)", overview)}
    python = (ROOT / "docs/reference/python/index.md").read_text()
    linked |= {f"docs/reference/python/{page}" for page in re.findall(r"\]\((\w+\.md)\)", python)}
    pages = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "docs").rglob("*.md")
        if path.parent.name != "decisions"
    }
    assert pages <= linked
