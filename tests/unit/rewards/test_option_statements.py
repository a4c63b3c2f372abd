"""Which of two options a sentence asserts: sentences in many words, read for choices and for words."""

from functools import partial

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.text.matches import word_match_reward
from ors_server.rewards.text.multiple_choice import multiple_choice_reward
from tests.fixtures.case_tables import tables

SENTENCES = tables("option_statements")
MULTIPLE_CHOICE = partial(
    score, multiple_choice_reward, choices={"A": "copper", "B": "willow", "C": "slate", "D": "amber"}
)
WORD_MATCH = partial(score, word_match_reward, choices=["Porto", "Riga", "Gaza", "Perth"], max_ratio=1000.0)
REWARDS = {"letters": (MULTIPLE_CHOICE, "B", "D"), "names": (WORD_MATCH, "Riga", "Perth")}


def paid(reward, sentence):
    judge, first, second = REWARDS[reward]
    response = sentence.replace("{a}", first).replace("{b}", second)
    answers = (first, second) if "{b}" in sentence else (first,)
    return [judge(final_response=response, answer=answer).reward for answer in answers]


@pytest.mark.parametrize("reward", REWARDS)
def test_the_option_that_a_sentence_asserts_is_paid_and_no_other(reward):
    wrong = [sentence for sentence in SENTENCES["first"] if paid(reward, sentence) not in ([1.0], [1.0, 0.0])]
    assert wrong == []


@pytest.mark.parametrize("reward", REWARDS)
def test_no_option_is_paid_where_a_sentence_asserts_neither(reward):
    assert [sentence for sentence in SENTENCES["neither"] if any(paid(reward, sentence))] == []


@pytest.mark.parametrize("response", ["<answer>B</answer>", "Answer: B", "Answer: D\nNo, wait. Answer: B"])
def test_the_mode_answer_reads_the_words_and_the_element_of_an_answer(response):
    assert MULTIPLE_CHOICE(final_response=response, answer="B", mode="answer").reward == 1.0
    assert MULTIPLE_CHOICE(final_response="It is B.", answer="B", mode="answer").reward == 0.0
