"""What is written of a run can be read again, whatever a crash left of it."""

from dataclasses import replace

import pytest

from ors_server.evaluation.folder import RunFolder, read_attempts, read_run, whole_length
from ors_server.evaluation.runs import ATTEMPT, RUN, Attempt, AttemptStatus
from ors_server.model.errors import RecordError
from tests.fixtures.evaluation_plays import BEGUN, make_run

DONE = Attempt(
    run_id="run-1",
    environment="guessing",
    split="test",
    index=0,
    task_hash="ab",
    attempt=1,
    seed=5,
    status=AttemptStatus.DONE,
    started_at=BEGUN,
    seconds=0.5,
    episode_return=0.1 + 0.2,
    success=False,
    tokens_in=3,
    cost=0.25,
    metrics={"reward_extra/x/mean": 1.0},
)
ERRORED = replace(
    DONE, attempt=2, status=AttemptStatus.ERRORED, episode_return=None, success=None, error="it broke"
)


@pytest.mark.parametrize("attempt", [DONE, ERRORED], ids=["done", "errored"])
def test_an_attempt_is_read_as_it_was_written(attempt):
    assert ATTEMPT.read(ATTEMPT.write(attempt)) == attempt


def test_a_run_is_read_as_it_was_written():
    run = make_run(
        config={"options": {"policy": {"step_limit": 3}}}, versions={"ors-server": "1"}, ended_at=BEGUN
    )
    assert RUN.read(RUN.write(run)) == run
    assert run.planned == 6


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"episode_return": None}, id="done without a return"),
        pytest.param({"error": "odd"}, id="done with an error"),
        pytest.param({"success": None}, id="done without a verdict"),
        pytest.param({"episode_return": float("nan")}, id="not a number"),
        pytest.param({"seconds": float("inf")}, id="endless"),
        pytest.param({"status": AttemptStatus.ERRORED}, id="errored with a return"),
    ],
)
def test_an_attempt_that_contradicts_itself_cannot_be_made(changes):
    with pytest.raises(ValueError, match=r"attempt"):
        replace(DONE, **changes)


def test_attempts_stand_in_the_order_in_which_they_were_written(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.begin(make_run())
    assert list(read_attempts(folder.path)) == []
    with folder:
        folder.append(DONE)
        folder.append(ERRORED)
        assert list(read_attempts(folder.path)) == [DONE, ERRORED]
    assert read_run(folder.path) == make_run()


def test_the_options_of_a_run_of_an_older_version_are_found_under_their_new_name(tmp_path):
    RunFolder(tmp_path).begin(make_run(config={"wish": {"seed": 1}, "other": 2}))
    assert read_run(tmp_path).config == {"options": {"seed": 1}, "other": 2}


def test_half_a_line_is_passed_over_and_cut_off_by_whoever_goes_on(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(make_run())
    with folder:
        folder.append(DONE)
        with pytest.raises(RecordError, match="another process"), RunFolder(tmp_path):
            pass
    lines = tmp_path / "attempts.jsonl"
    whole = lines.read_bytes()
    lines.write_bytes(whole + whole[:40])
    assert list(read_attempts(tmp_path)) == [DONE]
    with RunFolder(tmp_path) as again:
        again.append(ERRORED)
    assert list(read_attempts(tmp_path)) == [DONE, ERRORED]


def test_a_line_that_is_no_attempt_is_named(tmp_path):
    (tmp_path / "attempts.jsonl").write_bytes(ATTEMPT.write(DONE) + b"\n{}\n")
    with pytest.raises(RecordError, match=r"attempts.jsonl, line 2"):
        list(read_attempts(tmp_path))


def test_a_folder_that_holds_a_run_takes_no_other(tmp_path):
    RunFolder(tmp_path).begin(make_run())
    with pytest.raises(RecordError, match="resume it"):
        RunFolder(tmp_path).begin(make_run(run_id="run-2"))
    assert read_run(tmp_path).run_id == "run-1"


def test_a_run_is_written_anew_without_a_trace_of_the_draft(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(make_run())
    folder.write(make_run(stop_reason="cost_budget"))
    assert read_run(tmp_path).stop_reason == "cost_budget"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_what_is_no_folder_of_a_run_is_refused(tmp_path):
    with pytest.raises(RecordError, match="not the folder of a run"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "run.json").write_bytes(RUN.write(make_run(form=99)))
    with pytest.raises(RecordError, match="form 99"):
        read_run(tmp_path)


def test_the_length_of_whole_lines_is_found_across_the_pieces_of_a_large_file(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 2**20 + b"\n" + b"y" * (2**21))
    assert whole_length(path) == 2**20 + 1
    path.write_bytes(b"no line")
    assert whole_length(path) == 0


def test_only_the_owner_reads_the_folder_of_a_run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.begin(make_run())
    with folder:
        folder.append(DONE)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {
        "run.json": 0o600,
        "attempts.jsonl": 0o600,
    }
