"""Every recorded case of the seeds' judged rewards: the same value, or a row of the table of deviations."""

import pytest

from ors_server.rewards.arise import task_success
from ors_server.rewards.deviations import DEVIATIONS, deviations_of
from ors_server.rewards.judged import llm_as_judge_reward, llm_judge_reward
from ors_server.rewards.judges import ScriptedJudge
from ors_server.rewards.learned import LearnedReward
from ors_server.rewards.reward_errors import RewardValueError
from ors_server.rewards.reward_trajectory import Trajectory, read_trajectory
from ors_server.rewards.scoring import score
from tests.fixtures.deviations import covers, explains
from tests.fixtures.recorded_rewards import recorded_cases

ERRORS = {"RuntimeError": RuntimeError, "ValueError": ValueError}
ARISE, LEARNED, AGENTFLY = "arise_llm_judge_reward", "arise_learned_reward", "agentfly_llm_as_judge_reward"


def cases(name):
    found = enumerate(recorded_cases(name))
    return [pytest.param(case, id=f"{number}-{told(case)}") for number, case in found]


def told(case):
    given = case["input"]
    return str(given if isinstance(given, str) else given.get("llm_reply", given.get("llm_raises")))[:40]


def script(given):
    return ScriptedJudge(given["llm_reply"] if "llm_reply" in given else ERRORS[given["llm_raises"]]("no"))


def compare(name, case, ours, *, is_error):
    """Holds if the value agrees, or if a row says in which way it does not."""
    theirs = case["output"]["value"]
    wanted = theirs["reward"] if isinstance(theirs, dict) else theirs
    if not is_error and ours == pytest.approx(wanted, abs=1e-9):
        return
    rows = [row for row in deviations_of(name) if explains(row, name, case, None if is_error else ours)]
    assert rows, f"theirs {wanted}, ours {ours}, and no row says why"


@pytest.mark.parametrize("case", cases(ARISE))
def test_a_trajectory_is_rated_as_by_arise_or_the_table_says_why_not(case):
    given = case["input"]
    result = score(llm_judge_reward, given["trajectory"], model=script(given))
    compare(ARISE, case, result.reward, is_error=result.status == "error")


@pytest.mark.parametrize("case", cases(AGENTFLY))
def test_an_answer_is_rated_as_by_agentfly_or_the_table_says_why_not(case):
    given = dict(case["input"])
    model = ScriptedJudge(given.pop("llm_reply"))
    result = score(llm_as_judge_reward, model=model, **given)
    compare(AGENTFLY, case, result.reward, is_error=result.status == "error")
    if result.reward is not None:
        assert result.extras["raw_score"] == result.reward


def rate(case):
    given = case["input"]
    model = script(given)
    learned = LearnedReward(min_examples=given["min_examples"], model=model)
    for number in range(given["feedback"]):
        learned.add_feedback(Trajectory(task=f"t{number}", outcome="o"), number / 10)
    rated = read_trajectory(given.get("trajectory", {"metadata": given.get("metadata", {})}))
    return score(learned, rated), model


@pytest.mark.parametrize("case", [one for one in cases(LEARNED) if isinstance(one.values[0]["input"], dict)])
def test_learned_ratings_are_as_by_arise_or_the_table_says_why_not(case):
    result, model = rate(case)
    compare(LEARNED, case, result.reward, is_error=result.status == "error")
    if "llm_called" in case:
        assert bool(model.asked) == case["llm_called"]


def play_feedback(told_, folder):
    """Plays one of the cases that are written in words; returns what ARISE's output shows, or the error."""
    if told_.startswith("max_examples=3"):
        learned = LearnedReward(min_examples=1, max_examples=3)
        for number in range(6):
            learned.add_feedback(Trajectory(task=f"t{number}"), number)
        return [[one.task, one.human_score] for one in learned.examples]
    if told_.startswith("persist_path does not exist"):
        LearnedReward(persist_path=folder / "nope").add_feedback(Trajectory(), 0.5)
        return {"value": None}
    if told_ == "reload":
        LearnedReward(persist_path=folder).add_feedback(Trajectory(), 0.5)
        return len(LearnedReward(persist_path=folder).examples)
    bad = {"nan": float("nan"), "None": None}[told_.removeprefix("add_feedback score=")]
    LearnedReward().add_feedback(Trajectory(), bad)
    return {"value": None}


@pytest.mark.parametrize("case", [one for one in cases(LEARNED) if isinstance(one.values[0]["input"], str)])
def test_feedback_is_kept_as_by_arise_or_the_table_says_why_not(case, tmp_path):
    try:
        ours = play_feedback(case["input"], tmp_path)
    except RewardValueError:
        ours = "error"
    if ours == case["output"]:
        return
    becomes = "error" if ours == "error" else "accepted"
    assert [row for row in deviations_of(LEARNED) if covers(row, LEARNED, case) and row.becomes == becomes]


def departs(name, row, case):
    given = case["input"]
    if not covers(row, name, case):
        return False
    if isinstance(given, str):
        return True
    ours, theirs = judged(name, case), case["output"]["value"]
    wanted = theirs["reward"] if isinstance(theirs, dict) else theirs
    if row.becomes == "error":
        return ours is None
    return ours is not None and ours != pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("row", [row for row in DEVIATIONS if row.vectors in {ARISE, LEARNED, AGENTFLY}])
def test_every_row_is_needed_by_a_case_and_says_why(row):
    assert any(departs(row.vectors, row, case) for case in recorded_cases(row.vectors))
    assert row.what
    assert row.why


def judged(name, case):
    if name == LEARNED:
        return rate(case)[0].reward
    model = script(case["input"])
    if name == ARISE:
        return score(llm_judge_reward, case["input"]["trajectory"], model=model).reward
    return score(llm_as_judge_reward, prediction="p", golden_answer="g", model=model).reward


@pytest.mark.parametrize("name", [ARISE, LEARNED, AGENTFLY])
def test_an_arbitrary_wrong_score_is_excused_nowhere(name):
    for case in recorded_cases(name):
        if isinstance(case["input"], str):
            continue
        right = judged(name, case)
        wrong = [one for one in (0.0, 0.1, 0.5, 0.85, 1.0, 8.0) if right is None or abs(one - right) > 1e-9]
        wrong += [] if right is None else [None, right + 0.01]
        assert not [
            (row.what, one) for row in deviations_of(name) for one in wrong if explains(row, name, case, one)
        ]


def test_no_failure_of_a_judge_is_anywhere_a_number():
    for failing in (RuntimeError("no"), "no idea", "nan", ""):
        learned = LearnedReward(min_examples=0, model=ScriptedJudge(failing))
        done = Trajectory(task="t", outcome="done", metadata={"success": True})
        assert task_success.judge({"trajectory": done}) == 1.0  # what ARISE would fall back to
        assert score(learned, done).reward is None
        assert score(llm_judge_reward, done, model=ScriptedJudge(failing)).reward is None
        model = ScriptedJudge(failing)
        assert score(llm_as_judge_reward, prediction="p", golden_answer="g", model=model).reward is None
