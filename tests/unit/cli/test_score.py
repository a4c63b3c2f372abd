"""`score` and `rewards`, as a person or a script uses them."""

import io
import json
import os
import pty
import re
import signal
import subprocess

import pytest

from ors_server.cli.score_command import MAX_EXTRAS, ScoreSummary
from ors_server.rewards.catalogue import list_rewards
from ors_server.rewards.result import RewardResult, RewardStatus
from tests.unit.cli.conftest import COMMAND, start_command

LIMIT = 60
REWARDS = '''
import os, sys, threading


def half(answer, weight=1.0):
    """Pays half."""
    return {"reward": answer * weight, "twice": 2 * answer, "odd": float("nan")}


def stuck(answer):
    if answer == 1:
        threading.Event().wait()
    return answer


def mortal(answer):
    if answer == 1:
        os._exit(3)
    return answer


def longest(rollouts):
    most = max(len(one.final_response) for one in rollouts)
    return [float(len(one.final_response) == most) for one in rollouts]


def announced(folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    print("noise on standard output")
    threading.Event().wait()
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with rewards, where commands run."""
    (tmp_path / "mine.py").write_text(REWARDS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rows(here):
    def write(*rows):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (here / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return "rows.jsonl"

    return write


def started(*words, **options):
    return start_command("score", *words, **options)


def test_one_object_per_row_in_order(run, rows):
    file = rows({"answer": 0.25}, {"answer": 0.5})
    ran = run("score", file, "--reward", "mine.py:half", "--json", "--jobs", "1")
    assert (ran.status, ran.err) == (0, "")
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {"reward": 0.25, "status": "graded", "extras": {"twice": 0.5, "odd": None}},
        {"reward": 0.5, "status": "graded", "extras": {"twice": 1.0, "odd": None}},
    ]


def test_a_summary_has_figures_of_rewards_statuses_and_extras(run, rows):
    file = rows({"answer": 0.25}, {"answer": 0.75}, "no json")
    ran = run("score", file, "--reward", "mine.py:half", "--jobs", "1")
    assert ran.status == 1
    shown = [line.split() for line in ran.out.splitlines()]
    assert ["reward", "3", "0.5000", "0.25", "0.75"] in shown
    assert ["graded", "2"] in shown
    assert ["error", "1"] in shown
    assert ["extra", "twice", "2", "1.0000", "0.5", "1.5"] in shown
    assert "1 of 3 rows could not be judged" in ran.err
    assert "line 3 is not valid JSON" in ran.err


def test_a_row_that_cannot_be_read_is_an_error_of_its_own_line(run, rows):
    file = rows(
        {"answer": 1},
        '{"answer": NaN}',
        "",
        "[1]",
        '{"answer": 1e999}',
        "[" * 100_000,
        '{"answer": "\udcff"}'.encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
        {"answer": 2},
    )
    ran = run("score", file, "--reward", "mine.py:half", "--json", "--jobs", "1")
    results = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.status == 1
    assert [result["reward"] for result in results] == [1.0, None, None, None, None, None, 2.0]
    assert [set(result) for result in results[1:5]] == [{"reward", "status", "extras", "reason"}] * 4
    for result, line in zip(results[1:5], (2, 4, 5, 6), strict=True):
        assert re.match(f"line {line} is not (valid JSON|a JSON object)", result["reason"])
    assert "5 of 7 rows could not be judged" in ran.err


def test_bytes_that_are_no_text_are_an_error_of_their_own_line(run, here):
    (here / "rows.jsonl").write_bytes(b'{"answer": 1}\n{"answer": "\xff\xfe"}\n\x00\n{"answer": 3}')
    ran = run("score", "rows.jsonl", "--reward", "mine.py:half", "--json", "--jobs", "1")
    assert [json.loads(line)["reward"] for line in ran.out.splitlines()] == [1.0, None, None, 3.0]


def test_options_hold_for_every_row(run, rows):
    file = rows({"answer": 1}, {"answer": 1, "weight": 7})
    ran = run("score", file, "--reward", "mine.py:half", "--option", "weight=0.5", "--json")
    assert [json.loads(line)["reward"] for line in ran.out.splitlines()] == [0.5, 0.5]


def test_groups_of_rows_are_judged_together(run, rows):
    file = rows(*({"task": task, "final_response": text} for task, text in ((1, "a"), (1, "bb"), (2, "c"))))
    ran = run("score", file, "--reward", "mine.py:longest", "--group-by", "task", "--json", "--jobs", "1")
    assert (ran.status, ran.err) == (0, "")
    assert [json.loads(line)["reward"] for line in ran.out.splitlines()] == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("rows.jsonl",), "--reward"),
        (("rows.jsonl", "--reward", "nope"), "unknown reward 'nope'"),
        (("rows.jsonl", "--reward", "mine.py:nope"), "'mine.py:nope' cannot be loaded"),
        (("rows.jsonl", "--reward", "mine.py:half", "--option", "wait=1"), "has no option wait"),
        (("rows.jsonl", "--reward", "mine.py:half", "--option", "weight=x"), "KEY=VALUE"),
        (("rows.jsonl", "--reward", "mine.py:half", "--option", "weight=NaN"), "JSON types"),
        (("rows.jsonl", "--reward", "mine.py:half", "--time-limit", "0"), "more than 0"),
        (("nowhere.jsonl", "--reward", "mine.py:half"), "nowhere.jsonl cannot be read"),
        ((".", "--reward", "mine.py:half"), "is a folder"),
    ],
)
def test_a_command_that_makes_no_sense_has_status_2(run, rows, words, complaint):
    rows({"answer": 1})
    ran = run("score", *words)
    assert (ran.status, ran.out) == (2, "")
    assert complaint in ran.err


def test_a_row_that_takes_too_long_or_ends_its_worker_is_alone(run, rows):
    file = rows({"answer": 0}, {"answer": 1}, {"answer": 2})
    words = ("--json", "--jobs", "1", "--time-limit", "1")
    ran = run("score", file, "--reward", "mine.py:stuck", *words)
    results = [json.loads(line) for line in ran.out.splitlines()]
    judged = [(result["reward"], result["status"]) for result in results]
    assert judged == [(0.0, "graded"), (None, "limit"), (2.0, "graded")]
    assert "1 workers were replaced" in ran.err
    ran = run("score", file, "--reward", "mine.py:mortal", *words)
    results = [json.loads(line) for line in ran.out.splitlines()]
    assert [result["status"] for result in results] == ["graded", "error", "graded"]
    assert "line 2: " in results[1]["reason"]
    assert "exit status 3" in results[1]["reason"]


def test_an_empty_file_has_no_mean(run, rows):
    ran = run("score", rows(), "--reward", "mine.py:half")
    assert ran.status == 0
    assert ["reward", "0", "none", "none", "none"] in [line.split() for line in ran.out.splitlines()]
    assert run("score", rows(), "--reward", "mine.py:half", "--json").out == ""


def test_a_result_leaves_before_the_next_row_comes(here):
    scoring = started("-", "--reward", "mine.py:half", "--json", "--jobs", "1", stdin=subprocess.PIPE)
    for answer in (0.5, 0.25):
        scoring.stdin.write(json.dumps({"answer": answer}) + "\n")
        scoring.stdin.flush()
        assert json.loads(scoring.stdout.readline())["reward"] == answer
    out, err = scoring.communicate(timeout=LIMIT)
    assert (out, err, scoring.returncode) == ("", "", 0)


def test_a_reader_that_goes_away_is_no_complaint(here, rows):
    file = rows(*({"answer": number} for number in range(5000)))
    scoring = started(file, "--reward", "mine.py:half", "--json", "--jobs", "1")
    assert json.loads(scoring.stdout.readline())["reward"] == 0.0
    scoring.stdout.close()
    scoring.stdout = io.StringIO()
    assert scoring.wait(LIMIT) == 141
    assert scoring.stderr.read() == ""
    scoring.stderr.close()


@pytest.mark.parametrize(
    ("how", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_workers_end_with_the_command(here, rows, how, status):
    (here / "pids").mkdir()
    file = rows(*({"folder": str(here / "pids")} for _ in range(2)))
    scoring = started(file, "--reward", "mine.py:announced", "--json", "--jobs", "2")
    seen = ""
    while seen.count("noise") < 2 or seen.count("\n") < 2:  # one line of each worker, which may be mixed
        line = scoring.stderr.readline()
        assert line, seen
        seen += line
    scoring.send_signal(how)
    out, err = scoring.communicate(timeout=LIMIT)  # the end of its standard error, which the workers share
    assert (out, err, scoring.returncode) == ("", "", status)
    assert len(list((here / "pids").iterdir())) == 2


def test_a_terminal_sees_the_running_mean(here, rows):
    file = rows({"answer": 0.25}, {"answer": 0.75})
    ours, theirs = pty.openpty()
    words = [*COMMAND, "score", file, "--reward", "mine.py:half", "--jobs", "1"]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, env=environ) as scoring:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:  # the other end is closed
            pass
        out = scoring.stdout.read().decode()
    os.close(ours)
    assert scoring.returncode == 0
    assert b"mean 0.5000" in seen
    assert b"2/2" in seen
    assert "reward" in out


def test_a_summary_takes_no_more_room_for_more_rows():
    summary = ScoreSummary()
    for number in range(1000):
        summary.add(RewardResult(1.0, extras={f"key {number}": 1.0, "text": "not summed"}))
        summary.add(RewardResult.without(RewardStatus.ERROR, f"reason {number}"))
    assert len(summary.extras) == MAX_EXTRAS
    assert len(summary.reasons) == 5
    assert (summary.rows, summary.unjudged) == (2000, 1000)


def test_all_rewards_are_listed_one_line_each(run):
    entries = list(list_rewards())
    lines = run("rewards").out.splitlines()[1:]
    assert len(lines) == len(entries)
    for entry, line in zip(entries, lines, strict=True):
        assert line.startswith(f"{entry.name} ")
        assert entry.summary in line
    listed = run("rewards", "--json").json
    assert [one["name"] for one in listed] == [entry.name for entry in entries]
    (f1,) = [one for one in listed if one["name"] == "qa_f1_reward"]
    assert f1["range"] == [0.0, 1.0]
    assert (f1["required"], f1["optional"]) == (["answer", "final_response"], ["answer_from", "denials"])
    (matched,) = [one for one in listed if one["name"] == "answer_match_reward"]
    assert (matched["required"], matched["optional"]) == (["trajectory"], ["match"])


def test_one_reward_is_shown_in_full(run, here):
    shown = run("rewards", "task_success").out
    assert shown.startswith("task_success [0, 1]\ntakes trajectory, [match]\n\nJudges by the first signal")
    assert "Hazard" in shown
    assert run("rewards", "mine.py:half", "--json").json == {
        "name": "half",
        "range": None,
        "required": ["answer"],
        "optional": ["weight"],
        "documentation": "Pays half.",
    }
    assert "takes trajectory" in run("rewards", "LearnedReward").out


def test_an_unknown_reward_has_status_2_and_one_line(run):
    ran = run("rewards", "nope")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("ors-server: unknown reward 'nope'")
