"""`regrade`, and `score` of recorded episodes, as a person or a script uses them."""

import json
import math
import shutil

import pytest

from ors_server.cli.regrade_command import MAX_REASONS, MAX_SHOWN_CHANGES, Correlation, RegradeSummary
from ors_server.replaying.regrading import Regraded
from ors_server.rewards.result import RewardResult, RewardStatus
from tests.unit.cli.recording import write_record
from tests.unit.replaying.test_parts import origin

REWARDS = '''
import os


def equal(final_response, answer, id):
    """Pays for the right answer."""
    if final_response == "mad":
        raise ValueError("no judgement on the mad")
    return {"reward": float(final_response == answer), "id": id}


def steps(trajectory, weight=1.0):
    """Pays for steps."""
    return weight * len(trajectory.steps)


def most(rollouts):
    """Pays the longest of a task."""
    longest = max(len(one.steps) for one in rollouts)
    return [float(len(one.steps) == longest) for one in rollouts]


def mortal(trajectory):
    """Ends its worker."""
    os._exit(3)
'''


def guess(answer):
    return ("guess", {"answer": answer})


PLAYS = [[guess("0")], ["roll", guess("7")], [guess("2")], ["roll", "roll", guess("0")], ["roll"]]
"""Of the tasks 0, 1, 2, 0, 1, whose answers are their numbers."""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with a record and rewards."""
    folder = tmp_path_factory.mktemp("record")
    (folder / "mine.py").write_text(REWARDS)
    write_record(folder, PLAYS, in_store=True)
    return folder


@pytest.fixture
def here(template, tmp_path, monkeypatch):
    """A folder like that, where commands run."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def regrade(run, here):
    def judge(reward, *words, source=("--store", "episodes.db")):
        return run("regrade", *source, "--reward", f"mine.py:{reward}", "--jobs", "1", *words)

    return judge


def test_a_reward_that_says_the_same_changes_nothing(regrade):
    ran = regrade("equal", "--all")
    assert (ran.status, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["paid", "before", "4", "0.7500", "0", "1"] in rows
    assert ["this", "reward", "4", "0.7500", "0", "1"] in rows
    assert ["the", "same", "4"] in rows
    assert ["judged", "now", "only", "1", "0.0000", "0", "0"] in rows
    assert ["correlation", "1.0000"] in rows
    assert "largest changes" not in ran.out


def test_differences_are_counted_and_the_largest_shown_first(regrade):
    rows = [line.split() for line in regrade("steps", "--all").out.splitlines()]
    assert ["more", "2"] in rows
    assert ["less", "2"] in rows
    shown = rows[rows.index(["largest", "changes", "task", "paid", "now", "difference"]) + 1 :]
    assert [row[1:] for row in shown] == [
        ["dice", "train", "0", "1", "0", "-1"],
        ["dice", "train", "1", "0", "1", "1"],
        ["dice", "train", "2", "1", "0", "-1"],
        ["dice", "train", "0", "1", "2", "1"],
    ]


def test_with_json_there_is_one_object_per_episode_in_order(regrade):
    ran = regrade("steps", "--all", "--option", "weight=10", "--json", source=("--from", "episodes.jsonl"))
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["reward"] for row in rows] == [0.0, 10.0, 0.0, 20.0, 10.0]
    assert [row["paid"] for row in rows] == [1.0, 0.0, 1.0, 1.0, None]
    assert rows[4]["difference"] is None
    assert {row["environment"] for row in rows} == {"dice"}


def test_what_could_not_be_judged_is_told_apart(regrade, run, here):
    write_record(here, [[guess("mad")], [guess("1")]])
    ran = regrade("equal", "--all", source=("--from", "episodes.jsonl"))
    assert ran.status == 1
    assert "1 of 2 episodes could not be judged" in ran.err
    assert "error: ValueError: no judgement on the mad" in ran.err
    assert ["status", "error", "1"] in [line.split() for line in ran.out.splitlines()]


def test_a_group_is_the_episodes_of_one_task(regrade):
    ran = regrade("most", "--all", "--by-task", "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["index"] for row in rows] == [0, 0, 1, 1, 2]
    assert [row["reward"] for row in rows] == [0.0, 1.0, 1.0, 1.0, 1.0]


def test_the_final_response_can_be_somewhere_else(regrade):
    ran = regrade("equal", "--index", "2", "--final-response-from", "guess", "--json")
    assert ran.json["reward"] == 0.0  # the tool said: Done.


def test_a_worker_that_dies_is_replaced_and_the_record_stays(regrade, here):
    before = (here / "episodes.jsonl").read_bytes()
    ran = regrade("mortal", "--index", "2", source=("--from", "episodes.jsonl"))
    assert ran.status == 1
    assert "1 workers were replaced" in ran.err
    assert (here / "episodes.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["steps"], "say which episodes"),
        (["nosuch", "--all"], "cannot be loaded"),
        (["steps", "--all", "--option", "colour=1"], "has no option colour"),
        (["steps", "--all", "--option", "weight"], "--option takes KEY=VALUE"),
    ],
    ids=["none", "no reward", "no such option", "no value"],
)
def test_a_line_that_makes_no_sense_has_the_status_2(regrade, words, complaint):
    ran = regrade(*words)
    assert ran.status == 2
    assert complaint in " ".join(ran.err.split())


def test_no_episodes_are_no_error(regrade):
    ran = regrade("steps", "--label", "run=none")
    assert (ran.status, ran.out) == (0, "no episodes\n")


def test_score_reads_recorded_episodes(run, here):
    ran = run("score", "episodes.jsonl", "--reward", "mine.py:equal", "--json", "--jobs", "1")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["reward"] for row in rows] == [1.0, 0.0, 1.0, 1.0, 0.0]
    assert [row["extras"]["id"] for row in rows] == [f"table-{index}" for index in (0, 1, 2, 0, 1)]


def test_score_brings_recorded_episodes_together_by_what_their_origin_says(run, here):
    words = ("--reward", "mine.py:most", "--jobs", "1", "--json", "--group-by")
    ran = run("score", "episodes.jsonl", *words, "environment")
    assert [json.loads(line)["reward"] for line in ran.out.splitlines()] == [0.0, 0.0, 0.0, 1.0, 0.0]
    lost = run("score", "episodes.jsonl", *words, "nosuch")
    assert "line 1 has no nosuch" in json.loads(lost.out.splitlines()[0])["reason"]


# The figures.


def judged(paid, reward, status=RewardStatus.GRADED, **fields) -> Regraded:
    result = RewardResult(reward) if reward is not None else RewardResult.without(status, "no\nidea")
    return Regraded(origin(**fields), paid, paid or 0.0, result)


def test_a_correlation_is_pearsons():
    found = Correlation()
    pairs = [(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (5.0, 7.0)]
    for x, y in pairs:
        found.add(x, y)
    mean_x, mean_y = 2.0, 3.25
    product = sum((x - mean_x) * (y - mean_y) for x, y in pairs)
    spread = math.sqrt(sum((x - mean_x) ** 2 for x, _ in pairs) * sum((y - mean_y) ** 2 for _, y in pairs))
    assert found.value == pytest.approx(product / spread)


@pytest.mark.parametrize(
    "pairs", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 3.0)]], ids=["none", "one", "constant"]
)
def test_where_one_side_never_varies_there_is_no_correlation(pairs):
    found = Correlation()
    for pair in pairs:
        found.add(*pair)
    assert found.value is None


def test_the_largest_changes_are_few_and_of_equal_ones_the_first():
    summary = RegradeSummary()
    for number in range(3 * MAX_SHOWN_CHANGES):
        summary.add(judged(0.0, float(number % 3), episode_id=f"{number:032d}"))
    assert len(summary.largest) == MAX_SHOWN_CHANGES
    assert {each.difference for each in summary.largest} == {2.0}
    assert int(summary.largest[0].origin.episode_id) == 2


def test_a_difference_in_the_last_digit_of_a_sum_is_none():
    summary = RegradeSummary()
    summary.add(judged(0.1 + 0.2, 0.3))
    assert (summary.same, summary.more, summary.less) == (1, 0, 0)


def test_reasons_are_few():
    summary = RegradeSummary()
    for _ in range(2 * MAX_REASONS):
        summary.add(judged(1.0, None, RewardStatus.LIMIT))
    assert (summary.unjudged, len(summary.reasons), summary.before.count) == (2 * MAX_REASONS, MAX_REASONS, 0)


def test_a_task_without_a_place_is_shown_by_its_hash():
    summary = RegradeSummary()
    summary.add(judged(0.0, 1.0, split=None, index=None, task_hash="abcdef" * 10))
    (cells,) = (list(column.cells) for column in summary.as_changes().columns[1:2])
    assert cells == ["casino abcdefabcdef"]
