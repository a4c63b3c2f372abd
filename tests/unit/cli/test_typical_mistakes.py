"""What newcomers type wrong, and what they must read then: the mistake, and what to type instead."""

import io
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from ors_server.installation import install_hint

WORDS = """
from tests.fixtures.single_task import SingleTask
from ors_server import ToolOutput, tool

class Words(SingleTask):
    name = "words"

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        \"\"\"Ends the episode.\"\"\"
        return ToolOutput.final("noted", reward=1.0)
"""
DATA = ("--prompt", "question", "--answer", "answer", "--reward", "math_equal_reward")

# The words of the command, its status, and what the message must have.
MISTAKES = [
    # Commands and flags.
    ("serv", 2, ["Did you mean 'serve'?", "Try ors-server --help"]),
    ("serve --prot 9000", 2, ["No such option: --prot", "--port", "Try ors-server serve --help"]),
    ("serve qa --port abc", 2, ["--port: expected a valid integer, got 'abc'"]),
    ("serve qa --port 99999", 2, ["--port: expected a number less than or equal to 65535"]),
    ("serve qa --sandbox dockr", 2, ["--sandbox: expected", "'docker'", "got 'dockr'"]),
    ("serve qa --stdio --reload", 2, ["leave out --stdio or --reload"]),
    ("play qa --index -1", 2, ["'--index': expected a number greater than or equal to 0"]),
    ("export plain --min-return abc", 2, ["'--min-return': expected a valid number"]),
    ("eval qa --agent oracle --label monday", 2, ["--label: expected KEY=VALUE, got 'monday'"]),
    ("eval qa --agent oracle --label run=a", 2, ["another name than agent, attempt, run, got run"]),
    ("check", 2, ["name one thing to check: an environment, a URL, or --sandbox NAME"]),
    ("new 1abc", 2, ["'1abc'", "lower-case letters"]),
    ("new taken", 1, ["taken exists already; nothing was changed"]),
    # Names and paths.
    ("serve math", 2, ["unknown environment 'math'; did you mean 'math_word_problems'?"]),
    ("list webshp", 2, ["unknown environment 'webshp'; did you mean 'webshop'?"]),
    ("serve ./nope.py", 2, ["./nope.py: there is no such file or folder"]),
    ("serve word.py", 2, ["word.py: there is no such file or folder; did you mean words.py?"]),
    ("serve absent.toml", 2, ["absent.toml: there is no such file; correct the path"]),
    ("check ../absent/words.toml", 2, ["../absent/words.toml: there is no such file; correct the path"]),
    ("serve empty.py", 2, ["empty.py: it defines no Environment class"]),
    ("serve words.py:Wrods", 2, ["words.py has no class 'Wrods'; it has Words"]),
    (
        "serve broken.py",
        1,
        ["broken.py: importing it failed", "No module named 'nothing_here'", "broken.py:1"],
    ),
    ("serve notes.txt", 2, ["notes.txt: expected a .py file", ".jsonl"]),
    ("serve gymnasium/Taxi-v9", 2, ["gymnasium/Taxi-v9", "got 'Taxi-v9'", "list --available"]),
    ("serve gym/Taxi-v3", 2, ["unknown environment 'gym/Taxi-v3'", "gymnasium"]),
    # Data files.
    ("serve nope.jsonl --prompt q", 2, ["nope.jsonl: there is no such file"]),
    ("serve train.jsonl", 2, ["--prompt question --answer answer --reward math_equal_reward"]),
    ("call train.jsonl submit", 2, ["--prompt question --answer answer --reward math_equal_reward"]),
    (
        "serve train.jsonl --prompt qestion --answer answer --reward math_equal_reward",
        2,
        ["expected a field 'qestion'", "did you mean 'question'?"],
    ),
    (
        "serve train.jsonl --prompt question --answer answer --reward math_equal",
        2,
        ["unknown reward 'math_equal'", "did you mean 'math_equal_reward'?", "ors-server rewards"],
    ),
    (("serve", "bad.jsonl", *DATA), 1, ["bad.jsonl", "line 2", "--skip-bad"]),
    # Settings, keys and ports.
    ("serve qa --port {taken}", 1, ["cannot listen on 127.0.0.1:", "choose another --port, or 0"]),
    ("serve qa --host 0.0.0.0", 2, ["set ORS_API_KEYS or --api-keys-file, or bind to 127.0.0.1"]),
    ("serve qa --api-keys-file keys.toml", 2, ["keys.toml, line 1", "unknown role 'boss'", "trainer"]),
    ("serve qa --api-keys-file none.toml", 2, ["none.toml: No such file or directory"]),
    ("serve qa --config set.toml", 2, ["set.toml, line 1", "'prot', did you mean 'port'?"]),
    ("serve qa --config none.toml", 2, ["--config", "'none.toml' does not exist"]),
    ("serve qa --store redis://x", 2, ["redis"]),
    # Tools and tasks.
    ("call qa serch", 0, ["'serch' is not a valid tool; the tools are search"]),
    (("call", "qa", "search", "{query: 1}"), 2, ["not JSON", """'{"answer": "42"}'"""]),
    (
        ("call", "qa", "search", '{"qury": "x"}'),
        0,
        ["the argument 'query' is missing; search takes query", "got 'qury'"],
    ),
    (("call", "qa", "search", '{"query": "x"}', "--index", "999999"), 2, ["expected 0 to 599"]),
    (("call", "qa", "search", '{"query": "x"}', "--split", "tset"), 2, ["'tset'", "test"]),
    ("call http://127.0.0.1:1 search", 1, ["127.0.0.1:1"]),
    # Evaluation and the record.
    ("eval qa", 2, ["--agent", "Try ors-server eval --help"]),
    ("eval qa --agent oracl", 2, ["unknown agent 'oracl': did you mean 'oracle'?"]),
    ("eval qa --agent agent.py", 2, ["names a file without its function", "agent.py:FUNCTION"]),
    ("eval qa --agent agnt.py:solve", 2, ["there is no file agnt.py"]),
    (
        "eval qa --agent agent.py:slove",
        2,
        ["agent.py has no 'slove'; did you mean 'solve'? It defines solve, guess"],
    ),
    (
        "eval qa --agent faulty.py:solve",
        2,
        ["importing faulty.py failed", "name 'nothing' is not defined", "faulty.py:1"],
    ),
    ("eval qa --agent noop --tasks 900:910", 2, ["--tasks 900:910 select none of the 200 tasks"]),
    ("export tlr", 2, ["unknown format 'tlr'", "trl"]),
    ("replay nosuch", 2, ["there is no episode store in", "--store PATH"]),
    ("score train.jsonl --reward rogue_l_reward", 2, ["'rogue_l_reward'", "did you mean 'rouge_l_reward'?"]),
    ("score train.jsonl --reward qa_f1", 2, ["unknown reward 'qa_f1'", "did you mean 'qa_f1_reward'?"]),
    (("list", "notes.txt", *DATA), 2, ["expected a data file, such as train.jsonl, got notes.txt"]),
    ("episodes show zzz", 2, ["there is no episode store in", "--store PATH"]),
    ("report nodir", 2, ["nodir"]),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of a newcomer, with the files that the mistakes name."""
    for name in [name for name in os.environ if name.startswith("ORS_")]:
        monkeypatch.delenv(name)
    root = str(Path(__file__).parents[3])
    monkeypatch.syspath_prepend(root)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    (tmp_path / "words.py").write_text(WORDS)
    (tmp_path / "empty.py").write_text("number = 1\n")
    (tmp_path / "broken.py").write_text("import nothing_here\n")
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "agent.py").write_text("def solve(session): ...\ndef guess(session): ...\n")
    (tmp_path / "faulty.py").write_text("nothing\n")
    (tmp_path / "taken").mkdir()
    row = json.dumps({"question": "2 + 2?", "answer": "4"})
    (tmp_path / "train.jsonl").write_text(f"{row}\n")
    (tmp_path / "bad.jsonl").write_text(f'{row}\n{{"question": \n')
    (tmp_path / "keys.toml").write_text("[[keys]]\nid = 'a'\nrole = 'boss'\nkey = '0123456789abcdef0123'\n")
    (tmp_path / "set.toml").write_text("prot = 1\n")
    return tmp_path


@pytest.mark.parametrize(("line", "status", "parts"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_typical_mistake_is_answered_with_what_to_type(run, folder, line, status, parts):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = line.format(taken=taken.getsockname()[1]).split() if isinstance(line, str) else line
        ran = run(*words)
    said = ran.err + (ran.out if words[0] in {"call", "replay"} else "")
    assert ran.status == status, said
    for part in parts:
        assert part in said
    assert "Traceback" not in said
    assert "this is a defect" not in said


def test_a_missing_extra_is_named_with_the_command_that_installs_it(run, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    ran = run("eval", "words.py", "--agent", "openai:MODEL")
    assert ran.status in {1, 2}
    assert install_hint("eval") in ran.err


def test_there_are_as_many_mistakes_as_were_collected():
    assert len(MISTAKES) >= 42
