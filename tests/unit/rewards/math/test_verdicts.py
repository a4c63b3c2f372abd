"""What a verdict says, in whatever thread or process it is asked for."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest

from ors_server.rewards.math import check_gold, explain, grade_math

PAIRS = [
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt3}"),
    (r"\sin(2x)", r"2\sin x\cos x"),
    ("x^2-4", "(x-2)(x+2)"),
    ("(0,1)", "[0,1]"),
    (r"\sum_{k=1}^n k", r"\frac{n(n+1)}{2}"),
    ("2^{100}", "1267650600228229401496703205377"),
    (r"\lim_{x\to0}\frac{\sin x}{x}", "1"),
    ("9", "9^{9^{9^{9}}}"),
]


def grade_all():
    return [grade_math(answer, gold) for gold, answer in PAIRS]


@pytest.mark.parametrize(
    ("answer", "gold", "status"),
    [
        ("2", "1", "ok"),
        ("1", "1", "ok"),
        ("", "1", "unparsed_answer"),
        ("I do not know.", "1", "unparsed_answer"),
        (r"\boxed{\foo}", "1", "unparsed_answer"),
        ("1", "", "bad_gold"),
        ("1", "  ", "bad_gold"),
        ("1", r"\boxed{}", "bad_gold"),
        ("1", r"\frac{1}{", "bad_gold"),
        (r"\{1\}", r"\{1\}", "ok"),
        ("1", "(" * 500 + "1" + ")" * 500, "bad_gold"),
        ("9^{9^{9^{9}}}", "1", "limit"),
        ("7" * 3000, "7", "limit"),
        ("1" + "+1" * 3000, "1", "limit"),
    ],
)
def test_the_status_tells_why_there_is_no_reward(answer, gold, status):
    assert grade_math(answer, gold).status == status


def test_the_explanation_names_both_forms_and_the_rule():
    assert explain(r"\boxed{0.5}", r"\frac{1}{2}") == (
        r"'0.5' equals '\\frac{1}{2}' (ok): equal (multiply, box)"
    )
    assert "is not '2' (unparsed_answer)" in explain("no idea", "2")


@pytest.mark.parametrize("gold", [r"\frac{1}{2}", "x=2, x=-3", "[0,1)", "C", "yes", "10 cm", r"\boxed{7}"])
def test_a_readable_gold_is_its_own_answer(gold):
    assert check_gold(gold) is None


@pytest.mark.parametrize("gold", ["", "(" * 500])
def test_an_unreadable_gold_is_reported(gold):
    assert check_gold(gold) is not None


def test_threads_get_the_verdicts_of_the_main_thread():
    expected = grade_all()
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(grade_all())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [expected] * 4


def test_a_task_gets_the_verdicts_of_the_main_thread():
    async def grade():
        return grade_all()

    assert asyncio.run(grade()) == grade_all()


@pytest.mark.parametrize("seed", ["0", "1"])
def test_another_process_gives_the_same_verdicts_whatever_its_hash_seed(seed):
    program = (
        "import json, sys\n"
        "from ors_server.rewards.math import grade_math\n"
        "pairs = json.load(sys.stdin)\n"
        "print(json.dumps([[v.is_equal, v.status] for v in (grade_math(a, g) for g, a in pairs)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(PAIRS),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert json.loads(done.stdout) == [[verdict.is_equal, verdict.status] for verdict in grade_all()]


@pytest.mark.parametrize("version", ["0.0.0", "1.2.3", "31.12.2026", "1,000.5.2"])
def test_a_prompt_may_name_a_version_or_a_date(version):
    prompt = f"Release {version} fixes 3 of 7 defects. How many are left?"
    assert grade_math("4", "4", prompt=prompt).is_equal
    assert not grade_math("3", "4", prompt=prompt).is_equal
