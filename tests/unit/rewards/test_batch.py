"""Batches: order, limits, what a reward may do to its process, and how far ahead rows are read."""

import json
import os
import subprocess
import sys
import threading

import anyio
import pytest

from ors_server.processes.host_processes import read_stat
from ors_server.rewards.batch import batch_rows
from ors_server.rewards.batch.batch_pool import LOOK_AHEAD
from ors_server.rewards.batch.batch_rows import LineSource
from ors_server.rewards.batch.batch_scorer import BatchScorer, ascore_rows, count_cores, score_rows
from ors_server.rewards.batch.batch_worker import MAX_RESULT, read_fields, write_result
from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.reading.plain_json import plain
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import BatchError, RewardFieldError
from ors_server.rewards.scoring import MAX_REASON, score

HOG = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
REWARDS = '''
import os, signal, subprocess, sys, threading, time
import anyio

waiting = []
DAEMON = "import os, signal\\nif not os.fork():\\n os.setsid()\\n if not os.fork():\\n  signal.pause()"


def number(answer, unit=1.0):
    return {"reward": answer * unit, "pid": os.getpid()}


def trouble(kind, fifo="", core=None):
    if kind == "computes":
        os.sched_setaffinity(0, {core})
        began, spent = time.monotonic(), time.process_time()
        while time.process_time() - spent < 0.7:
            pass
        return {"reward": 1.0, "wall": time.monotonic() - began}
    if kind == "spins":
        os.sched_setaffinity(0, {core})
        while True:
            pass
    if kind == "stuck":
        threading.Event().wait()
    if kind == "slow":
        threading.Event().wait(0.3)
    if kind == "dies":
        os._exit(3)
    if kind == "killed":
        os.kill(os.getpid(), 9)
    if kind == "exits":
        sys.exit(0)
    if kind == "family":
        subprocess.Popen(["sleep", "1000"], stdout=open(fifo, "w"))
        threading.Event().wait()
    if kind == "daemon":
        subprocess.Popen([sys.executable, "-S", "-c", DAEMON], stdout=open(fifo, "w")).wait()
        threading.Event().wait()
    if kind == "holds up":  # its owner, for longer than the limit
        os.kill(os.getppid(), signal.SIGSTOP)
        time.sleep(1.3)
        os.kill(os.getppid(), signal.SIGCONT)
        time.sleep(0.3)
    if kind == "stops later":
        subprocess.Popen(["sh", "-c", f"sleep 0.1; kill -STOP {os.getpid()}"])
    if kind == "huge":
        return {"reward": 1, "text": "x" * 2**21}
    if kind == "reads":
        return len(input())
    if kind == "deep":
        return deep()
    return 1.0


def deep():
    return deep()


async def together(wanted):
    """Judges only once so many are being judged."""
    event = anyio.Event()
    waiting.append(event)
    if len(waiting) >= wanted:
        for one in waiting:
            one.set()
    await event.wait()
    return 1.0


async def mixed(kind):
    if kind == "slow":
        await anyio.sleep_forever()
    if kind == "stuck":
        threading.Event().wait()
    if kind == "dies":
        os._exit(9)
    return 1.0
'''


@pytest.fixture
def mine(tmp_path):
    """Spells the place of a reward in a file."""
    (tmp_path / "mine.py").write_text(REWARDS)
    return lambda name: f"{tmp_path / 'mine.py'}:{name}"


def statuses(results):
    return [result.status.value for result in results]


def test_results_are_those_of_single_judgements_in_order():
    rows = [
        {"trajectory": {"outcome": f"Rome {number}", "metadata": {"expected": f"rome {number % 7}"}}}
        for number in range(300)
    ]
    alone = [score(find_reward("answer_match_reward"), **row) for row in rows]
    assert len({result.reward for result in alone}) > 1
    assert list(score_rows("answer_match_reward", rows, jobs=2)) == alone


def test_a_trajectory_is_a_field_like_others():
    rows = [{"trajectory": {"outcome": "14", "metadata": {"expected": "4"}}}]
    assert [result.reward for result in score_rows("task_success", rows, jobs=1)] == [1.0]
    exact = score_rows("task_success", rows, jobs=1, keywords={"match": "exact"})
    assert [result.reward for result in exact] == [0.0]


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("stuck", "limit", "row 2: it was not judged within 1 seconds"),
        ("dies", "error", "row 2: the worker that judged it ended with exit status 3"),
        ("killed", "error", "signal SIGKILL, perhaps because memory ran out"),
        ("exits", "error", "tried to end the program"),
        ("reads", "error", "EOFError"),
        ("deep", "error", "RecursionError"),
    ],
)
def test_whatever_a_row_does_it_is_alone_with_it(mine, kind, status, reason):
    rows = [{"kind": "fine"}, {"kind": kind}, {"kind": "fine"}, {"kind": "fine"}]
    results = list(score_rows(mine("trouble"), rows, jobs=1, time_limit=1.0))
    assert statuses(results) == ["graded", status, "graded", "graded"]
    assert results[1].reward is None
    assert reason in (results[1].reason or "")


@pytest.mark.parametrize(("kind", "status"), [("dies", "error"), ("stuck", "limit")])
def test_the_row_that_is_judged_is_blamed_and_not_one_before_it_whose_result_is_not_out_yet(
    mine, kind, status
):
    rows = [{"kind": "fine"}] * 300
    for place in (37, 211):
        rows[place] = {"kind": kind}
    results = list(score_rows(mine("trouble"), rows, jobs=1, time_limit=1.0))
    assert [place for place, result in enumerate(results) if result.reward is None] == [37, 211]
    assert {results[37].status.value, results[211].status.value} == {status}


def test_a_row_is_not_blamed_before_it_was_begun(mine):
    with BatchScorer(mine("trouble"), jobs=1, time_limit=1.0) as scorer:
        first = list(scorer.score([{"kind": "stops later"}]))
        [worker] = scorer._pool._workers
        while read_stat(str(worker.child.pid))[0] != b"T":  # until it is stopped while it waits for rows
            threading.Event().wait(0.01)
        second = list(scorer.score([{"kind": "fine"}]))
    assert statuses(first + second) == ["graded", "graded"]


HELD_UP = """
import sys
from ors_server.rewards.batch.batch_scorer import score_rows

[result] = score_rows(sys.argv[1], [{"kind": "holds up"}], jobs=1, time_limit=1.0)
print(result.status.value)
"""


def test_the_time_limit_does_not_run_while_the_machine_stands_still(mine):
    run = subprocess.run(
        [sys.executable, "-c", HELD_UP, mine("trouble")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout == "graded\n"


def test_the_time_limit_is_for_one_row_not_for_those_before_it(mine):
    rows = [{"kind": "fine"}] * 100 + [{"kind": "slow"}] * 8  # which wait behind one another
    results = list(score_rows(mine("trouble"), rows, jobs=1, time_limit=2.0))
    assert statuses(results) == ["graded"] * 108


@pytest.fixture
def busy_core():
    core = min(os.sched_getaffinity(0))
    # Beside it, a row needs more than its limit of a second to compute for 0.7 seconds.
    with subprocess.Popen([sys.executable, "-c", HOG, str(core)]) as hog:
        yield core
        hog.kill()


def test_time_in_which_a_row_gets_no_processor_counts_against_nothing(mine, busy_core):
    rows = [{"kind": "computes", "core": busy_core}] * 2
    results = list(score_rows(mine("trouble"), rows, jobs=1, time_limit=1.0))
    assert statuses(results) == ["graded"] * 2
    assert max(result.extras["wall"] for result in results) > 1.0, "the machine was not busy enough to tell"


def test_a_row_that_computes_for_ever_is_ended_on_a_busy_machine_too(mine, busy_core):
    rows = [{"kind": "spins", "core": busy_core}, {"kind": "fine"}]
    assert statuses(score_rows(mine("trouble"), rows, jobs=1, time_limit=0.5)) == ["limit", "graded"]


@pytest.mark.parametrize("kind", ["family", "daemon"])
def test_what_a_reward_started_ends_with_its_worker(mine, tmp_path, kind):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    (result,) = score_rows(mine("trouble"), [{"kind": kind, "fifo": str(fifo)}], time_limit=0.5)
    assert result.status is RewardStatus.LIMIT
    reader.join(20)
    assert read == [b""]


def test_no_more_rows_are_taken_than_the_bound_while_one_is_stuck(mine):
    taken = 0

    def rows():
        nonlocal taken
        for number in range(3 * LOOK_AHEAD):
            taken += 1
            yield {"kind": "stuck" if number == 0 else "fine"}

    results = score_rows(mine("trouble"), rows(), jobs=2, time_limit=5.0)  # of which the others need nothing
    assert next(results).status is RewardStatus.LIMIT
    assert 1 < taken <= LOOK_AHEAD
    assert statuses(results) == ["graded"] * (3 * LOOK_AHEAD - 1)
    assert taken == 3 * LOOK_AHEAD


def test_a_row_that_is_not_json_is_an_error_and_the_others_go_on(mine):
    rows = [{"answer": 1.0}, {"answer": float("nan")}, {"answer": {1}}, {}, {"answer": 2.0}]
    results = list(score_rows(mine("number"), rows, jobs=1))
    assert [result.reward for result in results] == [1.0, None, None, None, 2.0]
    assert results[1].reason.startswith("row 2 cannot be written as JSON")
    assert "needs answer" in (results[3].reason or "")


def test_workers_are_kept_from_batch_to_batch(mine):
    with BatchScorer(mine("number"), jobs=1, keywords={"unit": 0.5}) as scorer:
        first, second = (list(scorer.score([{"answer": 2, "unit": 9}])) for _ in range(2))
        abandoned = scorer.score([{"answer": 1}] * 10)
        next(abandoned)
        third = list(scorer.score([{"answer": 4}]))
    assert [first[0].reward, second[0].reward, third[0].reward] == [1.0, 1.0, 2.0]
    assert first[0].extras["pid"] == second[0].extras["pid"]


def test_an_abandoned_batch_ends_its_workers(mine):
    with BatchScorer(mine("trouble"), jobs=2) as scorer:
        results = scorer.score([{"kind": "fine"}, {"kind": "stuck"}, {"kind": "stuck"}])
        assert next(results).reward == 1.0
        processes = [worker.child._process for worker in scorer._pool._workers]
        results.close()
        assert all(worker.child.is_alive() for worker in scorer._pool._workers)
    assert processes
    assert all(process.returncode is not None for process in processes)


def test_a_cancelled_batch_ends_its_workers(mine):
    async def judge(scorer):
        with anyio.move_on_after(2.0) as scope:
            async for _ in scorer.ascore([{"kind": "stuck"}]):
                pass
        return scope.cancelled_caught

    with BatchScorer(mine("trouble"), jobs=1) as scorer:
        assert anyio.run(judge, scorer)
        assert [worker for worker in scorer._pool._workers if worker.queue] == []


def test_an_async_reward_judges_many_rows_at_once_in_one_worker(mine):
    rows = [{"wanted": 4}] * 8
    results = list(score_rows(mine("together"), rows, jobs=1, concurrency=4, time_limit=20))
    assert statuses(results) == ["graded"] * 8


def test_an_async_row_that_blocks_or_ends_its_worker_is_found_among_the_others(mine):
    kinds = ["fine", "slow", "dies", "fine", "stuck", "fine"]
    results = list(score_rows(mine("mixed"), [{"kind": kind} for kind in kinds], jobs=1, time_limit=0.8))
    assert statuses(results) == ["graded", "limit", "error", "graded", "limit", "graded"]
    assert "row 3" in (results[2].reason or "")
    assert "row 5" in (results[4].reason or "")


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("nope", "unknown reward"),
        ("{file}:nope", "cannot be loaded"),
        ("{raising}:f", "ZeroDivisionError"),
        ("{ending}:f", "ended with exit status 4 before it could judge"),
    ],
)
def test_a_batch_whose_workers_cannot_start_is_refused(tmp_path, place, complaint):
    files = {name: tmp_path / f"{name}.py" for name in ("file", "raising", "ending")}
    files["file"].write_text("")
    files["raising"].write_text("1 / 0")
    files["ending"].write_text("import os; os._exit(4)")
    with pytest.raises(BatchError, match=complaint):
        list(score_rows(place.format(**files), [{}], jobs=2))


@pytest.mark.parametrize(
    "options",
    [
        {"jobs": 0},
        {"time_limit": 0},
        {"concurrency": 0},
        {"keywords": {"unit": {1}}},
        {"keywords": {"no": 1}},
    ],
)
def test_options_that_make_no_sense_are_refused(mine, options):
    with pytest.raises(BatchError):
        list(score_rows(mine("number"), [{"answer": 1}], **options))


def test_a_result_that_is_too_large_keeps_its_reward(mine):
    (result,) = score_rows(mine("trouble"), [{"kind": "huge"}], jobs=1)
    assert result.reward == 1.0
    assert list(result.extras) == ["extras_left_out"]
    line = write_result(RewardResult.without(RewardStatus.ERROR, "x" * MAX_RESULT))
    assert len(json.loads(line)["reason"]) == MAX_REASON


def test_extras_become_json():
    deep: list = []
    deep.append(deep)
    given = {"nan": float("nan"), "bytes": b"x", "pair": (1, True), 3: None, "set": {1}, "inf": -float("inf")}
    shown = {"nan": None, "bytes": "b'x'", "pair": [1, True], "3": None, "set": "{1}", "inf": None}
    assert plain(given) == shown
    assert json.loads(json.dumps(plain(deep)))
    assert len(plain(object)) < MAX_REASON


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1]", b"null", b'{"a": NaN}', b'{"a": -1e999}', b'{"a": "\xff"}']
)
def test_a_row_is_a_json_object(text):
    with pytest.raises(RewardFieldError, match=r"^line 7 is not (valid JSON|a JSON object)"):
        read_fields(text, b"line 7")


def test_lines_are_read_across_pieces_and_long_ones_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_rows, "MAX_ROW", 100)
    monkeypatch.setattr(batch_rows, "_PIECE", 7)
    file = tmp_path / "rows"
    file.write_bytes(b'{"a": 1}\n  \n' + b"x" * 1000 + b"\n" + b'{"b": "' + b"y" * 80 + b'"}')
    with file.open("rb") as opened:
        source = LineSource(opened.fileno())
        rows = []
        while (row := source.take()) is not None:
            rows.append(row)
    assert source.is_exhausted
    assert [(row.where, row.text) for row in rows] == [
        ("line 1", b'{"a": 1}'),
        ("line 3", None),
        ("line 4", b'{"b": "' + b"y" * 80 + b'"}'),
    ]
    assert rows[1].fault == "line 3 is longer than 100 bytes"


def test_a_reward_that_is_handed_over_is_asked_in_this_process():
    seen: list[int] = []

    def judge(answer, weight=1.0):
        seen.append(answer)
        return answer * weight

    rows = [{"answer": 1}, {}, {"answer": 3}]
    results = list(score_rows(judge, rows, keywords={"weight": 2.0}))
    assert [result.reward for result in results] == [2.0, None, 6.0]
    assert seen == [1, 3]


def test_an_async_reward_that_is_handed_over_judges_many_at_once():
    waiting: list[anyio.Event] = []

    async def together(wanted):
        waiting.append(anyio.Event())
        if len(waiting) % wanted == 0:
            for event in waiting:
                event.set()
        await waiting[-1].wait()
        return 1.0

    assert statuses(score_rows(together, [{"wanted": 3}] * 6, concurrency=3, time_limit=20)) == ["graded"] * 6

    async def gather():
        return [r async for r in ascore_rows(together, [{"wanted": 3}] * 6, concurrency=3, time_limit=20)]

    waiting.clear()
    assert statuses(anyio.run(gather)) == ["graded"] * 6


def test_a_time_limit_holds_in_this_process_too():
    over = threading.Event()

    def judge(answer):
        if answer == 1:
            over.wait()
        return answer

    results = list(score_rows(judge, [{"answer": 1}, {"answer": 2}], time_limit=1.0))
    over.set()
    assert statuses(results) == ["limit", "graded"]


def test_batches_within_an_event_loop(mine):
    async def gather(reward, rows, **options):
        return [result async for result in ascore_rows(reward, rows, **options)]

    rows = [{"answer": number} for number in range(50)]
    results = anyio.run(lambda: gather(mine("number"), rows, jobs=2, keywords={"unit": 2.0}))
    assert [result.reward for result in results] == [2.0 * number for number in range(50)]
    results = anyio.run(lambda: gather(lambda answer: answer, [{"answer": 4}, {"trajectory": 5}]))
    assert statuses(results) == ["graded", "error"]


def test_there_is_at_least_one_core():
    assert count_cores() >= 1
