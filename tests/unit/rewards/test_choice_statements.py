"""The final statement of a response is its choice: forms that must pay, near misses that must not."""

import random
from itertools import product

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.text.multiple_choice import multiple_choice_reward
from tests.fixtures.case_tables import tables

TABLES = tables("choice_statements")

CHOICES = ["one side", "two sides", "three sides", "none of these"]
LABELS = "ABCD"

FORMS = TABLES["forms"]
MORE = TABLES["forms_with_more_behind"]
BEFORE = TABLES["before"]
NOTHING = TABLES["nothing_stated"]


def earned(response, gold):
    return score(multiple_choice_reward, final_response=response, answer=gold, choices=CHOICES)


def written(form, label, other="B"):
    return form.format(L=label, l=label.lower(), T=CHOICES[LABELS.index(label)], O=other)


@pytest.mark.parametrize("form", [*FORMS, *MORE])
def test_every_form_of_a_statement_is_read(form):
    for label, gold in product(LABELS, LABELS):
        result = earned(written(form, label), gold)
        assert (result.reward, result.status) == (float(label == gold), "graded"), result


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("form", FORMS)
def test_the_final_statement_wins_over_what_was_said_before(form, before):
    if "\n" not in before and form not in FORMS[11:29]:
        return  # nothing in the middle of a sentence is a statement
    for label in LABELS:
        other = LABELS[(LABELS.index(label) + 1) % 4]
        response = written(before, label, other) + written(form, label)
        assert earned(response, label).reward == 1.0, response
        assert earned(response, other).reward == 0.0, response


@pytest.mark.parametrize("form", NOTHING)
def test_an_article_a_denial_a_list_and_a_conflict_state_nothing(form):
    for label, other in product(LABELS, LABELS):
        if label == other:
            continue
        response = written(form, label, other)
        for gold in LABELS:
            assert earned(response, gold).reward == 0.0, response


WORDS = [*"soisAanotor=wrongBCD().,:}I\n", "and", "because", "right", "Answer", "option", "the", "\\boxed{"]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_written_at_most_one_choice_is_paid(seed):
    draw = random.Random(seed)  # noqa: S311  (the same texts in every run)
    for _ in range(400):
        response = " ".join(draw.choices(WORDS, k=draw.randint(1, 14)))
        assert sum(earned(response, gold).reward for gold in LABELS) <= 1.0, response


ENGLISH = TABLES["articles"]
NOUNS = ("dog", "plan", "good idea", "rectangle of paper", "Frenchman", "1st try", "a", "B", "C", "D")


@pytest.mark.parametrize("sentence", ENGLISH)
def test_an_article_is_no_choice_in_any_sentence(sentence):
    for noun in NOUNS:
        response = sentence.replace("{}", noun)
        assert earned(response, "A").reward == 0.0, response


@pytest.mark.parametrize("piece", TABLES["long_pieces"])
def test_long_responses_are_read_in_linear_time(piece):
    response = piece * (250_000 // len(piece))
    assert earned(response, "B").reward == 0.0
    assert earned(response + "\nAnswer: B", "B").reward in {0.0, 1.0}
