"""One math grader in a process of its own: pairs come in as JSON lines, verdicts go out as JSON lines.

Usage: python math_grader.py ours|math-verify|inspect-ai|mathruler

A line in is `{"gold": str, "answer": str, "kind": str}`, a line out `{"equal": bool, "ms": float, "mib":
float}`. Every grader is called in the way in which it grades best; what it prints itself goes nowhere.
"""

import importlib
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable

Grader = Callable[[str, str, str], bool]
"""Of the answer, the gold, and whether the answer is bare (`answer`) or a text (`response`)."""


def ours() -> Grader:
    """Load this project's grader, as it stands in the checkout on PYTHONPATH."""
    module = importlib.import_module("ors_server.rewards.math")
    return lambda answer, gold, _: module.grade_math(answer, gold).is_equal


def math_verify() -> Grader:
    """Load math-verify; bare texts are put between dollars, which it reads best."""
    module = importlib.import_module("math_verify")

    def wrap(text: str) -> str:
        return text if any(mark in text for mark in ("$", "\\(", "\\[", "\\boxed")) else f"${text}$"

    def grade(answer: str, gold: str, kind: str) -> bool:
        prediction = wrap(answer) if kind == "answer" else answer
        return module.verify(module.parse(wrap(gold)), module.parse(prediction))

    return grade


def inspect_ai() -> Grader:
    """Load the synchronous heart of inspect-ai's `math()`; a gold that it cannot read counts as unequal."""
    module = importlib.import_module("inspect_ai.scorer._math")

    def grade(answer: str, gold: str, _: str) -> bool:
        targets, error = module._parse_targets_worker((gold,))  # noqa: SLF001  (the public way is async)
        return error is None and module._score_answer_worker(answer, targets).status == "correct"  # noqa: SLF001  (the grader itself, without its process)

    return grade


def mathruler() -> Grader:
    """Load mathruler, which descends from prm800k's grader; boxes are opened first, as its users do."""
    module = importlib.import_module("mathruler.grader")

    def unbox(text: str) -> str:
        return module.extract_boxed_content(text) if "\\boxed" in text else text

    return lambda answer, gold, _: bool(module.grade_answer(unbox(answer), unbox(gold)))


GRADERS = {"ours": ours, "math-verify": math_verify, "inspect-ai": inspect_ai, "mathruler": mathruler}


def main() -> None:
    """Judge what comes in until nothing does."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    logging.disable(logging.CRITICAL)
    grade = GRADERS[sys.argv[1]]()
    for _ in range(3):
        judge(grade, {"gold": "\\frac{1}{2}", "answer": "0.5", "kind": "answer"})
    for line in sys.stdin:
        pair = json.loads(line)
        out.write(json.dumps(judge(grade, pair)) + "\n")
        out.flush()


def judge(grade: Grader, pair: dict[str, str]) -> dict[str, object]:
    """Judge one pair."""
    start = time.process_time()
    try:
        is_equal = bool(grade(pair["answer"], pair["gold"], pair["kind"]))
    except Exception:  # noqa: BLE001  (a grader that raises pays nothing)
        is_equal = False
    spent = (time.process_time() - start) * 1000
    return {"equal": is_equal, "ms": spent, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


if __name__ == "__main__":
    main()
