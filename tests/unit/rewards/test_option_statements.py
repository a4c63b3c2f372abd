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


ROCKS = partial(score, multiple_choice_reward, choices=["slate", "basalt", "coral", "osmosis"])


def test_the_letter_that_a_text_chooses_is_paid():
    cases = SENTENCES["letters"]
    assert [text for text, letter in cases if ROCKS(final_response=text, answer=letter).reward != 1.0] == []


def test_no_letter_is_paid_where_a_text_chooses_none():
    paid_texts = [
        text
        for text in SENTENCES["no_letters"]
        if any(ROCKS(final_response=text, answer=letter).reward for letter in "ABCD")
    ]
    assert paid_texts == []


def test_the_mode_answer_reads_a_box_around_the_words_and_no_words_split_by_invisible_characters():
    assert (
        MULTIPLE_CHOICE(final_response=r"\boxed{\text{Answer: B}}", answer="B", mode="answer").reward == 1.0
    )
    assert not MULTIPLE_CHOICE(final_response="The answer is n\u200bot B.", answer="B", mode="answer").reward


@pytest.mark.parametrize("response", ["<answer>B</answer>", "Answer: B", "Answer: D\nNo, wait. Answer: B"])
def test_the_mode_answer_reads_the_words_and_the_element_of_an_answer(response):
    assert MULTIPLE_CHOICE(final_response=response, answer="B", mode="answer").reward == 1.0
    assert MULTIPLE_CHOICE(final_response="It is B.", answer="B", mode="answer").reward == 0.0


@pytest.mark.parametrize(
    "response",
    [
        "The letter was posted in Riga.",
        "The battle took place at Riga, whereas Basel only hosted the talks.",
        "Die Antwort lautet Riga, nicht Basel.",
        "Instead of Basel, Riga is correct.",
        "## Answer\nRiga",
        "Place name: Riga",
    ],
)
def test_a_name_is_paid_where_a_sentence_asserts_it(response):
    assert score(word_match_reward, final_response=response, answer="Riga").reward == 1.0


@pytest.mark.parametrize(
    "response",
    [
        "Everywhere but Riga.",
        "New Riga",
        "a train leaving Riga",
        "Riga或Basel",
        "\\boxed{\\text{anything but Riga}}",
        "The battle did not take place at Riga.",
    ],
)
def test_a_name_is_not_paid_as_a_part_of_a_name_or_in_a_denial(response):
    assert score(word_match_reward, final_response=response, answer="Riga").reward == 0.0


@pytest.mark.parametrize("response", ["No, it didn't.", "No, I don't think so.", "No, never."])
def test_a_no_that_is_repeated_stays_a_no(response):
    assert score(word_match_reward, final_response=response, answer="no").reward == 1.0


@pytest.mark.parametrize("response", ["No, I'm not sure.", "No, that's not right."])
def test_a_no_that_is_taken_back_is_not_paid(response):
    assert score(word_match_reward, final_response=response, answer="no").reward == 0.0
