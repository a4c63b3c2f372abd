"""Mistakes in settings are named with their place: file and line, variable, or flag."""

import random

import pytest

from ors_server.doors.access import load_keyring, parse_keys, read_key_file
from ors_server.model.errors import SettingsError
from ors_server.model.settings import Settings, load_settings
from ors_server.model.settings_sources import OTHER_VARIABLES, TomlFile, check_variables


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "ors.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("port = ", 1),
        ("port = 1\nhost = 'a\n", 2),
        ("port = 1\nport = 2\n", 2),
        ("# c\n\n[serve\n", 3),
        ("allowed_hosts = [\n'a',\n", 2),
        ("port = 1\n\n???\n", 3),
    ],
)
def test_what_is_not_toml_is_named_with_file_and_line(file, text, line):
    path = file(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert str(caught.value).startswith(f"{path}, line {line}, column ")


@pytest.mark.parametrize(
    ("text", "line", "nearest"),
    [
        ("prot = 8080", 1, "'port'"),
        ("host = 'localhost'\n\n# five\nmax-sessions = 5", 4, "'max_sessions'"),
        ("allowed_hosts = [\n  'a',\n  'b',\n]\nidle_second = 3.0", 5, "'idle_seconds'"),
        ("PORT = 1", 1, "'port'"),
        ("text = 1\n[emitt]\nx = 1", 1, ""),
        ("port = 1\n[environment]\nx = 1", 2, "'environments'"),
        ("zzzzzz = 1", 1, "expected one of allow_network, allow_unsandboxed"),
    ],
)
def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_setting(file, text, line, nearest):
    path = file(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert str(caught.value).startswith(f"{path}, line {line}: unknown setting ")
    assert nearest in str(caught.value)


def test_each_value_says_where_it_comes_from(file, monkeypatch):
    monkeypatch.setenv("ORS_MAX_SESSIONS", "7")
    settings = load_settings(file("max_sessions = 5\nidle_seconds = 9.0\nport = 1"), port=2)
    found = {name: settings.source_of(name) for name in ("port", "max_sessions", "idle_seconds", "host")}
    assert found == {
        "port": "command line",
        "max_sessions": "ORS_MAX_SESSIONS",
        "idle_seconds": "file",
        "host": "default",
    }
    assert Settings(host="127.0.0.1").source_of("host") == "program"


def test_every_misspelled_setting_finds_its_way_back(file):
    rng = random.Random(7)  # noqa: S311  (no secret)
    for name in Settings.model_fields:
        at = rng.randrange(len(name) - 1)
        wrong = name[:at] + name[at + 1] + name[at] + name[at + 2 :]
        if wrong in Settings.model_fields:
            continue
        with pytest.raises(SettingsError, match=f"did you mean '{name}'"):
            load_settings(file(f"{wrong} = 1"))
        with pytest.raises(SettingsError, match=f"did you mean 'ORS_{name.upper()}'"):
            check_variables([f"ORS_{wrong.upper()}"], Settings.model_fields)


def test_a_wrong_value_is_named_with_its_source_and_not_repeated(file, monkeypatch):
    path = file("host = 'h'\nallowed_hosts = [\n'a'\n]\nport = 'hunter2'\nmax_sessions = 0")
    with pytest.raises(SettingsError) as caught:
        load_settings(path, idle_seconds=-1)
    told = str(caught.value)
    assert f"{path}, line 5: port: " in told
    assert f"{path}, line 6: max_sessions: " in told
    assert "--idle-seconds: " in told
    assert "hunter2" not in told
    monkeypatch.setenv("ORS_PORT", "hunter2")
    monkeypatch.setenv("ORS_ALLOWED_HOSTS", '["a"]')
    with pytest.raises(SettingsError, match="ORS_PORT: ") as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("ORS_ALLOWED_HOSTS", "hunter2.example.org")
    with pytest.raises(SettingsError, match="ORS_ALLOWED_HOSTS: expected a JSON list"):
        load_settings()


def test_the_file_of_the_variable_is_read_by_everything_that_reads_settings(file, monkeypatch, tmp_path):
    monkeypatch.setenv("ORS_CONFIG", str(file("port = 1234")))
    assert load_settings().port == 1234
    monkeypatch.setenv("ORS_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(SettingsError, match=r"missing\.toml: No such file"):
        load_settings()


@pytest.mark.parametrize("name", ["ORS_PROT", "ors_prot", "ORS_", "ORS_SERVER", "ORS_STOER"])
def test_an_unknown_variable_is_refused(name):
    with pytest.raises(SettingsError, match=f"unknown environment variable {name}"):
        check_variables(["PATH", name], Settings.model_fields)


@pytest.mark.parametrize(
    "name",
    [
        *sorted(OTHER_VARIABLES),
        *(f"ORS_{name.upper()}" for name in Settings.model_fields),
        "ors_port",
        "ORS_TEST_VENVS",
        "DOORS_PROT",
        "ORS_SERVICE_HOST",
        "ORS_SERVER_SERVICE_PORT_HTTP",
        "ORS_SERVER_PORT_8080_TCP_ADDR",
        "ORS_SERVER_PORT",
    ],
)
def test_variables_that_mean_something_and_those_of_an_orchestrator_are_accepted(name):
    check_variables([name], Settings.model_fields)


def test_environments_of_the_file_are_found_beside_the_file(file, tmp_path):
    path = file('environments = ["qa", "./mine", "other.py:Class", "pkg.module:Class", "/abs/x.py"]')
    assert load_settings(path).environments == [
        "qa",
        f"{tmp_path}/mine",
        f"{tmp_path}/other.py:Class",
        "pkg.module:Class",
        "/abs/x.py",
    ]
    with pytest.raises(SettingsError, match=r"line 1: environments"):
        load_settings(file("environments = 'qa'"))


def test_a_file_of_keys_is_read_as_carefully(tmp_path):
    path = tmp_path / "keys.toml"
    good = "[[keys]]\nid = 'a'\nrole = 'agent'\nkey = '0123456789abcdef'\n"
    for text, told in (
        ("[[keys\n", "line 1, column"),
        (good + "\n[[keys]]\nid = 'b'\nrole = 'boss'\nkey = '0123456789abcdef'\n", "line 6: .*'boss'"),
        (good + good + "[[keys]]\nid = 'b'\nkey = '0123456789abcdef'\n", "line 9: .*'role' is missing"),
        ("", "got none"),
    ):
        path.write_text(text)
        with pytest.raises(SettingsError, match=told):
            read_key_file(path)
    with pytest.raises(SettingsError, match="ORS_API_KEYS, entry 2: unknown role 'boss'"):
        parse_keys("agent:a:0123456789abcdef,boss:b:0123456789abcdef")
    assert load_keyring(keys="", key_file=None, token_secret=None).is_open


def test_a_place_is_found_in_any_form_of_toml(file):
    tables = "[[keys]]\na = 1\n[[keys]]\na = 2\n"
    text = '"host" = "x"\n\'port\' = 1\nallowed_hosts = ["""a\nport = 2\n"""]\n' + tables
    read = TomlFile.read(file(text))
    places = [read.place(name).rpartition(" ")[2] for name in ("host", "port", "allowed_hosts", "keys")]
    assert places == ["1", "2", "3", "6"]
    assert read.place("keys", 1).endswith("line 8")
    assert read.place("nothing") == str(read.path)
