"""Users without a home folder: a number in a container, without HOME and without an entry in /etc/passwd."""

import json
import os
import pwd
import subprocess
import sys

import pytest

from ors_server.environments.declared.references import declare_data
from ors_server.model.errors import SettingsError
from ors_server.model.settings import default_record
from ors_server.store.location import parse_location

NOBODY = f"the user {os.getuid()} has no home folder: set HOME"


@pytest.fixture
def homeless(monkeypatch):
    def unknown(_uid: int) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_the_error_says_what_to_set(tmp_path):
    with pytest.raises(SettingsError, match=f"{NOBODY} or XDG_DATA_HOME to a folder"):
        default_record()
    with pytest.raises(SettingsError, match=NOBODY):
        parse_location("~/episodes.db")
    data = tmp_path / "train.jsonl"
    data.write_text(json.dumps({"question": "1 + 1?", "answer": "2"}))
    keys = {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
    with pytest.raises(SettingsError, match=f"{NOBODY} or XDG_CACHE_HOME to a folder"):
        declare_data(str(data), keys)


@pytest.mark.usefixtures("homeless")
def test_a_named_folder_is_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_record() == tmp_path / "ors-server" / "episodes.db"
    assert parse_location(str(tmp_path / "a.db")).path == tmp_path / "a.db"


RUN = """# prepared
import os, pwd, sys
def unknown(_uid):
    raise KeyError("uid not found")
pwd.getpwuid = unknown
from ors_server.cli.main import main
sys.exit(main())
"""


COLD = (["--version"], ["doctor"])
"""Commands that run in an interpreter which has not imported the package."""


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--version"], 0, ""),
        (["doctor"], None, ""),
        (["rewards"], 0, ""),
        (["list", "code"], 0, ""),
        (["check", "code", "--quiet", "--only", "gold-earns-the-most", "--tasks", "1"], 0, ""),
        (["new", "mine"], 0, ""),
        (["play", "code", "--store", "memory"], None, ""),
        (["eval", "code", "--agent", "oracle", "--limit", "2", "--store", "memory"], None, ""),
        (["episodes", "list"], 2, NOBODY),
        (["episodes", "list", "--store", "~/a.db"], 2, NOBODY),
        (["export", "plain"], 2, NOBODY),
        (["store", "verify"], 2, NOBODY),
        (["serve", "code", "--port", "0"], 2, NOBODY),
        (["list", "rows.jsonl", "--prompt", "q", "--reward", "exact_match_reward"], 2, NOBODY),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_every_command_works_or_says_what_to_set(tmp_path, words, status, text):
    (tmp_path / "rows.jsonl").write_text('{"q": "1?", "answer": "1"}\n')
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOME", "XDG_", "ORS_STORE"))
    }
    if words in COLD:
        environment["ORS_TEST_PREPARED"] = "0"
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *words],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    assert "Could not determine home directory" not in ran.stderr
    assert status is None or ran.returncode == status, (ran.returncode, ran.stdout, ran.stderr)
    assert text in ran.stderr
