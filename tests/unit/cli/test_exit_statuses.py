"""Every command ends with a documented exit status: 2 where the line names something that does not exist."""

import io
import json
import os
import sys

import anyio
import pytest

from ors_server.cli.exit_status import MEANINGS, ExitStatus
from ors_server.cli.main import COMMANDS, GROUPS
from ors_server.store.open import open_store
from ors_server.store.store_options import StoreOptions

DATA = ("--prompt", "question", "--answer", "answer")
REFERENCES = {
    "serve": (),
    "list": (),
    "play": (),
    "call": ("submit",),
    "check": (),
    "audit": (),
    "eval": ("--agent", "oracle"),
}
"""Commands that take an environment, and what else they need."""
NAMES_NOTHING = {
    "an environment": ("qaa",),
    "a file": ("nofile.py",),
    "a folder": ("./nofolder",),
    "a class": ("qa:Nope",),
    "a game": ("gymnasium/Nope",),
    "a source": ("nosource/Nope",),
    "a data file": ("nofile.jsonl",),
    "a field": ("train.jsonl", "--prompt", "nope", *DATA[2:], "--reward", "math_equal_reward"),
    "a reward": ("train.jsonl", *DATA, "--reward", "nope_reward"),
    "a recipe": ("train.jsonl", "--recipe", "nope"),
    "how to read it": ("train.jsonl",),
}
"""What a reference, with its options, does not name."""
EACH = [
    (command, *words, *others) for command, others in REFERENCES.items() for words in NAMES_NOTHING.values()
]
"""Every such command with every such reference; an ordinary run audits the first two."""
AUDITED = [words for words in EACH if words[0] == "audit"][2:]
MISUSES = [
    # A task that does not exist.
    ("play", "qa", "--split", "nope"),
    ("play", "qa", "--index", "99999"),
    ("call", "qa", "search", '{"query": "x"}', "--split", "nope"),
    ("call", "qa", "search", '{"query": "x"}', "--index", "99999"),
    ("eval", "qa", "--agent", "oracle", "--split", "nope"),
    ("eval", "qa", "--agent", "oracle", "--tasks", "99999"),
    ("eval", "qa", "--agent", "oracle", "--environment", "nope"),
    ("serve", "qa", "--stdio", "--episode", "qa/nope/0"),
    # An option's value.
    ("serve", "qa", "--port", "x"),
    ("serve", "qa", "--sandbox", "nope"),
    ("serve", "qa", "--port", "0", "--store", "nope://x"),
    ("serve", "qa", "--config", "nofile.toml"),
    ("serve", "qa", "--api-keys-file", "nofile.toml"),
    ("serve", "qa", "--port", "0", "--tls-cert", "nofile.pem"),
    ("list", "--nope"),
    ("list", "--available", "nope"),
    ("call", "qa", "search", "{a"),
    ("call", "qa", "search", "--index", "x"),
    ("play", "qa", "--index", "x"),
    ("check",),
    ("check", "qa", "--only", "nope"),
    ("check", "qa", "--tasks", "0"),
    ("check", "--sandbox", "nope"),
    ("check", "qa", "--mcp"),
    ("audit", "qa", "--only", "nope"),
    ("audit", "qa", "--waivers", "nofile.toml"),
    ("audit", "qa", "--report", "nofolder/page.html"),
    ("import", "nope"),
    ("import", "gymnasium/Nope"),
    ("eval", "qa"),
    ("eval", "qa", "--agent", "nope"),
    ("eval", "qa", "--agent", "nofile.py:play"),
    ("eval", "qa", "--agent", "oracle", "--limit", "0"),
    ("eval", "--resume", "nofolder"),
    ("mcp", "install", "nohost", "qa"),
    ("mcp", "install", "claude"),
    ("images", "add", "nofile.tar"),
    ("images", "rm", "nosuch"),
    ("images", "verify", "nosuch"),
    ("tasks", "nosuch"),
    ("tasks", "qa", "--store", "memory"),
    ("report", "nofolder"),
    ("compare", "nofolder", "nofolder"),
    ("compare", "nofolder"),
    # The record.
    ("replay", "nosuch"),
    ("replay", "nosuch", "--store", "nofile.db"),
    ("replay",),
    ("regrade", "nosuch", "--reward", "exact_match_reward"),
    ("regrade", "--all", "--reward", "nope_reward"),
    ("regrade", "--all", "--reward", "exact_match_reward", "--option", "nope=1"),
    ("regrade", "--reward", "exact_match_reward"),
    ("export", "nope"),
    ("export", "trl", "--store", "nofile.db"),
    ("episodes", "list", "--store", "nofile.db"),
    ("episodes", "list", "--store", "nope://x"),
    ("episodes", "show", "nosuch"),
    ("episodes", "show"),
    ("episodes", "tail", "--store", "nofile.db"),
    ("watch", "--run", "r", "--store", "nofile.db"),
    ("watch",),
    ("store", "stats", "--store", "nofile.db"),
    ("store", "vacuum", "--store", "nofile.db"),
    ("store", "prune", "--retain-days", "x"),
    ("store", "migrate", "--store", "nofile.db"),
    ("store", "verify", "--store", "nope://x"),
    # Rewards.
    ("rewards", "nope_reward"),
    ("score", "train.jsonl"),
    ("score", "nofile.jsonl", "--reward", "exact_match_reward"),
    ("score", "train.jsonl", "--reward", "nope_reward"),
    ("score", "train.jsonl", "--reward", "nofile.py:reward"),
    ("score", "train.jsonl", "--reward", "exact_match_reward", "--option", "x"),
    ("score", "train.jsonl", "--reward", "exact_match_reward", "--option", "nope=1"),
    # Several hosts.
    ("hosts", "http://127.0.0.1:1", "x"),
    ("restart", "http://127.0.0.1:1", "x"),
    ("drain",),
    ("front", "nope"),
    # The rest.
    ("new", "1abc"),
    ("package", "nofolder", "--for", "pip"),
    ("package", "qa", "--for", "nope"),
    ("new", "a", "--in", "nofolder"),
    ("doctor", "x"),
    ("version", "x"),
    ("nope",),
]
FAILURES = [
    ("serve", "broken.py"),
    ("check", "broken.py"),
    ("eval", "broken.py", "--agent", "oracle"),
    ("audit", "broken.py"),
    ("serve", "bad.jsonl", *DATA, "--reward", "math_equal_reward"),
    ("score", "bad.jsonl", "--reward", "math_equal_reward"),
    ("call", "http://127.0.0.1:1", "submit"),
    ("episodes", "list", "--url", "http://127.0.0.1:1"),
    ("hosts", "http://127.0.0.1:1"),
    ("restart", "http://127.0.0.1:1"),
    ("drain", "h1", "http://127.0.0.1:1"),
    ("new", "taken"),
]
"""What the command looks at is there, and wrong."""
SUCCESSES = [
    ("list", "qa"),
    ("call", "qa", "nope"),
    ("rewards",),
    ("episodes", "list"),
    ("store", "stats"),
    ("score", "rows.jsonl", "--reward", "exact_match_reward"),
    ("regrade", "--all", "--reward", "exact_match_reward"),
    ("version",),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder with data files, a broken module and an empty record."""
    for name in [name for name in os.environ if name.startswith("ORS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    row = json.dumps({"question": "2 + 2?", "answer": "4"})
    (tmp_path / "train.jsonl").write_text(f"{row}\n")
    (tmp_path / "bad.jsonl").write_text(f'{row}\n{{"question": \n')
    (tmp_path / "rows.jsonl").write_text('{"answer": "4", "final_response": "4"}\n')
    (tmp_path / "broken.py").write_text("import nothing_here\n")
    (tmp_path / "taken").mkdir()
    record = tmp_path / "data/ors-server/episodes.db"
    record.parent.mkdir(parents=True)
    anyio.run(make_record, str(record))


async def make_record(file):
    await (await open_store(file, StoreOptions())).aclose()


def run_quietly(run, words):
    ran = run(*words)
    assert "this is a defect" not in ran.err, ran.err
    return ran


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=pytest.mark.stress if words in AUDITED else ())
        for words in [*EACH, *MISUSES]
    ],
    ids=" ".join,
)
def test_a_line_that_names_nothing_is_misuse(run, words):
    ran = run_quietly(run, words)
    assert ran.status == ExitStatus.MISUSED, ran.err
    assert ran.err


@pytest.mark.parametrize("words", FAILURES, ids=" ".join)
def test_a_thing_that_is_there_and_wrong_is_a_failure(run, words):
    ran = run_quietly(run, words)
    assert ran.status == ExitStatus.FAILED, ran.err
    assert ran.err


@pytest.mark.parametrize("words", SUCCESSES, ids=" ".join)
def test_other_lines_are_successes(run, words):
    ran = run_quietly(run, words)
    assert ran.status == ExitStatus.SUCCESS, ran.err


def test_every_command_is_in_the_table():
    tried = {words[0] for words in (*EACH, *MISUSES)}
    assert tried - {"nope"} == {*COMMANDS, *GROUPS}


def test_the_reference_has_these_statuses(request):
    page = (request.config.rootpath / "docs/reference/cli.md").read_text()
    rows = page.partition("## Exit status")[2].partition("|---|---|\n")[2].splitlines()
    assert [row for row in rows if row] == [
        f"| {status.value} | {meaning} |" for status, meaning in MEANINGS.items()
    ]
