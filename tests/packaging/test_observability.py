"""`deploy/observability`: its queries ask for metrics that a server has; its alerts fire when they should."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ors_server import create_app
from ors_server.doors.metric_families import merge
from ors_server.model.settings import Settings
from tests.fixtures.loopback import listening
from tests.packaging.conftest import ROOT
from tests.unit.doors.test_metrics import Steps, play, scrape

FOLDER = ROOT / "deploy" / "observability"
CASES = ROOT / "tests" / "data" / "alerts" / "cases.yaml"


def rules():
    return yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]


def queries():
    """Return every query of the alerts and of the dashboard."""
    board = json.loads((FOLDER / "dashboard.json").read_text())
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = [variable["query"] for variable in board["templating"]["list"]]
    return [*(rule["expr"] for rule in rules()), *panels, *variables]


@pytest.fixture
async def exposition():
    app = create_app([Steps], Settings(store="memory"))
    async with listening(app) as url:
        await play(app, [("work", {"reward": 0.5}), ("break_down", {}), ("invented", {})])
        await scrape(url)
        async with app.client().episode("steps", split="train", index=0):
            return (await scrape(url)).text


def promtool(*words, **options):
    program = shutil.which("promtool") or "promtool"
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, **options)


async def test_every_metric_of_a_query_is_one_that_a_server_has(exposition):
    whole = exposition + merge({"h0": exposition.encode()}).decode()
    families = list(text_string_to_metric_families(whole))
    known = {sample.name for family in families for sample in family.samples}
    known |= {family.name for family in families if family.type == "gauge"}  # of one without samples now
    asked = {name for query in queries() for name in re.findall(r"\b(?:ors|process)_[a-z_]+", query)}
    assert len(asked) > 20
    assert asked <= known


async def test_the_labels_of_queries_are_labels_of_their_metrics(exposition):
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    selectors = [
        (name, label)
        for query in queries()
        for name, selector in re.findall(r"\b((?:ors)_[a-z_]+)\{([^}]*)\}", query)
        for label in re.findall(r"(\w+)\s*[=!]", selector)
    ]
    assert len(selectors) > 10
    assert [(name, label) for name, label in selectors if label not in labels[name]] == []


@pytest.mark.external
async def test_promtool_finds_no_mistake_in_the_exposition_and_the_rules(exposition):
    linted = promtool("check", "metrics", input=exposition)
    assert (linted.returncode, linted.stderr) == (0, "")
    checked = promtool("check", "rules", str(FOLDER / "alerts.yaml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    config = promtool("check", "config", "--syntax-only", str(FOLDER / "prometheus.yaml"), cwd=FOLDER)
    assert config.returncode == 0, config.stdout + config.stderr


@pytest.mark.external
def test_each_alert_fires_for_its_trouble_and_not_for_a_healthy_server():
    cases = yaml.safe_load(CASES.read_text())
    firing: dict[str, set[bool]] = {}
    for group in cases["tests"]:
        for check in group["alert_rule_test"]:
            firing.setdefault(check["alertname"], set()).add(bool(check["exp_alerts"]))
    assert firing == {rule["alert"]: {True, False} for rule in rules()}
    tested = promtool("test", "rules", str(CASES))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_compose_mounts_only_files_that_are_there_or_that_the_page_makes():
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    page = (ROOT / "docs" / "observability.md").read_text()
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]
    for path in (path for path in mounted if path.startswith("./")):
        assert (FOLDER / path).exists() or f"deploy/observability/{path[2:]}" in page, path
    assert all(re.search(r":v?\d+\.\d+\.\d+$", service["image"]) for service in services.values())
