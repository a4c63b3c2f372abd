"""`ors-server eval`: what it plays, what it leaves, how it ends, and how it goes on."""

import io
import json
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ors_server.cli.eval_command import evaluate
from ors_server.cli.eval_options import EvalOptions
from ors_server.cli.terminal import progress_bar
from ors_server.evaluation.failures import failure_lines
from ors_server.evaluation.folder import read_attempts, read_run
from ors_server.evaluation.planning import RunOptions
from ors_server.evaluation.runner import Tally
from tests.conftest import LiveServer
from tests.fixtures.chat_server import ChatServer, played_by_hint
from tests.fixtures.made_runs import make_attempt
from tests.unit.cli.conftest import start_command

ROOT = Path(__file__).parents[3]
GUESSING = f"{ROOT / 'tests/fixtures/evaluated_environments.py'}:Guessing"
EVERYTHING = str(ROOT / "tests/fixtures/evaluated_environments.py")
AGENTS = str(ROOT / "tests/fixtures/evaluation_agents.py")
LIMIT = 60
"""Seconds that a process may take for anything."""


@pytest.fixture
def evaluated(run, tmp_path):
    """Runs the command with a folder for the run."""

    def evaluated(*words, target=GUESSING, folder="run"):
        return run("eval", target, "--output", str(tmp_path / folder), *words)

    return evaluated


def test_it_shows_figures_and_says_where_the_run_is(evaluated, tmp_path):
    ran = evaluated("--agent", "oracle", "-k", "2", "--tasks", "0:3")
    assert ran.status == 0, ran.err
    assert "6 of 6 counted" in ran.out
    assert ran.out.splitlines()[-1].endswith(f"in {tmp_path / 'run'}")
    assert len(list(read_attempts(tmp_path / "run"))) == 6
    assert ran.err == ""


def test_figures_are_there_for_programs_too(evaluated, tmp_path):
    ran = evaluated("--agent", "noop", "--json", "--report", str(tmp_path / "report.html"))
    assert ran.status == 0
    assert ran.json["folder"] == str(tmp_path / "run")
    assert ran.json["run"] == read_run(tmp_path / "run").run_id
    assert ran.json["summary"]["overall"]["reward"]["value"] == 0.0
    assert "<html" in (tmp_path / "report.html").read_text()


def test_without_a_folder_the_run_is_put_among_the_others(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run("eval", GUESSING, "--agent", "oracle", "--limit", "1", "--report", "report.html")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("guessing-oracle-")
    assert ran.out.endswith("report in report.html\n")


def test_a_run_goes_on_with_what_is_left(evaluated, run, tmp_path):
    first = evaluated("--agent", "oracle", "--total-steps", "4", "-c", "1")
    assert first.status == 0
    assert "stopped at 2 of 6 attempts, because its step budget is exhausted" in first.err
    begun = list(read_attempts(tmp_path / "run"))
    second = run("eval", "--resume", str(tmp_path / "run"), "--agent", "oracle")
    assert (second.status, second.err) == (0, "")
    attempts = list(read_attempts(tmp_path / "run"))
    assert attempts[:2] == begun
    assert sorted(attempt.index for attempt in attempts) == list(range(6))


def test_attempts_that_errored_are_told_by_the_status_and_played_again_on_request(evaluated, run, tmp_path):
    ran = evaluated("--agent", f"{AGENTS}:fail", "--limit", "2")
    assert ran.status == 1
    assert "2 of 2 attempts failed: ValueError: I cannot play (evaluation_agents.py:" in ran.err
    again = run("eval", "--resume", str(tmp_path / "run"), "--retry-errored")
    assert again.status == 1
    assert len(list(read_attempts(tmp_path / "run"))) == 4


CRASHING = """
import json

async def crash(seat):
    number = {0: "one", 1: "two"}[seat.index % 2]
    if seat.index == 3:
        raise ValueError("a reason of its own")
    return {"one": 1}["answer" if number == "one" else f"session 7f3e9a11{seat.index}"]

def parse(seat):
    json.loads("nothing")
"""


def test_the_reasons_of_failures_are_grouped_with_the_line_of_the_agent(evaluated, run, tmp_path):
    (tmp_path / "agent.py").write_text(CRASHING)
    ran = evaluated("--agent", f"{tmp_path / 'agent.py'}:crash", "--tasks", "0:6", "-c", "1")
    folder = tmp_path / "run"
    reasons = [
        "3 of 6 attempts failed: KeyError: 'answer' (agent.py:8); first at test/0, attempt 1",
        "2 of 6 attempts failed: KeyError: 'session 7f3e9a111' (agent.py:8); first at test/1, attempt 1",
        "1 of 6 attempts failed: ValueError: a reason of its own (agent.py:7); first at test/3, attempt 1",
    ]
    details = f"details: {folder / 'attempts.jsonl'}, tracebacks and logs in {folder / 'logs'}"
    assert (ran.status, ran.err.splitlines()) == (1, [f"ors-server: {line}" for line in [*reasons, details]])
    assert run("report", str(folder), "--resamples", "100").out.splitlines()[-3:] == reasons


def test_the_line_is_the_agent_s_where_a_library_raises(evaluated, tmp_path):
    (tmp_path / "agent.py").write_text(CRASHING)
    ran = evaluated("--agent", f"{tmp_path / 'agent.py'}:parse", "--limit", "1")
    assert "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (agent.py:11)" in ran.err


def test_many_reasons_are_cut(evaluated):
    attempts = [make_attempt(index, reward=None, error=f"reason {chr(97 + index)}") for index in range(8)]
    *shown, rest = failure_lines([*attempts, make_attempt(9)], 9)
    assert len(shown) == 5
    assert rest == "3 attempts failed for 3 other reasons"


def test_a_run_that_is_resumed_is_recorded_where_it_began(evaluated, run, tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_STORE", str(tmp_path / "default.db"))
    monkeypatch.chdir(tmp_path)
    words = ("--agent", "oracle", "--limit", "4", "--total-steps", "4", "-c", "1", "--store", "record.db")
    assert evaluated(*words).status == 0
    elsewhere = run("eval", "--resume", str(tmp_path / "run"), "--store", "other.db")
    assert elsewhere.status == 2
    assert (
        f"expected --store {tmp_path / 'record.db'}, which has the run's episodes, got other.db"
        in elsewhere.err
    )
    assert run("eval", "--resume", str(tmp_path / "run")).status == 0
    listed = run("episodes", "list", "--store", "record.db", "--json").out.splitlines()
    assert len(listed) == 4
    assert not (tmp_path / "default.db").exists()


def test_a_suite_that_is_resumed_is_recorded_where_it_began(run, tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_STORE", str(tmp_path / "default.db"))
    words = [
        GUESSING,
        "--agent",
        "oracle",
        "--agent",
        "noop",
        "--limit",
        "2",
        "--total-steps",
        "2",
        "-c",
        "1",
    ]
    record = str(tmp_path / "record.db")
    assert run("eval", *words, "-c", "1", "--store", record, "--output", str(tmp_path / "suite")).status == 0
    assert run("eval", "--resume", str(tmp_path / "suite")).status == 0
    assert len(run("episodes", "list", "--store", record, "--json").out.splitlines()) == 4
    assert not (tmp_path / "default.db").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([f"{EVERYTHING}:Talking", "--agent", "oracle"], "`gold_actions(task_spec)`"),
        ([GUESSING, "--agent", "openai:small"], "no API key: set OPENAI_API_KEY"),
        ([GUESSING, "--agent", "openai:small", "--agent-option", "api_key_env=MY_KEY"], "set MY_KEY"),
        ([GUESSING, "--agent", "command: no-such-program {url}"], "no such program"),
    ],
)
def test_what_could_play_no_attempt_is_refused_before_the_first(
    evaluated, tmp_path, monkeypatch, words, message
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    target, *rest = words
    ran = evaluated(*rest, target=target)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_the_gold_of_a_server_is_refused_at_once(evaluated, tmp_path, serve_live):
    ran = evaluated("--agent", "oracle", target=serve_live(GUESSING).url)
    assert (ran.status, "plays environments of this process" in ran.err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_budgets_policies_and_options_reach_the_attempts(evaluated, tmp_path):
    ran = evaluated(
        *("--agent", "random", "--agent-option", "steps=3", "--seed", "3", "--success-at", "0.5"),
        *("--policy", "step_limit=1", "--max-steps", "2", "--split", "train", "--tasks", "4", "-c", "2"),
    )
    played = read_run(tmp_path / "run")
    assert (played.agent["steps"], played.seed, played.success_at, played.split) == (3, 3, 0.5, "train")
    assert played.config["options"]["policy"] == {"step_limit": 1}
    assert [attempt.steps for attempt in read_attempts(tmp_path / "run")] == [1], ran.err


def test_options_of_agents_are_json_or_text(evaluated, tmp_path):
    evaluated("--agent", f"{AGENTS}:guess", "--agent-option", "offset=1", "--limit", "1")
    words = ("--agent-option", "words=a = b", "--limit", "1")
    evaluated("--agent", f"{AGENTS}:guess_in_a_thread", *words, folder="b")
    assert [one.episode_return for one in read_attempts(tmp_path / "run")] == [0.0]
    assert read_run(tmp_path / "b").agent["options"] == {"words": "a = b"}


def test_what_is_played_here_is_recorded(evaluated, run, tmp_path):
    store = str(tmp_path / "record.db")
    assert evaluated("--agent", "oracle", "--limit", "2", "--store", store).status == 0
    replayed = evaluated("--agent", f"replay:{store}", "--limit", "2", folder="again")
    assert replayed.status == 0, replayed.err
    assert [one.episode_return for one in read_attempts(tmp_path / "again")] == [1.0, 1.0]


def test_labels_find_the_episodes_of_a_run_and_are_kept_when_it_is_resumed(evaluated, run, tmp_path):
    store = str(tmp_path / "record.db")
    words = ("--agent", "oracle", "--limit", "1", "--store", store, "--label", "sweep=a=b", "--label", "n=1")
    assert evaluated(*words).status == 0
    assert run("eval", "--resume", str(tmp_path / "run"), "--store", store).status == 0
    listed = run("episodes", "list", "--store", store, "--label", "sweep=a=b", "--json")
    (episode,) = [json.loads(line) for line in listed.out.splitlines()]
    assert (episode["labels"]["n"], episode["labels"]["agent"]) == ("1", "oracle")
    changed = run("eval", "--resume", str(tmp_path / "run"), "--store", store, "--label", "n=2")
    assert (changed.status, "labels was" in changed.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "TARGET --agent AGENT", id="nothing"),
        pytest.param([GUESSING], "TARGET --agent AGENT", id="no agent"),
        pytest.param([GUESSING, "--agent", "oracles"], "unknown agent", id="unknown agent"),
        pytest.param([GUESSING, "--agent", "oracle", "--split", "x"], "unknown split", id="unknown split"),
        pytest.param([GUESSING, "--agent", "oracle", "--tasks", "a"], "numbers and slices", id="odd tasks"),
        pytest.param([GUESSING, "--agent", "oracle", "--max-cost", "0"], "positive number", id="no budget"),
        pytest.param([GUESSING, "--agent", "oracle", "--policy", "x"], "KEY=VALUE", id="odd policy"),
        pytest.param([GUESSING, "--agent", "oracle", "--policy", "x=y z"], "JSON value", id="policy is text"),
        pytest.param([GUESSING, "--agent", "oracle", "--retry-errored"], "--resume", id="nothing to retry"),
        pytest.param(["--resume", "/no/such/run"], "not the folder of a run", id="no run"),
        pytest.param(["--resume", "a", "--output", "b"], "leave --output out", id="two folders"),
        pytest.param(
            ["http://127.0.0.1:9", "--agent", "noop", "--store", "x"], "own record", id="store of a server"
        ),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(run, words, message):
    ran = run("eval", *words)
    assert ran.status == 2
    assert message in ran.err


def test_a_folder_with_a_run_is_not_played_over(evaluated, run, tmp_path):
    evaluated("--agent", "oracle", "--limit", "1")
    again = evaluated("--agent", "oracle", "--limit", "1")
    assert (again.status, "holds a run already" in again.err) == (2, True)
    other = run("eval", "--resume", str(tmp_path / "run"), "--attempts", "5")
    assert (other.status, "attempts was 1 and is now 5" in other.err) == (2, True)


def test_one_of_several_environments_is_named(evaluated):
    assert "name one of them with --environment" in evaluated("--agent", "noop", target=EVERYTHING).err
    ran = evaluated("--agent", "noop", "--environment", "talking", target=EVERYTHING, folder="other")
    assert (ran.status, ran.err) == (0, "")


@pytest.mark.parametrize("end", ["", "/mcp"], ids=["ORS", "MCP"])
def test_a_server_is_evaluated_by_its_url(evaluated, serve_live, end):
    server: LiveServer = serve_live(GUESSING)
    ran = evaluated("--agent", f"{AGENTS}:guess", "--limit", "2", "--json", target=server.url + end)
    assert ran.status == 0, ran.err
    assert ran.json["summary"]["overall"]["reward"]["value"] == 1.0


def test_a_language_model_is_evaluated(evaluated, tmp_path):
    with ChatServer().serving() as server:
        server.decide = played_by_hint
        options = ["--agent-option", f"base_url={server.url}", "--agent-option", "price_in=1"]
        options += ["--agent-option", "price_out=2", "--max-cost", "1"]
        ran = evaluated("--agent", "openai:scripted", *options, "--limit", "3", "--json")
    overall = ran.json["summary"]["overall"]
    assert (ran.status, overall["reward"]["value"]) == (0, 1.0)
    assert overall["tokens"]["total"] == 3 * 220
    logs = sorted((tmp_path / "run" / "logs").iterdir())
    assert [path.name for path in logs] == ["test-0-1.log", "test-1-1.log", "test-2-1.log"]
    assert json.loads(logs[0].read_text().splitlines()[0])["role"] == "user"


PROGRAM = """
import sys
import anyio
from mcp import Client

async def main():
    async with Client(sys.argv[1]) as client:
        prompt = (await client.get_prompt("task")).messages[0].content.text
        number = int(prompt.rstrip(".").split()[-1])
        print(f"I guess {number}")
        await client.call_tool("guess", {"number": number})

anyio.run(main)
"""


def test_a_program_that_speaks_mcp_is_evaluated(evaluated, tmp_path):
    program = tmp_path / "agent.py"
    program.write_text(PROGRAM)
    agent = f"command: {sys.executable} {program} {{url}}"
    ran = evaluated("--agent", agent, "--tasks", "3", "--max-steps", "2")
    assert ran.status == 0, ran.err
    (attempt,) = read_attempts(tmp_path / "run")
    assert (attempt.episode_return, attempt.steps, attempt.stop_reason) == (1.0, 1, "completed")
    assert (tmp_path / "run/logs/test-3-1.log").read_text() == "I guess 3\n"


NOSY = """
import os, sys, urllib.error, urllib.parse, urllib.request

parts = urllib.parse.urlsplit(sys.argv[1])
root = f"{parts.scheme}://{parts.netloc}"
bodies = {"/_ors/sessions": None, "/guessing/tasks": b'{"split": "test"}', "/_ors/episodes": None}
for path, body in bodies.items():
    try:
        request = urllib.request.Request(root + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            print(path, answer.status)
    except urllib.error.HTTPError as error:
        print(path, error.code)
print("ORS_API_KEY" in os.environ, "OPENAI_API_KEY" in os.environ)
"""


@pytest.mark.parametrize("keys", [None, "trainer:me:a-long-key-of-a-trainer"])
def test_an_agents_program_cannot_call_its_server_as_a_trainer(evaluated, tmp_path, monkeypatch, keys):
    if keys is not None:
        monkeypatch.setenv("ORS_API_KEYS", keys)
    monkeypatch.setenv("ORS_API_KEY", "a-long-key-of-a-trainer")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    program = tmp_path / "agent.py"
    program.write_text(NOSY)
    agent = f"command: {sys.executable} {program} {{url}}"
    for variables in ((), ("--agent-option", "variables=OPENAI_API_KEY")):
        folder = f"run-{len(variables)}"
        ran = evaluated("--agent", agent, "--tasks", "3", *variables, folder=folder)
        assert ran.status == 0, ran.err
        log = (tmp_path / folder / "logs/test-3-1.log").read_text().splitlines()
        assert log == [
            "/_ors/sessions 401",
            "/guessing/tasks 401",
            "/_ors/episodes 401",
            f"False {bool(variables)}",
        ]


@pytest.mark.stress  # tests/contract interrupts a run in every ordinary run of the tests
def test_an_interrupted_run_goes_on_without_repeating_an_ended_attempt(tmp_path, run):
    with ChatServer().serving() as server:

        def answer(body):
            if len(server.asked) > 4:
                server.let_go.clear()  # whoever comes after the first two attempts waits
            return played_by_hint(body)

        server.decide = answer
        process = start_eval(tmp_path, server, "-c", "2")
        wait_until(
            lambda: len(server.asked) >= 5 and len(list(read_attempts(tmp_path / "run"))) >= 1, process
        )
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=LIMIT)
        assert process.returncode == 130
        ended = list(read_attempts(tmp_path / "run"))
        assert "continue with: ors-server eval --resume" in complaint
        assert 1 <= len(ended) < 6
        assert (tmp_path / "run/attempts.jsonl").read_bytes().endswith(b"\n")
        server.let_go.set()
        server.decide = played_by_hint
        again = run("eval", "--resume", str(tmp_path / "run"))
    assert again.status == 0, again.err
    attempts = list(read_attempts(tmp_path / "run"))
    assert attempts[: len(ended)] == ended
    assert sorted(attempt.index for attempt in attempts) == list(range(6))
    assert all(attempt.episode_return == 1.0 for attempt in attempts)


def start_eval(tmp_path, server, *words):
    command = ["eval", GUESSING, "--agent", "openai:scripted"]
    command += ["--agent-option", f"base_url={server.url}", "--output", str(tmp_path / "run"), *words]
    return start_command(*command)


def wait_until(condition, process):
    """Waits for a condition as long as a process runs, at most its limit."""
    for _ in range(LIMIT * 20):
        if condition():
            return
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate(timeout=LIMIT))
    raise AssertionError("it did not come so far in time")


def test_an_interrupt_before_anything_was_played_says_so(run, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("anyio.run", interrupt)
    ran = run("eval", GUESSING, "--agent", "oracle")
    assert (ran.status, "before the first attempt" in ran.err) == (130, True)


def test_an_agent_that_is_wrong_is_refused_in_one_line(evaluated):
    ran = evaluated("--agent", "openai:m", "--agent-option", "heat=1")
    assert (ran.status, len(ran.err.splitlines())) == (2, 1)


def test_a_target_that_is_not_there_fails(evaluated):
    ran = evaluated("--agent", "noop", target="no_such_environment")
    assert (ran.status, "no_such_environment" in ran.err) == (2, True)


def test_progress_is_for_terminals_only(monkeypatch, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    tally = Tally(6, ended=3, errored=1, succeeded=1, total=1.5)
    quiet, shown = io.StringIO(), Terminal()
    for stream in (quiet, shown):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar(6) as show:
            show(tally.ended, tally.headline)
    assert quiet.getvalue() == ""
    assert "3/6" in shown.getvalue()
    assert "mean 0.750" in shown.getvalue()


PLAYED = Tally(5, ended=4, errored=1, over_budget=1, succeeded=2, total=2.5)


@pytest.mark.parametrize(
    ("tally", "words"),
    [(Tally(5), "no return yet, 0 succeeded"), (PLAYED, "mean 0.833, 2 succeeded, 1 errored, 1 over budget")],
    ids=["nothing yet", "everything"],
)
def test_the_running_figures_are_told_in_a_few_words(tally, words):
    assert tally.headline == words


def test_every_wish_has_an_option():
    options = {field.name.removeprefix("max_") for field in fields(EvalOptions)}
    options |= {"agent_options"} if "agent_option" in options else set()
    options |= {"labels"} if "label" in options else set()
    assert {field.name for field in fields(RunOptions)} <= options
    assert evaluate.__doc__
