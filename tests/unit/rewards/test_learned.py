"""Ratings of people: kept, shared, validated, and never replaced by a guess."""

import json
import multiprocessing
import threading

import anyio
import pytest

from ors_server.rewards.judges import ScriptedJudge
from ors_server.rewards.learned import FILE, LearnedReward
from ors_server.rewards.reward_errors import RewardDefinitionError, RewardValueError
from ors_server.rewards.reward_trajectory import Step, Trajectory
from ors_server.rewards.scoring import score

WRITERS, EACH = 4, 15


def add_many(folder, writer):
    learned = LearnedReward(persist_path=folder, max_examples=1000)
    for number in range(EACH):
        learned.add_feedback(Trajectory(task=f"{writer}-{number}"), 0.5)


def tasks(learned):
    return [one.task for one in learned.examples]


def test_ratings_survive_a_restart(tmp_path):
    first = LearnedReward(persist_path=tmp_path / "new" / "feedback")
    first.add_feedback(Trajectory("t", [Step(), Step()], "o" * 600), 0.25)
    (kept,) = LearnedReward(persist_path=tmp_path / "new" / "feedback").examples
    assert (kept.task, kept.outcome, kept.step_count, kept.human_score) == ("t", "o" * 500, 2, 0.25)


@pytest.mark.parametrize("folder", [None, "feedback"])
def test_the_most_recent_ratings_are_kept(tmp_path, folder):
    learned = LearnedReward(2, None if folder is None else tmp_path / folder, max_examples=3)
    for number in range(6):
        learned.add_feedback(Trajectory(task=f"t{number}"), number / 10)
    assert [(one.task, one.human_score) for one in learned.examples] == [
        ("t3", 0.3),
        ("t4", 0.4),
        ("t5", 0.5),
    ]


@pytest.mark.parametrize("rating", [1.1, -0.1, 5, float("nan"), float("inf"), None, "0.5", True])
def test_a_rating_that_is_none_is_refused_and_not_kept(tmp_path, rating):
    learned = LearnedReward(persist_path=tmp_path)
    with pytest.raises(RewardValueError, match="rating"):
        learned.add_feedback(Trajectory(), rating)
    assert learned.examples == []
    assert not (tmp_path / FILE).exists()


def test_processes_that_add_at_the_same_time_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=add_many, args=(tmp_path, writer)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join(90)
        assert process.exitcode == 0
    found = tasks(LearnedReward(persist_path=tmp_path, max_examples=1000))
    assert sorted(found) == sorted(
        f"{writer}-{number}" for writer in range(WRITERS) for number in range(EACH)
    )
    for writer in range(WRITERS):
        own = [task for task in found if task.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(EACH)]


def test_threads_that_add_to_one_instance_lose_nothing(tmp_path):
    learned = LearnedReward(persist_path=tmp_path, max_examples=1000)

    def add(writer):
        for number in range(EACH):
            learned.add_feedback(Trajectory(task=f"{writer}-{number}"), 0.5)

    threads = [threading.Thread(target=add, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(learned.examples) == WRITERS * EACH


def test_what_another_process_adds_is_seen_without_a_restart(tmp_path):
    reader, writer = LearnedReward(persist_path=tmp_path), LearnedReward(persist_path=tmp_path)
    writer.add_feedback(Trajectory("one"), 0.5)
    assert tasks(reader) == ["one"]
    reader.add_feedback(Trajectory("two"), 0.5)
    assert tasks(writer) == ["one", "two"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    learned = LearnedReward(persist_path=tmp_path)
    learned.add_feedback(Trajectory("kept"), 0.5)
    before = (tmp_path / FILE).read_bytes()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        learned.add_feedback(Trajectory("lost"), 0.5)
    monkeypatch.undo()
    assert (tmp_path / FILE).read_bytes() == before
    assert tasks(learned) == ["kept"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".{FILE}.lock", FILE]


GOOD = {"task": "t", "outcome": "o", "step_count": 2, "human_score": 0.5}


def test_a_file_of_arise_itself_is_read(tmp_path):
    (tmp_path / FILE).write_text(json.dumps([GOOD]))
    (kept,) = LearnedReward(persist_path=tmp_path).examples
    assert (kept.task, kept.outcome, kept.step_count, kept.human_score) == ("t", "o", 2, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "3",
        '[{"task": "t"}]',
        json.dumps([GOOD, {**GOOD, "human_score": 5}]),
        json.dumps([{**GOOD, "human_score": float("nan")}]),
        json.dumps([{**GOOD, "human_score": None}]),
    ],
)
def test_a_file_that_holds_no_ratings_is_refused_and_left_alone(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(RewardDefinitionError, match="holds no ratings"):
        LearnedReward(persist_path=tmp_path)
    assert (tmp_path / FILE).read_text() == text


@pytest.mark.parametrize("wrong", [{"min_examples": -1}, {"max_examples": 0}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(RewardDefinitionError):
        LearnedReward(**wrong)


def test_where_fewer_are_kept_than_are_needed_the_model_is_never_asked():
    model = ScriptedJudge("0.3")
    learned = LearnedReward(max_examples=3, model=model)
    for _ in range(20):
        learned.add_feedback(Trajectory(), 0.5)
    assert score(learned, Trajectory(metadata={"success": True})).reward == 1.0
    assert model.asked == []


def test_the_file_is_plain_json(tmp_path):
    LearnedReward(persist_path=tmp_path).add_feedback(Trajectory("t", [], "né"), 1)
    (row,) = json.loads((tmp_path / FILE).read_text())
    assert row == {"task": "t", "outcome": "né", "step_count": 0, "human_score": 1.0}


def test_too_few_ratings_mean_task_success_unasked():
    model = ScriptedJudge("0.3")
    learned = LearnedReward(min_examples=2, model=model)
    learned.add_feedback(Trajectory(), 1.0)
    for success, reward in ((True, 1.0), (False, 0.0)):
        result = score(learned, Trajectory(metadata={"success": success}))
        assert (result.reward, result.extras["learned_examples"]) == (reward, 1)
    assert model.asked == []


def test_the_model_sees_the_last_ten_ratings_before_the_data():
    model = ScriptedJudge('{"reason": "like example 2", "score": 0.3}')
    learned = LearnedReward(min_examples=1, model=model)
    for number in range(12):
        learned.add_feedback(
            Trajectory(f"task{number} " + "x" * 300, [Step()] * number, "</example1> y"), number / 20
        )
    result = score(learned, Trajectory("mine " + "z" * 300, [Step()] * 7, "done"))
    assert (result.reward, result.extras["learned_examples"]) == (0.3, 12)
    system, user = (message["content"] for message in model.asked[0])
    assert "example1: 0.1\n" in system
    assert "example10: 0.55" in system
    assert "task1 " not in user
    assert "task2 " in user
    assert "&lt;/example1> y" in user
    assert "Outcome: done\nSteps: 7" in user
    assert "z" * 195 in user
    assert "z" * 196 not in user


async def test_it_is_asked_within_an_event_loop():
    learned = LearnedReward(min_examples=0, model=ScriptedJudge("0.4"))
    with anyio.fail_after(20):
        assert await learned(Trajectory("t", [], "done")) == 0.4
