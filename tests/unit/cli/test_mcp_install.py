"""`ors-server mcp install`: what it writes for each host, what it keeps, and what it refuses."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from ors_server.cli.main import main

URL = "http://127.0.0.1:8080/mcp"
PROGRAM = str(Path(sys.executable).with_name("ors-server"))
FILES = {
    "claude": (".claude.json", ".mcp.json"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": (".config/Code/User/mcp.json", ".vscode/mcp.json"),
    "codex": (".codex/config.toml", ".codex/config.toml"),
}
HEADERS = {"claude": "${ORS_API_KEY}", "cursor": "${env:ORS_API_KEY}", "vscode": "${input:ors-key}"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home folder, and the folder of a project in it as the working folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return tmp_path


def install(*words, status=0):
    assert main(["mcp", "install", *words]) == status


def read(path):
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def entry_of(settings, name="ors"):
    (key,) = {"mcpServers", "servers", "mcp_servers"} & settings.keys()
    return settings[key][name]


@pytest.mark.parametrize("host", FILES)
def test_a_host_starts_the_server_itself_or_connects_to_one_with_a_key(home, host):
    user, project = home / FILES[host][0], home / "project" / FILES[host][1]
    install(host, "math_word_problems", "--yes")
    assert entry_of(read(user)) == {"command": PROGRAM, "args": ["serve", "math_word_problems", "--stdio"]}
    install(host, "--url", "http://127.0.0.1:8080", "--key", "--project", "--yes")
    entry = entry_of(read(project))
    assert entry["url"] == URL
    if host == "codex":
        assert entry["bearer_token_env_var"] == "ORS_API_KEY"
    else:
        assert entry["headers"] == {"X-API-Key": HEADERS[host]}
    if host == "vscode":
        assert [item["id"] for item in read(project)["inputs"]] == ["ors-key"]


@pytest.mark.parametrize("host", FILES)
def test_everything_else_in_the_file_stays_and_the_file_as_it_was_is_kept(home, host):
    path = home / FILES[host][0]
    path.parent.mkdir(exist_ok=True, parents=True)
    if host == "codex":
        before = '# mine\nmodel = "x"\n\n[mcp_servers.ors]\nurl = "http://old"\n\n[mcp_servers.other]\nurl = "http://o"\n'
    else:
        servers = "servers" if host == "vscode" else "mcpServers"
        before = json.dumps(
            {"theme": "ü", servers: {"other": {"url": "http://o"}, "ors": {"url": "http://old"}}}
        )
    path.write_text(before)
    path.chmod(0o600)
    install(host, "--url", URL, "--yes")
    settings = read(path)
    assert entry_of(settings)["url"] == URL
    assert entry_of(settings, "other") == {"url": "http://o"}
    assert settings.get("theme", "ü") == "ü"
    assert settings.get("model", "x") == "x"
    assert path.with_name(f"{path.name}.backup").read_text() == before
    assert path.stat().st_mode & 0o777 == 0o600
    if host == "codex":
        assert path.read_text().startswith("# mine\n")


def test_the_same_again_writes_nothing(home, capfd):
    install("cursor", "--url", URL, "--yes")
    capfd.readouterr()
    install("cursor", "--url", URL)
    assert "has this server already" in capfd.readouterr().out
    assert not list(home.glob(".cursor/*.backup"))


def test_print_writes_nothing_and_a_path_is_named_whole(home, capfd):
    (home / "project" / "words.py").write_text("")
    install("codex", "./words.py", "--name", "words", "--print")
    table = tomllib.loads(capfd.readouterr().out)["mcp_servers"]["words"]
    assert table["args"] == ["serve", str(home / "project" / "words.py"), "--stdio"]
    assert [path.name for path in home.iterdir()] == ["project"]


def test_settings_that_are_a_link_stay_one(home):
    (home / "dotfiles").mkdir()
    kept = home / "dotfiles" / "claude.json"
    kept.write_text("{}")
    (home / ".claude.json").symlink_to(kept)
    install("claude", "--url", URL, "--yes")
    assert (home / ".claude.json").is_symlink()
    assert entry_of(read(kept))["url"] == URL


@pytest.mark.parametrize(
    ("host", "text", "reason"),
    [
        ("cursor", '{"mcpServers": {} // mine\n}', "is not plain JSON"),
        ("claude", "[]", "expected an object with 'mcpServers'"),
        ("vscode", '{"servers": 3}', "expected an object with 'servers'"),
        ("codex", "a = ", "is not valid TOML"),
        ("codex", 'mcp_servers.ors.url = "http://o"\n', "in another form"),
        ("codex", 'mcp_servers = { ors = { url = "http://o" } }\n', "in another form"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(home, capfd, host, text, reason):
    path = home / FILES[host][0]
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text)
    install(host, "--url", URL, "--yes", status=1)
    assert reason in capfd.readouterr().err
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["cursor"], "got neither"),
        (["cursor", "qa", "--url", URL], "got both"),
        (["cursor", "qa", "--key"], "--key needs --url"),
        (["cursor", "qa", "--name", "a b"], "got 'a b'"),
        (["cursor", "--url", "127.0.0.1:8080"], "expected a URL"),
        (["zed", "qa"], "claude"),
        (["cursor", "qa"], "pass --yes"),
    ],
)
def test_wrong_words_are_named_and_nothing_is_written(home, capfd, words, reason):
    install(*words, status=2)
    assert reason in " ".join(capfd.readouterr().err.split())
    assert [path.name for path in home.iterdir()] == ["project"]
