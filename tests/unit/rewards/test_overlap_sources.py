"""Overlaps give what the packages that they name give: rouge-score, NLTK's stemmer, rapidfuzz."""

import random

import pytest
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from ors_server.rewards.scoring import score
from ors_server.rewards.text.overlap import edit_similarity_reward, rouge_l_reward, rouge_n_reward
from ors_server.rewards.text.porter import MAX_WORD, stem
from tests.fixtures.case_tables import tables
from tests.fixtures.recorded_rewards import recorded_cases

TABLES = tables("overlap_sources")

STEMS = recorded_cases("porter_nltk")
ROUGE = recorded_cases("rouge_stemmed")


def test_every_recorded_word_has_nltk_s_stem():
    assert len(STEMS) > 2_400
    assert [(word, stem(word)) for word, _ in STEMS] == [(word, wanted) for word, wanted in STEMS]


def test_a_word_beyond_the_bound_is_its_own_stem():
    assert stem("y" * (MAX_WORD + 1) + "ing") == "y" * (MAX_WORD + 1) + "ing"


def test_rouge_with_stemming_is_what_rouge_score_gave():
    assert len(ROUGE) == 400
    for case in ROUGE:
        given = dict(case["input"])
        kind = given.pop("rouge")
        if kind == "rougeL":
            result = score(rouge_l_reward, **given)
        else:
            result = score(rouge_n_reward, n=int(kind[-1]), **given)
        found = {"reward": result.reward, **result.extras}
        assert found == pytest.approx(case["output"], abs=1e-9), case


PIECES = TABLES["pieces"]


@pytest.mark.parametrize("method", ["levenshtein", "token_sort"])
def test_an_edit_similarity_is_rapidfuzz_s_to_the_last_character(method):
    draw = random.Random(method)  # noqa: S311  (the same texts in every run)
    for _ in range(1_500):
        response, gold = ("".join(draw.choices(PIECES, k=draw.randint(1, 9))) for _ in range(2))
        if not gold.strip():
            continue
        theirs = (
            Levenshtein.normalized_similarity(response, gold)
            if method == "levenshtein"
            else fuzz.token_sort_ratio(response, gold) / 100
        )
        ours = score(edit_similarity_reward, final_response=response, answer=gold, method=method).reward
        assert ours == pytest.approx(theirs, abs=1e-12), (response, gold)


def test_lost_indentation_costs_unless_it_is_asked_not_to():
    gold = "def f(x):\n    return x"
    lost = {"final_response": "def f(x):\nreturn x", "answer": gold}
    assert score(edit_similarity_reward, **lost).reward == pytest.approx(1 - 4 / 22)
    assert score(edit_similarity_reward, normalise=True, **lost).reward == 1.0
    curly = {"final_response": "“A”", "answer": '"a"'}
    assert score(edit_similarity_reward, **curly).reward == 0.0
    assert score(edit_similarity_reward, casefold=True, **curly).reward == pytest.approx(1 / 3)
    assert score(edit_similarity_reward, casefold=True, normalise=True, **curly).reward == 1.0


@pytest.mark.parametrize("length", [21_000, 120_000])
@pytest.mark.parametrize(
    "reward", [edit_similarity_reward, rouge_l_reward, rouge_n_reward], ids=lambda one: one.name
)
def test_long_responses_are_graded(reward, length):
    gold = "the cat sat on the mat"
    result = score(reward, final_response=f"{gold} " * (length // len(gold)), answer=gold)
    assert result.status == "graded"
    assert 0.0 < (result.reward or 0.0) < 0.1
