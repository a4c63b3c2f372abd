"""Forms, lengths and overlaps: what they pay, what they refuse, and that a gate closes on wrong answers."""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.installation import install_hint
from ors_server.rewards.composite import GatedReward
from ors_server.rewards.group import score_group_with
from ors_server.rewards.reward_errors import RewardDefinitionError, RewardFieldError
from ors_server.rewards.reward_trajectory import Step, Trajectory
from ors_server.rewards.scoring import score
from ors_server.rewards.text.lengths import (
    cosine_length_reward,
    latency_cost_reward,
    length_group_reward,
    length_group_rewards,
    repetition_penalty_reward,
    soft_overlong_reward,
    token_cost_reward,
)
from ors_server.rewards.text.matches import word_match_reward
from ors_server.rewards.text.overlap import (
    MAX_CHARACTERS,
    bleu_reward,
    chrf_reward,
    edit_similarity_reward,
    rouge_l_reward,
    rouge_n_reward,
)
from ors_server.rewards.text.response_format import (
    answer_format_reward,
    reasoning_steps_reward,
    tag_count_reward,
    think_format_reward,
)
from tests.fixtures.case_tables import tables

TABLES = tables("forms")

FORMATS = (think_format_reward, answer_format_reward, tag_count_reward, reasoning_steps_reward)
OVERLAPS = (edit_similarity_reward, rouge_n_reward, rouge_l_reward, bleu_reward, chrf_reward)
WHOLE = "<think>\nwhy\n</think>\n<answer>\nParis\n</answer>"


def paid(reward, **fields):
    result = score(reward, **fields)
    assert result.status == "graded", result
    return result.reward


@pytest.mark.parametrize(("response", "wanted"), TABLES["answer_format"])
def test_thinking_and_answering_are_whole_and_once(response, wanted):
    assert paid(answer_format_reward, final_response=response) == wanted


@pytest.mark.parametrize(
    ("response", "wanted"),
    [
        ("<think>a</think>b", 1),
        ("<think>a</think><think>b</think>", 0),
        ("<think>a<think></think>", 0),
        ("<think>a", 0),
        ("</think><think>", 0),
        ("<think>a</think></think>", 1),
    ],
)
def test_thinking_opens_the_response_once(response, wanted):
    assert paid(think_format_reward, final_response=response) == wanted


@pytest.mark.parametrize(
    ("response", "wanted"),
    [(WHOLE, 1), (WHOLE * 2, 0), ("<think>\n", 0.25), ("<think>", 0), ("", 0), (WHOLE[:-9], 0.75)],
)
def test_each_tag_that_is_there_once_is_a_quarter(response, wanted):
    assert paid(tag_count_reward, final_response=response) == wanted


@pytest.mark.parametrize(
    ("response", "steps"),
    [
        ("", 0),
        ("Paris", 0),
        ("1. a", 1),
        ("a\n1. b", 0),
        ("First, a", 1),
        ("Step 1: a\nStep 2: b", 2),
        ("\n- a\n* b\n- c", 3),
        ("First, a. Second, b. Next, c. Finally, d.", 3),
    ],
)
def test_three_marks_of_steps_earn_the_whole(response, steps):
    assert paid(reasoning_steps_reward, final_response=response) == pytest.approx(steps / 3)


@pytest.mark.parametrize("reward", FORMATS, ids=lambda reward: reward.name)
def test_a_gate_pays_the_form_of_right_answers_only(reward):
    gated = GatedReward(word_match_reward, reward)
    form = "<think>\n\n- a\n- b\n- c\n</think>\n<answer>\n{}\n</answer>"
    right = score(gated, final_response=form.format("Paris"), answer="Paris")
    wrong = score(gated, final_response=form.format("London"), answer="Paris")
    assert score(reward, final_response=form.format("London")).reward == 1.0  # the trap
    assert (right.reward, wrong.reward) == (1.0, 0.0)
    assert score(gated, final_response=form, answer="").status == "bad_gold"


@pytest.mark.parametrize("reward", FORMATS, ids=lambda reward: reward.name)
def test_forms_of_any_length_are_graded_and_no_text_is_an_error(reward):
    for filler in ("<think>", "<think>\n", "</think>", "Step ", "Step 1", "\n", "<", "x", "1"):
        result = score(reward, final_response=filler * (1_000_000 // len(filler)))
        assert result.status == "graded"
    assert score(reward, final_response=None).status == "error"


@pytest.mark.parametrize("bad", [-1, 1.5, "5", None, True, float("nan")])
def test_a_length_that_is_no_count_is_an_error(bad):
    for reward, options in (
        (soft_overlong_reward, {"max_completion_len": 10, "soft_punish_cache": 5}),
        (cosine_length_reward, {"max_len": 10, "is_correct": True}),
        (token_cost_reward, {}),
    ):
        result = score(reward, length=bad, **options)
        assert (result.reward, result.status) == (None, "error")


@pytest.mark.parametrize(("most", "stretch"), [(0, 0), (10, 11), (-1, 0), (10, -1), (10.0, 5), (True, 0)])
def test_an_overlong_reward_refuses_lengths_that_make_no_sense(most, stretch):
    with pytest.raises(RewardDefinitionError):
        soft_overlong_reward(length=5, max_completion_len=most, soft_punish_cache=stretch)


@given(st.integers(0, 300), st.integers(1, 200), st.integers(0, 200), st.booleans())
def test_longer_is_never_cheaper_but_for_wrong_answers_by_the_cosine(length, most, stretch, is_correct):
    stretch = min(stretch, most)
    at, after = (
        paid(soft_overlong_reward, length=one, max_completion_len=most, soft_punish_cache=stretch)
        for one in (length, length + 1)
    )
    assert -1 <= after <= at <= 0
    at, after = (
        paid(cosine_length_reward, length=one, max_len=most, is_correct=is_correct)
        for one in (length, length + 1)
    )
    assert (after <= at) if is_correct else (after >= at)
    assert (0.5 <= at <= 1) if is_correct else (-1 <= at <= -0.5)


def test_the_cosine_grades_the_answer_where_nobody_has():
    fields = {"length": 0, "max_len": 10}
    assert paid(cosine_length_reward, final_response=r"\boxed{4}", answer="4", **fields) == 1
    assert paid(cosine_length_reward, final_response=r"\boxed{5}", answer="4", **fields) == -1
    unread = score(cosine_length_reward, final_response="", answer="4", length=10, max_len=10)
    assert (unread.reward, unread.status) == (-1, "unparsed_answer")
    for gold in ("", 4):
        assert score(cosine_length_reward, final_response="4", answer=gold, **fields).status == "bad_gold"
    huge = "\\boxed{" + "1+" * 3000 + "1}"
    beyond = score(cosine_length_reward, final_response=huge, answer="4", **fields)
    assert (beyond.reward, beyond.status) == (-1, "graded")
    for missing in ({}, {"answer": "4"}, {"final_response": "4"}):
        with pytest.raises(RewardFieldError):
            cosine_length_reward(**missing, **fields)
    with pytest.raises(RewardDefinitionError, match="at least 1"):
        cosine_length_reward(length=0, max_len=0, is_correct=True)


def test_repetition_is_found_in_words_too():
    assert paid(repetition_penalty_reward, final_response="a b a B a b", ngram_size=2) == pytest.approx(-0.6)
    assert paid(repetition_penalty_reward, final_response="a b c d") == 0
    assert paid(repetition_penalty_reward, ids=[1, 1], final_response="a b c", ngram_size=1) == -0.5
    beyond = score(repetition_penalty_reward, ids=range(1_000_001), max_penalty=-0.5)
    assert (beyond.reward, beyond.status) == (-0.5, "unparsed_answer")
    assert paid(repetition_penalty_reward, final_response="a " * 500_000) < -0.99
    assert paid(repetition_penalty_reward, final_response="a " * 50_000) < -0.99
    with pytest.raises(RewardFieldError):
        repetition_penalty_reward(ngram_size=1)
    for options in ({"ngram_size": 0}, {"ngram_size": 65}, {"max_penalty": 0.1}, {"max_penalty": math.nan}):
        with pytest.raises(RewardDefinitionError):
            repetition_penalty_reward(ids=[1], **options)


def test_tokens_and_seconds_cost_up_to_the_most():
    assert paid(token_cost_reward, length=100, cost_per_token=0.001) == pytest.approx(-0.1)
    assert paid(token_cost_reward, length=10**9) == -1
    assert paid(token_cost_reward, length=10**9, most=0.25) == -0.25
    slow = Trajectory(steps=[Step(latency_ms=1500), Step(latency_ms=500)])
    assert paid(latency_cost_reward, trajectory=slow) == pytest.approx(-0.02)
    for latency in (-1.0, math.nan, math.inf):
        steps = Trajectory(steps=[Step(latency_ms=latency)])
        assert score(latency_cost_reward, trajectory=steps).status == "error"
    for cost in (-1.0, math.nan, math.inf):
        with pytest.raises(RewardDefinitionError):
            token_cost_reward(length=1, cost_per_token=cost)
    with pytest.raises(RewardDefinitionError):
        token_cost_reward(length=1, most=2.0)


@pytest.mark.parametrize(
    ("lengths", "correct", "wanted"),
    [
        ([10, 20, 30], [True, True, True], [0.5, 0, -0.5]),
        ([10, 20, 30], [False, False, False], [0, 0, -0.5]),
        ([10, 20, 40], [False, True, False], [0, 1 / 6, -0.5]),
        ([7, 7], [True, False], [0, 0]),
        ([7], [True], [0]),
        ([], [], []),
    ],
)
def test_a_group_s_lengths_are_compared(lengths, correct, wanted):
    assert length_group_rewards(lengths, correct) == pytest.approx(wanted)
    rollouts = [
        Trajectory(metadata={"length": length, "is_correct": is_correct})
        for length, is_correct in zip(lengths, correct, strict=True)
    ]
    assert [one.reward for one in score_group_with(length_group_reward, rollouts)] == pytest.approx(wanted)


def test_a_group_is_graded_and_its_words_counted_where_nobody_has():
    rollouts = [r"\boxed{4}", r"it is \boxed{4}", r"it is I think \boxed{5}"]
    results = score_group_with(length_group_reward, rollouts, answer="4")
    assert [one.reward for one in results] == pytest.approx([0.5, 0, -0.5])
    assert {one.status for one in score_group_with(length_group_reward, rollouts, answer="")} == {"bad_gold"}
    assert {one.status for one in score_group_with(length_group_reward, rollouts)} == {"error"}
    mixed = [
        Trajectory(metadata={"length": 5, "is_correct": True}),
        Trajectory(metadata={"is_correct": True}),
    ]
    assert {one.status for one in score_group_with(length_group_reward, mixed)} == {"error"}
    with pytest.raises(RewardFieldError):
        length_group_rewards([1], [])


@pytest.mark.parametrize("reward", OVERLAPS, ids=lambda reward: reward.name)
def test_an_overlap_is_whole_for_the_same_and_nothing_for_silence(reward):
    text = "the cat sat on the mat"
    assert paid(reward, final_response=text, answer=text) == pytest.approx(1)
    assert paid(reward, final_response=text, answer=["something else entirely here", text]) == pytest.approx(
        1
    )
    assert paid(reward, final_response="", answer=text) == 0
    assert 0 < paid(reward, final_response="the cat sat", answer=text) < 1
    assert paid(reward, final_response="", answer=[text, "x"]) == 0


@pytest.mark.parametrize("reward", OVERLAPS, ids=lambda reward: reward.name)
def test_an_overlap_has_bad_golds_limits_and_errors(reward):
    for gold in ("", None, [], 5, ["a", ""]):
        result = score(reward, final_response="", answer=gold)
        assert (result.reward, result.status) == (None, "bad_gold")
    for response in ("x" * (MAX_CHARACTERS + 1), "word " * 200_000):
        result = score(reward, final_response=response, answer="x")
        assert (result.reward, result.status) == (0.0, "unparsed_answer")
    heavy = score(reward, final_response="x" * 60_000, answer=["y" * 10_000] * 6)
    assert (heavy.reward, heavy.status) == (0.0, "unparsed_answer")
    assert score(reward, final_response="x", answer=["y" * 10_000] * 101).status == "limit"
    assert score(reward, final_response=None, answer="x").status == "error"


@given(st.text(max_size=40), st.text(min_size=1, max_size=40))
def test_an_overlap_of_any_texts_is_in_range(left, right):
    for reward in OVERLAPS:
        result = score(reward, final_response=left, answer=right)
        assert result.status in {"graded", "bad_gold", "unparsed_answer"}, result
        assert result.reward is None or 0 <= result.reward <= 1


def test_edits_are_counted_in_characters_or_words_without_order():
    assert paid(edit_similarity_reward, final_response="kitten", answer="sitting") == pytest.approx(4 / 7)
    assert paid(edit_similarity_reward, final_response="CAT", answer="cat") == 0
    assert paid(edit_similarity_reward, final_response="CAT", answer="cat", casefold=True) == 1
    assert paid(edit_similarity_reward, final_response="b a", answer="a b", method="token_sort") == 1
    listing = paid(edit_similarity_reward, final_response="a b c d e", answer="a", method="token_sort")
    assert listing < 0.5
    with pytest.raises(RewardDefinitionError, match="token_sort"):
        edit_similarity_reward(final_response="a", answer="a", method="token_set")


def test_rouge_stems_words_of_more_than_three_letters_only():
    assert paid(rouge_n_reward, final_response="runs", answer="running", stem=True) == 1
    assert paid(rouge_n_reward, final_response="ads", answer="ad", stem=True) == 0
    assert paid(rouge_n_reward, final_response="runs", answer="running") == 0


def test_the_smoothing_of_bleu_is_the_one_that_is_asked_for():
    given_ = {"final_response": "the cat is here today", "answer": "a dog is here now"}
    smoothed = [paid(bleu_reward, smoothing=one, **given_) for one in ("exp", "floor", "add-k", "none")]
    assert smoothed[3] == 0 < min(smoothed[:3])
    assert len(set(smoothed)) == 4


def test_rouge_sees_other_scripts_when_told():
    assert score(rouge_l_reward, final_response="кот", answer="кот").status == "bad_gold"
    assert paid(rouge_l_reward, final_response="кот", answer="кот", tokenizer="unicode") == 1
    assert score(rouge_n_reward, final_response="a b", answer="a", n=2).status == "bad_gold"
    for options in ({"n": 0}, {"n": 9}, {"tokenizer": "words"}):
        with pytest.raises(RewardDefinitionError):
            rouge_n_reward(final_response="a", answer="a", **options)


def test_bleu_and_chrf_are_sacrebleu_s_and_carry_its_signature():
    """The figures are those of its command line, `sacrebleu ref -i hyp --sentence-level -m bleu chrf`."""
    given_, gold = "The cat sat on a mat.", "The cat sat on the mat."
    bleu = score(bleu_reward, final_response=given_, answer=gold)
    assert bleu.reward == pytest.approx(0.48892302243490086)
    assert str(bleu.extras["signature"]).startswith("nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:")
    chrf = score(chrf_reward, final_response=given_, answer=gold)
    assert chrf.reward == pytest.approx(0.6580034329)
    assert "nw:2" in str(
        score(chrf_reward, final_response=given_, answer=gold, word_order=2).extras["signature"]
    )
    assert paid(bleu_reward, final_response=given_.upper(), answer=gold, casefold=True) == bleu.reward
    for reward, options in (
        (bleu_reward, {"tokenizer": "flores200"}),
        (bleu_reward, {"smoothing": "best"}),
        (chrf_reward, {"word_order": 3}),
    ):
        with pytest.raises(RewardDefinitionError):
            reward(final_response="a", answer="a", **options)


@pytest.mark.parametrize("reward", [edit_similarity_reward, rouge_l_reward, bleu_reward, chrf_reward])
def test_an_overlap_without_its_package_is_an_error(reward, monkeypatch):
    for name in ("rapidfuzz.distance", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, name, None)  # what makes an import fail
    result = score(reward, final_response="a", answer="a")
    assert (result.reward, result.status) == (None, "error")
    assert install_hint("text") in str(result.reason)
