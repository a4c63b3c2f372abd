"""Answers to questions against the formulas of SQuAD v1.1 and v2.0, over texts drawn at random."""

import random
import re
import string
from collections import Counter

import pytest

from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.qa import MAX_ANSWER, QAOptions, normalise_answer, score_answer
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.scoring import score
from tests.fixtures.case_tables import tables

TABLES = tables("qa")

WORDS = TABLES["words"]
GAPS = (" ", "  ", "\n", "\t", " ", "–", "'")  # noqa: RUF001  (a dash is meant)


def plain(text):
    lowered = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", lowered).split())


def exact(answer, gold):
    return float(plain(answer) == plain(gold))


def overlap(answer, gold, version):
    ours, theirs = plain(answer).split(), plain(gold).split()
    if version == 2 and (not ours or not theirs):
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 0.0 if not shared else 2 * shared / (len(ours) + len(theirs))


def judged(answer, golds, version):
    if version == 2:
        golds = [gold for gold in golds if plain(gold)] or [""]
    return max(exact(answer, gold) for gold in golds), max(overlap(answer, gold, version) for gold in golds)


def drawn(draw):
    return "".join(draw.choice(WORDS) + draw.choice(GAPS) for _ in range(draw.randint(0, 5)))


@pytest.mark.parametrize("version", [1, 2])
def test_several_golds_count_as_in_the_official_evaluations(version):
    draw = random.Random(version)  # noqa: S311  (the same texts in every run)
    options = QAOptions(empty="squad1" if version == 1 else "squad2")
    for _ in range(4_000):
        answer, golds = drawn(draw), [drawn(draw) for _ in range(draw.randint(1, 3))]
        found = score_answer(answer, golds, options)
        assert normalise_answer(answer) == plain(answer)
        assert (found.em, pytest.approx(found.f1)) == judged(answer, golds, version), (answer, golds)


def test_a_gold_of_an_article_alone_counts_among_several_in_agentfly_s_rewards():
    reward = find_reward("qa_f1_reward")
    assert score(reward, final_response="A", answer=["A", "B"]).extras["em"] == 1.0
    assert score(reward, final_response="B", answer=["A", "B"]).extras["em"] == 1.0
    assert score(reward, final_response="C", answer=["A", "B"]).extras["em"] == 0.0
    episode = Trajectory(messages=({"role": "tool", "content": "r"}, {"role": "assistant", "content": "A"}))
    found = score(find_reward("qa_em_reward"), episode, final_response="A", golden_answers=["A", "B"])
    assert found.reward == 1.0


def test_a_gold_that_is_an_article_counts_beside_others_by_the_rule_of_search_r1():
    options = QAOptions(empty="squad1")
    assert score_answer("a", ["A", "B"], options).em == 1.0
    assert score_answer("B", ["A", "B"], options).em == 1.0
    assert score_answer("C", ["A", "B"], options).em == 0.0
    assert score_answer("a", ["A", "B"]).em == 0.0  # SQuAD v2.0


def test_long_numbers_are_compared_to_the_last_digit():
    options = QAOptions(numeric=True)
    assert score_answer("9" * 400, "9" * 399 + "8", options).em == 0.0
    assert score_answer("9" * 400, "9" * 400, options).em == 1.0
    assert score_answer("0.1", "0.10", options).em == 1.0


@pytest.mark.parametrize("piece", ["a ", "the-", "a–", "an", "– ", "x", "\n"])  # noqa: RUF001  (a dash is meant)
def test_a_long_answer_is_graded_and_one_beyond_the_bound_is_wrong(piece):
    reward = find_reward("qa_f1_reward")
    for length in (120_000, MAX_ANSWER + 10):
        answer = (piece * length)[:length]
        result = score(reward, final_response=answer, answer=["B", "the"])
        assert result.status == ("graded" if length <= MAX_ANSWER else "unparsed_answer")
        assert 0.0 <= (result.reward or 0.0) < 0.01
