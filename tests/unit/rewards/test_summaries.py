"""ROUGE-Lsum and corpus BLEU against recordings of rouge-score and sacrebleu; open-r1's form of programs."""

import pytest

from ors_server.rewards.reward_errors import RewardDefinitionError, RewardFieldError
from ors_server.rewards.scoring import score
from ors_server.rewards.text.overlap import bleu_reward
from ors_server.rewards.text.response_format import code_format_reward
from ors_server.rewards.text.summaries import corpus_bleu, rouge_lsum_reward
from tests.fixtures.recorded_rewards import recorded_cases


def test_rouge_lsum_is_what_rouge_score_gave():
    for case in recorded_cases("rouge_lsum"):
        result, theirs = score(rouge_lsum_reward, **case["input"]), case["output"]
        figures = {"reward": result.reward, **result.extras}
        assert figures == pytest.approx(theirs, abs=1e-9), case


def test_the_lines_of_a_summary_may_come_in_any_order():
    gold = "the cat sat\nthe dog ran"
    assert score(rouge_lsum_reward, final_response="the dog ran\nthe cat sat", answer=gold).reward == 1.0
    assert score(rouge_lsum_reward, final_response="x", answer=["x", gold]).reward == 1.0


def test_a_summary_that_is_far_too_long_is_wrong_and_a_gold_without_words_is_bad():
    gold = "a word " * 500
    long = score(rouge_lsum_reward, final_response="a word " * 10_000, answer=gold)
    assert (long.reward, long.status) == (0.0, "graded")
    assert "too long" in str(long.reason)
    for bad in ("", "...", "a " * 3_000):
        assert score(rouge_lsum_reward, final_response="a", answer=bad).status == "bad_gold"


def test_corpus_bleu_is_what_sacrebleu_gave():
    for case in recorded_cases("sacrebleu_corpus"):
        found, theirs = corpus_bleu(**case["input"]), case["output"]
        assert found.score == pytest.approx(theirs["score"], abs=1e-9)
        assert found.brevity_penalty == pytest.approx(theirs["brevity_penalty"], abs=1e-9)
        assert found.signature


def test_a_corpus_is_no_mean_of_its_sentences():
    responses, golds = (
        ["the cat sat on the mat", "a dog"],
        ["the cat sat on the mat", "no such animal at all"],
    )
    each = [
        score(bleu_reward, final_response=one, answer=gold).reward
        for one, gold in zip(responses, golds, strict=True)
    ]
    assert corpus_bleu(responses, golds).score != pytest.approx(sum(each) / 2, abs=0.01)


@pytest.mark.parametrize(("responses", "golds"), [([], []), (["a"], []), (["a"], [[]]), ([], ["a"])])
def test_a_corpus_has_responses_and_golds(responses, golds):
    with pytest.raises(RewardFieldError):
        corpus_bleu(responses, golds)


def test_an_unknown_tokenizer_is_refused():
    with pytest.raises(RewardDefinitionError):
        corpus_bleu(["a"], ["a"], tokenizer="klingon")


def test_the_form_of_a_program_is_paid_as_by_open_r1():
    recorded = recorded_cases("open_r1_code_format")
    assert {case["output"] for case in recorded} == {0.0, 1.0}
    for case in recorded:
        assert score(code_format_reward, **case["input"]).reward == case["output"], case
