"""Answers by computer algebra: labelled pairs, forms, conventions, and who pays for what."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from itertools import product
from pathlib import Path

import pytest

from ors_server.processes import offload
from ors_server.rewards import GatedReward, math_equal_reward, score
from ors_server.rewards.math import MathOptions, grade_math
from ors_server.rewards.math.algebra import second_opinions
from ors_server.rewards.math.algebra.answer_statements import read_statement
from ors_server.rewards.math.algebra.judge import Opinion, Tools, judge

GROUPS = json.loads((Path(__file__).parents[3] / "data" / "algebra_pairs.json").read_text())["groups"]
SAMPLE = 9


def pairs_of(half):
    return [
        (group["gold"], form["prediction"], form["equal"])
        for group in GROUPS
        if group["half"] == half
        for form in group["forms"]
    ]


def judged_wrongly(pairs):
    verdicts = [(gold, answer, is_equal, grade_math(answer, gold)) for gold, answer, is_equal in pairs]
    wrong = [row for row in verdicts if row[3].is_equal != row[2]]
    return wrong, [row for row in wrong if row[3].is_equal]


@pytest.mark.parametrize("half", ["development", "test"])
def test_every_few_pairs_are_judged_as_labelled(half):
    pairs = pairs_of(half)[::SAMPLE]
    wrong, paid = judged_wrongly(pairs)
    assert paid == []
    assert len(wrong) <= 0.05 * len(pairs), wrong


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("half", ["development", "test"])
def test_95_in_100_pairs_are_judged_as_labelled_and_at_most_one_is_paid_though_wrong(half):
    pairs = pairs_of(half)
    wrong, paid = judged_wrongly(pairs)
    assert len(paid) <= 1, paid
    assert len(wrong) <= 0.05 * len(pairs), wrong


def test_an_answer_that_algebra_decides_names_its_method():
    verdict = grade_math(r"\frac{\sqrt{\pi}}{2}", r"\Gamma\left(\frac32\right)")
    assert (verdict.is_equal, verdict.status, verdict.method) == (True, "ok", "algebra")
    result = score(math_equal_reward, final_response=r"\boxed{\sqrt\pi}", answer=r"\Gamma(1/2)")
    assert (result.reward, result.extras["method"]) == (1.0, "algebra")


def test_an_answer_in_a_box_and_a_sentence_is_found():
    response = r"Substituting, the solutions are $\boxed{x = \frac{\pi}{2} + k\pi,\ k \in \mathbb{Z}}$."
    assert grade_math(response, r"x=\frac{\pi}{2}+n\pi, n\in\mathbb{Z}").is_equal
    assert not grade_math(response, r"x=\frac{\pi}{2}+2n\pi, n\in\mathbb{Z}").is_equal


IS_DECIDED = True


class FakeWorkers:
    """Answers in place of the worker processes."""

    is_ready = False

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = 0
        self.prepared = threading.Event()

    def prepare(self):
        self.prepared.set()

    def call(self, _place, *_arguments, limits):
        assert limits.cpu_seconds == second_opinions.CPU_SECONDS
        self.calls += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def pool(monkeypatch):
    def use(*answers):
        fake = FakeWorkers(*answers)
        monkeypatch.setattr(offload, "prepared", lambda _module: fake)
        second_opinions.forget()
        return fake

    yield use
    second_opinions.forget()


ORDINARY = [
    ("42", "41"),
    (r"\frac{1}{2}", r"\frac{2}{3}"),
    ("x^2+1", "x^2-1"),
    (r"\sqrt{2}", r"\sqrt{3}"),
    (r"\frac{n(n+1)}{2}", r"\frac{n(n-1)}{2}"),
    (r"(1,2)", "(2,1)"),
    ("2\\pi r", "\\pi r^2"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", "5"),
    ("180(n-2)", "180n"),
]


@pytest.mark.parametrize(("gold", "answer"), ORDINARY[:7])
def test_ordinary_wrong_answers_start_no_worker(pool, gold, answer):
    fake = pool()
    assert not grade_math(answer, gold).is_equal
    assert fake.calls == 0


def test_the_same_question_is_asked_once(pool):
    fake = pool(Opinion(is_equal=True, rule="values"))
    for _ in range(3):
        assert grade_math(r"\zeta(2)", r"\frac{\pi^2}{6}").is_equal
    assert fake.calls == 1


def test_an_answer_that_takes_too_much_is_wrong_with_the_reason(pool):
    pool(offload.OverCpuError("it takes more than 2 seconds"), IS_DECIDED)
    verdict = grade_math(r"\zeta(7)", r"\frac{\pi^2}{6}")
    assert (verdict.is_equal, verdict.status, verdict.reason) == (
        False,
        "limit",
        "it takes more than 2 seconds",
    )
    pool(offload.OverMemoryError("it takes more than 5 bytes of memory"), IS_DECIDED)
    result = score(math_equal_reward, final_response=r"\zeta(7)", answer=r"\frac{\pi^2}{6}")
    assert (result.reward, result.status.value) == (0.0, "graded")
    assert result.reason == "it takes more than 5 bytes of memory"


def test_a_gold_that_alone_takes_too_much_is_a_bad_gold(pool):
    over = offload.OverCpuError("it takes more than 2 seconds")
    pool(over, over)
    assert grade_math("5", r"\zeta(\zeta(7))").status == "bad_gold"


def test_a_lost_worker_is_asked_again_and_then_the_machines_failure(pool):
    lost = offload.WorkerDiedError("ended from outside")
    pool(lost, Opinion(is_equal=True, rule="values"))
    assert grade_math(r"\zeta(2)", r"\frac{\pi^2}{6}").is_equal
    pool(lost, lost, lost, lost)
    with pytest.raises(offload.WorkerLostError):
        grade_math(r"\zeta(2)", r"\frac{\pi^2}{6}")
    result = score(math_equal_reward, final_response=r"\boxed{\zeta(2)}", answer=r"\frac{\pi^2}{6}")
    assert (result.reward, result.status.value) == (None, "error")


NEEDS_ALGEBRA = [r"\int_0^\infty e^{-x^2}\,dx", r"\Gamma(1/2)", r"y=C_1e^{x}+C_2e^{-x}"]


@pytest.mark.parametrize("gold", NEEDS_ALGEBRA)
def test_a_session_whose_gold_may_need_algebra_starts_a_worker_ahead(pool, gold):
    fake = pool()
    GatedReward(math_equal_reward, lambda: 1.0).prepare({"answer": gold})
    assert fake.prepared.wait(30)


@pytest.mark.parametrize("gold", [None, 7, "42", r"\frac{1}{2}", "3:4", "x" * 2000])
def test_a_session_with_an_ordinary_gold_starts_none(pool, gold):
    fake = pool()
    math_equal_reward.prepare({"answer": gold})
    for thread in threading.enumerate():
        if thread.name == "algebra-start":
            thread.join(30)
    assert not fake.prepared.is_set()


@pytest.fixture
def busy_machine():
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("busy_machine")
def test_the_first_question_after_a_cold_start_is_not_charged_with_the_import(monkeypatch):
    workers = offload.PreparedPool("ors_server.rewards.math.algebra.symbolic_judge", 1)
    monkeypatch.setattr(offload, "prepared", lambda _module: workers)
    second_opinions.forget()
    verdict = grade_math(r"\frac{\pi}{2}", r"\int_0^\infty \frac{\sin x}{x}\,dx")
    used = workers.call(offload.FunctionPath("time:process_time"))
    second_opinions.forget()
    assert verdict.is_equal
    again = grade_math(r"\frac{\pi}{2}", r"\int_0^\infty \frac{\sin x}{x}\,dx")
    question = workers.call(offload.FunctionPath("time:process_time")) - used
    assert again.is_equal
    assert question < second_opinions.CPU_SECONDS / 2
    assert used > question
    workers._close_all()


def test_grading_loads_no_computer_algebra_into_this_process():
    program = (
        "import sys\n"
        "from ors_server.rewards.math import grade_math\n"
        "assert grade_math('1', r'\\lim_{x\\to\\infty} \\frac{x+\\sin x}{x}').is_equal\n"
        "print({'sympy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


UNEVALUATED = [
    (r"\frac{1}{3}", r"\int_0^1 x^2\,dx"),
    (r"\frac{\pi^2}{6}", r"\sum_{n=1}^\infty \frac{1}{n^2}"),
    ("1", r"\lim_{x\to 0}\frac{\sin x}{x}"),
    ("2x", r"\frac{d}{dx} x^2"),
]


@pytest.mark.parametrize(("gold", "answer"), UNEVALUATED)
def test_an_answer_that_restates_the_question_is_paid_unless_the_task_forbids_it(gold, answer):
    assert grade_math(answer, gold).is_equal
    strict = MathOptions(takes_unevaluated=False)
    assert not grade_math(answer, gold, options=strict).is_equal
    assert grade_math(gold, gold, options=strict).is_equal
    assert grade_math(gold, answer, options=strict).is_equal
    assert grade_math(answer, answer, options=strict).is_equal


@pytest.mark.parametrize("piece", ["A{}x", r"\frac{}d", "A{}(", "(-1){}^ n", "C_1{}x", r"x \in{}Z", "y{}= C"])
def test_white_space_of_any_length_is_read_in_no_time(piece):
    for fill in (" ", "\t", "\n", " \n"):
        answer = piece.replace("{}", fill * (990 // len(fill)))
        started = time.thread_time()
        grade_math(answer, "5")
        grade_math(rf"\boxed{{{answer}}}", "5")
        assert time.thread_time() - started < 0.5


HOSTILE = [
    r"\int_0^1 x^{10^{10^{10}}}\,dx",
    r"\sum_{k=1}^{10^9}\frac{1}{k^2}",
    r"\sum_{k=1}^{10^{9}} k^k",
    r"\prod_{k=1}^{1000000000} \left(1+\frac{1}{k}\right)",
    "".join(rf"\int_0^{{{step}}}" for step in range(1, 13))
    + "x"
    + "".join(f" dx_{{{step}}}" for step in range(12)),
    r"\int_0^1\int_0^1\int_0^1\int_0^1\int_0^1 \sin(xyzuv) dx dy dz du dv",
    r"\Gamma(10^{100})",
    r"\Gamma(\Gamma(\Gamma(\Gamma(9))))",
    r"\zeta(1)",
    r"9^{9^{9^{9}}}\int_0^1 x dx",
    r"\lim_{x\to 0} " + r"\sin(" * 40 + "x" + ")" * 40 + r"/x",
    r"\int_0^\infty " + r"\sin(" * 15 + "x" + ")" * 15 + r"\,dx",
    r"\begin{vmatrix}" + r"\\".join("&".join("abcdefgh"[:8]) for _ in range(8)) + r"\end{vmatrix}",
    r"\int_0^1 \frac{1}{0}\,dx",
    r"\frac{d^{8}}{dx^{8}} x^{x^{x^{x}}}",
    r"\binom{10^{50}}{10^{49}}\zeta(3)",
    r"x = \frac{\pi}{10^{400}}k, k\in\mathbb{Z}",
    r"\{x : x^{5000} < 2\}",
    r"\{x : \sin(1/x) > 0\}",
    r"y = C_1^{C_2^{C_3}} x",
    r"\sum_{a=1}^{2000}\sum_{b=1}^{2000}\sum_{c=1}^{2000} abc",
    r"J_{1000000}(10^{50})",
]


@pytest.mark.parametrize("answer", HOSTILE)
def test_a_hostile_answer_is_graded_as_wrong(answer):
    for gold in (r"\frac{\pi^2}{6}", r"x = k\pi, k\in\mathbb{Z}"):
        verdict = grade_math(answer, gold)
        assert not verdict.is_equal
        assert verdict.status != "bad_gold"


def judged(gold, answer):
    return judge(read_statement(gold), read_statement(answer)).is_equal


def line(place, direction, name):
    terms = [f"{one}+({two}){name}" for one, two in zip(place, direction, strict=True)]
    return f"({','.join(terms)})"


def test_lines_are_the_same_exactly_if_their_points_are():
    rng = random.Random(41)  # noqa: S311  (test data)
    for _ in range(150):
        place, direction = ([rng.randint(-4, 4) or 5 for _ in range(3)] for _ in range(2))
        shift, scale = rng.randint(-3, 3), rng.choice((-2, -1, 1, 2, 3))
        other = [one + shift * two for one, two in zip(place, direction, strict=True)]
        along = [scale * two for two in direction]
        gold = line(place, direction, "t")
        assert judged(gold, line(other, along, "s")) is True
        axis = rng.randrange(3)
        other[axis] += 1
        assert judged(gold, line(other, along, "s")) is not True
        other[axis] -= 1
        along[axis] += 1
        assert judged(gold, line(other, along, "s")) is not True
        assert judged(gold, line(place, along, "t")) is not True


def series(start, factor, index, power):
    return rf"\sum_{{n={start}}}^\infty {factor} a_{{{index}}} x^{{{power}}}"


def terms(start, slope, offset, index, power):
    """Give the coefficient and the member at each power of x."""
    return {
        n + power: (slope * n + offset, n + index) for n in range(start, start + 40) if slope * n + offset
    }


def signed(shift):
    return "n" if not shift else f"n{shift:+d}"


def test_series_of_an_unknown_sequence_are_the_same_exactly_if_their_terms_are():
    rng = random.Random(42)  # noqa: S311  (test data)
    found = {True: 0, False: 0}
    for _ in range(300):
        start, offset = rng.randint(0, 2), rng.randint(0, 2)
        shift = rng.randint(-start, 2)
        mine = (start, 1, offset, 0, 0)
        theirs = [start - shift, 1, offset + shift, shift, shift]
        if rng.random() < 0.7:
            theirs[rng.choice((0, 2, 3, 4))] += rng.choice((-1, 1))
        if theirs[0] < 0:
            continue
        one, two = terms(*mine), terms(*theirs)
        is_same = all(one.get(power) == two.get(power) for power in range(-3, 30))
        texts = [
            series(begin, f"(n{add:+d})" if add else "n", signed(index), signed(power))
            for begin, _, add, index, power in (mine, theirs)
        ]
        found[is_same] += 1
        assert (judged(*texts) is True) == is_same, texts
    assert min(found.values()) > 40


MATRIX = r"\begin{pmatrix}1&2\\-3&4\end{pmatrix}"
TEXTS = (
    "5",
    "x+1",
    r"\int_0^1 x dx",
    r"\{1,2\}",
    "(1,2)",
    MATRIX,
    rf"2{MATRIX}",
    rf"x+{MATRIX}",
    r"\Gamma(3)",
)


@pytest.mark.parametrize(("gold", "answer"), list(product(TEXTS, TEXTS)))
def test_statements_of_any_two_kinds_are_judged_or_left_undecided(gold, answer):
    opinion = judge(read_statement(gold), read_statement(answer))
    assert opinion.is_equal in {True, False, None}
    assert opinion.is_equal is not True or gold == answer


def test_what_the_packages_have_no_rule_for_is_undecided():
    def fails(*_trees):
        raise TypeError("cannot create mpf from matrix")

    opinion = judge(read_statement("x^2>4"), read_statement("x^2>5"), Tools(fails, fails))
    assert opinion.is_equal is None
    assert "TypeError" in opinion.why
