"""The check that a judge is configured where the reward asks one."""

import json

import pytest

from ors_server.rewards.judges import Criterion, Rubric, RubricJudge, ScriptedJudge
from ors_server.testing import check_environment

RUBRIC = Rubric((Criterion("correct", "Is it right?"),))


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch):
    for name in ("ORS_JUDGE_BASE_URL", "ORS_JUDGE_MODEL", "ORS_JUDGE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def verdict_of(environment):
    (verdict,) = check_environment(environment, only=["judge-is-configured"]).verdicts
    return verdict


@pytest.fixture
def declared(tmp_path):
    def make(reward):
        row = json.dumps({"question": "What is the capital of France?", "answer": "Paris"})
        (tmp_path / "train.jsonl").write_text(f"{row}\n")
        text = (
            f'prompt = "question"\nanswer = "answer"\nreward = "{reward}"\n[splits]\ntrain = "train.jsonl"\n'
        )
        (tmp_path / "environment.toml").write_text(text)
        return str(tmp_path)

    return make


def judged_by(good, judge):
    body = {"reward": judge, "toolsets": ("submit",), "guess": None, "gold_actions": None}
    return type("Judged", (good,), body)


def test_a_declared_judge_without_an_endpoint_is_a_failure_that_names_the_variable(declared):
    verdict = verdict_of(declared("llm_judge_reward"))
    assert verdict.outcome == "fail"
    assert "no judge is configured: set ORS_JUDGE_BASE_URL" in verdict.reason
    assert verdict.check.level == "MUST"


def test_a_class_with_a_judge_and_no_gold_fails_too(good):
    verdict = verdict_of(judged_by(good, RubricJudge(RUBRIC)))
    assert verdict.outcome == "fail"
    assert "set ORS_JUDGE_BASE_URL" in verdict.reason


def test_an_endpoint_without_a_model_is_named(good, monkeypatch):
    monkeypatch.setenv("ORS_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    assert "ORS_JUDGE_MODEL" in verdict_of(judged_by(good, RubricJudge(RUBRIC))).reason


def test_a_judge_with_its_own_model_needs_no_variables(good):
    model = ScriptedJudge('{"correct": {"reason": "It is.", "verdict": "yes"}}')
    assert verdict_of(judged_by(good, RubricJudge(RUBRIC, model))).outcome == "pass"


def test_a_configured_judge_is_not_asked(good, monkeypatch):
    monkeypatch.setenv("ORS_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ORS_JUDGE_MODEL", "some-model")
    assert verdict_of(judged_by(good, RubricJudge(RUBRIC))).outcome == "pass"


def test_a_reward_that_computes_needs_no_judge(declared):
    assert verdict_of(declared("exact_match_reward")).outcome == "pass"
