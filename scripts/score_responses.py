"""Grades the generated responses with their rewards, and prints how often each reward is wrong.

Usage:

    python scripts/score_responses.py [--half dev|test|all|exam|exam_2] [--seed N] [--reward NAME]
                                      [--mode M] [--family F] [--context with|without] [--show K]
                                      [--show-held-out] [--sample FILE]

A false paid response must not be paid and is; a false unpaid one must be and is not. Both halves are for
development, `dev` and `test` alike (`all`): `--show` prints their failing cases, one per template. `exam` and
`exam_2` are held-out sets that no reward has been tuned on: measure them rarely; `--show-held-out` prints
their failing cases, for a final audit.
"""

import argparse
import inspect
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import anyio

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ors_server.rewards.agentfly.answers import math_equal_reward, qa_f1_reward  # noqa: E402
from ors_server.rewards.agentfly.exact import qa_em_reward  # noqa: E402
from ors_server.rewards.evidence.completions import code_completion_reward  # noqa: E402
from ors_server.rewards.judges.replies import read_score  # noqa: E402
from ors_server.rewards.math import MathOptions, grade_math  # noqa: E402
from ors_server.rewards.reading.answer_text import AnswerSource, Place, find_answer  # noqa: E402
from ors_server.rewards.reward_errors import UnusableReplyError  # noqa: E402
from ors_server.rewards.scoring import evaluate, score  # noqa: E402
from ors_server.rewards.sql.reward import sql_match_reward  # noqa: E402
from ors_server.rewards.structures.structured import json_match_reward  # noqa: E402
from ors_server.rewards.text.matches import word_match_reward  # noqa: E402
from ors_server.rewards.text.multiple_choice import multiple_choice_reward  # noqa: E402
from tests.fixtures.response_templates import (  # noqa: E402
    HELD_OUT,
    ResponseCase,
    is_same_number,
    load_templates,
    make_cases,
)

Grader = Callable[[ResponseCase], bool]


@dataclass(frozen=True)
class Mode:
    """One way to use a reward."""

    reward: str
    name: str
    is_paid: Grader
    needs: frozenset[str] = frozenset()
    """Marks of which the asserted value needs one, or the response is not counted as unpaid."""


@dataclass
class Count:
    """How often a reward was right and wrong."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, label: str, *, is_paid: bool) -> None:
        """Count a case."""
        self.counts[label] += 1
        self.counts[f"{label}-wrong"] += is_paid is not (label == "pay")

    def rate(self, label: str) -> float:
        """Return the share of a label's cases with a wrong result, in [0, 1]."""
        return self.counts[f"{label}-wrong"] / max(1, self.counts[label])

    def share(self, label: str) -> str:
        """Return the wrong ones of a label as a percentage and counts."""
        total, wrong = self.counts[label], self.counts[f"{label}-wrong"]
        return f"{100 * self.rate(label):6.2f} % {wrong:5}/{total:<5}" if total else f"{'-':>8} {'':11}"


def _takes(function: object, name: str) -> bool:
    return name in inspect.signature(function).parameters  # type: ignore[arg-type]


def _prompt_of(reward: Any, case: ResponseCase) -> dict[str, Any]:
    return {"prompt": case.prompt} if case.prompt and _takes(reward.function, "prompt") else {}


def _pays(reward: Any, case: ResponseCase, **given: Any) -> bool:
    result = score(reward, final_response=case.response, **_prompt_of(reward, case), **given)
    return result.reward == 1.0


def _math_default(case: ResponseCase) -> bool:
    return _pays(math_equal_reward, case, answer=case.gold)


def _math_with(options: dict[str, Any], case: ResponseCase) -> bool:
    given: dict[str, Any] = {}
    if case.prompt and _takes(grade_math, "prompt"):
        given["prompt"] = case.prompt
    elif case.prompt and any(option.name == "prompt" for option in fields(MathOptions)):
        options = {**options, "prompt": case.prompt}
    return grade_math(case.response, _text(case.gold), options=MathOptions(**options), **given).is_equal


def _letter(mode: str, case: ResponseCase) -> bool:
    return _pays(multiple_choice_reward, case, answer=case.gold, choices=list(case.choices), mode=mode)


def _word(case: ResponseCase) -> bool:
    return _pays(word_match_reward, case, answer=case.gold, max_ratio=1000.0, choices=list(case.choices))


def _em(case: ResponseCase) -> bool:
    messages = [{"role": "assistant", "content": case.response}]
    given = _prompt_of(qa_em_reward, case)
    result = score(qa_em_reward, messages, final_response=case.response, golden_answers=_golds(case), **given)
    return result.reward == 1.0


def _f1(case: ResponseCase) -> bool:
    given = _prompt_of(qa_f1_reward, case)
    result = score(qa_f1_reward, final_response=case.response, answer=_golds(case), denials=True, **given)
    return bool(result.reward)


def _judge(case: ResponseCase) -> bool:
    try:
        stated = read_score(case.response)
    except UnusableReplyError:
        return False
    return is_same_number(_text(case.gold), stated.score)


def _tagged(place: Place, case: ResponseCase) -> bool:
    found = find_answer(case.response, AnswerSource(place))
    return found.problem is None and found.text.strip() == case.gold


def _sql(case: ResponseCase) -> bool:
    return _pays(sql_match_reward, case, answer=case.gold, database=TOWNS)


def _json(case: ResponseCase) -> bool:
    return _pays(json_match_reward, case, answer=case.gold, extract="fenced")


def _code(case: ResponseCase) -> bool:
    fields = {"final_response": case.response, "tests": [{"stdin": "4", "stdout": "5"}]}
    return anyio.run(evaluate, code_completion_reward, fields).reward == 1.0


def _text(gold: str | Sequence[str]) -> str:
    return gold if isinstance(gold, str) else ", ".join(gold)


def _golds(case: ResponseCase) -> str | list[str]:
    return case.gold if isinstance(case.gold, str) else list(case.gold)


TOWNS = """
CREATE TABLE towns (name TEXT, people INTEGER);
INSERT INTO towns VALUES ('Tartu', 97), ('Bergen', 290), ('Porto', 231), ('Turin', 848), ('Oslo', 709);
"""
"""The database of the templates with SQL."""
MARKED = frozenset({"box", "tag", "hash", "bare"})


def _modes() -> list[Mode]:
    """Return the ways to use the rewards, with the options that this version has."""
    math = "math_equal_reward"
    known = {option.name for option in fields(MathOptions)}
    modes = [
        Mode(math, "default", _math_default),
        Mode(math, "strict", partial(_math_with, {"extraction": "strict"}), MARKED),
        Mode(math, "boxes=agree", partial(_math_with, {"boxes": "agree"})),
    ]
    if "evaluated" in known:
        modes.append(Mode(math, "evaluated", partial(_math_with, {"evaluated": True})))
    needs = {"any": "", "boxed": "box", "answer": "cue tag", "fullmatch": "bare"}
    modes += [
        Mode("multiple_choice_reward", mode, partial(_letter, mode), frozenset(marks.split()))
        for mode, marks in needs.items()
    ]
    return [
        *modes,
        Mode("word_match_reward", "default", _word),
        Mode("word_match_reward", "choices", _word),
        Mode("qa_em_reward", "default", _em),
        Mode("qa_f1_reward", "default", _f1),
        Mode("judge_reply", "default", _judge),
        Mode("find_answer", "answer", partial(_tagged, "answer")),
        Mode("find_answer", "tag", partial(_tagged, "tag")),
        Mode("sql_match_reward", "default", _sql),
        Mode("json_match_reward", "fenced", _json),
        Mode("code_completion_reward", "default", _code),
    ]


MODES = _modes()
"""The ways to use the rewards."""


def _is_counted(mode: Mode, case: ResponseCase) -> bool:
    if case.label == "contested":
        return False
    if mode.reward == "word_match_reward" and (mode.name == "choices") is not bool(case.choices):
        return False
    if case.label == "not":
        return True
    if mode.name == "boxes=agree" and case.response.count(r"\boxed{") > 1:
        return False
    return not mode.needs or bool(mode.needs & case.marks) or "sample" in case.marks


def read_sample(path: Path) -> list[ResponseCase]:
    """Read labelled responses, a JSON object per line. The marks of a value are read from the text."""
    cases: list[ResponseCase] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        cases.append(
            ResponseCase(
                reward=row["reward"],
                family=row["family"],
                template=row["id"],
                half="dev",
                response=row["response"],
                gold=row["gold"] if isinstance(row["gold"], str) else tuple(row["gold"]),
                label=row["label"],
                prompt=row.get("prompt", ""),
                choices=tuple(row.get("choices", ())),
                marks=_marks_in(row["response"]),
            )
        )
    return cases


def _marks_in(response: str) -> frozenset[str]:
    marks = {"box": r"\boxed", "tag": "<answer>", "hash": "####"}
    seen = {mark for mark, text in marks.items() if text in response}
    if "answer is " in response or "Answer: " in response:
        seen.add("cue")
    return frozenset(seen)


def tally(cases: Iterable[ResponseCase], mode: Mode) -> tuple[Count, dict[str, Count], list[ResponseCase]]:
    """Grade the cases of a mode's reward: all counts, each family's, and the cases with a wrong result."""
    total, families, failing = Count(), defaultdict[str, Count](Count), list[ResponseCase]()
    for case in cases:
        if not _is_counted(mode, case):
            continue
        is_paid = mode.is_paid(case)
        total.add(case.label, is_paid=is_paid)
        families[case.family].add(case.label, is_paid=is_paid)
        if is_paid is not (case.label == "pay"):
            failing.append(case)
    return total, families, failing


def _shares(count: Count) -> str:
    return f"false paid {count.share('not')} false unpaid {count.share('pay')}"


def _show(failing: Sequence[ResponseCase], limit: int, *, shows_held_out: bool) -> None:
    shown: set[str] = set()
    for case in failing:
        if case.template in shown or (case.half in HELD_OUT and not shows_held_out) or len(shown) >= limit:
            continue
        shown.add(case.template)
        verdict = "UNPAID" if case.label == "pay" else "PAID"
        print(f"    {verdict} [{case.family}] gold {_text(case.gold)!r}: {case.response!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", choices=("dev", "test", "all", *HELD_OUT), default="dev")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reward")
    parser.add_argument("--mode")
    parser.add_argument("--family")
    parser.add_argument("--context", choices=("with", "without"), help="only responses in a context, or none")
    parser.add_argument("--show", type=int, default=0, metavar="K", help="print up to K failing cases")
    parser.add_argument("--show-held-out", action="store_true", help="also of a held-out set")
    parser.add_argument("--sample", type=Path, help="grade the labelled responses of this file instead")
    options = parser.parse_args(arguments)
    if options.sample:
        cases = read_sample(options.sample)
    else:
        held_out = options.half if options.half in HELD_OUT else None
        cases = make_cases(options.seed, load_templates(held_out=held_out))
    cases = [
        case for case in cases if options.half in {"all", case.half} and options.family in {None, case.family}
    ]
    for mode in MODES:
        if options.reward not in {None, mode.reward} or options.mode not in {None, mode.name}:
            continue
        own = [case for case in cases if case.reward == mode.reward]
        if not own:
            continue
        total, families, failing = tally(own, mode)
        print(f"{mode.reward:24} {mode.name:12} {_shares(total)}")
        for family in sorted(families):
            count = families[family]
            if count.counts["not-wrong"] or count.counts["pay-wrong"]:
                print(f"    {family:33} {_shares(count)}")
        _show(failing, options.show, shows_held_out=options.show_held_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
