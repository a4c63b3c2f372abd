"""The files of `deploy/cluster`: the schemas of their formats, and what they tell the server."""

import re
import subprocess

import yaml

from ors_server.model.host_slot import HostSlot
from ors_server.model.settings import Settings
from tests.clients.conftest import ROOT, client_python

CLUSTER = ROOT / "deploy" / "cluster"


def lint(program, *words):
    path = client_python("deploy_files").with_name(program)
    return subprocess.run([path, *words], capture_output=True, text=True, check=False, timeout=120)


def settings_in(variables):
    """Return the settings that environment variables name, which all exist."""
    names = {name.removeprefix("ORS_").lower(): value for name, value in variables if name.startswith("ORS_")}
    assert names.keys() <= Settings.model_fields.keys()
    return names


def test_compose_files_have_the_schema_of_the_compose_specification():
    files = [str(path) for path in (ROOT / "deploy" / "compose.yaml", CLUSTER / "compose.yaml")]
    linted = lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_resources_of_kubernetes_have_its_schemas(tmp_path):
    path = CLUSTER / "kubernetes.yaml"
    linted = lint("kubernetes-validate", "--strict", str(path))
    assert linted.returncode == 0, linted.stdout + linted.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(path.read_text().replace("serviceName:", "servicename:"))
    assert lint("kubernetes-validate", "--strict", str(wrong)).returncode != 0


def test_the_hosts_of_compose_are_those_of_its_front():
    services = yaml.safe_load((CLUSTER / "compose.yaml").read_text())["services"]
    hosts = [
        settings_in(service["environment"].items()) for name, service in services.items() if "host-" in name
    ]
    slots = [HostSlot.read(host["host_slot"], None, host["host_address"]) for host in hosts]
    assert [(slot.number, slot.count) for slot in slots] == [
        (number, len(slots)) for number in range(len(slots))
    ]
    assert services["front"]["command"][1 : len(slots) + 1] == [slot.address for slot in slots]
    assert services["front"]["command"][0] == "front"
    assert {host["on_stop"] for host in hosts} == {"suspend"}
    assert services.keys() >= {slot.address.partition(":")[0] for slot in slots}


def test_the_pods_of_kubernetes_are_those_of_its_front():
    kinds: dict[str, list[dict]] = {}
    for resource in yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text()):
        kinds.setdefault(resource["kind"], []).append(resource)
    (pods,), (front,) = kinds["StatefulSet"], kinds["Deployment"]
    container = pods["spec"]["template"]["spec"]["containers"][0]
    replicas = pods["spec"]["replicas"]
    variables = settings_in((variable["name"], variable.get("value")) for variable in container["env"])
    assert variables["host_slot"] == f"$(POD_INDEX)/{replicas}"
    name, service = pods["metadata"]["name"], pods["spec"]["serviceName"]
    assert variables["host_address"] == f"$(POD).{service}:8080"
    arguments = front["spec"]["template"]["spec"]["containers"][0]["args"]
    expected = [f"{name}-{number}.{service}:8080" for number in range(replicas)]
    assert [word for word in arguments if re.search(r":\d+$", word)] == expected
    assert service in {found["metadata"]["name"] for found in kinds["Service"]}
