"""Sentences of worked solutions, as models write them: which number is the answer, and which is none."""

import pytest

from ors_server.rewards.judges.replies import read_score
from ors_server.rewards.math import grade_math
from ors_server.rewards.reward_errors import UnusableReplyError

GARDEN = (
    "We were told that $8w = 296$, which gives $w = 296/8 = 37$. The length would then be $111$ m, and half "
    "of that is $148$ m, i.e. $37 + 111 = 148$.\n\nThe garden is **37 metres** wide."
)
RADII = "The circumradius measures 91, and this yields an inradius of 48, which is what was to be found."
TREES = "Bahçede önce 228 ağaç vardı. Buna göre bahçede şimdi 87 ağaç var."  # noqa: RUF001  (Turkish)
MARBLES = (
    "With 22 red and 85 green marbles, a probability greater than one would result, which is impossible. "
    "Could you check the statement?"
)
OPEN = "It could well be 31. Then again, it could just as well be 89; my notes contradict each other."
PAID = [
    ("54", "The number of edges = 54."),
    ("54", "∴ the number of edges = **54** ∎"),
    ("48", "This yields an inradius of 48."),
    ("48", "It gives a remainder of 48."),
    ("48", "We get a slope of 48."),
    ("48", RADII),
    ("49", "✅ **49 students take neither mathematics nor physics.**"),
    ("18", "Therefore, 18 guests speak neither language."),
    ("18", "So 18 pupils have no pets."),
    ("42", "This leaves a single linear equation, whose solution is 42."),
    ("42", "So the minimal answer is 42."),
    ("47", "No two pieces can be moved at once, so there is no faster way than 47 moves."),
    ("7", "The last digit of $7^{2021}$ is 7."),
    ("7", "Hence the units digit is $\\boxed{7}$."),
    ("37", GARDEN),
    ("42", "The total would therefore be 42."),
    ("97", "With 98 squares, you'd need exactly 97 breaks."),
    ("42", "The sum telescopes and everything but 42 cancels."),
    ("42", "Therefore I am confident that the sequence continues with 42."),
    ("42", "We conclude: P(at least one) = 1 - 0.58 = 0.42, which as a percentage is 42."),
    ("42", "So the answer would then be 42."),
    (
        "42",
        "$$6 \\cdot 7 = 42$$\n\nSo that's our answer, which you can confirm by evaluating $40 + 2$ as well.",
    ),
    ("87", TREES),
    ("87", "Laut dieser Rechnung sind es jetzt 87 Bäume."),
    ("87", "Według tego obliczenia jest teraz 87 drzew."),
    ("87", "Eerst waren er 228 bomen. Volgens deze berekening zijn er nu 87 bomen."),
]
UNPAID = [
    ("91", RADII),
    ("48", "This yields a multiple of 48."),
    ("48", "This gives a third of 48."),
    ("18", "18 is neither right nor close."),
    ("18", "18 has no basis in the data."),
    ("31", OPEN),
    ("89", OPEN),
    ("41", "It may well be 41, but it might just as well be 42."),
    ("42", "The fashionable answer is 42."),
    (
        "84",
        "**User:** I think it is 84.\n\n**Assistant:** However, you haven't subtracted the overlap yet.",
    ),
    ("84", "The canoe makes 84 km/h.\n\nThis is what the other assistant told you. I can't reproduce it."),
    ("15", "In the one case the sum is 15, in the second case it is 23. You haven't told me which holds."),
    ("22", MARBLES),
    ("22", f"There seems to be a typo in the problem. {MARBLES}"),
    ("22", "With 22 boys and 85 girls the total would exceed the size of the school."),
    ("148", GARDEN),
    ("42", "If the price were 3, the total would then be 42."),
    ("42", "The total would then be 42, which exceeds the limit. So it is 40."),
    ("7", "The product is 427, and its last digit is 7."),
    ("228", TREES),
    ("87", "Ali'ye göre cevap 87. Bence 88."),
]
VOID = [
    *("Perdón, esa puntuación es incorrecta.", "Cette note est fausse.", "Diese Bewertung ist falsch."),
    *("Essa nota está errada.", "Questo punteggio è sbagliato.", "这个分数不对。", "Эта оценка неверна."),
]


@pytest.mark.parametrize(("gold", "text"), PAID)
def test_the_number_that_a_solution_ends_with_is_its_answer(gold, text):
    assert grade_math(text, gold).is_equal


@pytest.mark.parametrize(("gold", "text"), UNPAID)
def test_numbers_on_the_way_of_other_cases_or_of_two_are_no_answers(gold, text):
    assert not grade_math(text, gold).is_equal


@pytest.mark.parametrize("remark", VOID)
def test_a_score_that_is_called_wrong_in_another_language_is_none(remark):
    with pytest.raises(UnusableReplyError):
        read_score(f"Score: 0.3\n\n{remark}")


@pytest.mark.parametrize("remark", ["La respuesta es incorrecta.", "Die Antwort ist falsch."])
def test_a_score_whose_remark_is_about_the_answer_stands(remark):
    assert read_score(f"Score: 0.3\n\n{remark}").score == 0.3
