"""`list`, `play`, `call`, `check` and `new`, as a person or a script uses them."""

import io
import json
import subprocess
import sys
from importlib import util

import pytest

from ors_server.cli.play_command import Player, read_line, read_value
from ors_server.cli.server_requests import open_server
from ors_server.environments.loading import usable_environments
from ors_server.installation import package_hint
from ors_server.model.errors import ClientError
from ors_server.testing import play as play_episode

REFENV = "tests/fixtures/refenv.py"


class TerminalInput(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


@pytest.fixture
def typed(monkeypatch):
    """Puts lines on standard input."""

    def put(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return put


def test_list_shows_what_is_installed(run):
    environments = {environment["name"]: environment for environment in run("list", "--json").json}
    assert list(environments) == list(usable_environments(lambda _: None))
    assert {"code", "math_word_problems", "qa", "shell", "webshop"} <= set(environments)
    environment = environments["math_word_problems"]
    assert {split["name"] for split in environment["splits"]} == {"train", "validation", "test"}
    assert all(split["tasks"] >= 100 for split in environment["splits"])
    assert [tool["name"] for tool in environment["tools"]] == ["calculator", "submit"]
    shown = run("list").out
    assert "math_word_problems" in shown
    assert "calculator" in shown


def test_list_takes_references(run):
    described = run("list", f"{REFENV}:RefEnv", f"{REFENV}:IndexEnv", "--json").json
    assert [environment["name"] for environment in described] == ["refenv", "indexenv"]


def test_list_says_so_when_nothing_is_installed(run, monkeypatch):
    monkeypatch.setattr("ors_server.environments.loading.installed_environments", dict)
    assert "ors-server new" in run("list").out


def test_a_call_shows_the_output_and_the_reward(run):
    ran = run("call", f"{REFENV}:RefEnv", "echo", '{"text": "hello"}')
    assert (ran.status, ran.out) == (0, "hello\nreward 1, finished\n")
    assert (
        run("call", f"{REFENV}:RefEnv", "add", '{"a": 1}').out == "3\nreward none: this step is not graded\n"
    )
    assert run("call", f"{REFENV}:RefEnv", "image").out == "a pixel\n[image/png]\nreward 0.25\n"


def test_a_call_picks_the_environment_and_the_task(run):
    words = ("--split", "test", "--environment", "refenv", "--json")
    result = run("call", REFENV, "echo", '{"text": "exam"}', *words).json
    assert result["kind"] == "completed"
    assert (result["output"]["reward"], result["output"]["finished"], result["step"]) == (1.0, True, 1)


def test_a_call_reads_its_arguments_from_standard_input(run, typed):
    typed('{"a": 2, "b": 5}')
    assert run("call", f"{REFENV}:RefEnv", "add", "-").out == "7\nreward none: this step is not graded\n"


@pytest.mark.parametrize(("tool", "arguments", "kind"), [("nope", "{}", "refused"), ("boom", "{}", "failed")])
def test_a_call_that_was_not_answered_has_status_1(run, tool, arguments, kind):
    ran = run("call", f"{REFENV}:RefEnv", tool, arguments, "--json")
    assert ran.status == 1
    assert ran.json["kind"] == kind
    assert ran.json["detail"]
    assert run("call", f"{REFENV}:RefEnv", tool, arguments).out.startswith(f"{kind}: ")


@pytest.mark.parametrize("arguments", ["{", "[1]"])
def test_arguments_that_are_no_json_object_are_refused(run, arguments):
    ran = run("call", f"{REFENV}:RefEnv", "echo", arguments)
    assert ran.status == 2
    assert ran.err.startswith(("ors-server: the arguments are not JSON", "ors-server: the arguments must be"))


def test_a_session_needs_a_server(run):
    assert "--session needs" in run("call", REFENV, "echo", "{}", "--session", "s").err


def test_a_script_plays_an_episode_to_its_end(run, typed):
    commands = ("", ":tools", ":prompt", ":standing", ":what", "noargs")
    typed("# a comment", *commands, 'echo {"text": "world"}', "count")
    ran = run("play", f"{REFENV}:RefEnv", "--index", "1", "--json")
    lines = ran.out.splitlines()
    assert lines[0] == "Call the `echo` tool with text='world' to win."
    assert lines.count("  echo(text)  Echoes the text and ends the episode when it is the target.") == 2
    assert "ready: 0 steps, return 0" in lines
    assert lines[-2] == "finished, completed: 2 steps, return 1"
    assert json.loads(lines[-1])["return"] == 1.0


def test_a_player_is_told_of_mistakes_and_plays_on(run, typed):
    typed("nope", "echo [1]", "echo {", 'echo {"text": 5}', "boom", 'add {"a": 1}', ":quit", "count")
    ran = run("play", f"{REFENV}:RefEnv")
    assert ran.status == 0
    assert ran.out.count("\n! ") == 5
    assert "\n3\n" in ran.out
    assert "return 0" in ran.out.splitlines()[-1]


def test_a_person_is_asked_for_each_argument(capsys, monkeypatch):
    answers = iter(["add", "40", "", "submit", "4", None])
    asked: list[str] = []

    def read(question: str) -> str | None:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(sys, "stdin", TerminalInput())
    with play_episode(f"{REFENV}:RefEnv") as episode:
        Player(episode, read).run()
    assert asked[1:3] == ["  a (integer): ", "  b (integer, optional): "]
    assert "\n42\n" in capsys.readouterr().out


def test_a_person_s_terminal_is_read_with_a_question_until_its_end(monkeypatch):
    monkeypatch.setattr(sys, "stdin", TerminalInput("count\n"))
    assert read_line("> ") == "count"
    assert read_line("> ") is None


def test_the_terminal_tool_can_be_played_by_hand(run, typed):
    typed('submit {"answer": "4"}')
    ran = run("play", f"{REFENV}:TermEnv")
    assert "(takes your final message)" in ran.out
    assert ran.out.splitlines()[-1].startswith("finished, completed: 1 steps, return 1")


def test_what_is_typed_is_read_as_the_schema_wants_it():
    assert read_value("12", {"type": "string"}) == "12"
    assert read_value("12", {"type": "integer"}) == 12
    assert read_value("[1, 2]", {}) == [1, 2]
    assert read_value("twelve", {"type": "integer"}) == "twelve"


def test_check_reports_on_an_environment(run):
    only = ("--only", "gold-earns-the-most", "--only", "tool-names")
    ran = run("check", "math_word_problems", *only, "--tasks", "1")
    assert ran.status == 0
    assert ran.out.splitlines()[-1] == "2 passed, 0 failed, 0 not judged"
    assert "gold_actions earn the greatest return" in ran.out


def test_check_has_status_1_where_something_that_must_hold_does_not(run):
    ran = run("check", f"{REFENV}:RefEnv", "--only", "tools-survive", "--quiet")
    assert ran.status == 1
    assert ran.out.startswith("FAIL MUST   refenv tools-survive: ")
    assert run("check", f"{REFENV}:RefEnv", "--only", "tools-survive", "--json").json["conformant"] is False


def test_check_does_not_fail_for_what_only_should_hold(run):
    ran = run("check", f"{REFENV}:RefEnv", "--only", "reward-range")
    assert ran.status == 0
    assert "FAIL SHOULD" in ran.out


def test_check_knows_its_ids(run):
    ran = run("check", "math_word_problems", "--only", "tool-names", "--only", "sparkle")
    assert ran.status == 2
    assert ran.err == "ors-server: unknown check sparkle; without --only, check lists the ids\n"


def test_check_wants_a_url_for_mcp(run):
    assert "--mcp needs a URL" in run("check", "math_word_problems", "--mcp").err


def test_check_plays_the_promises_of_an_isolation(run):
    only = ("--only", "state-lasts", "--only", "a-signal-is-128-and-its-number")
    report = run("check", "--sandbox", "bubblewrap", "--json", *only).json
    assert report["conformant"] is True
    ids = [verdict["id"] for verdict in report["verdicts"]]
    assert ids == ["a-signal-is-128-and-its-number", "state-lasts"]


def test_check_judges_a_strangers_isolation(run):
    ran = run("check", "--sandbox", "ors_server.sandboxes.scripted:ScriptedBackend", "--quiet")
    assert ran.status == 1
    assert "FAIL MUST   state-lasts" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name one thing to check"),
        (("math_word_problems", "--sandbox", "none"), "name one thing to check"),
        (("--sandbox", "cardboard"), "--sandbox takes auto, bubblewrap"),
        (("--sandbox", "nowhere:make"), "cannot find 'nowhere:make'"),
        (("--sandbox", "ors_server.model.errors:nothing"), "cannot find"),
        (("--sandbox", "collections:OrderedDict"), "gives a OrderedDict; a Backend is needed"),
    ],
)
def test_check_says_what_it_could_not_find(run, words, said):
    ran = run("check", *words)
    assert ran.status != 0
    assert said in ran.err


def test_a_new_environment_passes_its_checks_and_its_tests(run, tmp_path):
    ran = run("new", "tiny_sums", "--in", str(tmp_path))
    assert ran.status == 0
    folder = tmp_path / "tiny_sums"
    assert run("check", str(folder), "--quiet").out == "32 passed, 0 failed, 0 not judged\n"
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    tests = subprocess.run(pytest_, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tests.returncode == 0, tests.stdout


def test_a_new_task_folder_is_paid_for_its_solution_only(run, tmp_path):
    ran = run("new", "sums", "--harbor", "--in", str(tmp_path))
    folder = tmp_path / "sums"
    assert f"ors-server check {folder}" in ran.out
    assert "  pytest " not in ran.out
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert made == {
        *("task.toml", "instruction.md", "environment/Dockerfile", "environment/numbers.txt"),
        *("solution/solve.sh", "tests/Dockerfile", "tests/test.sh"),
    }
    checks = ("gold-earns-the-most", "blank-earns-the-least", "shared-verifier", "ors-unsaid-network")
    ran = run("check", str(folder), "--quiet", *(word for check in checks for word in ("--only", check)))
    assert ran.out == "4 passed, 0 failed, 0 not judged\n"
    assert "give one of them" in run("new", "x", "--harbor", "--declared", "--in", str(tmp_path)).err


def test_the_next_steps_say_how_to_install_what_they_need(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    find_spec = util.find_spec
    assert package_hint("pytest") not in run("new", "first").out
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "pytest" else find_spec(name))
    lines = run("new", "second").out.splitlines()
    assert lines[-2:] == [f"  {package_hint('pytest')}", "  pytest ./second"]
    assert "pytest" not in run("new", "third", "--declared").out


def test_a_new_environment_never_overwrites_another(run, tmp_path):
    run("new", "mine", "--in", str(tmp_path))
    before = (tmp_path / "mine/environment.py").read_text()
    ran = run("new", "mine", "--in", str(tmp_path))
    assert ran.status == 1
    assert "exists already" in ran.err
    assert (tmp_path / "mine/environment.py").read_text() == before


@pytest.mark.parametrize("name", ["My", "a-b", "health", "class.", ""])
def test_a_new_environment_needs_a_usable_name(run, name, tmp_path):
    ran = run("new", name, "--in", str(tmp_path))
    assert ran.status == 2
    assert list(tmp_path.iterdir()) == []


async def test_only_urls_are_called_over_the_wire():
    with pytest.raises(ClientError, match="expected a URL"):
        async with open_server("ftp://127.0.0.1"):
            pass


JUDGED = """
from ors_server import TextBlock, ToolOutput, llm_judge_reward, tool
from tests.fixtures.single_task import SingleTask

class Judged(SingleTask):
    name = "judged"
    reward = llm_judge_reward

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        \"\"\"Ends the episode.\"\"\"
        return ToolOutput(blocks=[TextBlock(text="noted")], finished=True)
"""


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """An environment that asks a judge, which is not configured."""
    monkeypatch.delenv("ORS_JUDGE_BASE_URL", raising=False)
    file = tmp_path / "judged.py"
    file.write_text(JUDGED)
    return str(file)


def test_a_judge_that_is_not_configured_is_named_by_call_and_has_status_1(run, judged):
    ran = run("call", judged, "submit", '{"answer": "x"}')
    assert ran.status == 1
    assert "reward none, status: error, reason: " in ran.out
    assert "set ORS_JUDGE_BASE_URL" in ran.out
    as_json = run("call", judged, "submit", '{"answer": "x"}', "--json")
    assert as_json.status == 1
    assert as_json.json["output"]["metadata"]["reward_status"] == "error"


def test_a_judge_that_is_not_configured_is_named_by_play_and_has_status_1(run, typed, judged):
    typed('submit {"answer": "x"}')
    ran = run("play", judged)
    assert ran.status == 1
    assert "set ORS_JUDGE_BASE_URL" in ran.out
    typed(":quit")
    assert run("play", judged).status == 0


BARE = """
from ors_server import tool
from tests.fixtures.single_task import SingleTask

class Bare(SingleTask):
    name = "bare"

    @tool
    def bash(self, command: str | None = None, time_limit: float | None = None, restart: bool = False) -> str:
        \"\"\"Runs.\"\"\"
        return f"ran {command}"

    @tool
    def submit(self, answer: str, note: str = "") -> str:
        \"\"\"Submits.\"\"\"
        return f"submitted {answer}"

    @tool
    def add(self, left: int, right: int) -> str:
        \"\"\"Adds.\"\"\"
        return str(left + right)
"""


def test_a_tool_with_one_text_is_played_with_that_text(run, typed, tmp_path):
    file = tmp_path / "bare.py"
    file.write_text(BARE)
    typed("bash ls -la", "submit 42", 'bash {"command": "pwd"}', "add 1 2")
    shown = run("play", str(file)).out
    assert "ran ls -la\n" in shown
    assert "submitted 42\n" in shown
    assert "ran pwd\n" in shown
    assert "! the arguments are not JSON" in shown


def test_call_takes_the_options_of_a_data_file_that_its_error_recommends(run, tmp_path):
    data = tmp_path / "train.jsonl"
    data.write_text('{"question": "2 + 2?", "answer": "4"}\n')
    options = ("--prompt", "question", "--answer", "answer", "--reward", "math_equal_reward")
    refused = run("call", str(data), "submit", '{"answer": "4"}')
    assert " ".join(options) in refused.err
    ran = run("call", str(data), "submit", '{"answer": "4"}', *options)
    assert ran.out.endswith("reward 1, finished\n")
    assert run("call", "http://127.0.0.1:1", "submit", *options).status == 2
