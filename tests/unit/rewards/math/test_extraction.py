"""Where the answer is looked for in a response, and where it is not."""

import pytest

from ors_server.rewards.math import grade_math

FOUND = [
    ("42", r"The answer is $\boxed{42}$."),
    ("42", r"\boxed{\boxed{42}}"),
    ("42", r"\fbox{42}"),
    ("42", r"\boxed 42"),
    ("42", r"\boxed{41} wait, no: \boxed{42}"),
    ("42", r"\boxed{never closed \boxed{42}"),
    ("1,2", r"\boxed{1} \quad \text{and} \quad \boxed{2}"),
    ("$\\boxed{1}\\boxed{2}$", r"\boxed{1,2}"),
    ("42", "<answer>42</answer>"),
    ("42", "6 * 7 = 42\n#### 42"),
    ("42", "<think>maybe 41</think> It is 42."),
    ("42", "It is 42.<|im_start|>user What is 43?"),
    ("42", "First compute 6*7.\n42"),
    ("73", "Thus, the number is **73**.\n\n---\n\nFinal Answer: **73**"),
    ("(7,6)", "So the ordered pair $(x, y)$ that solves the system is $(7, 6)$."),
    ("12", "Therefore, there are 12 distinct sequences that meet the conditions. I hope it is correct."),
    ("100%", "Therefore, the error in the measurement of the position increases by 100%."),
    ("x<3", r"We find that $x \lt 3$."),
    ("192", "因此，杰西开始慢跑前的体重是192公斤。"),  # noqa: RUF001  (as it is written)
    ("105", "La réponse est (35 + 70 = 105)."),
    ("2/5", "答案：每份应该是 (\\frac{2}{5}) 吨。"),  # noqa: RUF001  (as it is written)
    ("C", "I considered A and B but the answer is C"),
    ("B", "It's not A because it doesn't make sense, therefore I think it's B"),
    ("B", r"\boxed{\text{(B)}\ 12}"),
    ("D", "D. it can't be A or B"),
    ("even", r"So $n$ must be \(\text{even}\)."),
    ("-5", "so the value is -5"),
    ("70", "Le coût final est donc de 100 - 30 = 70"),
    ("odd $n$", "odd $n$"),
    ("5", "Therefore, x = 5."),
    ("2x+3", "So we conclude that y = 2x + 3."),
    ("12", "The volume is 12 cubic feet."),
    ("18", "She makes $18 every day at the market."),
    (r"\frac{1}{2}", "Thus the probability equals 50%."),
    (r"x = -5,\ p = \frac{14}{3}", r"\boxed{-5, \frac{14}{3}}"),
    ("Since $25<30<36$, the numbers are $\\boxed{5}$ and, since $49<50$, also $\\boxed{7}$.", "5, 7"),
]
NOT_FOUND = [
    ("42", r"\boxed{41, 42, 43}"),
    ("42", r"\boxed{41 \text{ or } 42}"),
    ("43", r"\boxed{42 \text{ (or } 43)}"),
    ("42", r"\boxed{42} \boxed{43}"),
    ("1", r"\boxed{1}\boxed{2}\boxed{42}\boxed{3}"),
    ("42", "The answer is 41, 42 or 43."),
    ("41", r"$\boxed{42}$ (I first thought 41)"),
    ("3", r"3+4=\boxed{7}"),
    ("42", ""),
    ("42", "I do not know."),
    ("42", r"\boxed{}"),
    ("0", "__import__('os').system('touch marker') or 0"),
    ("9", "max(range(10**9))"),
    ("2", "AZYUK2A"),
    ("10", "10 mod 10^{10^{10}}"),
    ("A", r"\boxed{A, B, C, D}"),
    ("A", "A bag holds 3 balls, so the answer is B"),
]


@pytest.mark.parametrize(("gold", "response"), FOUND)
def test_the_answer_is_found(gold, response):
    verdict = grade_math(response, gold)
    assert verdict.is_equal, verdict


@pytest.mark.parametrize(("gold", "response"), NOT_FOUND)
def test_what_is_no_answer_is_not_taken_for_one(gold, response):
    verdict = grade_math(response, gold)
    assert not verdict.is_equal, verdict
