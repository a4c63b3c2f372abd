"""`ors-server report` and `ors-server compare`, over folders of runs."""

from dataclasses import replace

import pytest

from ors_server.evaluation.folder import RunFolder
from ors_server.evaluation.run_comparison import COMPARISON
from ors_server.evaluation.run_results import RunResults
from ors_server.evaluation.summary import SUMMARY
from tests.fixtures.made_runs import make_lively, make_outcome


@pytest.fixture
def kept(tmp_path):
    """Writes a run to a folder of its own."""

    def keep(outcome):
        path = tmp_path / outcome.runs[0].run_id
        with RunFolder(path) as folder:
            folder.begin(outcome.runs[0])
            for attempt in outcome.attempts:
                folder.append(attempt)
        return str(path)

    return keep


def test_a_report_is_a_table_with_remarks(run, kept):
    ran = run("report", kept(make_outcome([[1.0, 0.0], [None, 1.0]])), "--resamples", "200")
    assert (ran.status, ran.err) == (0, "")
    assert "75.0 %" in ran.out
    assert "1 attempt errored and is in no mean" in ran.out
    *_, how, failed = ran.out.splitlines()
    assert how == "95 % intervals clustered by task; 200 resamples, seed 0"
    assert failed == "1 of 4 attempts failed: the endpoint answered 500; first at test/1, attempt 1"


def test_each_task_has_a_row_if_it_is_wanted(run, kept):
    ran = run("report", kept(make_outcome([[1.0, 0.0], [None, 1.0]])), "--tasks", "--resamples", "200")
    rows = [line.split() for line in ran.out.splitlines()[:3]]
    assert rows[0][:4] == ["task", "counted", "successes", "reward"]
    assert rows[1][:4] == ["test/0", "2", "1", "0.5"]
    assert rows[2][:4] == ["test/1", "1", "1", "1"]
    assert rows[2][-3:] == ["3", "1", "0"]


def test_json_is_the_whole_summary(run, kept):
    ran = run("report", kept(make_lively(4, 2)), "--json", "--resamples", "100", "--seed", "3")
    summary = SUMMARY.of_json(ran.json)
    assert (summary.overall.counts.recorded, summary.reading.resampling.seed) == (8, 3)


def test_success_and_over_budget_are_read_as_told(run, kept):
    path = kept(make_outcome([[0.5, 0.7]]))
    ran = run("report", path, "--json", "--success-at", "0.6", "--without-over-budget", "--confidence", "0.9")
    reading = SUMMARY.of_json(ran.json).reading
    assert (reading.success_at, reading.over_budget, reading.resampling.confidence) == (0.6, False, 0.9)
    assert ran.json["overall"]["success_rate"]["value"] == 0.5


def test_several_folders_are_summed_up_together(run, kept):
    folders = [kept(make_outcome([[1.0]])), kept(make_outcome([[0.0]], run_id="run-b", split="train"))]
    ran = run("report", *folders, "--json", "--resamples", "100")
    assert set(ran.json["splits"]) == {"test", "train"}


def test_runs_of_two_agents_are_rows_and_not_summed_up(run, kept):
    outcome = make_outcome([[0.0]], run_id="run-b")
    agents = [{"kind": "openai", "name": "small"}, {"kind": "openai", "name": "small", "temperature": 0.5}]
    runs = [replace(outcome.runs[0], agent=agent, run_id=f"run-{n}") for n, agent in enumerate(agents)]
    folders = [kept(RunResults((one,), ())) for one in runs]
    ran = run("report", kept(make_outcome([[1.0]])), folders[0])
    assert [line.split("  ")[0] for line in ran.out.splitlines()[:3]] == [
        "agent",
        "openai · little-model",
        "openai · small",
    ]
    assert "openai · small in math_word_problems: 1 of 1 planned attempt is not recorded" in ran.out
    ran = run("report", *folders)
    assert "openai · small (temperature=None)" in ran.out
    assert "openai · small (temperature=0.5)" in ran.out


def test_runs_of_two_environments_are_columns(run, kept):
    outcome = make_outcome([[0.0]])
    other = replace(outcome.runs[0], environment="other", run_id="run-b")
    ran = run("report", kept(outcome), kept(RunResults((other,), ())))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[0].split() == ["agent", "math_word_problems", "other"]


def test_a_page_is_written_beside_what_is_printed(run, kept, tmp_path):
    page = tmp_path / "page.html"
    ran = run("report", kept(make_lively(4, 2)), "--html", str(page), "--resamples", "100")
    assert ran.out.endswith(f"report in {page}\n")
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_two_runs_are_compared(run, kept, tmp_path):
    page = tmp_path / "page.html"
    first, second = kept(make_lively(9, 2)), kept(make_lively(9, 2, seed=2, skill=0.4, run_id="run-b"))
    ran = run("compare", first, second, "--html", str(page), "--resamples", "200")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.split()[:4] == ["first", "second", "difference", "interval"]
    assert "of 9 matched tasks the second run does" in ran.out
    assert "Comparison" in page.read_text("utf-8")
    ran = run("compare", first, second, "--json", "--resamples", "200")
    assert COMPARISON.of_json(ran.json).matched == 9


def test_runs_that_are_alike_list_no_tasks(run, kept):
    first, second = kept(make_outcome([[1.0]])), kept(make_outcome([[1.0]], run_id="run-b"))
    assert "test/0" not in run("compare", first, second).out


def test_what_is_no_run_is_a_misuse(run, tmp_path):
    ran = run("report", str(tmp_path))
    assert ran.status == 2
    assert "is not the folder of a run" in ran.err


def test_runs_that_have_nothing_in_common_are_a_misuse(run, kept):
    first = kept(make_outcome([[1.0]]))
    ran = run("compare", first, kept(make_outcome([[1.0]], run_id="run-b", environment="qa")))
    assert ran.status == 2
    assert "only runs of one environment can be compared" in ran.err


def test_a_confidence_that_is_none_is_a_misuse(run, kept):
    ran = run("report", kept(make_outcome([[1.0]])), "--confidence", "95")
    assert ran.status == 2
    assert "--confidence lies between 0 and 1, such as 0.95; it is 95" in ran.err
