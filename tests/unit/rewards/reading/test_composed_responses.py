"""Responses composed of sentences are paid if what they assert in the end is right, and not otherwise."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from ors_server.rewards.agentfly.answers import math_equal_reward
from ors_server.rewards.judges.replies import read_score
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import UnusableReplyError
from ors_server.rewards.scoring import score
from ors_server.rewards.text.matches import word_match_reward
from ors_server.rewards.text.multiple_choice import multiple_choice_reward
from tests.fixtures.composed_responses import Composer, in_language

COUNTS = [400, pytest.param(1_000, marks=pytest.mark.stress)]
"""Responses of each file of sentences, in an ordinary run and in `make stress`."""
LANGUAGES = (
    *("german", "french", "spanish", "italian", "portuguese", "dutch"),
    *("chinese", "japanese", "korean", "russian", "polish", "turkish"),
)
CITIES = ["Oslo", "Riga", "Bern", "Kyiv"]
MAX_FALSE_PAID, MAX_FALSE_UNPAID = 0.005, 0.03
ROOTS = ("3\\sqrt{2}", "2\\sqrt{3}")


def read_reply(*, final_response):
    """Grade a judge's reply: 1.0 if its score is the right one."""
    with suppress(UnusableReplyError):
        return RewardResult(reward=float(read_score(final_response).score == float(REWARDS["scores"][0])))
    return RewardResult(reward=0.0)


REWARDS: dict[str, tuple[str, str, Callable[..., RewardResult]]] = {
    "formulas": (*ROOTS, partial(score, math_equal_reward, answer=ROOTS[0])),
    "numbers": ("42", "41", partial(score, math_equal_reward, answer="42")),
    "names": (
        "Riga",
        "Oslo",
        partial(score, word_match_reward, answer="Riga", choices=CITIES, max_ratio=1000.0),
    ),
    "words": ("Riga", "Oslo", partial(score, word_match_reward, answer="Riga", max_ratio=1000.0)),
    "scores": ("0.6", "0.4", read_reply),
    "letters": ("B", "C", partial(score, multiple_choice_reward, answer="B", choices=CITIES, mode="any")),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("formulas", 1),
        ("scores", 1),
        *(("numbers", number) for number in (1, 2, 3, 4, 5)),
        *((kind, number) for kind in ("names", "words", "letters") for number in (1, 2, 3)),
        ("names", 4),
        ("names", 5),
    ],
)
def test_reward_follows_what_a_composed_response_asserts_in_the_end(kind, number, count):
    right, wrong, grade = REWARDS[kind]
    composer = Composer(f"{'names' if kind == 'words' else kind}_{number}", right, wrong)
    counts: Counter[str] = Counter()
    mistakes: list[str] = []
    for response in composer.responses(number, count):
        label = "right" if response.is_right else "wrong"
        counts[label] += 1
        if (grade(final_response=response.text).reward == 1.0) is not response.is_right:
            counts[f"{label} mistaken"] += 1
            mistakes.append(f"{response.kind}: {response.text}")
    assert counts["wrong mistaken"] <= MAX_FALSE_PAID * counts["wrong"], mistakes
    assert counts["right mistaken"] <= MAX_FALSE_UNPAID * counts["right"], mistakes
    assert counts["wrong"] > count // 3, counts
    assert counts["right"] > count // 3, counts


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_of_other_languages_are_read_in_each_other_s_company(language):
    responses = list(in_language(language, "42", "41"))
    mistakes = [
        response
        for response in responses
        if (score(math_equal_reward, final_response=response.text, answer="42").reward == 1.0)
        is not response.is_right
    ]
    assert mistakes == []
    assert {response.is_right for response in responses} == {True, False}
