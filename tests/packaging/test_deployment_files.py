"""The files of `deploy/`: their forms, and that what they start works with the installed server."""

import configparser
import json
import re
import shlex
import shutil
import signal
import subprocess
import tomllib
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.packaging.conftest import ROOT, Image

DEPLOY = ROOT / "deploy"
KEY = "training-key-0123456789"
PUBLIC = "ors.example.org"
LIMIT = 60

pytestmark = pytest.mark.timeout(300)  # the installation downloads, on a fresh machine


class Unit(configparser.ConfigParser):
    """A file of systemd, whose names have capitals."""

    def optionxform(self, optionstr):
        return optionstr


def read_unit(name):
    unit = Unit(strict=False, interpolation=None, comment_prefixes="#", delimiters="=")
    unit.read(DEPLOY / name)
    return unit


def copy_record(installation, record, folder):
    words = ("sh", str(DEPLOY / "backup.sh"), str(record), str(folder))
    return installation.run(*words, PYTHON="python")


def ask(port, path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return answer.status, json.load(answer)


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(f'[[keys]]\nid = "t"\nrole = "trainer"\nkey = "{KEY}"\n')
    return path


@pytest.mark.external
def test_systemd_finds_no_mistake_in_the_units(tmp_path):
    # The programs and the user are those of a machine on which the server is installed.
    for path in DEPLOY.glob("ors-server*"):
        text = path.read_text().replace("/opt/ors-server/bin/ors-server", "/bin/true")
        text = text.replace("/opt/ors-server/backup.sh", "/bin/true")
        (tmp_path / path.name).write_text(re.sub(r"^(User|Group)=ors$", r"\1=root", text, flags=re.MULTILINE))
    units = sorted(str(path) for path in tmp_path.iterdir())
    verified = subprocess.run(
        [shutil.which("systemd-analyze") or "", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verified.returncode, len(units)) == (0, 3), verified.stderr
    assert str(tmp_path) not in verified.stderr, verified.stderr


def test_the_units_name_only_files_that_the_page_installs():
    page = (ROOT / "docs" / "deployment.md").read_text()
    installed = set(re.findall(r"(?:/etc|/opt|/var/lib|/usr)/[\w./-]*\w", page))
    for path in DEPLOY.glob("ors-server*.service"):
        for word in shlex.split(" ".join(read_unit(path.name)["Service"].values())):
            named = word.lstrip("-")
            if named.startswith(("/etc/", "/opt/")) and not named.startswith("/opt/ors-server/bin/"):
                assert named in installed, f"{path.name}: {named}"


def test_the_service_serves_with_its_settings_behind_its_proxy_and_reloads(installation, keys):
    service = read_unit("ors-server.service")["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/ors-server/bin/ors-server"
    settings = str(DEPLOY / "ors.toml")
    words = [settings if word == "/etc/ors-server/ors.toml" else word for word in words]
    reload, name, process = shlex.split(service["ExecReload"])
    assert (reload, name, process) == ("/bin/kill", "-HUP", "$MAINPID")
    folder = keys.parent
    served = subprocess.Popen(
        [installation.folder / "bin" / "ors-server", *words, "--port", "0", "--json"],
        cwd=folder,
        env=installation.environment(ORS_API_KEYS_FILE=str(keys)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = served.stdout.readline()
        assert line, served.communicate(timeout=LIMIT)[1]
        port = int(json.loads(line)["url"].rpartition(":")[2])
        assert ask(port, "/ready", Host=PUBLIC)[0] == 200
        body = json.dumps({"split": "test", "index": 0}).encode()
        headers = {"Host": PUBLIC, "X-API-Key": KEY, "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/_ors/sessions", body, headers)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            made = json.load(answer)
        assert made["agent_url"].startswith(f"https://{PUBLIC}/agent/")
        served.send_signal(signal.SIGHUP)
        events = (json.loads(line)["event"] for line in served.stderr if line.startswith("{"))
        assert "keys_reloaded" in events
        assert ask(port, "/_ors/sessions", **headers)[0] == 200
    finally:
        served.terminate()
        served.communicate(timeout=LIMIT)


def test_the_service_waits_for_the_end_of_sessions_and_may_make_namespaces():
    service = read_unit("ors-server.service")["Service"]
    seconds = int(service["TimeoutStopSec"])
    assert seconds > 60 + 5  # the default of `teardown_seconds`, after the requests' own
    covering = {
        "ProtectKernelTunables",
        "ProtectKernelLogs",
        "ProtectProc",
        "ProcSubset",
        "RestrictNamespaces",
    }
    assert not covering & set(service)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["ors-server"]
    assert compose["stop_grace_period"] == f"{seconds}s"


def test_a_copy_is_made_while_a_server_writes_and_is_sound(installation, tmp_path):
    record, folder = tmp_path / "episodes.db", tmp_path / "copies"
    text = "x" * 100_000  # which the record keeps in a file of its own
    call = {"name": "submit", "arguments": {"answer": text}}
    session = {"split": "test", "index": 0, "session_id": "one"}
    with installation.serving("ors-server", "serve", "qa", "--port", "0", ORS_STORE=str(record)) as port:
        for path, body in (("/_ors/sessions", session), ("/_ors/sessions/one/calls", call)):
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
            urllib.request.urlopen(request, timeout=LIMIT).close()
        made = copy_record(installation, record, folder)
    assert made.returncode == 0, made.stderr
    sound, copy = made.stdout.splitlines()
    assert sound.endswith(": sound")
    listed = installation.run("ors-server", "episodes", "list", "--store", f"{copy}/episodes.db", "--json")
    assert json.loads(listed.stdout)["session_id"] == "one"
    assert copy_record(installation, tmp_path / "absent.db", folder).returncode != 0


def test_the_proxy_passes_on_hosts_and_streams():
    text = re.sub(r"^\s*#.*$", "", (DEPLOY / "nginx.conf").read_text(), flags=re.MULTILINE)
    assert text.count("{") == text.count("}")
    for line in filter(None, map(str.strip, text.splitlines())):
        assert line.endswith((";", "{", "}")), line
    locations = re.findall(r"location [^{]*\{([^}]*)\}", text)
    assert len(locations) == 2
    for location in locations:
        said = dict(line.strip().rstrip(";").split(None, 1) for line in location.splitlines() if ";" in line)
        assert said["proxy_buffering"] == "off"
        assert said["proxy_next_upstream"] == "off"
        assert "proxy_set_header Host $host;" in location
    settings = tomllib.loads((DEPLOY / "ors.toml").read_text())
    assert f"server 127.0.0.1:{settings['port']};" in text
    assert settings["allowed_hosts"] == [PUBLIC]
    for name in ("nginx.conf", "Caddyfile"):
        assert PUBLIC in (DEPLOY / name).read_text()


def test_compose_names_files_that_exist_and_gives_the_server_its_keys():
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = document["services"]["ors-server"]
    image = Image.read(ROOT / "Dockerfile")
    assert (DEPLOY / service["build"]["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    mounts = {mount.split(":")[1]: mount.split(":")[0] for mount in service["volumes"]}
    assert service["environment"]["ORS_API_KEYS_FILE"] in mounts
    assert mounts[image.all("VOLUME")[-1]] in document["volumes"]
    profile = next(one for one in service["security_opt"] if one.startswith("seccomp:"))
    assert (DEPLOY / profile.partition(":")[2]).is_file()
    (published,) = service["ports"]
    assert published == f"127.0.0.1:8080:{image.all('EXPOSE')[-1]}"


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/environment.Dockerfile"])
def test_images_end_as_a_user_without_rights_and_come_from_a_named_base(name):
    image = Image.read(ROOT / name)
    assert image.all("USER")[-1] == "10001"
    assert all(re.fullmatch(r"\d+", user) for user in image.all("USER"))
    for base in image.all("FROM"):
        assert "@sha256:" in base or base == "${SERVER}"
        assert ":latest" not in base


def test_an_environment_of_ones_own_is_served_as_its_image_does(installation, keys, tmp_path):
    image = Image.read(DEPLOY / "environment.Dockerfile")
    made = installation.run("ors-server", "new", "my_environment")
    assert made.returncode == 0, made.stderr
    target = tmp_path / "opt" / "environments" / "my_environment"
    shutil.move(installation.outside / "my_environment", target)
    (copied,) = [shlex.split(rest) for rest in image.all("COPY") if "my_environment" in rest]
    verb, folder = json.loads(image.all("CMD")[-1])
    assert (copied, verb) == (["my_environment", folder], "serve")
    place = str(tmp_path) + folder
    with installation.serving("ors-server", verb, place, "--port", "0", ORS_API_KEYS_FILE=str(keys)) as port:
        assert ask(port, "/list_environments", **{"X-API-Key": KEY}) == (200, ["my_environment"])


def test_the_image_has_what_databases_models_and_parquet_files_need(installation):
    found = installation.run("python", "-c", "import openai, psycopg, pyarrow; print(psycopg.pq.__impl__)")
    assert (found.returncode, found.stdout.strip()) == (0, "binary"), found.stderr


def test_the_documented_container_starts_with_the_keys_that_it_is_given(installation, keys):
    page = (ROOT / "docs" / "deployment.md").read_text()
    blocks = re.findall(r"^docker run[^`]*", page, re.MULTILINE)
    command = next(block for block in blocks if "KEYS_FILE" in block)
    words = shlex.split(command.replace("\\\n", " "))
    values = [words[place + 1] for place, word in enumerate(words) if word in {"-e", "--env"}]
    variables = dict(value.split("=", 1) for value in values)
    mounted = [words[place + 1].split(":") for place, word in enumerate(words) if word in {"-v", "--volume"}]
    assert variables["ORS_API_KEYS_FILE"] in [target for _, target, *_ in mounted]
    image = Image.read(ROOT / "Dockerfile")
    own = {name: value for name, value in image.environment().items() if name.startswith("ORS_")}
    variables = {**own, **variables, "ORS_API_KEYS_FILE": str(keys), "ORS_PORT": "0", "ORS_STORE": "memory"}
    with installation.serving(*image.command(), **variables) as port:
        assert ask(port, "/_ors/sessions", **{"X-API-Key": KEY})[0] == 200


def test_every_file_of_the_folder_is_on_a_page():
    page = (ROOT / "docs" / "deployment.md").read_text()
    missing = [path.name for path in sorted(Path(DEPLOY).iterdir()) if f"deploy/{path.name}" not in page]
    assert missing == []
